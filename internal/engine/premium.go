package engine

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/usagelog"
)

// charge is a request to the model for which GitHub counts premium requests,
// until the agent has reported what it has used. The agent reports nothing of a
// request that was broken off, but GitHub counts it.
type charge struct {
	model    string
	open     bool
	answered bool // a part of the answer has come
}

// see follows the request through the events of a turn. It returns the model if
// the request has failed and counts all the same.
func (c *charge) see(ev bridge.Event) (model string, counts bool) {
	switch e := ev.(type) {
	case bridge.ModelCalled:
		if e.Premium {
			*c = charge{model: e.Model, open: true}
		}
	case bridge.TextDelta, bridge.ReasoningDelta:
		c.answered = true
	case bridge.UsageReported:
		if e.Call == nil || e.Call.Initiator != "sub-agent" {
			c.open = false
		}
	case bridge.ModelFailed:
		if c.open {
			c.open = false
			return c.model, c.answered && e.Error.Status < http.StatusBadRequest
		}
	default:
	}
	return "", false
}

// settle counts a request of which nothing will be reported.
func (t *turn) settle(ctx context.Context, model string) {
	t.charge = charge{}
	u := bridge.Usage{Model: model, Premium: t.session.engine.multiplier(ctx, model)}
	t.unreported = t.unreported.Add(u)
	t.count(u)
}

// count adds to what the turn and its API have used.
func (t *turn) count(u bridge.Usage) {
	t.usage = t.usage.Add(u)
	if t.models == nil {
		t.models = map[string]bridge.Usage{}
	}
	t.models[u.Model] = t.models[u.Model].Add(u)
	t.session.engine.usage.add(t.door, u)
}

// recordWithin bounds the wait for other processes that write to the ledger.
const recordWithin = 2 * time.Second

// record writes to the ledger what the turn has used. Chats have no sessions
// that anybody could name.
func (t *turn) record(ctx context.Context) {
	s := t.session
	if s.engine.opts.Ledger == nil || len(t.models) == 0 {
		return
	}
	spec, session := s.spec(), ""
	if spec.Profile == bridge.ProfileAgent {
		session = s.ID()
	}
	var records []usagelog.Record
	for model, u := range t.models {
		records = append(records, usagelog.Record{Session: session, Door: t.door, Model: cmp.Or(model, spec.Model), Requests: u.Calls,
			Premium: u.Premium, Credits: u.Credits, Cost: u.Cost, InputTokens: u.InputTokens, OutputTokens: u.OutputTokens})
	}
	// The turn counts for the model that was asked most.
	slices.SortStableFunc(records, func(a, b usagelog.Record) int { return cmp.Or(b.Requests-a.Requests, cmp.Compare(a.Model, b.Model)) })
	records[0].Turns = 1
	if t.firstWord > 0 {
		records[0].FirstWords, records[0].FirstWordMs = 1, t.firstWord.Milliseconds()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
	defer cancel()
	if err := s.engine.opts.Ledger.Add(ctx, records...); err != nil {
		s.engine.opts.Logger.Warn("usage.not_written", "error", err)
	}
}

// multipliers are how many premium requests a request to a model counts.
type multipliers struct {
	mu sync.Mutex
	of map[string]float64 // by model
}

func (m *multipliers) learn(list []bridge.Model) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil {
		m.of = map[string]float64{}
	}
	for _, l := range list {
		if l.Multiplier != nil {
			m.of[l.ID] = *l.Multiplier
		}
	}
}

func (m *multipliers) get(model string) (n float64, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, ok = m.of[model]
	return n, ok
}

// multiplierWithin bounds the look-up of a multiplier, which happens when a turn
// was broken off: the program may be about to end.
const multiplierWithin = 2 * time.Second

// multiplier is 1 where the list of models does not say.
func (e *Engine) multiplier(ctx context.Context, model string) float64 {
	if n, ok := e.multipliers.get(model); ok {
		return n
	}
	if l, ok := e.agents.made().(ModelLister); ok {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), multiplierWithin)
		defer cancel()
		list, err := l.Models(ctx)
		if err != nil {
			e.opts.Logger.Debug("usage.no_multiplier", "model", model, "error", err)
		}
		e.multipliers.learn(list)
	}
	if n, ok := e.multipliers.get(model); ok {
		return n
	}
	return 1
}
