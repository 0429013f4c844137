package engine_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/sessionstore"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// outcome is a turn read to its end.
type outcome struct {
	events []bridge.Event
	err    error
	took   time.Duration
}

func turn(ctx context.Context, s *engine.Session, p bridge.Prompt) outcome {
	began := time.Now()
	var o outcome
	for ev, err := range s.Send(ctx, p) {
		if err != nil {
			o.err = err
			continue
		}
		o.events = append(o.events, ev)
	}
	o.took = time.Since(began)
	return o
}

func open(t *testing.T, opts engine.Options, r engine.Request) (*engine.Engine, *engine.Session) {
	t.Helper()
	if opts.Agent == nil {
		opts.Agent = agenttest.NewScripted()
	}
	e := engine.New(opts)
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	if r.Spec.Gate == nil {
		r.Spec.Gate = agenttest.AllowAll()
	}
	s, err := e.Open(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return e, s
}

var script = agenttest.Script

// Whatever a turn waits for, it ends, and says what it was waiting for.
func TestWatchNamesTheCause(t *testing.T) {
	weather := []bridge.ToolSpec{{Name: "get_weather"}}
	slow := &agenttest.Gate{PermitFunc: func(bridge.PermissionRequest) bridge.Decision {
		<-time.After(time.Hour) // a person who never answers, in virtual time
		return bridge.Decision{}
	}}
	limits := engine.Limits{IdleTimeout: time.Minute, ApprovalTimeout: 2 * time.Minute, ParkTimeout: 4 * time.Minute}
	for name, tc := range map[string]struct {
		limits engine.Limits
		spec   bridge.SessionSpec
		prompt bridge.Prompt
		want   string // "" = the turn must succeed
		after  time.Duration
	}{
		"silent model":          {limits, bridge.SessionSpec{}, script("text hm", "silence"), "model silent for 1m0s", time.Minute},
		"slow but moving model": {limits, bridge.SessionSpec{}, script("text a", "delay 50s", "text b", "delay 50s", "text c"), "", 100 * time.Second},
		"silent tool":           {limits, bridge.SessionSpec{}, script(`tool sleep {"for":"10m"}`), "tool sleep silent for 1m0s", time.Minute},
		"tool that prints":      {limits, bridge.SessionSpec{}, script(`tool sleep {"for":"10m","print_every":"40s"}`, "next", "text ok"), "", 10 * time.Minute},
		"parked call":           {limits, bridge.SessionSpec{Tools: weather}, script(`tool get_weather {}`), "the caller's tool get_weather unanswered for 4m0s", 4 * time.Minute},
		"total time": {engine.Limits{IdleTimeout: time.Minute, TotalTimeout: 3 * time.Minute}, bridge.SessionSpec{},
			script(`tool sleep {"for":"10m","print_every":"40s"}`), "the turn took longer than 3m0s (tool sleep silent for 20s)", 3 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, s := open(t, engine.Options{Limits: tc.limits}, engine.Request{Spec: tc.spec})
				o := turn(t.Context(), s, tc.prompt)
				if tc.want == "" {
					if o.err != nil {
						t.Errorf("failed: %v", o.err)
					}
				} else if bridge.CodeOf(o.err) != bridge.CodeTimeout || !strings.Contains(o.err.Error(), tc.want) {
					t.Errorf("ended with %v, want %q", o.err, tc.want)
				}
				if o.took != tc.after {
					t.Errorf("took %s, want %s", o.took, tc.after)
				}
				if tc.want != "" {
					if again := turn(t.Context(), s, agenttest.Say("alive")); again.err != nil {
						t.Errorf("the next turn: %v", again.err)
					}
				}
			})
		})
	}
	t.Run("a person who does not answer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, s := open(t, engine.Options{Limits: limits}, engine.Request{Spec: bridge.SessionSpec{Gate: slow}})
			// The scripted agent asks on the turn's own goroutine, so the end
			// shows only when the person comes back.
			o := turn(t.Context(), s, script(`tool create {"path":"x","file_text":""}`))
			if bridge.CodeOf(o.err) != bridge.CodeTimeout || !strings.Contains(o.err.Error(), "permission for write pending for 3m0s") {
				t.Errorf("ended with %v", o.err)
			}
		})
	})
	t.Run("a reader who takes its time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, s := open(t, engine.Options{Limits: limits}, engine.Request{})
			for _, err := range s.Send(t.Context(), agenttest.Say("hello")) {
				if err != nil {
					t.Errorf("the reader's own pause ended the turn: %v", err)
				}
				<-time.After(5 * time.Minute) // virtual
			}
		})
	})
}

