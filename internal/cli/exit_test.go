package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
)

func TestExitCodes(t *testing.T) {
	code := func(c bridge.Code) error { return &bridge.Error{Code: c, Message: "x"} }
	for _, tt := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("x"), 1},
		{code(bridge.CodeInternal), 1}, {code(bridge.CodeNotFound), 1}, {code(bridge.CodeBusy), 1}, {code(bridge.CodeTimeout), 1},
		{code(bridge.CodeBudget), 1}, {code(bridge.CodeConflict), 1}, {code(bridge.CodeUnsupported), 1},
		{code(bridge.CodeInvalid), 2},
		{code(bridge.CodeUnavailable), 3}, {code(bridge.CodeUnauthenticated), 3}, {code(bridge.CodeCrashed), 3},
		{code(bridge.CodeRateLimited), 3}, {code(bridge.CodeProvider), 3},
		{&bridge.Error{Code: bridge.CodeProvider, Status: 503}, 3},
		{&bridge.Error{Code: bridge.CodeProvider, Status: 400}, 1},
		{code(bridge.CodeDenied), 4}, {code(bridge.CodeConsent), 4},
		{&exitError{code: 5, err: code(bridge.CodeDenied)}, 5},
		{code(bridge.CodeCanceled), 130}, {context.Canceled, 130},
		{fmt.Errorf("wrapped: %w", code(bridge.CodeCrashed)), 3},
		{code("of the future"), 1},
	} {
		if got := exitCode(tt.err); got != tt.want {
			t.Errorf("%v (%s): got %d, want %d", tt.err, bridge.CodeOf(tt.err), got, tt.want)
		}
	}
}

func TestVerdict(t *testing.T) {
	started := func(id, name string) bridge.Event {
		return bridge.ToolStarted{Call: bridge.ToolCall{ID: id, Name: name, Args: map[string]any{"command": "x"}}}
	}
	good := bridge.ToolFinished{CallID: "1", OK: true}
	no := bridge.ToolFinished{CallID: "2", Code: "denied", Error: "Denied by preToolUse hook: not here"}
	broken := bridge.ToolFinished{CallID: "3", Code: "failure", Error: "boom"}
	for _, tt := range []struct {
		name   string
		events []bridge.Event
		want   int
		text   string
	}{
		{"nothing", nil, 0, ""},
		{"all done", []bridge.Event{good, good}, 0, ""},
		{"a tool failed", []bridge.Event{good, broken}, 0, ""},
		{"all denied", []bridge.Event{started("2", "bash"), no}, 4, "the guard denied 1 of 1 tool call: bash x: not here"},
		{"denied and failed", []bridge.Event{started("2", "bash"), no, broken}, 4, "the guard denied 1 of 2 tool calls: bash x: not here"},
		{"some denied", []bridge.Event{started("2", "bash"), good, no}, 5, "the guard denied 1 of 2 tool calls: bash x: not here"},
	} {
		var c engine.Collector
		for _, ev := range tt.events {
			c.Add(ev)
		}
		err := denials(c.Result().Tools, true)
		if exitCode(err) != tt.want || err != nil && err.Error() != tt.text {
			t.Errorf("%s: got %d, %v; want %d, %s", tt.name, exitCode(err), err, tt.want, tt.text)
		}
	}
}

func TestErrorsArePrintedOnce(t *testing.T) {
	w := newWorld(t)
	if code := w.run("sessions", "show", "nonesuch"); code != 1 {
		t.Errorf("exit %d", code)
	}
	if w.out.String() != "" || strings.Count(w.err.String(), "nonesuch") != 1 {
		t.Errorf("stdout %q\nstderr %q", w.out, w.err)
	}
	if lines := strings.Split(w.err.String(), "\n"); !strings.HasPrefix(lines[0], "copilot-bridge: ") || !strings.HasPrefix(lines[1], "  → ") || len(lines) != 3 {
		t.Errorf("stderr %q", w.err)
	}
}

