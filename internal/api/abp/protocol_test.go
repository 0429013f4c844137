package abp_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/abp"
	"github.com/copilot-bridge/copilot-bridge/internal/api/abp/contract"
	"github.com/copilot-bridge/copilot-bridge/internal/app"
)

// puppet is a service whose sessions say what a test wants, to test the protocol
// around them.
type puppet struct {
	about abp.Description
	open  func(abp.Order) (abp.Session, error)
	turn  func(ctx context.Context, yield func(bridge.Event, error) bool)
}

func (p *puppet) Describe() abp.Description { return p.about }
func (p *puppet) Prepare(context.Context)   {}
func (p *puppet) Clean(text string) string  { return strings.ReplaceAll(text, "hush", "[REDACTED]") }

func (p *puppet) Open(_ context.Context, o abp.Order) (abp.Session, error) {
	if p.open != nil {
		return p.open(o)
	}
	return p, nil
}

func (p *puppet) ID() string                   { return "s" }
func (p *puppet) Opened() bridge.SessionOpened { return bridge.SessionOpened{} }
func (p *puppet) Unreadable(string) string     { return "" }
func (p *puppet) Close(context.Context) error  { return nil }

func (p *puppet) Send(ctx context.Context, _ bridge.Prompt) iter.Seq2[bridge.Event, error] {
	return func(yield func(bridge.Event, error) bool) {
		if p.turn != nil {
			p.turn(ctx, yield)
			return
		}
		yield(bridge.TurnEnded{Reason: bridge.EndDone}, nil)
	}
}

// talkTo lets a puppet's sidecar read all of the lines.
func talkTo(t *testing.T, p *puppet, lines string) *transcript {
	t.Helper()
	return converse(t, func(ctx context.Context, in io.Reader, out io.Writer) error {
		return abp.Serve(ctx, p, in, out, abp.Options{Dir: t.TempDir(), MaxInline: 100, Logger: testLogger(t)})
	}, func(h *host) {
		_, _ = io.WriteString(h.in, lines) // it may end before it has read all
		_ = h.in.Close()
	})
}

const okRun = `{"t":"run","id":"r","work_order":{"id":"` + orderID + `","task":"do"}}` + "\n"

// Whatever comes instead of a run is answered by one fatal envelope with a
// code, or by the end.
func TestBadBeginnings(t *testing.T) {
	order := func(rest string) string {
		return `{"t":"run","id":"r","work_order":{"id":"` + orderID + `","task":"do"` + rest + `}}` + "\n"
	}
	for name, tt := range map[string]struct {
		lines string
		code  contract.ErrorCode
		text  string
	}{
		"garbage":        {"garbage\n", contract.CodeInvalidEnvelope, "invalid character 'g' at start of value"},
		"not UTF-8":      {"{\"t\":\"\xff\"}\n", contract.CodeInvalidEnvelope, "UTF-8"},
		"no end of line": {`{"t":"run"`, contract.CodeInvalidEnvelope, "EOF"},
		"unknown":        {`{"t":"start"}` + "\n", contract.CodeInvalidEnvelope, "unknown variant `start`"},
		"a sidecar's":    {`{"t":"fatal","error":"x"}` + "\n", contract.CodeUnexpectedMessage, "`run` envelope was expected"},
		"no order":       {`{"t":"run","id":"r"}` + "\n", contract.CodeInvalidEnvelope, "missing field `work_order`"},
		"bad id":         {strings.Replace(okRun, orderID, "7", 1), contract.CodeInvalidEnvelope, "UUID"},
		"too long":       {strings.Repeat("x", contract.MaxLine+2) + "\n", contract.CodeInvalidEnvelope, "16 MiB"},
		"too deep":       {strings.Repeat("[", 1<<20) + "\n", contract.CodeInvalidEnvelope, "recursion limit"},
		"empty task":     {strings.Replace(okRun, `"do"`, `" "`, 1), contract.CodeValidation, "the task is empty"},
		"no workspace":   {order(`,"workspace":{"root":"/no/such/place"}`), contract.CodeWorkspaceError, "the workspace cannot be used"},
		"NUL":            {order(`,"workspace":{"root":"a\u0000b"}`), contract.CodeValidation, "NUL"},
		"mode":           {order(`,"config":{"vendor":{"abp":{"mode":"fast"}}}`), contract.CodeValidation, "neither mapped nor passthrough"},
		"vendor":         {order(`,"config":{"vendor":{"copilot":{"availableTools":"bash"}}}`), contract.CodeValidation, "config.vendor cannot be understood"},
		"system message": {order(`,"config":{"vendor":{"copilot":{"systemMessage":{"mode":"shout"}}}}`), contract.CodeValidation, "neither append nor replace"},
		"budget":         {order(`,"config":{"max_budget_usd":-1}`), contract.CodeValidation, "negative"},
		"schema":         {order(`,"config":{"vendor":{"copilot":{"responseFormat":{"name":"x"}}}}`), contract.CodeValidation, "no schema"},
	} {
		t.Run(name, func(t *testing.T) {
			tr := talkTo(t, &puppet{}, tt.lines)
			f := tr.fatal(t)
			if *f.Code != tt.code || !strings.Contains(f.Error, tt.text) || len(tr.lines) != 2 {
				t.Errorf("%q", tr.lines[1:])
			}
			if ours := tt.code == contract.CodeInvalidEnvelope || tt.code == contract.CodeUnexpectedMessage; ours != (f.RefID == nil) {
				t.Errorf("ref %v", f.RefID)
			}
		})
	}
	for name, lines := range map[string]string{"nothing": "", "blank lines": "\n \r\n\n", "a ping": `{"t":"ping","seq":1}` + "\n", "a cancel": `{"t":"cancel","ref_id":"r"}` + "\n"} {
		if tr := talkTo(t, &puppet{}, lines); tr.err != nil || len(tr.envelopes) != 1 {
			t.Errorf("%s: %v, %q", name, tr.err, tr.lines)
		}
	}
}

