package engine_test

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
)

var quiet = slog.New(slog.DiscardHandler)

func scripted(name string) engine.Candidate {
	return engine.Candidate{Name: name, Chosen: true, Make: func(context.Context) (engine.Agent, error) { return named{agenttest.NewScripted(), name}, nil }}
}

type named struct {
	*agenttest.Scripted
	name string
}

func (n named) Name() string { return n.name }

func failing(name string, err error) engine.Candidate {
	return engine.Candidate{Name: name, Make: func(context.Context) (engine.Agent, error) { return nil, err }}
}

// faulty is an agent whose sessions, or whose turns, fail.
type faulty struct {
	named
	open, send error
	after      int // events that come before the failure
}

func (f *faulty) Open(ctx context.Context, spec bridge.SessionSpec) (bridge.Session, error) {
	if f.open != nil {
		return nil, f.open
	}
	s, err := f.named.Open(ctx, spec)
	return &faultySession{s, f}, err
}

type faultySession struct {
	bridge.Session
	agent *faulty
}

func (s *faultySession) Send(ctx context.Context, p bridge.Prompt) iter.Seq2[bridge.Event, error] {
	return func(yield func(bridge.Event, error) bool) {
		n := 0
		for ev, err := range s.Session.Send(ctx, p) {
			if n >= s.agent.after {
				break
			}
			n++
			if !yield(ev, err) {
				return
			}
		}
		yield(nil, s.agent.send)
	}
}

func trouble(name string, open, send error, after int) engine.Candidate {
	return engine.Candidate{Name: name, Make: func(context.Context) (engine.Agent, error) {
		return &faulty{named{agenttest.NewScripted(), name}, open, send, after}, nil
	}}
}

func fault(code bridge.Code) error {
	return &bridge.Error{Code: code, Message: string(code) + " it is", Remedy: "mend it"}
}

// choosing is an engine with a choice of agents.
type choosing struct {
	*engine.Engine
	agents *engine.Agents
}

func among(t *testing.T, candidates ...engine.Candidate) choosing {
	t.Helper()
	agents := engine.NewAgents(quiet, candidates...)
	e := engine.New(engine.Options{Agents: agents})
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return choosing{e, agents}
}

func (c choosing) open(t *testing.T) (*engine.Session, error) {
	return c.Open(t.Context(), engine.Request{})
}

func TestFallingOver(t *testing.T) {
	for name, tc := range map[string]struct {
		first engine.Candidate
		used  string      // who answers in the end
		code  bridge.Code // or why nobody does
	}{
		"cannot be made":                   {failing("sdk", fault(bridge.CodeUnavailable)), "acp", ""},
		"is missing":                       {failing("sdk", fault(bridge.CodeNotFound)), "acp", ""},
		"opens no session":                 {trouble("sdk", fault(bridge.CodeUnavailable), nil, 0), "acp", ""},
		"wants a login":                    {trouble("sdk", fault(bridge.CodeUnauthenticated), nil, 0), "acp", ""},
		"fails before any output":          {trouble("sdk", nil, fault(bridge.CodeUnavailable), 0), "acp", ""},
		"wants a login for the first turn": {trouble("sdk", nil, fault(bridge.CodeUnauthenticated), 0), "acp", ""},
		"fails after output":               {trouble("sdk", nil, fault(bridge.CodeUnavailable), 3), "sdk", bridge.CodeUnavailable},
		"the caller's mistake":             {trouble("sdk", fault(bridge.CodeInvalid), nil, 0), "sdk", bridge.CodeInvalid},
		"the policy says no":               {trouble("sdk", nil, fault(bridge.CodeDenied), 0), "sdk", bridge.CodeDenied},
		"the provider fails":               {trouble("sdk", nil, fault(bridge.CodeProvider), 0), "sdk", bridge.CodeProvider},
		"crashes twice":                    {trouble("sdk", fault(bridge.CodeCrashed), nil, 0), "acp", ""},
		"crashes before the first turn":    {trouble("sdk", nil, fault(bridge.CodeCrashed), 0), "sdk", ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := among(t, tc.first, scripted("acp"))
			s, err := a.open(t)
			var o agenttest.Outcome
			if err == nil {
				o = agenttest.Collect(t.Context(), s, agenttest.Script("chunks a|b|c", "usage 1 1"))
				err = o.Err
			}
			if bridge.CodeOf(err) != tc.code || a.Agent() != tc.used {
				t.Fatalf("%s in use, %v", a.Agent(), err)
			}
			if tc.code == "" && o.Text() != "abc" {
				t.Errorf("answered %q", o.Text())
			}
			tried := a.agents.Tried()
			if fell := tried[0].Failed != nil; fell != (tc.used == "acp") || tried[0].InUse == fell || tried[1].InUse != fell {
				t.Errorf("tried %+v", tried)
			}
		})
	}
	t.Run("one crash may be chance", func(t *testing.T) {
		once := &crashing{named: named{agenttest.NewScripted(), "sdk"}}
		a := among(t, engine.Candidate{Name: "sdk", Make: func(context.Context) (engine.Agent, error) { return once, nil }}, scripted("acp"))
		if _, err := a.open(t); err != nil || a.Agent() != "sdk" {
			t.Errorf("%s, %v", a.Agent(), err)
		}
	})
	t.Run("the turn says so", func(t *testing.T) {
		a := among(t, trouble("sdk", nil, fault(bridge.CodeUnavailable), 0), scripted("acp"))
		s, err := a.open(t)
		if err != nil {
			t.Fatal(err)
		}
		o := agenttest.Collect(t.Context(), s, agenttest.Say("x"))
		if n := agenttest.Find[bridge.Notice](o); len(n) != 1 || !strings.Contains(n[0].Text, "acp") || !strings.Contains(n[0].Text, "unavailable it is") {
			t.Errorf("notices %+v", n)
		}
	})
}

