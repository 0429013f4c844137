package acp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/acpwire"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/jsonrpc"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/acpschema"
)

// waits is a turn that says that it runs and then runs until it is cancelled.
func waits(running chan<- struct{}) func(context.Context, *played, bridge.Prompt, func(bridge.Event, error) bool) {
	return func(ctx context.Context, _ *played, _ bridge.Prompt, yield func(bridge.Event, error) bool) {
		running <- struct{}{}
		yield(bridge.ToolStarted{Call: bridge.ToolCall{ID: "c", Name: "bash"}}, nil)
		<-ctx.Done()
		e := bridge.AsError(context.Cause(ctx))
		_ = yield(bridge.Failed{Error: e}, nil) && yield(bridge.TurnEnded{Reason: bridge.EndAborted}, nil) && yield(nil, e)
	}
}

func TestCancel(t *testing.T) {
	running := make(chan struct{}, 1)
	c := begin(t, &script{turn: waits(running)})
	c.notify("session/cancel", `{"sessionId":"s1"}`)   // nothing runs
	c.notify("session/cancel", `{"sessionId":"none"}`) // nor here
	c.notify("session/cancel", `[]`)
	c.notify("session/surprise", `{}`)
	id := c.request("session/prompt", prompt("go"))
	<-running
	c.notify("session/cancel", `{"sessionId":"s1"}`)
	c.notify("session/cancel", `{"sessionId":"s1"}`) // once more does no harm
	if l := c.answer(id); !strings.Contains(l.raw, `"stopReason":"cancelled"`) {
		t.Error(l.raw)
	}
	if got := c.updates(acpwire.UpdateToolCallUpdate); len(got) != 1 || !strings.Contains(got[0], `"status":"failed"`) {
		t.Errorf("the tool was left as %q", got)
	}
	// The session can still be used.
	id = c.request("session/prompt", prompt("again"))
	<-running
	c.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":%s}}`, id))
	if l := c.answer(id); l.Error == nil || l.Error.Code != jsonrpc.CodeCanceled {
		t.Error(l.raw)
	}
}

// A cancellation that comes right behind a prompt finds it, however often.
func TestCancelAtOnce(t *testing.T) {
	c := begin(t, &script{turn: waits(make(chan struct{}, 100))})
	for range 50 {
		id := c.request("session/prompt", prompt("go"))
		c.notify("session/cancel", `{"sessionId":"s1"}`)
		if l := c.answer(id); !strings.Contains(l.raw, `"stopReason":"cancelled"`) {
			t.Fatal(l.raw)
		}
	}
}

