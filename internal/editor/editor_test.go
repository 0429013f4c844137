package editor_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/editor"
	"github.com/copilot-bridge/copilot-bridge/internal/jsonrpc"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/editortest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestHello(t *testing.T) {
	x := &editortest.Extension{Folders: []editor.Folder{{Name: "a", Path: "/a"}}}
	h, err := editortest.Connect(t, x, nil).Hello(t.Context(), "1")
	if err != nil || h.Editor != "Test" || len(h.Folders) != 1 || !h.Trusted {
		t.Errorf("%+v, %v", h, err)
	}
	_, err = editortest.Connect(t, &editortest.Extension{Protocol: 9}, nil).Hello(t.Context(), "1")
	if e := bridge.AsError(err); e == nil || e.Code != bridge.CodeUnsupported || !strings.Contains(e.Remedy, "update") {
		t.Errorf("another protocol: %v", err)
	}
}

// A call whose caller has left is canceled on the other side, too.
func TestCancel(t *testing.T) {
	x := &editortest.Extension{Confirm: func(ctx context.Context, _ editor.Question) string { <-ctx.Done(); return "" }}
	c := editortest.Connect(t, x, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	time.AfterFunc(10*time.Millisecond, func() { cancel(why) })
	if _, err := c.Confirm(ctx, editor.Question{}, time.Minute); !errors.Is(err, why) {
		t.Errorf("%v", err)
	}
	x.Await(t, "$/cancel", nil)

	// So is a chat whose reader leaves.
	for part, err := range c.Chat(t.Context(), script("text one", "silence"), time.Minute) {
		if err != nil || part.Text != "one" {
			t.Fatalf("%+v, %v", part, err)
		}
		break
	}
	x.Await(t, "$/cancel", func(p json.RawMessage) bool { return string(p) == `{"id":2}` })
}

func script(lines ...string) editor.ChatRequest {
	return editor.ChatRequest{Messages: []editor.Message{{Role: editor.RoleUser,
		Parts: []editor.Part{{Type: editor.PartText, Text: "rehearsal: " + strings.Join(lines, "\nrehearsal: ")}}}}}
}

// Every call ends, also if the extension never answers: it was told a bound,
// and ours is a little longer. A stream's clock begins anew with every part.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &editortest.Extension{Mute: []string{"lm.models", "ui.confirm", "lm.chat"}}
		c := editortest.Connect(t, x, nil)
		began := time.Now()
		if _, err := c.Models(t.Context()); bridge.CodeOf(err) != bridge.CodeTimeout || time.Since(began) != 13*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		var p struct {
			TimeoutMs int64 `json:"timeoutMs"`
		}
		if err := json.Unmarshal(x.Calls("lm.models")[0], &p); err != nil || p.TimeoutMs != 10_000 {
			t.Errorf("%+v, %v", p, err)
		}
		for _, err := range c.Chat(t.Context(), script("text x"), time.Second) {
			if bridge.CodeOf(err) != bridge.CodeTimeout {
				t.Errorf("a silent chat: %v", err)
			}
		}
		c = editortest.Connect(t, &editortest.Extension{}, nil)
		text, last := "", error(nil)
		for part, err := range c.Chat(t.Context(), script("text a", "delay 3s", "text b", "delay 3s", "text c", "delay 9s", "text d"), time.Second) {
			text, last = text+part.Text, err
		}
		if text != "abc" || bridge.CodeOf(last) != bridge.CodeTimeout {
			t.Errorf("%q, %v", text, last)
		}
	})
}

// handler answers requests of the extension.
type handler struct {
	editortest.Deaf
	heard chan string
	hold  chan struct{}
}

