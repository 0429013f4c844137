package app

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/audit"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/timeline"
)

const (
	// resumedIdle is how long a session that was resumed for the dashboard stays open
	// after its last turn. Then other processes can have it.
	resumedIdle = 2 * time.Minute
	resumedPoll = time.Second
)

// resumed continues stored sessions for the dashboard. The person is there: what the
// policy asks about is asked in the dashboard. Its methods may be called concurrently.
type resumed struct {
	bridge *Bridge

	mu   sync.Mutex
	open map[string]bool // sessions that are resumed now
}

// resumable are the doors whose sessions this process can give their rules. Those of a
// work order, and of the tasks of a run, cannot be known any more.
var resumable = []string{"cli", "acp", "mcp"}

// CanResume implements dashboard.Resumer.
func (r *resumed) CanResume(s timeline.Summary) bool {
	if r.bridge.observer == nil || s.Profile != bridge.ProfileAgent || s.Run != "" || !slices.Contains(resumable, s.Door) {
		return false
	}
	entry, err := Store(r.bridge.opts.Config).Get(context.Background(), s.ID)
	return err == nil && entry.ID == s.ID
}

// Resume implements dashboard.Resumer.
func (r *resumed) Resume(ctx context.Context, s timeline.Summary, text string) (err error) {
	if !r.take(s.ID) {
		return &bridge.Error{Code: bridge.CodeConflict, Message: "session " + s.ID + " is being resumed", Remedy: "Send it a message."}
	}
	defer func() {
		if err != nil {
			r.release(s.ID)
		}
	}()
	b := r.bridge
	entry, err := Store(b.opts.Config).Get(ctx, s.ID)
	if err != nil {
		return err
	}
	d := policy.DefaultsServe()
	d.ReadOnlyAsks = true
	if s.Door == "cli" {
		d = policy.DefaultsRun()
	}
	g := Guarding{Workspace: entry.WorkingDirectory, Door: s.Door, Client: s.Client, Asker: approval.Nobody{}, Defaults: d}
	gate, err := b.Gate(g)
	if err != nil {
		return err
	}
	spec := b.Spec(bridge.ProfileAgent, entry.WorkingDirectory)
	if entry.Model != "" {
		spec.Model = entry.Model // a session keeps its model
	}
	spec.Gate, spec.Person = gate, b.Person(g, gate, nil)
	session, err := b.Engine.Resume(ctx, s.ID, engine.Request{Spec: spec, Door: s.Door, Client: s.Client, Keep: true})
	if err != nil {
		return err
	}
	b.observer.turn(session, bridge.Prompt{Text: text, By: "dashboard"})
	b.observer.turns.Go(func() {
		defer r.release(s.ID)
		r.attend(session)
	})
	return nil
}

func (r *resumed) take(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open[id] {
		return false
	}
	r.open[id] = true
	return true
}

func (r *resumed) release(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, id)
}

// attend closes a session once no turn has run in it for a while. When the process ends
// the engine closes it.
func (r *resumed) attend(s *engine.Session) {
	ctx, tick := r.bridge.observer.ctx, time.NewTicker(resumedPoll)
	defer tick.Stop()
	for busy := time.Now(); time.Since(busy) < resumedIdle; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if s.Busy() {
			busy = time.Now()
		}
	}
	if err := s.Close(ctx); err != nil {
		r.bridge.opts.Logger.Warn("session.not_closed", "session", s.ID(), "error", err)
	}
}

// linkRefused records that somebody used a link to a question that must not be used
// any more: it may have been stolen.
func (b *Bridge) linkRefused(ctx context.Context, question, why string) {
	_, log, err := b.guard.shared(b.opts.Config, b.opts.UserDir)
	if err == nil {
		err = log.Append(context.WithoutCancel(ctx), audit.Entry{Hook: audit.HookApproval, Door: "dashboard", Caller: bridge.CallerOf(ctx).Name, Request: bridge.CallerOf(ctx).Request,
			Input: map[string]string{"question": question}, Decision: "deny", Reason: "a link to answer with was refused: " + why})
	}
	if err != nil {
		b.opts.Logger.Error("dashboard.link_not_recorded", "error", err)
	}
}