func TestErrorsAreJSONToo(t *testing.T) {
	for _, args := range [][]string{{"sessions", "list", "--json", "extra"}, {"run", "--json", "x", "--nonesuch"}, {"run", "x", "--timeout", "soon", "--json"}} {
		w := newWorld(t)
		if code := w.run(args...); code != 2 {
			t.Errorf("%v: exit %d", args, code)
		}
		line, rest, _ := strings.Cut(w.out.String(), "\n")
		if isRun := args[0] == "run" && args[2] != "x"; isRun != strings.HasPrefix(rest, `{"type":"result"`) || strings.Count(rest, "\n") > 1 {
			t.Errorf("%v: the rest is %q", args, rest)
		}
		ev, err := bridge.DecodeEvent([]byte(line))
		failed, ok := ev.(bridge.Failed)
		if err != nil || !ok || failed.Error.Code != bridge.CodeInvalid || !strings.Contains(w.err.String(), failed.Error.Message) {
			t.Errorf("%v: stdout %q, %v\nstderr %q", args, w.out, err, w.err)
		}
	}
}

// broken is an output that cannot be written to.
type broken struct{ err error }

func (b broken) Write([]byte) (int, error) { return 0, b.err }

func TestBrokenOutputs(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		code int
		says string
	}{
		{"nobody reads", &os.PathError{Op: "write", Path: "|1", Err: syscall.EPIPE}, 130, ""},
		{"nobody reads in a test", io.ErrClosedPipe, 130, ""},
		{"disk full", &os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC}, 1, "the output cannot be written"},
	} {
		w := newWorld(t)
		w.Stdout = broken{tt.err}
		code := w.run("version")
		if code != tt.code || !strings.Contains(w.err.String(), tt.says) || tt.says == "" && w.err.String() != "" {
			t.Errorf("%s: exit %d, stderr %q", tt.name, code, w.err)
		}
	}
}

func TestSignals(t *testing.T) {
	w := newWorld(t)
	signals := make(chan os.Signal)
	exited := make(chan int, 1)
	w.signals, w.exit = signals, func(code int) { exited <- code }
	p, stop := newProgram(w.Env, func(error) {})
	defer stop()
	ctx, in := p.interruptible(t.Context())
	signals <- os.Interrupt
	<-ctx.Done()
	if bridge.CodeOf(context.Cause(ctx)) != bridge.CodeCanceled {
		t.Errorf("the cause is %v", context.Cause(ctx))
	}
	signals <- os.Interrupt
	if code := <-exited; code != 130 {
		t.Errorf("exit %d", code)
	}
	in.stop()
	if !strings.Contains(w.err.String(), "interrupting… (Ctrl-C again to kill)") {
		t.Errorf("stderr %q", w.err)
	}
	if in.by != os.Interrupt {
		t.Errorf("by %v", in.by)
	}
	_, in = p.interruptible(t.Context())
	in.drain.Store(int64(time.Minute))
	signals <- os.Interrupt
	in.stop()
	if !strings.Contains(w.err.String(), "running requests may finish within 1m0s… (Ctrl-C again to kill)") {
		t.Errorf("stderr %q", w.err)
	}
	ctx, in = p.interruptible(t.Context())
	in.stop()
	if ctx.Err() == nil || in.by != nil {
		t.Errorf("after stop: %v, %v", ctx.Err(), in.by)
	}
}

// A reader that has stopped reading must not make the program unstoppable.
func TestSignalsWhileTheOutputIsStuck(t *testing.T) {
	w := newWorld(t)
	signals := make(chan os.Signal)
	exited := make(chan int, 1)
	w.signals, w.exit = signals, func(code int) { exited <- code }
	r, stuck := io.Pipe()
	w.Stderr = stuck
	p, stop := newProgram(w.Env, func(error) {})
	defer stop()
	ctx, in := p.interruptible(t.Context())
	signals <- os.Interrupt
	<-ctx.Done()
	signals <- os.Interrupt
	if code := <-exited; code != 130 {
		t.Errorf("exit %d", code)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	in.stop()
}