func TestRetriesByClass(t *testing.T) {
	for name, tc := range map[string]struct {
		max      int
		status   string
		attempts int
	}{
		"server error": {3, "500 boom", 3}, "capped": {1, "500 boom", 2}, "not at all": {0, "503 busy", 1}, "bad request": {3, "400 no", 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, s := open(t, engine.Options{Limits: engine.Limits{MaxRetries: tc.max}}, engine.Request{})
				failures := 0
				var last error
				for ev, err := range s.Send(t.Context(), script("status "+tc.status)) {
					if f, ok := ev.(bridge.ModelFailed); ok {
						failures = f.Attempt
					}
					last = err
				}
				// The last failure ends the turn instead of being passed on.
				if failures != tc.attempts-1 || bridge.CodeOf(last) != bridge.CodeProvider || bridge.AsError(last).Status == 0 {
					t.Errorf("%d failures passed on, then %v", failures, last)
				}
				if tc.attempts > 1 && !strings.Contains(last.Error(), "gave up after") {
					t.Errorf("attempts are not told: %v", last)
				}
			})
		})
	}
}

func TestCrash(t *testing.T) {
	t.Run("in mid-turn fails it and the next turn works", func(t *testing.T) {
		a := agenttest.NewScripted()
		_, s := open(t, engine.Options{Agent: a}, engine.Request{})
		o := turn(t.Context(), s, script("text half", "crash"))
		if bridge.CodeOf(o.err) != bridge.CodeCrashed {
			t.Fatalf("ended with %v", o.err)
		}
		id := s.ID()
		if o := turn(t.Context(), s, agenttest.Say("back")); o.err != nil {
			t.Errorf("the next turn: %v", o.err)
		}
		if _, resumed := a.Counts(); resumed != 1 || s.ID() != id {
			t.Errorf("resumed %d times, id %s, was %s", resumed, s.ID(), id)
		}
	})
	t.Run("between turns goes unnoticed", func(t *testing.T) {
		a := &deadFirst{Scripted: agenttest.NewScripted()}
		_, s := open(t, engine.Options{Agent: a}, engine.Request{})
		if o := turn(t.Context(), s, agenttest.Say("hello")); o.err != nil {
			t.Errorf("ended with %v", o.err)
		}
		if _, resumed := a.Counts(); resumed != 1 {
			t.Errorf("resumed %d times", resumed)
		}
	})
}

// deadFirst opens sessions whose runtime has died before the first turn.
type deadFirst struct{ *agenttest.Scripted }

func (d *deadFirst) Open(ctx context.Context, spec bridge.SessionSpec) (bridge.Session, error) {
	s, err := d.Scripted.Open(ctx, spec)
	if err != nil {
		return nil, err
	}
	for range s.Send(ctx, script("crash")) { // only its end matters
	}
	return s, nil
}

func TestStreamOrder(t *testing.T) {
	e := engine.New(engine.Options{Agent: agenttest.NewScripted(), Notice: "not Copilot"})
	var types []string
	var last error
	task := engine.Task{Prompt: script("text a", "status 400 no")}
	for ev, err := range e.Stream(t.Context(), task) {
		if err != nil {
			last = err
			continue
		}
		types = append(types, string(bridge.TypeOf(ev)))
	}
	if got, want := strings.Join(types, " "), "session_opened model_called text error turn_ended"; got != want {
		t.Errorf("events %s, want %s", got, want)
	}
	if last == nil {
		t.Error("no error at the end")
	}
	if err := e.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if _, err := e.RunTask(t.Context(), task, nil); bridge.CodeOf(err) != bridge.CodeUnavailable {
		t.Errorf("after Close: %v", err)
	}
}

