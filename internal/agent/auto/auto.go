// Package auto is an engine.Agent made of others: the first that works is
// used. It falls over to the next only as long as nothing was said or done:
// once a turn has had any output, the choice stands, and an error is an error.
// Why an agent was passed over is kept for whoever asks; see Tried.
package auto

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// Agent is a way to reach Copilot, as the engine has it.
type Agent interface {
	Name() string
	Open(ctx context.Context, spec bridge.SessionSpec) (bridge.Session, error)
	Resume(ctx context.Context, id string, spec bridge.SessionSpec) (bridge.Session, error)
	Close(ctx context.Context) error
}

// Candidate is an agent that can be made when it is needed.
type Candidate struct {
	Name string
	Make func(ctx context.Context) (Agent, error)
}

// Attempt is what became of a candidate.
type Attempt struct {
	Name   string
	InUse  bool
	Failed error // why it was passed over; nil if it was not
}

// Auto is the agent. Its methods may be called concurrently.
type Auto struct {
	log *slog.Logger

	mu      sync.Mutex // held while an agent is made
	ways    []way
	at      int
	settled bool // a turn has had output
	closed  bool
}

type way struct {
	Candidate
	agent   Agent
	failed  error
	crashes int // in a row: one may be chance
}

// New returns an agent that tries candidates in their order. Nothing is made
// yet.
func New(log *slog.Logger, candidates ...Candidate) *Auto {
	a := &Auto{log: log}
	for _, c := range candidates {
		a.ways = append(a.ways, way{Candidate: c})
	}
	return a
}

// Name is that of the agent in use, or of the first that will be tried.
func (a *Auto) Name() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.ways[min(a.at, len(a.ways)-1)]
	if w.agent != nil {
		return w.agent.Name()
	}
	return w.Name
}

// Tried says what became of each candidate.
func (a *Auto) Tried() []Attempt {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []Attempt
	for i, w := range a.ways {
		out = append(out, Attempt{Name: w.Name, InUse: i == a.at && w.agent != nil, Failed: w.failed})
	}
	return out
}

// Choose makes the first agent that can be made, if there is none yet.
func (a *Auto) Choose(ctx context.Context) error {
	_, _, err := a.current(ctx)
	return err
}

// current returns the agent in use and its place.
func (a *Auto) current(ctx context.Context) (Agent, int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, 0, &bridge.Error{Code: bridge.CodeUnavailable, Message: "the agent is closed"}
	}
	for ; a.at < len(a.ways); a.at++ {
		w := &a.ways[a.at]
		if w.agent != nil {
			return w.agent, a.at, nil
		}
		agent, err := w.Make(ctx)
		if err == nil {
			w.agent, w.failed, w.crashes = agent, nil, 0
			return agent, a.at, nil
		}
		if ctx.Err() != nil {
			return nil, 0, err
		}
		w.failed = err
		a.log.Debug("a transport is passed over", "transport", w.Name, "error", err)
	}
	// What was wrong may be put right: the next caller begins anew.
	err := a.nothingWorks()
	a.at = 0
	return nil, 0, err
}

// nothingWorks words the reasons, or has the first speak for itself where the
// others are merely not there. mu is held.
func (a *Auto) nothingWorks() error {
	out := &bridge.Error{Code: bridge.CodeUnavailable}
	var why []string
	alone := true
	for i, w := range a.ways {
		e := bridge.AsError(w.failed)
		if e == nil {
			continue
		}
		alone = alone && (i == 0 || e.Code == bridge.CodeNotFound)
		why = append(why, w.Name+": "+e.Error())
		if out.Remedy == "" {
			out.Remedy = e.Remedy
		}
		if e.Code == bridge.CodeUnauthenticated {
			out.Code = e.Code
		}
	}
	if alone && a.ways[0].failed != nil {
		return a.ways[0].failed
	}
	out.Message = "no way to Copilot works (" + strings.Join(why, "; ") + ")"
	return out
}

// passOver goes on to the next candidate because of an error of the one at i,
// and says whether there is one to go on to.
func (a *Auto) passOver(ctx context.Context, i int, err error) bool {
	if !another(err) || ctx.Err() != nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.settled || a.closed {
		return false
	}
	if a.at == i {
		w := &a.ways[i]
		if bridge.CodeOf(err) == bridge.CodeCrashed {
			if w.crashes++; w.crashes == 1 {
				return false // whoever asked tries again
			}
		}
		w.failed = err
		a.at++
		if cerr := w.agent.Close(context.WithoutCancel(ctx)); cerr != nil {
			a.log.Warn("ending a transport that failed", "transport", w.Name, "error", cerr)
		}
		w.agent = nil
		a.log.Warn("falling over to another transport", "from", w.Name, "error", err)
	}
	return true
}

// another says whether another way to Copilot may do better.
func another(err error) bool {
	switch bridge.CodeOf(err) {
	case bridge.CodeUnavailable, bridge.CodeCrashed, bridge.CodeUnauthenticated:
		return true
	default:
		return false
	}
}

func (a *Auto) settle(i int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if i == a.at {
		a.settled = true
	}
}

// try calls f with the agent in use, and with the next ones as long as it
// fails for reasons that lie in the agent.
func (a *Auto) try(ctx context.Context, f func(Agent, int) error) error {
	for {
		agent, i, err := a.current(ctx)
		if err != nil {
			return err
		}
		err = f(agent, i)
		if err == nil || !a.passOver(ctx, i, err) {
			return a.withReasons(err)
		}
	}
}

// withReasons adds to what an agent cannot do why a better one is not in use.
func (a *Auto) withReasons(err error) error {
	e := bridge.AsError(err)
	if e == nil || e.Code != bridge.CodeUnsupported {
		return err
	}
	var why []string
	for _, t := range a.Tried() {
		if t.Failed != nil {
			why = append(why, fmt.Sprintf("%s was passed over: %v", t.Name, t.Failed))
		}
	}
	if why == nil {
		return err
	}
	out := *e
	out.Message += " (" + strings.Join(why, "; ") + ")"
	return &out
}

// Open makes a new session.
func (a *Auto) Open(ctx context.Context, spec bridge.SessionSpec) (s bridge.Session, err error) {
	err = a.try(ctx, func(agent Agent, i int) error {
		inner, err := agent.Open(ctx, spec)
		if err == nil {
			s = a.wrap(inner, i, spec)
		}
		return err
	})
	return s, err
}

// Resume goes on with a session of the agent in use. Another agent would not
// know it, so there is no falling over.
func (a *Auto) Resume(ctx context.Context, id string, spec bridge.SessionSpec) (bridge.Session, error) {
	agent, i, err := a.current(ctx)
	if err != nil {
		return nil, err
	}
	s, err := agent.Resume(ctx, id, spec)
	if err == nil {
		a.settle(i)
	}
	return s, a.withReasons(err)
}

// Close closes every agent that was made.
func (a *Auto) Close(ctx context.Context) error {
	a.mu.Lock()
	a.closed = true
	var errs []error
	for i := range a.ways {
		if agent := a.ways[i].agent; agent != nil {
			errs = append(errs, agent.Close(ctx))
		}
	}
	a.mu.Unlock()
	return errors.Join(errs...)
}