// A bridge that could not start still says hello, and answers an order with the reason.
func TestBrokenServices(t *testing.T) {
	why := &bridge.Error{Code: bridge.CodeUnavailable, Message: "no runtime hush", Remedy: "run setup"}
	for name, p := range map[string]*puppet{
		"from the start": {about: abp.Description{Broken: why}},
		"at the session": {open: func(abp.Order) (abp.Session, error) { return nil, why }},
	} {
		tr := talkTo(t, p, okRun)
		if f := tr.fatal(t); *f.Code != contract.CodeBackendUnavailable || f.Error != "no runtime [REDACTED] (run setup)" || *f.RefID != "r" {
			t.Errorf("%s: %q", name, tr.lines)
		}
	}
	// The same through the application: a policy that makes no sense.
	s := newStage(t)
	tr := s.run(t, s.order("do", map[string]any{"policy": map[string]any{"deny_read": []string{"~/x"}}}))
	if f := tr.fatal(t); *f.Code != contract.CodePolicyInvalid || !strings.Contains(f.Error, "~ is not expanded") {
		t.Errorf("%s", f.Error)
	}
	broken := app.BrokenSidecar(app.Options{Version: "v", Logger: testLogger(t), Environ: []string{"ABP_COPILOT_SDK_MODULE=x"}}, &bridge.Error{Code: bridge.CodeInvalid, Message: "bad value"})
	if d := broken.Describe(); d.Broken == nil || len(d.Warnings) != 1 || !strings.Contains(d.Warnings[0], "ABP_COPILOT_RUNNER") {
		t.Errorf("%+v", d)
	}
}

// A panic anywhere in a run is a fatal envelope, and the only end.
func TestPanics(t *testing.T) {
	for name, p := range map[string]*puppet{
		"in the turn":    {turn: func(context.Context, func(bridge.Event, error) bool) { panic("boom") }},
		"in the session": {open: func(abp.Order) (abp.Session, error) { panic("boom") }},
		"after a while": {turn: func(_ context.Context, yield func(bridge.Event, error) bool) {
			yield(bridge.TextDelta{Text: "a"}, nil)
			panic("boom")
		}},
	} {
		tr := talkTo(t, p, okRun)
		if f := tr.fatal(t); *f.Code != contract.CodeInternal || !strings.Contains(f.Error, "boom") || *f.RefID != "r" || bridge.CodeOf(tr.err) != bridge.CodeInternal {
			t.Errorf("%s: %q", name, tr.lines)
		}
	}
}

// brokenPipe takes some writes and then none.
type brokenPipe struct {
	left int
	w    io.Writer
}

func (b *brokenPipe) Write(p []byte) (int, error) {
	if b.left--; b.left < 0 {
		return 0, errors.New("broken pipe")
	}
	return b.w.Write(p)
}

