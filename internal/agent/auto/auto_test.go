package auto_test

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/copilot-bridge/copilot-bridge/internal/agent/agenttest"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/auto"
	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.DiscardHandler)

// All optional abilities of agents are passed on.
var _ interface {
	engine.Agent
	engine.Lister
	engine.ModelLister
	engine.Prober
	engine.Warmer
	engine.Rotator
	engine.Widener
	engine.Describer
} = (*auto.Auto)(nil)

func scripted(name string) auto.Candidate {
	return auto.Candidate{Name: name, Make: func(context.Context) (auto.Agent, error) { return named{agenttest.NewScripted(), name}, nil }}
}

type named struct {
	*agenttest.Scripted
	name string
}

func (n named) Name() string { return n.name }

func failing(name string, err error) auto.Candidate {
	return auto.Candidate{Name: name, Make: func(context.Context) (auto.Agent, error) { return nil, err }}
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

func trouble(name string, open, send error, after int) auto.Candidate {
	return auto.Candidate{Name: name, Make: func(context.Context) (auto.Agent, error) {
		return &faulty{named{agenttest.NewScripted(), name}, open, send, after}, nil
	}}
}

func fault(code bridge.Code) error {
	return &bridge.Error{Code: code, Message: string(code) + " it is", Remedy: "mend it"}
}

func TestContract(t *testing.T) {
	for name, first := range map[string][]auto.Candidate{
		"the first works": nil,
		"the first fails": {failing("sdk", fault(bridge.CodeUnavailable))},
	} {
		t.Run(name, func(t *testing.T) {
			agenttest.Run(t, agenttest.Harness{CreateTool: "create", New: func(*testing.T) engine.Agent {
				return auto.New(quiet, append(first, scripted("acp"))...)
			}})
		})
	}
}

func TestFallingOver(t *testing.T) {
	for name, tc := range map[string]struct {
		first auto.Candidate
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
		"one crash may be chance":          {trouble("sdk", fault(bridge.CodeCrashed), nil, 0), "sdk", bridge.CodeCrashed},
	} {
		t.Run(name, func(t *testing.T) {
			a := auto.New(quiet, tc.first, scripted("acp"))
			s, err := a.Open(t.Context(), bridge.SessionSpec{})
			var o agenttest.Outcome
			if err == nil {
				o = agenttest.Collect(t.Context(), s, agenttest.Script("chunks a|b|c", "usage 1 1"))
				err = o.Err
			}
			if bridge.CodeOf(err) != tc.code || a.Name() != tc.used {
				t.Fatalf("%s in use, %v", a.Name(), err)
			}
			if tc.code == "" && o.Text() != "abc" {
				t.Errorf("answered %q", o.Text())
			}
			tried := a.Tried()
			if fell := tried[0].Failed != nil; fell != (tc.used == "acp") || tried[0].InUse == fell || tried[1].InUse != fell {
				t.Errorf("tried %+v", tried)
			}
			if err := a.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("a second crash is not", func(t *testing.T) {
		a := auto.New(quiet, trouble("sdk", fault(bridge.CodeCrashed), nil, 0), scripted("acp"))
		if _, err := a.Open(t.Context(), bridge.SessionSpec{}); bridge.CodeOf(err) != bridge.CodeCrashed {
			t.Fatal(err)
		}
		if _, err := a.Open(t.Context(), bridge.SessionSpec{}); err != nil || a.Name() != "acp" {
			t.Errorf("%s, %v", a.Name(), err)
		}
	})
	t.Run("the turn says so", func(t *testing.T) {
		a := auto.New(quiet, trouble("sdk", nil, fault(bridge.CodeUnavailable), 0), scripted("acp"))
		s, err := a.Open(t.Context(), bridge.SessionSpec{})
		if err != nil {
			t.Fatal(err)
		}
		o := agenttest.Collect(t.Context(), s, agenttest.Say("x"))
		if n := agenttest.Find[bridge.Notice](o); len(n) != 1 || !strings.Contains(n[0].Text, "acp") || !strings.Contains(n[0].Text, "unavailable it is") {
			t.Errorf("notices %+v", n)
		}
	})
}

// What has worked once is not left any more.
func TestTheChoiceStands(t *testing.T) {
	var mu sync.Mutex
	broken := false
	first := &flaky{named: named{agenttest.NewScripted(), "sdk"}, broken: func() bool { mu.Lock(); defer mu.Unlock(); return broken }}
	a := auto.New(quiet, auto.Candidate{Name: "sdk", Make: func(context.Context) (auto.Agent, error) { return first, nil }}, scripted("acp"))
	s, err := a.Open(t.Context(), bridge.SessionSpec{})
	if err != nil {
		t.Fatal(err)
	}
	if o := agenttest.Collect(t.Context(), s, agenttest.Say("x")); o.Err != nil {
		t.Fatal(o.Err)
	}
	mu.Lock()
	broken = true
	mu.Unlock()
	if _, err := a.Open(t.Context(), bridge.SessionSpec{}); bridge.CodeOf(err) != bridge.CodeUnavailable || a.Name() != "sdk" {
		t.Errorf("%s, %v", a.Name(), err)
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
	_, err := auto.New(quiet, failing("sdk", down), failing("acp", missing)).Open(t.Context(), bridge.SessionSpec{})
	if !errors.Is(err, down) {
		t.Errorf("where the others are just not there: %v", err)
	}
	a := auto.New(quiet, failing("sdk", down), failing("acp", fault(bridge.CodeUnauthenticated)))
	_, err = a.Open(t.Context(), bridge.SessionSpec{})
	if e := bridge.AsError(err); e.Code != bridge.CodeUnauthenticated || e.Remedy != "mend it" || !strings.Contains(e.Message, "sdk: ") || !strings.Contains(e.Message, "acp: ") {
		t.Errorf("%v", err)
	}
	if tried := a.Tried(); tried[0].Failed == nil || tried[1].Failed == nil {
		t.Errorf("the reasons are gone: %+v", tried)
	}
}

// A session of an agent without abilities does not pretend to have them.
func TestAbilitiesOfSessions(t *testing.T) {
	plain := trouble("sdk", nil, fault(bridge.CodeProvider), 99) // its sessions have only what every session has
	s, err := auto.New(quiet, plain).Open(t.Context(), bridge.SessionSpec{})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := s.(engine.Resetter); ok {
		t.Error("it claims to forget conversations")
	}
}