func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s1 := open(t, engine.Options{Limits: engine.Limits{MaxConcurrent: 1, QueueLimit: 1}}, engine.Request{})
		more := func() *engine.Session {
			s, err := e.Open(t.Context(), engine.Request{})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		s2, s3 := more(), more()
		ctx, cancel := context.WithCancel(t.Context())
		first, second := make(chan outcome, 1), make(chan outcome, 1)
		go func() { first <- turn(ctx, s1, script("silence")) }()
		synctest.Wait()
		go func() { second <- turn(t.Context(), s2, agenttest.Say("waited")) }()
		synctest.Wait()
		o := turn(t.Context(), s3, agenttest.Say("no room"))
		if bridge.CodeOf(o.err) != bridge.CodeBusy || bridge.AsError(o.err).RetryAfter == 0 {
			t.Errorf("the third turn ended with %v", o.err)
		}
		cancel()
		if o := <-first; bridge.CodeOf(o.err) != bridge.CodeCanceled {
			t.Errorf("the cancelled turn ended with %v", o.err)
		} else if end, ok := o.events[len(o.events)-1].(bridge.TurnEnded); !ok || end.Reason != bridge.EndAborted {
			t.Errorf("its last event is %#v", o.events[len(o.events)-1])
		}
		if o := <-second; o.err != nil {
			t.Errorf("the waiting turn ended with %v", o.err)
		}
	})
}

func TestBudget(t *testing.T) {
	for name, b := range map[string]engine.Budget{"calls": {ModelCalls: 1}, "tokens": {Tokens: 20}} {
		t.Run(name, func(t *testing.T) {
			e, s := open(t, engine.Options{}, engine.Request{Budget: b, Door: "test"})
			o := turn(t.Context(), s, script("usage 8 4", `tool sleep {"for":"1ms"}`, "next", "usage 8 4", "text never"))
			if bridge.CodeOf(o.err) != bridge.CodeBudget {
				t.Errorf("ended with %v", o.err)
			}
			rows := e.Usage()
			if len(rows) != 1 || rows[0].Door != "test" || rows[0].Usage.Calls != 2 || rows[0].Usage.InputTokens != 16 {
				t.Errorf("usage %+v", rows)
			}
		})
	}
}

