package jsonrpc

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 10 * time.Second

// side is a handler made of functions.
type side struct {
	request func(ctx context.Context, method string, params json.RawMessage) func() (any, error)
	hear    func(method string, params json.RawMessage)
}

func (s side) Request(ctx context.Context, method string, params json.RawMessage) func() (any, error) {
	if s.request == nil {
		return nil
	}
	return s.request(ctx, method, params)
}

func (s side) Notification(method string, params json.RawMessage) {
	if s.hear != nil {
		s.hear(method, params)
	}
}

// pair connects two sides; they end with the test.
func pair(t *testing.T, a, b side) (*Conn, *Conn) {
	t.Helper()
	ar, bw := io.Pipe()
	br, aw := io.Pipe()
	ca, cb := newConn(ar, aw, a, Options{}), newConn(br, bw, b, Options{})
	run(t, ca)
	run(t, cb)
	return ca, cb
}

func newConn(r io.Reader, w io.Writer, h Handler, o Options) *Conn {
	o.CancelMethod, o.CancelField = "$/cancel", "id"
	return New(NewLines(r, w, 200), h, o)
}

func run(t *testing.T, c *Conn) {
	t.Helper()
	var wg sync.WaitGroup
	wg.Go(func() { _ = c.Run(context.Background()) })
	t.Cleanup(func() {
		c.Fail(errors.New("the test is over"))
		wg.Wait()
	})
}

func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// Notifications that were sent before an answer are handled before it.
func TestOrder(t *testing.T) {
	var server *Conn
	var heard []int
	client, server := pair(t,
		side{hear: func(_ string, p json.RawMessage) {
			var n int
			_ = json.Unmarshal(p, &n)
			heard = append(heard, n)
		}},
		side{request: func(ctx context.Context, _ string, _ json.RawMessage) func() (any, error) {
			return func() (any, error) {
				for i := range 500 {
					if err := server.Notify(ctx, "update", i); err != nil {
						return nil, err
					}
				}
				return map[string]int{"sent": 500}, nil
			}
		}})
	var out struct{ Sent int }
	if err := client.Call(soon(t), "x", struct{}{}, &out); err != nil || out.Sent != 500 {
		t.Fatalf("%+v, %v", out, err)
	}
	if len(heard) != 500 || heard[499] != 499 {
		t.Errorf("%d notifications came before the answer", len(heard))
	}
}