// An agent that has worked is kept, also when it fails later.
func TestTheChoiceStands(t *testing.T) {
	var mu sync.Mutex
	broken := false
	first := &flaky{named: named{agenttest.NewScripted(), "sdk"}, broken: func() bool { mu.Lock(); defer mu.Unlock(); return broken }}
	a := among(t, engine.Candidate{Name: "sdk", Make: func(context.Context) (engine.Agent, error) { return first, nil }}, scripted("acp"))
	s, err := a.open(t)
	if err != nil {
		t.Fatal(err)
	}
	if o := agenttest.Collect(t.Context(), s, agenttest.Say("x")); o.Err != nil {
		t.Fatal(o.Err)
	}
	mu.Lock()
	broken = true
	mu.Unlock()
	if _, err := a.open(t); bridge.CodeOf(err) != bridge.CodeUnavailable || a.Agent() != "sdk" {
		t.Errorf("%s, %v", a.Agent(), err)
	}
}

type flaky struct {
	named
	broken func() bool
}

func (f *flaky) Open(ctx context.Context, spec bridge.SessionSpec) (bridge.Session, error) {
	if f.broken() {
		return nil, fault(bridge.CodeUnavailable)
	}
	return f.named.Open(ctx, spec)
}

func TestNothingWorks(t *testing.T) {
	down := fault(bridge.CodeUnavailable)
	missing := fault(bridge.CodeNotFound)
	_, err := among(t, failing("sdk", down), failing("acp", missing)).open(t)
	if !errors.Is(err, down) {
		t.Errorf("where the others are just not there: %v", err)
	}
	a := among(t, failing("sdk", down), failing("acp", fault(bridge.CodeUnauthenticated)))
	_, err = a.open(t)
	if e := bridge.AsError(err); e.Code != bridge.CodeUnauthenticated || e.Remedy != "mend it" || !strings.Contains(e.Message, "sdk: ") || !strings.Contains(e.Message, "acp: ") {
		t.Errorf("%v", err)
	}
	if tried := a.agents.Tried(); tried[0].Failed == nil || tried[1].Failed == nil {
		t.Errorf("the reasons are gone: %+v", tried)
	}
}

// crashing is an agent that crashes when its first session is opened.
type crashing struct {
	named
	opened atomic.Int32
}

func (c *crashing) Open(ctx context.Context, spec bridge.SessionSpec) (bridge.Session, error) {
	if c.opened.Add(1) == 1 {
		return nil, fault(bridge.CodeCrashed)
	}
	return c.named.Open(ctx, spec)
}