func TestSessionsAreKept(t *testing.T) {
	store := sessionstore.Open(filepath.Join(t.TempDir(), "sessions"))
	agent := agenttest.NewScripted()
	e := engine.New(engine.Options{Agent: agent, Store: store, ProjectContext: "use tabs"})
	dir := t.TempDir()
	task := engine.Task{Request: engine.Request{Keep: true, Spec: bridge.SessionSpec{WorkingDir: dir, Model: "m", Gate: agenttest.AllowAll()}}}
	file := filepath.Join(dir, "a.txt")
	task.Prompt = script("usage 5 2", agenttest.Tool("create", map[string]any{"path": file, "file_text": "x"}), "next", "text made it")
	res, err := e.RunTask(t.Context(), task, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.Text != "made it" || len(res.Files) != 1 || res.Files[0] != file || len(res.Tools) != 1 || !res.Tools[0].OK || res.Reason != bridge.EndDone {
		t.Errorf("result %+v", res)
	}
	list, err := e.Sessions(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatalf("list %+v, %v", list, err)
	}
	got := list[0]
	if got.ID != res.Session || got.Turns != 1 || got.InputTokens != 5 || got.State != sessionstore.StateClosed || got.WorkingDirectory != dir ||
		got.Model != "m" || !strings.HasPrefix(got.Title, "rehearsal: usage") {
		t.Errorf("entry %+v", got)
	}
	// Another process resumes it, by a shortened id.
	other := engine.New(engine.Options{Agent: agent, Store: store})
	res, err = other.RunTask(t.Context(), engine.Task{Resume: res.Session[:10], Prompt: agenttest.Say("more")}, nil)
	if err != nil || res.Text != "more" {
		t.Fatalf("%+v, %v", res, err)
	}
	if got, err := store.Get(t.Context(), res.Session); err != nil || got.Turns != 2 {
		t.Errorf("entry %+v, %v", got, err)
	}
	if err := other.Delete(t.Context(), res.Session); err != nil {
		t.Fatal(err)
	}
	if _, err := other.RunTask(t.Context(), engine.Task{Resume: res.Session}, nil); bridge.CodeOf(err) != bridge.CodeNotFound {
		t.Errorf("after delete: %v", err)
	}
	if err := errors.Join(other.Close(context.Background()), e.Close(context.Background())); err != nil {
		t.Error(err)
	}
}

func TestProjectContextIsTold(t *testing.T) {
	spy := &specSpy{Scripted: agenttest.NewScripted()}
	open(t, engine.Options{Agent: spy, ProjectContext: "use tabs"}, engine.Request{Spec: bridge.SessionSpec{System: bridge.SystemText{Text: "be kind"}}})
	if got := spy.spec.System.Text; !strings.Contains(got, "be kind") || !strings.Contains(got, "use tabs") {
		t.Errorf("system text %q", got)
	}
}

type specSpy struct {
	*agenttest.Scripted
	spec bridge.SessionSpec
}

func (s *specSpy) Open(ctx context.Context, spec bridge.SessionSpec) (bridge.Session, error) {
	s.spec = spec
	return s.Scripted.Open(ctx, spec)
}

func TestUnsupported(t *testing.T) {
	e, _ := open(t, engine.Options{}, engine.Request{})
	_, modelsErr := e.Models(t.Context())
	_, statusErr := e.Status(t.Context())
	_, resumeErr := e.Resume(t.Context(), "x", engine.Request{})
	for what, err := range map[string]error{"models": modelsErr, "status": statusErr, "resume": resumeErr, "delete": e.Delete(t.Context(), "x")} {
		if bridge.CodeOf(err) != bridge.CodeUnsupported {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestModelIsKept(t *testing.T) {
	store := sessionstore.Open(filepath.Join(t.TempDir(), "sessions"))
	_, s := open(t, engine.Options{Store: store}, engine.Request{Keep: true})
	if err := s.SetModel(t.Context(), "other", "low"); err != nil {
		t.Fatal(err)
	}
	if o := turn(t.Context(), s, bridge.Prompt{Text: "rehearsal: text hi"}); o.err != nil {
		t.Fatal(o.err)
	}
	list, err := store.List(t.Context())
	if err != nil || len(list) != 1 || list[0].Model != "other" || s.Opened().Model != "other" {
		t.Errorf("%+v, %v", list, err)
	}
	// An agent without commands has none.
	if c, err := s.Commands(t.Context()); err != nil || len(c) != 0 {
		t.Errorf("commands %v, %v", c, err)
	}
	if _, err := s.Invoke(t.Context(), "x", ""); bridge.CodeOf(err) != bridge.CodeUnsupported {
		t.Errorf("a command: %v", err)
	}
}

// Trouble does not keep requests away for ever.
func TestTroubleEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		short := &engine.Trouble{Error: &bridge.Error{Code: bridge.CodeUnavailable}, At: time.Now()}
		long := &engine.Trouble{Error: &bridge.Error{Code: bridge.CodeRateLimited, RetryAfter: time.Hour}, At: time.Now()}
		time.Sleep(59 * time.Second) // the bubble's time
		if !short.Fresh() || !long.Fresh() {
			t.Error("it is over too soon")
		}
		time.Sleep(time.Second)
		if short.Fresh() || !long.Fresh() {
			t.Error("after a minute")
		}
	})
}
