package app

import (
	"context"
	"crypto/rand"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
)

// workers is an engine whose turns are done by workers of the fleet, for models
// named agent/MODEL@WORKER. The worker applies its own time-outs and stores the
// session and its usage.
func (b *Bridge) workers(g Guarding) *engine.Engine {
	c := b.opts.Config
	return engine.New(engine.Options{Agent: &fleetAgent{bridge: b, Guarding: g}, Tracer: b.tracer, Logger: b.opts.Logger, Notice: b.Answers.Notice,
		Limits: engine.Limits{IdleTimeout: maxFleetTurn, TotalTimeout: c.Engine.TotalTimeout}})
}

// maxFleetTurn bounds a turn that may have to wait for a worker to be free.
const maxFleetTurn = 24 * time.Hour

// fleetAgent implements engine.Agent.
type fleetAgent struct {
	Guarding
	bridge *Bridge
}

// Name implements engine.Agent.
func (*fleetAgent) Name() string { return "fleet" }

// Open implements engine.Agent. The spec's model is MODEL@WORKER.
func (a *fleetAgent) Open(_ context.Context, spec bridge.SessionSpec) (bridge.Session, error) {
	i := strings.LastIndex(spec.Model, "@")
	labels, err := fleet.ParseWorker(spec.Model[i+1:])
	if err != nil {
		return nil, err
	}
	if _, err := FleetMember(a.bridge.opts.Config, fleet.RoleCoordinator); err != nil {
		return nil, err
	}
	w := a.bridge.fleetWork(labels)
	w.model, w.effort = spec.Model[:max(i, 0)], spec.ReasoningEffort
	return &fleetSession{agent: a, fleetWork: w, id: "fleet-" + rand.Text(), system: spec.System.Text}, nil
}

// Resume implements engine.Agent.
func (*fleetAgent) Resume(context.Context, string, bridge.SessionSpec) (bridge.Session, error) {
	return nil, fleetCannot("resume a session")
}

// Close implements engine.Agent.
func (*fleetAgent) Close(context.Context) error { return nil }

func fleetCannot(what string) error {
	return &bridge.Error{Code: bridge.CodeUnsupported, Message: "a worker of the fleet cannot " + what, Remedy: "use the model without @ and what follows"}
}

// fleetSession is a session for one turn.
type fleetSession struct {
	fleetWork
	agent  *fleetAgent
	id     string
	system string

	mu   sync.Mutex
	stop context.CancelCauseFunc // ends the turn; nil without one
}

// ID implements bridge.Session.
func (s *fleetSession) ID() string { return s.id }

// Send implements bridge.Session.
func (s *fleetSession) Send(ctx context.Context, p bridge.Prompt) iter.Seq2[bridge.Event, error] {
	return func(yield func(bridge.Event, error) bool) {
		if len(p.Attachments) > 0 || p.ResponseFormat != nil {
			yield(nil, fleetCannot("take attachments, nor a format for its answer"))
			return
		}
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		s.mu.Lock()
		s.stop = cancel
		s.mu.Unlock()
		lines, ended := make(chan string), make(chan struct{})
		var r engine.Result
		var err error
		go func() {
			defer close(ended)
			r, err = s.agent.bridge.doOnWorker(ctx, single{Guarding: s.agent.Guarding, fleetWork: s.fleetWork, prompt: strings.TrimSpace(s.system + "\n\n" + p.Text),
				watch: func(line string) {
					select {
					case lines <- line:
					case <-ctx.Done():
					}
				}})
		}()
		for going := true; going; {
			select {
			case line := <-lines:
				if !yield(bridge.ReasoningDelta{Text: line + "\n"}, nil) {
					cancel(&bridge.Error{Code: bridge.CodeCanceled, Message: "the reader has left"})
					<-ended // it ends soon after its context
					return
				}
			case <-ended:
				going = false
			}
		}
		if err != nil {
			yield(nil, elsewhere(err))
			return
		}
		for _, ev := range []bridge.Event{bridge.Notice{Level: "note", Text: r.Notice}, bridge.MessageDone{Message: s.id, Text: r.Text},
			bridge.UsageReported{Usage: r.Usage}, bridge.TurnEnded{Reason: r.Reason, Usage: r.Usage, Duration: r.Duration}} {
			if !yield(ev, nil) {
				return
			}
		}
	}
}

// elsewhere marks an outage of the fleet or of a worker, so that the error does not
// blame the Copilot of this machine.
func elsewhere(err error) error {
	if !bridge.Outage(bridge.AsError(err)) {
		return err
	}
	e := *bridge.AsError(err)
	e.Elsewhere = true
	return &e
}

// Resolve implements bridge.Session.
func (*fleetSession) Resolve(context.Context, string, bridge.ToolResult) error {
	return fleetCannot("call your tools")
}

// Abort implements bridge.Session.
func (s *fleetSession) Abort(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop != nil {
		s.stop(&bridge.Error{Code: bridge.CodeCanceled, Message: "the turn was aborted"})
	}
	return nil
}

// SetModel implements bridge.Session.
func (*fleetSession) SetModel(context.Context, string, string) error {
	return fleetCannot("change the model of a session")
}

// History implements bridge.Session.
func (*fleetSession) History(context.Context) ([]bridge.Event, error) { return nil, nil }

// Close implements bridge.Session.
func (s *fleetSession) Close(ctx context.Context) error { return s.Abort(ctx) }