func (h *handler) Folders(f []editor.Folder) { h.heard <- fmt.Sprint("folders ", len(f)) }
func (h *handler) ModelsChanged()            { h.heard <- "models" }
func (h *handler) Status(ctx context.Context) (editor.Status, error) {
	select {
	case <-h.hold:
		return editor.Status{Ready: editor.Ready{URL: "http://x"}, State: editor.State{Copilot: editor.CopilotOK}}, nil
	case <-ctx.Done():
		return editor.Status{}, context.Cause(ctx)
	}
}
func (h *handler) Consented(context.Context) error { panic("bug") }

func TestExtensionAsks(t *testing.T) {
	h := &handler{heard: make(chan string, 8), hold: make(chan struct{})}
	x := &editortest.Extension{}
	c := editortest.Connect(t, x, h)
	if _, err := c.Hello(t.Context(), "1"); err != nil {
		t.Fatal(err)
	}
	x.Notify("editor.folders", map[string]any{"folders": []editor.Folder{{Name: "a"}, {Name: "b"}}})
	x.Notify("lm.changed", struct{}{})
	x.Notify("of.next.year", struct{}{})
	if a, b := <-h.heard, <-h.heard; a != "folders 2" || b != "models" {
		t.Errorf("heard %q, %q", a, b)
	}
	close(h.hold)
	var s editor.Status
	if err := x.Ask(t, "bridge.status", &s); err != nil || s.URL != "http://x" || s.Copilot != editor.CopilotOK {
		t.Errorf("%+v, %v", s, err)
	}
	var f *editor.Fault
	if err := x.Ask(t, "bridge.consented", nil); !errors.As(err, &f) || editor.KindOf(f) != editor.KindInternal {
		t.Errorf("a panic: %v", err)
	}
	if err := x.Ask(t, "bridge.nonsense", nil); !errors.As(err, &f) || f.Code != -32601 {
		t.Errorf("%v", err)
	}
}

// raw is a connection whose other side is written by hand.
type raw struct {
	*editor.Conn
	in  *io.PipeWriter
	out *bufio.Reader
	end func() error
}

func connect(t *testing.T, h editor.Handler) *raw {
	t.Helper()
	theirs, in := io.Pipe()
	out, ours := io.Pipe()
	c := editor.New(theirs, ours, h, nil)
	var err error
	var wg sync.WaitGroup
	wg.Go(func() { err = c.Run(context.Background()) })
	r := &raw{Conn: c, in: in, out: bufio.NewReader(out), end: func() error { wg.Wait(); return err }}
	t.Cleanup(func() { _, _ = in.Close(), out.Close(); wg.Wait() })
	return r
}