// together is an agent that fails its first two callers at the same time.
type together struct {
	named
	both *sync.WaitGroup
	left *atomic.Int32
}

func (a together) Open(context.Context, bridge.SessionSpec) (bridge.Session, error) {
	if a.left.Add(-1) >= 0 {
		a.both.Done()
		a.both.Wait()
	}
	return nil, fault(bridge.CodeUnavailable)
}

// stale is an agent that keeps its first caller waiting, and fails all.
type stale struct {
	named
	calls   atomic.Int32
	waiting chan struct{} // closed when the first caller waits
	late    chan struct{} // closed when it may fail
}

func (s *stale) Open(context.Context, bridge.SessionSpec) (bridge.Session, error) {
	if s.calls.Add(1) == 1 {
		close(s.waiting)
		<-s.late
	}
	return nil, fault(bridge.CodeUnauthenticated)
}

// An agent that was merely found does not take over: the first one's failure is
// told, and Tried says why the other was left alone. It is used where the first
// one could not be made at all.
func TestFoundAgentDoesNotTakeOver(t *testing.T) {
	found := scripted("acp")
	found.Chosen = false
	for code, first := range map[bridge.Code]engine.Candidate{
		bridge.CodeCrashed:         trouble("sdk", fault(bridge.CodeCrashed), nil, 0),
		bridge.CodeUnavailable:     trouble("sdk", nil, fault(bridge.CodeUnavailable), 0),
		bridge.CodeUnauthenticated: trouble("sdk", nil, fault(bridge.CodeUnauthenticated), 0),
	} {
		a := among(t, first, found)
		for range 3 {
			s, err := a.open(t)
			if err == nil {
				err = agenttest.Collect(t.Context(), s, agenttest.Say("x")).Err
			}
			if bridge.CodeOf(err) != code || a.Agent() != "sdk" {
				t.Errorf("%s: %s in use, %v", code, a.Agent(), err)
			}
		}
		if tried := a.agents.Tried(); tried[1].Failed == nil || tried[1].Failed.Error() != "it promises less, and takes over only if ABP_COPILOT_TRANSPORT is set to auto" {
			t.Errorf("%s: %v", code, tried[1].Failed)
		}
	}
	if a := among(t, failing("sdk", fault(bridge.CodeNotFound)), found); a.agents.Choose(t.Context()) != nil || a.Agent() != "acp" {
		t.Errorf("%s in use", a.Agent())
	}
}

// A call that fails on an agent which was passed over and made anew meanwhile
// is tried on the new one, and does not end it.
func TestLateFailure(t *testing.T) {
	old := &stale{named: named{agenttest.NewScripted(), "only"}, waiting: make(chan struct{}), late: make(chan struct{})}
	made := 0
	a := among(t, engine.Candidate{Name: "only", Make: func(context.Context) (engine.Agent, error) {
		if made++; made == 1 {
			return old, nil
		}
		return named{agenttest.NewScripted(), "only"}, nil
	}})
	var caller sync.WaitGroup
	caller.Go(func() {
		if _, err := a.open(t); err != nil {
			t.Errorf("the caller that failed late: %v", err)
		}
	})
	<-old.waiting
	if _, err := a.open(t); bridge.CodeOf(err) != bridge.CodeUnauthenticated {
		t.Fatalf("error %v", err)
	}
	if _, err := a.open(t); err != nil {
		t.Fatal(err)
	}
	close(old.late)
	caller.Wait()
	if made != 2 {
		t.Errorf("%d agents were made", made)
	}
}

// Two callers fail at once, and nothing else works: both are told so.
func TestTwoFailAtOnce(t *testing.T) {
	for range 50 {
		var both sync.WaitGroup
		both.Add(2)
		var left atomic.Int32
		left.Store(2)
		a := among(t, engine.Candidate{Name: "only", Make: func(context.Context) (engine.Agent, error) {
			return together{named{agenttest.NewScripted(), "only"}, &both, &left}, nil
		}})
		var callers sync.WaitGroup
		for range 2 {
			callers.Go(func() {
				if _, err := a.open(t); bridge.CodeOf(err) != bridge.CodeUnavailable {
					t.Errorf("error %v", err)
				}
			})
		}
		callers.Wait()
	}
}
