package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// Candidate is an agent that is made when it is needed.
type Candidate struct {
	Name string
	// Chosen: the user knows that this agent may take over from another. One that
	// was merely found promises less than the one before it, and is no way out.
	Chosen bool
	Make   func(ctx context.Context) (Agent, error)
}

// Attempt says how a candidate fared.
type Attempt struct {
	Name   string
	InUse  bool
	Failed error // why it was passed over; nil if it was not
}

// Agents are candidates in order of preference. The first that works is used.
// The engine moves to the next one only until a turn has had output; from then
// on the choice stands. Methods may be called concurrently.
type Agents struct {
	log *slog.Logger

	mu         sync.Mutex // held while an agent is made
	candidates []candidate
	at         int
	settled    bool // a turn has had output, or there is no choice
	closed     bool
	over       string // says that an agent has taken over, and why
}

type candidate struct {
	Candidate
	agent   Agent
	failed  error
	crashes int // in a row; the first may be chance
}

// NewAgents returns the candidates. None is made yet.
func NewAgents(log *slog.Logger, candidates ...Candidate) *Agents {
	a := &Agents{log: log}
	for _, c := range candidates {
		a.candidates = append(a.candidates, candidate{Candidate: c})
	}
	return a
}

// only is an agent that was chosen already.
func only(agent Agent) *Agents {
	return &Agents{candidates: []candidate{{Candidate: Candidate{Name: agent.Name()}, agent: agent}}, settled: true}
}

// name is that of the agent in use, or of the first candidate to be tried.
func (a *Agents) name() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.candidates[min(a.at, len(a.candidates)-1)]
	if c.agent != nil {
		return c.agent.Name()
	}
	return c.Name
}

// Tried says how each candidate fared.
func (a *Agents) Tried() []Attempt {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []Attempt
	for i, c := range a.candidates {
		out = append(out, Attempt{Name: c.Name, InUse: i == a.at && c.agent != nil, Failed: c.failed})
	}
	return out
}

// Choose makes the first agent that can be made, if there is none yet. One
// without an alternative is kept for good.
func (a *Agents) Choose(ctx context.Context) error {
	agent, err := a.current(ctx)
	if err == nil && len(a.candidates) == 1 {
		a.settle(agent)
	}
	return err
}

// current returns the agent in use and makes it if necessary.
func (a *Agents) current(ctx context.Context) (Agent, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, &bridge.Error{Code: bridge.CodeUnavailable, Message: "the agent is closed"}
	}
	for ; a.at < len(a.candidates); a.at++ {
		c := &a.candidates[a.at]
		if c.agent != nil {
			return c.agent, nil
		}
		agent, err := c.Make(ctx)
		if err == nil {
			c.agent, c.failed, c.crashes = agent, nil, 0
			return agent, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
		c.failed = err
		a.log.Debug("agent.passed_over", "agent", c.Name, "error", err)
	}
	// The user may remove the cause: the next caller starts with the first candidate.
	err := a.noneWorks()
	a.at = 0
	return nil, err
}

// noneWorks combines the reasons. If all candidates but the first are merely
// not installed, or fail for its reason, the error is that of the first. mu is
// held.
func (a *Agents) noneWorks() error {
	out := &bridge.Error{Code: bridge.CodeUnavailable}
	var why []string
	alone := true
	for i, c := range a.candidates {
		e := bridge.AsError(c.failed)
		if e == nil {
			continue
		}
		alone = alone && (i == 0 || e.Code == bridge.CodeNotFound)
		told := slices.ContainsFunc(why, func(known string) bool { return strings.HasSuffix(known, ": "+e.Error()) })
		if !told && (i == 0 || e.Code != bridge.CodeNotFound) {
			why = append(why, c.Name+": "+e.Error())
		}
		if out.Remedy == "" {
			out.Remedy = e.Remedy
		}
		if e.Code == bridge.CodeUnauthenticated {
			out.Code = e.Code
		}
	}
	if (alone || len(why) == 1) && a.candidates[0].failed != nil {
		return a.candidates[0].failed
	}
	out.Message = "no way to Copilot works (" + strings.Join(why, "; ") + ")"
	return out
}

// inUse is the candidate whose agent is used, or nil. mu is held.
func (a *Agents) inUse() *candidate {
	if a.at < len(a.candidates) && a.candidates[a.at].agent != nil {
		return &a.candidates[a.at]
	}
	return nil
}

// made returns the agent in use, or nil before one is made.
func (a *Agents) made() Agent {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.inUse(); c != nil {
		return c.agent
	}
	return nil
}

// settle keeps an agent for good, since it works.
func (a *Agents) settle(agent Agent) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.inUse(); c != nil && c.agent == agent {
		a.settled = true
	}
}