func TestCancelEndsAQuestion(t *testing.T) {
	t.Parallel()
	var answer approval.Answer
	var err error
	c := begin(t, &script{turn: func(ctx context.Context, p *played, _ bridge.Prompt, yield func(bridge.Event, error) bool) {
		answer, err = p.opening.Asker.Ask(ctx, approval.Question{Request: bridge.PermissionRequest{ID: "q"}, Summary: "run: make"})
		yield(nil, context.Cause(ctx))
	}})
	id := c.request("session/prompt", prompt("go"))
	asked := c.asked("session/request_permission", "")
	c.notify("session/cancel", `{"sessionId":"s1"}`)
	if l := c.answer(id); !strings.Contains(l.raw, `"stopReason":"cancelled"`) {
		t.Error(l.raw)
	}
	c.await("word that the question is void", func(l line) bool { return l.Method == "$/cancel_request" && strings.Contains(l.raw, string(asked.ID)) })
	// The answer that the protocol asks for comes late, and no call waits for it.
	c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"outcome":{"outcome":"cancelled"}}}`, asked.ID))
	if answer.Consent != approval.No || !errors.Is(err, errTurnCancelled) {
		t.Errorf("%v, %v", answer, err)
	}
}

func TestTwoPrompts(t *testing.T) {
	running := make(chan struct{}, 2)
	s := &script{turn: waits(running)}
	c := begin(t, s)
	c.call("session/new", fmt.Sprintf(`{"cwd":%q,"mcpServers":[]}`, t.TempDir()))
	id := c.request("session/prompt", prompt("go"))
	next := c.request("session/prompt", prompt("me too"))
	other := c.request("session/prompt", strings.Replace(prompt("go"), "s1", "s2", 1))
	<-running
	<-running // both sessions run side by side
	c.refused("session/load", fmt.Sprintf(`{"sessionId":"s1","cwd":%q,"mcpServers":[]}`, t.TempDir()), jsonrpc.CodeInvalidRequest, "busy")
	c.call("session/close", `{"sessionId":"s1"}`)
	for _, id := range []string{id, next} {
		if l := c.answer(id); !strings.Contains(l.raw, `"stopReason":"cancelled"`) {
			t.Error(l.raw)
		}
	}
	c.refused("session/prompt", prompt("more"), acpwire.CodeResourceNotFound, "s1")
	c.call("session/delete", `{"sessionId":"s2"}`)
	if l := c.answer(other); !strings.Contains(l.raw, `"stopReason":"cancelled"`) {
		t.Error(l.raw)
	}
	if n := s.count(); n != 0 || len(s.deleted) != 1 {
		t.Errorf("%d sessions are open, %q deleted", n, s.deleted)
	}
}

// TestPromptsWait sends prompts while a turn runs: they are answered one after
// the other, and a cancellation ends all of them.
func TestPromptsWait(t *testing.T) {
	go1 := make(chan struct{})
	c := begin(t, &script{turn: func(ctx context.Context, _ *played, p bridge.Prompt, yield func(bridge.Event, error) bool) {
		select {
		case <-go1:
			plays(nil, bridge.TextDelta{Message: p.Text, Text: p.Text + ";"})(ctx, nil, p, yield)
		case <-ctx.Done():
			yield(nil, context.Cause(ctx))
		}
	}})
	var ids []string
	for i := range maxTurns {
		ids = append(ids, c.request("session/prompt", prompt(fmt.Sprint(i))))
	}
	c.refused("session/prompt", prompt("too many"), jsonrpc.CodeInternal, "wait already")
	c.notify("session/cancel", `{"sessionId":"s1"}`)
	for _, id := range ids {
		if l := c.answer(id); !strings.Contains(l.raw, `"stopReason":"cancelled"`) {
			t.Error(l.raw)
		}
	}
	ids = nil
	for _, text := range []string{"a", "b", "c"} {
		ids = append(ids, c.request("session/prompt", prompt(text)))
	}
	close(go1)
	for _, id := range ids {
		if l := c.answer(id); !strings.Contains(l.raw, `"stopReason":"end_turn"`) {
			t.Error(l.raw)
		}
	}
	if got := c.says(acpwire.UpdateAgentMessage); got != "a;b;c;" {
		t.Errorf("said %q", got)
	}
}

func TestGarbage(t *testing.T) {
	c := begin(t, &script{turn: plays(nil, bridge.TextDelta{Message: "m", Text: "hello"})})
	for _, text := range []string{"hello", "{", `{"jsonrpc":"2.0"}`, `[]`, "", `"x"`, `{"jsonrpc":"2.0","id":{},"method":"initialize"}`,
		`{"jsonrpc":"2.0","id":99,"result":{}}`, "\x00\xff", strings.Repeat("[", 100_000)} {
		c.send(text)
	}
	c.call("session/prompt", prompt("go"))
	if got := c.says(acpwire.UpdateAgentMessage); got != "hello" {
		t.Errorf("said %q", got)
	}
}

func TestClientGone(t *testing.T) {
	for _, tt := range []struct {
		name string
		turn func(chan struct{}) func(context.Context, *played, bridge.Prompt, func(bridge.Event, error) bool)
	}{
		{"in a turn", func(r chan struct{}) func(context.Context, *played, bridge.Prompt, func(bridge.Event, error) bool) {
			return waits(r)
		}},
		{"when asked", func(r chan struct{}) func(context.Context, *played, bridge.Prompt, func(bridge.Event, error) bool) {
			return func(ctx context.Context, p *played, pr bridge.Prompt, yield func(bridge.Event, error) bool) {
				r <- struct{}{}
				if a, err := p.opening.Asker.Ask(ctx, approval.Question{Request: bridge.PermissionRequest{CallID: "never told"}}); a.Consent != approval.No || err == nil {
					t.Errorf("%v, %v", a, err)
				}
				plays(nil)(ctx, p, pr, yield)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			running := make(chan struct{}, 1)
			s := &script{turn: tt.turn(running)}
			c := begin(t, s)
			c.request("session/prompt", prompt("go"))
			<-running
			if err := c.hangUp(); err != nil {
				t.Errorf("the door ended with %v", err)
			}
			if n := s.count(); n != 0 {
				t.Errorf("%d sessions are open", n)
			}
		})
	}
}

// A client that does not read holds its own turn up, and nothing else: the
// end of its stream, or of the door, still ends everything.
func TestSlowClient(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"it leaves", "the door is ended"} {
		t.Run(how, func(t *testing.T) {
			var sent atomic.Int64
			s := &script{turn: func(_ context.Context, _ *played, _ bridge.Prompt, yield func(bridge.Event, error) bool) {
				for yield(bridge.TextDelta{Message: "m", Text: strings.Repeat("x", 1000)}, nil) {
					sent.Add(1)
				}
			}}
			c := dial(t, s, Options{})
			lines := make(chan string)
			go func() {
				defer close(lines)
				buf := make([]byte, 1<<20)
				for range 2 { // the commands and the answer to session/new, then no more
					n, err := c.out.Read(buf)
					if err != nil {
						return
					}
					lines <- string(buf[:n])
				}
			}()
			c.request("session/new", fmt.Sprintf(`{"cwd":%q,"mcpServers":[]}`, t.TempDir()))
			for range lines {
			}
			c.request("session/prompt", prompt("go"))
			// It stops when the queue is full.
			for last, deadline := int64(-1), time.Now().Add(patience); ; {
				now := sent.Load()
				if now > 0 && now == last {
					break
				}
				last = now
				if time.Now().After(deadline) {
					t.Fatal("the turn goes on without a reader")
				}
				<-time.After(100 * time.Millisecond)
			}
			if n := sent.Load(); n > 200 {
				t.Errorf("%d updates are queued", n)
			}
			if how == "it leaves" {
				_ = c.in.Close() // cannot fail
			} else {
				c.cancel()
			}
			select {
			case err := <-c.served:
				c.served <- nil
				if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, io.ErrClosedPipe) {
					t.Error(err)
				}
			case <-time.After(patience):
				t.Fatal("the door does not end")
			}
			if n := s.count(); n != 0 {
				t.Errorf("%d sessions are open", n)
			}
		})
	}
}

func TestManySessions(t *testing.T) {
	s := &script{}
	c := begin(t, s)
	for range maxSessions - 1 {
		c.call("session/new", fmt.Sprintf(`{"cwd":%q,"mcpServers":[]}`, t.TempDir()))
	}
	c.refused("session/new", fmt.Sprintf(`{"cwd":%q,"mcpServers":[]}`, t.TempDir()), jsonrpc.CodeInternal, "busy")
	c.call("session/close", `{"sessionId":"s1"}`)
	c.call("session/new", fmt.Sprintf(`{"cwd":%q,"mcpServers":[]}`, t.TempDir()))
}

// stuck is an output that is not read and that cannot be closed.
type stuck struct{ release chan struct{} }

func (s stuck) Write(b []byte) (int, error) {
	<-s.release
	return len(b), nil
}

// Standard output cannot always be closed under a write. The door ends all
// the same.
func TestStuckOutput(t *testing.T) {
	t.Parallel()
	w := stuck{make(chan struct{})}
	t.Cleanup(func() { close(w.release) })
	r, in := io.Pipe()
	s := &script{turn: waits(make(chan struct{}, 1))}
	ended := make(chan error, 1)
	go func() { ended <- Serve(t.Context(), s, r, w, Options{}) }()
	c := &client{t: t, in: in, checker: new(acpschema.Schema).Follow(t)}
	c.request("session/new", fmt.Sprintf(`{"cwd":%q,"mcpServers":[]}`, t.TempDir()))
	for range 100 { // more answers than are queued
		c.request("session/list", `{}`)
	}
	_ = in.Close() // cannot fail
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("the door does not end")
	}
	if n := s.count(); n != 0 {
		t.Errorf("%d sessions are open", n)
	}
}