func TestGarbageEndsTheConnection(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON": "hello\n", "an empty line": "\n", "null": "null\n", "an array": "[]\n", "another version": `{"jsonrpc":"1.0","id":1,"result":{}}` + "\n",
		"neither": `{"jsonrpc":"2.0"}` + "\n", "both": `{"jsonrpc":"2.0","id":1,"method":"x","result":{}}` + "\n", "an object as id": `{"jsonrpc":"2.0","id":{},"result":{}}` + "\n",
		"parts that are none": `{"jsonrpc":"2.0","method":"lm.part","params":7}` + "\n", "folders that are none": `{"jsonrpc":"2.0","method":"editor.folders","params":[]}` + "\n",
		"a line cut short": `{"jsonrpc":"2.0"`, "bad types": `{"jsonrpc":2,"id":1,"method":7}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			c := connect(t, editortest.Deaf{})
			waits := make(chan error, 1)
			go func() { _, err := c.Models(context.Background()); waits <- err }()
			if _, err := c.out.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(c.in, text); err != nil {
				t.Fatal(err)
			}
			_ = c.in.Close()
			if err := c.end(); err == nil {
				t.Error("it was taken for the ordinary end")
			}
			if err := <-waits; bridge.CodeOf(err) != bridge.CodeUnavailable {
				t.Errorf("whoever waited got %v", err)
			}
		})
	}
}

func TestLongLineEndsTheConnection(t *testing.T) {
	c := connect(t, editortest.Deaf{})
	chunk := strings.Repeat("x", 1<<20)
	for range 66 { // 64 MiB are the bound
		if _, err := io.WriteString(c.in, chunk); err != nil {
			break // it is not read to its end
		}
	}
	if err := c.end(); !errors.Is(err, jsonrpc.ErrTooLong) {
		t.Errorf("%v", err)
	}
}

func TestEndOfInput(t *testing.T) {
	c := connect(t, editortest.Deaf{})
	_ = c.in.Close()
	if err := c.end(); err != nil {
		t.Errorf("%v", err)
	}
	if _, err := c.Models(t.Context()); bridge.CodeOf(err) != bridge.CodeUnavailable {
		t.Errorf("%v", err)
	}
	select {
	case <-c.Done():
	default:
		t.Error("it does not say that it has ended")
	}
}

// Unread parts of an answer do not delay other answers, and are kept up to a
// bound.
func TestSlowReader(t *testing.T) {
	big := strings.Repeat("x", 1<<10)
	reading, said := make(chan struct{}), make(chan struct{})
	x := &editortest.Extension{Models: []editor.Model{{ID: "m"}}, Chat: func(ctx context.Context, r editor.ChatRequest, say func(editor.Part)) *editor.Fault {
		defer close(said)
		say(editor.Part{Type: editor.PartText, Text: "first"})
		select {
		case <-reading: // so none of the rest is taken together with it
		case <-ctx.Done():
		}
		for i := 0; i < 80 && ctx.Err() == nil; i++ {
			say(editor.Part{Type: editor.PartText, Text: big})
		}
		return nil
	}}
	c := editortest.Connect(t, x, nil)
	c.Bound(64 << 10)
	var last error
	read := 0
	for _, err := range c.Chat(t.Context(), editor.ChatRequest{}, time.Minute) {
		if err != nil {
			last = err
			continue
		}
		if read++; read > 1 {
			continue
		}
		close(reading)
		<-said
		// The next answer comes behind all of them.
		if _, err := c.Models(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if bridge.CodeOf(last) != bridge.CodeBusy {
		t.Errorf("ended with %v", last)
	}
	if read != 1 {
		t.Errorf("read %d parts", read)
	}
}

// Whatever edits come of two texts, they make the one of the other.
func FuzzBetween(f *testing.F) {
	f.Add("one\ntwo\n", "one\nthree\n")
	f.Add("", "a")
	f.Add("a\r\nb", "a\r\nb\r\n")
	f.Add("😀x\ny", "😀x\ny😀\n")
	f.Fuzz(func(t *testing.T, before, after string) {
		before, after = strings.ToValidUTF8(before, ""), strings.ToValidUTF8(after, "")
		if got := editortest.Edited(before, editor.Between(before, after)); got != after {
			t.Errorf("%q became %q, not %q", before, got, after)
		}
	})
}

// No line of the other side does anything but to be understood or to end the
// connection.
func FuzzLines(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{"models":[]}}` + "\n"))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"x","data":{"kind":"timeout","code":5}}}` + "\n"))
	f.Add([]byte(`{"jsonrpc":"2.0","method":"lm.part","params":{"id":1,"part":{"type":"text","text":"x"}}}` + "\n"))
	f.Add([]byte(`{"jsonrpc":"2.0","id":"a","method":"bridge.status","params":{}}` + "\n" + `{"jsonrpc":"2.0","method":"$/cancel","params":{"id":"a"}}` + "\n"))
	f.Add([]byte("\xff\n{}\r\n"))
	f.Fuzz(func(t *testing.T, lines []byte) {
		c := editor.New(strings.NewReader(string(lines)), io.Discard, editortest.Deaf{}, nil)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range c.Chat(ctx, editor.ChatRequest{}, time.Second) {
				continue
			}
		}()
		if err := c.Run(ctx); errors.Is(err, context.DeadlineExceeded) {
			t.Error("it did not end")
		}
		<-done
	})
}