// When the host stops reading the turn is ended, and nothing hangs.
func TestNobodyReads(t *testing.T) {
	for left := range 3 {
		ended := make(chan struct{})
		p := &puppet{turn: func(ctx context.Context, yield func(bridge.Event, error) bool) {
			defer close(ended)
			for yield(bridge.TextDelta{Text: "a"}, nil) && ctx.Err() == nil {
			}
		}}
		err := abp.Serve(t.Context(), p, strings.NewReader(okRun), &brokenPipe{left: left, w: io.Discard}, abp.Options{Dir: t.TempDir(), Logger: testLogger(t)})
		if err == nil || !strings.Contains(err.Error(), "broken pipe") {
			t.Errorf("after %d: %v", left, err)
		}
		if left > 0 {
			<-ended
		}
	}
}

// When the process is told to end there is still a receipt.
func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		p := &puppet{turn: func(ctx context.Context, yield func(bridge.Event, error) bool) {
			<-ctx.Done()
			e := bridge.AsError(context.Cause(ctx))
			_ = yield(bridge.Failed{Error: e}, nil) && yield(bridge.TurnEnded{Reason: bridge.EndAborted}, nil) && yield(nil, e)
		}}
		var out strings.Builder
		r, w := io.Pipe()
		go func() {
			_, _ = io.WriteString(w, okRun)
			time.Sleep(time.Second) // of the bubble's own clock
			cancel(&bridge.Error{Code: bridge.CodeCanceled, Message: "interrupted"})
		}()
		err := abp.Serve(ctx, p, r, &out, abp.Options{Dir: t.TempDir()})
		tr := (&transcript{err: err}).read(t, out.String())
		if got := tr.receipt(t); got.Outcome != contract.Partial || !warned(got, "stopped: interrupted") || err == nil {
			t.Errorf("%s %v", got.Outcome, err)
		}
		_ = w.Close() // nobody reads any more
	})
}

// A receipt fits into a line, whatever was said.
func TestLongTraces(t *testing.T) {
	t.Parallel()
	piece := strings.Repeat("é", 1<<19)
	p := &puppet{turn: func(_ context.Context, yield func(bridge.Event, error) bool) {
		for range 10 {
			yield(bridge.TextDelta{Text: piece}, nil)
		}
		for range 16 {
			yield(bridge.MessageDone{Message: "m", Text: piece}, nil)
		}
		yield(bridge.TurnEnded{Reason: bridge.EndDone}, nil)
	}}
	tr := talkTo(t, p, okRun)
	last := tr.lines[len(tr.lines)-1]
	f, ok := tr.envelopes[len(tr.envelopes)-1].(*contract.Final)
	if !ok || len(last) > contract.MaxLine || len(last) < contract.MaxLine/2 {
		t.Fatalf("the last line has %d bytes", len(last))
	}
	r := &f.Receipt
	if *r.SHA256 != r.Hash() || len(of(r, contract.AssistantDelta)) != 0 || r.Trace[0].Kind != contract.RunStarted || r.Trace[len(r.Trace)-1].Kind != contract.RunCompleted {
		t.Error("the receipt is not whole")
	}
}

// An event fits into a line, whatever a tool is called with; and a denial by
// the runtime's own question is told like any other.
func TestLongCallsAndLateDenials(t *testing.T) {
	t.Parallel()
	p := &puppet{turn: func(_ context.Context, yield func(bridge.Event, error) bool) {
		yield(bridge.ToolStarted{Call: bridge.ToolCall{ID: "1", Name: "create", Args: map[string]any{"file_text": strings.Repeat("\x01", 20<<20)}}}, nil)
		yield(bridge.PermissionDecided{CallID: "1", Decision: bridge.Decision{Reason: "no"}}, nil)
		yield(bridge.ToolFinished{CallID: "1", Code: "rejected", Error: "The user said no"}, nil)
		yield(bridge.TextDelta{Text: strings.Repeat("\x02", 20<<20)}, nil)
		yield(bridge.TurnEnded{Reason: bridge.EndDone}, nil)
	}}
	tr := talkTo(t, p, okRun)
	for _, l := range tr.lines {
		if len(l) > contract.MaxLine {
			t.Errorf("a line of %d bytes", len(l))
		}
	}
	f, ok := tr.envelopes[len(tr.envelopes)-1].(*contract.Final)
	if !ok {
		t.Fatalf("no receipt")
	}
	r := &f.Receipt
	if o := of(r, contract.ToolResult); len(o) != 1 || string(contract.AppendValue(nil, o[0].Output)) != `{"denied":true,"reason":"no"}` || !warned(r, "tool denied: no (create)") {
		t.Errorf("%+v", o)
	}
}
