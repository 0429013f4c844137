package jsonrpc

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// A request is served under its id once at a time, can be canceled, and is
// canceled at the end, when its answer is still written.
func TestServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, in := io.Pipe()
		out, w := io.Pipe()
		begun := 0
		c := newConn(r, w, side{request: func(ctx context.Context, method string, _ json.RawMessage) func() (any, error) {
			begun++
			return func() (any, error) {
				if method == "wait" {
					<-ctx.Done()
					return nil, context.Cause(ctx)
				}
				return method, nil
			}
		}}, Options{MaxRequests: 2})
		done := make(chan error, 1)
		go func() { done <- c.Run(t.Context()) }()
		answers := bufio.NewScanner(out)
		say := func(text string) {
			t.Helper()
			if _, err := io.WriteString(in, text+"\n"); err != nil {
				t.Fatal(err)
			}
		}
		hears := func(want string) {
			t.Helper()
			if !answers.Scan() || answers.Text() != want {
				t.Fatalf("answered %q, want %q", answers.Text(), want)
			}
			synctest.Wait() // the place is free again
		}
		say(`{"jsonrpc":"2.0","id":1,"method":"wait"}`)
		say(`{"jsonrpc":"2.0","id":1,"method":"wait"}`)
		hears(`{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"the id 1 is in use"}}`)
		say(`{"jsonrpc":"2.0","id":2,"method":"two"}`)
		hears(`{"jsonrpc":"2.0","id":2,"result":"two"}`)
		say(`{"jsonrpc":"2.0","id":2,"method":"wait"}`)
		say(`{"jsonrpc":"2.0","id":3,"method":"wait"}`)
		hears(`{"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"busy: 2 requests run already"}}`)
		say(`{"jsonrpc":"2.0","method":"$/cancel","params":{"id":77}}`)
		say(`{"jsonrpc":"2.0","method":"$/cancel","params":{"id":1}}`)
		hears(`{"jsonrpc":"2.0","id":1,"error":{"code":-32800,"message":"the request was cancelled"}}`)
		if err := c.Notify(t.Context(), "note", nil); err != nil {
			t.Fatal(err)
		}
		hears(`{"jsonrpc":"2.0","method":"note"}`)
		if err := in.Close(); err != nil {
			t.Fatal(err)
		}
		hears(`{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"EOF"}}`)
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		if err := c.Notify(t.Context(), "late", nil); !errors.Is(err, ErrClosed) || !errors.Is(c.Err(), io.EOF) {
			t.Errorf("got %v, %v", err, c.Err())
		}
		if begun != 3 {
			t.Errorf("%d requests were begun", begun)
		}
	})
}

// No sender waits for ever for a side that does not read.
func TestSilentSide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := io.Pipe()
		_, w := io.Pipe()
		c := newConn(r, w, side{}, Options{})
		done := make(chan error, 1)
		go func() { done <- c.Run(t.Context()) }()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var err error
		for n := 0; err == nil; n++ {
			if n > 1000 {
				t.Fatal("there is no bound")
			}
			err = c.Notify(ctx, "unheard", nil)
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		reason := errors.New("enough")
		began := time.Now()
		c.Fail(reason)
		c.Fail(errors.New("later"))
		if err := <-done; !errors.Is(err, reason) {
			t.Errorf("Run: %v", err)
		}
		if took := time.Since(began); took > 3*FlushWithin {
			t.Errorf("it took %s", took)
		}
	})
}