// passOver moves to the next candidate if err is a fault of the agent, and
// reports whether the caller should try again.
func (a *Agents) passOver(ctx context.Context, agent Agent, err error) bool {
	switch bridge.CodeOf(err) {
	case bridge.CodeUnavailable, bridge.CodeCrashed, bridge.CodeUnauthenticated:
	default:
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.settled || a.closed || ctx.Err() != nil {
		return false
	}
	// Two calls may fail at once on the same agent. The first of them has passed
	// it over; the second just tries the agent that is in use now.
	c := a.inUse()
	if c == nil || c.agent != agent {
		return true
	}
	if bridge.CodeOf(err) == bridge.CodeCrashed {
		if c.crashes++; c.crashes == 1 {
			return false // the caller tries again
		}
	}
	next := a.makeNext(ctx)
	if next < 0 && bridge.CodeOf(err) != bridge.CodeUnauthenticated {
		return false
	}
	if cerr := c.agent.Close(context.WithoutCancel(ctx)); cerr != nil {
		a.log.Warn("agent.not_ended", "agent", c.Name, "error", cerr)
	}
	c.agent = nil
	if next < 0 {
		a.at = 0 // made anew for the next caller, it finds out whether somebody has logged in
		return false
	}
	c.failed, a.at = err, next
	a.over = fmt.Sprintf("continuing over %s: %v. What it cannot do is in docs/guides/agents.md", a.candidates[next].Name, err)
	a.log.Info("agent.fallback", "from", c.Name, "to", a.candidates[next].Name, "error", err)
	return true
}

// makeNext makes the next agent that may take over, and returns its place; -1 if
// there is none. mu is held.
func (a *Agents) makeNext(ctx context.Context) int {
	for i := a.at + 1; i < len(a.candidates); i++ {
		c := &a.candidates[i]
		if !c.Chosen {
			c.failed = &bridge.Error{Code: bridge.CodeUnsupported, Message: "it promises less, and takes over only if ABP_COPILOT_TRANSPORT is set to auto"}
			continue
		}
		agent, err := c.Make(ctx)
		if c.agent, c.failed, c.crashes = agent, err, 0; err == nil {
			return i
		}
	}
	return -1
}

// try calls f with the agent in use, and with the next ones as long as it
// fails through the agent's fault.
func (a *Agents) try(ctx context.Context, f func(Agent) error) error {
	for {
		agent, err := a.current(ctx)
		if err != nil {
			return err
		}
		err = f(agent)
		if err == nil || !a.passOver(ctx, agent, err) {
			return a.withReasons(err)
		}
	}
}

// withReasons adds to an "unsupported" error why better agents are not in use.
func (a *Agents) withReasons(err error) error {
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

// close closes every agent that was made.
func (a *Agents) close(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	var errs []error
	for _, c := range a.candidates {
		if c.agent != nil {
			errs = append(errs, c.agent.Close(ctx))
		}
	}
	return errors.Join(errs...)
}

// ask asks the agent in use for something that only some agents can do.
func ask[A, R any](ctx context.Context, e *Engine, what string, f func(A) (R, error)) (result R, err error) {
	err = e.agents.try(ctx, func(agent Agent) error {
		able, ok := agent.(A)
		if !ok {
			return unsupported(agent.Name(), what)
		}
		result, err = f(able)
		return err
	})
	return result, err
}

func unsupported(agent, what string) error {
	return &bridge.Error{Code: bridge.CodeUnsupported, Message: "the " + agent + " agent cannot " + what}
}

// fallOver replaces the session of a turn that failed before any output by one
// of the next agent. The events say so; without any the error stands.
func (s *Session) fallOver(ctx context.Context, failure error) []bridge.Event {
	agents := s.engine.agents
	s.mu.Lock()
	failed := s.agent
	s.mu.Unlock()
	if !agents.passOver(ctx, failed, failure) || s.open(ctx, s.spec()) != nil {
		return nil // Tried has the reasons; the caller gets the first failure
	}
	if over := s.tellOver(); over != nil {
		return []bridge.Event{over, s.Opened()}
	}
	return []bridge.Event{s.Opened()}
}

// tellOver is the notice that another agent has taken over, nil if none has or if
// the session has said so.
func (s *Session) tellOver() bridge.Event {
	a := s.engine.agents
	a.mu.Lock()
	over := a.over
	a.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if over == s.toldOver {
		return nil
	}
	s.toldOver = over
	return bridge.Notice{Level: "warning", Text: over}
}

// isOutput reports whether an event is something that must not happen twice.
func isOutput(ev bridge.Event) bool {
	switch ev.(type) {
	case bridge.TextDelta, bridge.ReasoningDelta, bridge.MessageDone, bridge.ToolStarted, bridge.ToolProgress, bridge.ToolFinished,
		bridge.ToolRequested, bridge.PermissionAsked, bridge.InputAsked, bridge.PlanChanged, bridge.UsageReported, bridge.TurnEnded:
		return true
	default:
		return false
	}
}

// works keeps the session's agent for good.
func (s *Session) works() {
	s.mu.Lock()
	agent := s.agent
	s.mu.Unlock()
	s.engine.agents.settle(agent)
}