func TestBothWaysAtOnce(t *testing.T) {
	echo := func(c **Conn) side {
		return side{request: func(ctx context.Context, method string, p json.RawMessage) func() (any, error) {
			return func() (any, error) {
				if method == "deep" {
					var back string
					err := (*c).Call(ctx, "echo", "from below", &back)
					return back, err
				}
				return p, nil
			}
		}}
	}
	var a, b *Conn
	a, b = pair(t, echo(&a), echo(&b))
	ctx := soon(t)
	var wg sync.WaitGroup
	for i := range 50 {
		for _, c := range []*Conn{a, b} {
			wg.Go(func() {
				var got string
				want := fmt.Sprint("message ", i)
				if err := c.Call(ctx, "echo", want, &got); err != nil || got != want {
					t.Errorf("%q, %v", got, err)
				}
			})
		}
	}
	wg.Wait()
	var got string
	if err := a.Call(ctx, "deep", nil, &got); err != nil || got != "from below" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestCancel(t *testing.T) {
	seen := make(chan error, 1)
	begun := make(chan struct{}, 1)
	client, _ := pair(t, side{}, side{request: func(ctx context.Context, _ string, _ json.RawMessage) func() (any, error) {
		begun <- struct{}{}
		return func() (any, error) {
			<-ctx.Done()
			seen <- context.Cause(ctx)
			return nil, ctx.Err()
		}
	}})
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(soon(t))
	go func() { <-begun; cancel(why) }()
	if err := client.Call(ctx, "x", nil, nil); !errors.Is(err, why) {
		t.Errorf("the caller got %v", err)
	}
	if err := <-seen; CodeOf(err) != CodeCanceled {
		t.Errorf("the other side saw %v", err)
	}
}

func TestTheEndReleasesEverybody(t *testing.T) {
	for name, end := range map[string]func(client, server *Conn){
		"the other side goes": func(_, server *Conn) { server.Fail(errors.New("bye")) },
		"this side goes":      func(client, _ *Conn) { client.Fail(errors.New("bye")) },
	} {
		t.Run(name, func(t *testing.T) {
			begun := make(chan struct{}, 1)
			client, server := pair(t, side{}, side{request: func(ctx context.Context, _ string, _ json.RawMessage) func() (any, error) {
				begun <- struct{}{}
				return func() (any, error) { <-ctx.Done(); return nil, ctx.Err() }
			}})
			errs := make(chan error, 1)
			go func() { errs <- client.Call(soon(t), "x", nil, nil) }()
			<-begun
			end(client, server)
			select {
			case err := <-errs:
				if err == nil {
					t.Error("the call was answered")
				}
			case <-time.After(patience):
				t.Fatal("the call still waits")
			}
			<-client.Done()
			if err := client.Call(soon(t), "y", nil, nil); !errors.Is(err, ErrClosed) {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

func TestErrorsTravel(t *testing.T) {
	client, _ := pair(t, side{}, side{request: func(_ context.Context, method string, _ json.RawMessage) func() (any, error) {
		switch method {
		case "typed":
			return func() (any, error) { return nil, fmt.Errorf("wrapped: %w", Errorf(-32000, "log in")) }
		case "plain":
			return func() (any, error) { return nil, errors.New("oops") }
		case "panic":
			return func() (any, error) { panic("bug") }
		case "bad":
			return func() (any, error) { return func() {}, nil }
		}
		return nil
	}})
	for method, code := range map[string]int{"typed": -32000, "plain": CodeInternal, "panic": CodeInternal, "bad": CodeInternal, "none": CodeMethodNotFound} {
		if err := client.Call(soon(t), method, nil, nil); CodeOf(err) != code {
			t.Errorf("%s: %v", method, err)
		}
	}
	if err := client.Call(soon(t), "x", func() {}, nil); err == nil {
		t.Error("what cannot be encoded was sent")
	}
}

// wired is a connection whose other end is a test that writes lines.
func wired(t *testing.T, h Handler, o Options) (say func(string), next func() string) {
	t.Helper()
	r, theirs := io.Pipe()
	ours, w := io.Pipe()
	c := newConn(r, w, h, o)
	run(t, c)
	t.Cleanup(func() { _ = theirs.Close(); _ = ours.Close() })
	out := bufio.NewReader(ours)
	return func(line string) {
			if _, err := io.WriteString(theirs, line+"\n"); err != nil {
				t.Errorf("write: %v", err)
			}
		}, func() string {
			line, err := out.ReadString('\n')
			if err != nil {
				t.Errorf("read: %v", err)
			}
			return strings.TrimSpace(line)
		}
}

func TestMalformedLines(t *testing.T) {
	var seen []string
	say, next := wired(t, side{request: func(_ context.Context, _ string, _ json.RawMessage) func() (any, error) {
		return func() (any, error) { return "fine", nil }
	}}, Options{AnswerMalformed: true, Malformed: func(line []byte, err error) { seen = append(seen, err.Error()) }})
	for _, tc := range []struct{ line, answer string }{
		{`hello`, `"code":-32700`},
		{`{"jsonrpc":"2.0"`, `"code":-32700`},
		{`[]`, `"code":-32600`},
		{`{"jsonrpc":"1.0","id":4,"method":"x"}`, `"id":4,"error":{"code":-32600`},
		{`{"jsonrpc":"2.0","id":{},"method":"x"}`, `"id":null,"error":{"code":-32600`},
		{strings.Repeat("x", 5000), `"code":-32700`},
		{`{"jsonrpc":"2.0","id":5,"method":"x"}`, `{"jsonrpc":"2.0","id":5,"result":"fine"}`},
		{`{"id":"six","method":"x"}`, `{"jsonrpc":"2.0","id":"six","result":"fine"}`},
	} {
		say(tc.line)
		if got := next(); !strings.Contains(got, tc.answer) {
			t.Errorf("%.40s: answered %s", tc.line, got)
		}
	}
	say("")
	say(`{"jsonrpc":"2.0","id":99,"result":{}}`) // nobody waits for it
	say(`{"jsonrpc":"2.0","id":0,"method":"x"}`)
	if got := next(); !strings.Contains(got, `"id":0,"result":"fine"`) {
		t.Errorf("id 0: %s", got)
	}
	if len(seen) != 6 {
		t.Errorf("%d lines were reported: %q", len(seen), seen)
	}
}

func TestTooManyRequests(t *testing.T) {
	hold := make(chan struct{})
	say, next := wired(t, side{request: func(_ context.Context, _ string, _ json.RawMessage) func() (any, error) {
		return func() (any, error) { <-hold; return nil, nil }
	}}, Options{MaxRequests: 2})
	say(`{"jsonrpc":"2.0","id":1,"method":"x"}`)
	say(`{"jsonrpc":"2.0","id":2,"method":"x"}`)
	say(`{"jsonrpc":"2.0","id":3,"method":"x"}`)
	if got := next(); !strings.Contains(got, `"id":3`) || !strings.Contains(got, "busy") {
		t.Errorf("the third: %s", got)
	}
	close(hold)
	for range 2 {
		if got := next(); !strings.Contains(got, `"result":{}`) {
			t.Errorf("then: %s", got)
		}
	}
}

// At the end of the stream the answers that are ready still go out.
func TestLastAnswers(t *testing.T) {
	var out bytes.Buffer
	c := newConn(strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"x"}`), &out, side{request: func(context.Context, string, json.RawMessage) func() (any, error) {
		return func() (any, error) { return "done", nil }
	}}, Options{})
	if err := c.Run(soon(t)); err != nil {
		t.Fatal(err)
	}
	if out.String() != `{"jsonrpc":"2.0","id":1,"result":"done"}`+"\n" {
		t.Errorf("written: %s", out.String())
	}
}

func FuzzLines(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"x","params":{}}` + "\n" + `{"jsonrpc":"2.0","id":"1","error":{"code":1,"message":""}}` + "\r\n\n[]\nnoise"))
	f.Add(bytes.Repeat([]byte("a"), 300))
	f.Fuzz(func(t *testing.T, b []byte) {
		in := NewLines(bytes.NewReader(b), io.Discard, 100)
		for range len(b) + 2 {
			line, err := in.Read()
			switch {
			case errors.Is(err, ErrTooLong):
				continue
			case err != nil:
				return
			case len(line) > 101:
				t.Fatalf("a line of %d bytes", len(line))
			}
			for _, strict := range []bool{false, true} {
				if m, err := Decode(line, strict); err == nil && m.Method == "" && m.ID == nil && m.Error == nil {
					t.Fatalf("a bad message was taken: %s", line)
				}
			}
		}
		t.Fatal("it does not end")
	})
}

func TestErrorText(t *testing.T) {
	for want, e := range map[string]*Error{
		"no (-1)":        {Code: -1, Message: "no"},
		"no: why (-1)":   {Code: -1, Message: "no", Data: json.RawMessage(`"why"`)},
		"no: deep (-1)":  {Code: -1, Message: "no", Data: json.RawMessage(`{"details":"deep"}`)},
		"no: other (-1)": {Code: -1, Message: "no", Data: json.RawMessage(`{"message":"other"}`)},
		"no (-2)":        {Code: -2, Message: "no", Data: json.RawMessage(`[`)},
	} {
		if e.Error() != want {
			t.Errorf("%q, want %q", e.Error(), want)
		}
	}
}

// A connection that is strict ends with the first message that is not one.
func TestStrict(t *testing.T) {
	for name, text := range map[string]string{
		"not JSON": "hello\n", "an empty line": "\n", "an array": "[]\n", "no version": `{"id":1,"method":"x"}` + "\n", "no id": `{"jsonrpc":"2.0","error":{"code":1}}` + "\n",
		"both": `{"jsonrpc":"2.0","id":1,"method":"x","result":{}}` + "\n", "too long": strings.Repeat("x", 300), "cut short": `{"jsonrpc":"2.0"`,
	} {
		t.Run(name, func(t *testing.T) {
			c := newConn(strings.NewReader(text), io.Discard, side{}, Options{Strict: true})
			if err := c.Run(soon(t)); err == nil || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("ended with %v", err)
			}
		})
	}
}

// A call's id is known before it is sent, and it can be canceled by hand.
func TestCallByHand(t *testing.T) {
	r, theirs := io.Pipe()
	ours, w := io.Pipe()
	c := newConn(r, w, side{}, Options{})
	run(t, c)
	t.Cleanup(func() { _ = theirs.Close(); _ = ours.Close() })
	out := bufio.NewScanner(ours)
	hear := func() string { out.Scan(); return out.Text() }
	call := c.NewCall()
	if err := call.Send(soon(t), "x", nil); err != nil {
		t.Fatal(err)
	}
	if next := hear(); next != `{"jsonrpc":"2.0","id":`+call.ID+`,"method":"x"}` {
		t.Errorf("sent %s", next)
	}
	go call.Cancel()
	if next := hear(); next != `{"jsonrpc":"2.0","method":"$/cancel","params":{"id":`+call.ID+`}}` {
		t.Errorf("sent %s", next)
	}
	say := `{"jsonrpc":"2.0","id":` + call.ID + `,"result":7}` + "\n"
	if _, err := io.WriteString(theirs, say); err != nil {
		t.Fatal(err)
	}
	var text string
	if err := call.Wait(soon(t), &text); !errors.Is(err, ErrNotUnderstood) {
		t.Errorf("a number for a text: %v", err)
	}
	call.Forget()
	if len(c.waiting) != 0 {
		t.Error("the call is still registered")
	}
}
