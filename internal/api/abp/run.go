package abp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/abp/contract"
)

// closeWithin bounds the end of the session, after the receipt.
const closeWithin = 10 * time.Second

// run is one work order being done, on one goroutine.
type run struct {
	door  *door
	ref   string
	runID contract.UUID
	work  *contract.WorkOrder
	plan  *plan

	session Session
	started time.Time
	last    time.Time // the time of the last event
	trace   []contract.Event
	sizes   []int // of the trace's events, as lines

	artifacts []contract.Artifact
	outcome   contract.Outcome
	summary   string // of the end

	usage   bridge.Usage
	spent   float64        // US dollars, where a budget is watched
	counted []bridge.Usage // one a request to the model
	turns   uint32
	pending map[string]bool // calls of the last message that are not finished

	calls map[string]*call
	whole wholeOutputs
	early chan verified // what git said after the last message, see verifyEarly
	raw   *bridge.Other // the runtime's own event that is not yet passed on
}

// do does a work order and writes its end, whatever happens.
func (d *door) do(ctx context.Context, e *contract.Run) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = d.panicked(p, &e.ID)
		}
	}()
	if d.about.Broken != nil {
		return d.refuse(e.ID, codeOf(d.about.Broken), d.about.Broken)
	}
	if lack := unmet(d.manifest, e.WorkOrder.Requirements.Required); lack != "" {
		return d.fatal(&e.ID, contract.CodeCapability, "a requirement is not met: "+lack, "")
	}
	p, err := newPlan(&e.WorkOrder, d.opts.Dir)
	var place *workspaceError
	switch {
	case errors.As(err, &place):
		return d.refuse(e.ID, contract.CodeWorkspaceError, err)
	case err != nil:
		return d.refuse(e.ID, codeOf(err), err)
	}
	r := &run{door: d, ref: e.ID, work: &e.WorkOrder, plan: p, calls: map[string]*call{}, outcome: contract.Complete}
	if r.runID, err = contract.ParseUUID(e.ID); err != nil {
		r.runID = contract.NameUUID(e.ID) // the receipt needs one
	}
	r.started = d.opts.Now().Truncate(time.Millisecond)
	p.order.RunID, p.order.Whole = string(r.runID), r.whole.add
	s, err := d.service.Open(ctx, p.order)
	if err != nil {
		return d.refuse(e.ID, openCode(err), err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
		defer cancel()
		if cerr := s.Close(ctx); cerr != nil {
			d.opts.Logger.Warn("closing the session", "error", cerr)
		}
	}()
	defer r.forgetEarly()
	return r.follow(ctx, s)
}

// openCode tells a policy that makes no sense from other trouble.
func openCode(err error) contract.ErrorCode {
	if strings.Contains(err.Error(), "ABP work order: ") {
		return contract.CodePolicyInvalid
	}
	return codeOf(err)
}

func (d *door) refuse(ref string, code contract.ErrorCode, err error) error {
	e := bridge.AsError(err)
	return d.fatal(&ref, code, err.Error(), e.Remedy)
}

// follow runs the turn and turns its events into ABP's.
func (r *run) follow(ctx context.Context, s Session) error {
	prompt := r.plan.prompt(s, r.work)
	message := "Copilot begins"
	if r.plan.order.Resume != "" {
		message = "Copilot goes on with session " + s.ID()
		if r.plan.order.Fork {
			message += ", a copy of " + r.plan.order.Resume
		}
	}
	r.session = s
	r.emit(contract.Event{Kind: contract.RunStarted, Message: message, Ext: contract.Object{{Key: "session_id", Value: s.ID()}}})
	r.warnings()
	if r.plan.maxTurns != nil && *r.plan.maxTurns == 0 {
		r.stop("max_turns is 0, so nothing was asked")
		return r.finish(ctx)
	}
	if r.plan.maxCost != nil && *r.plan.maxCost == 0 {
		r.stop("max_budget_usd is 0, so nothing was asked")
		return r.finish(ctx)
	}
	over := false
	for ev, err := range s.Send(ctx, prompt) {
		if err != nil {
			break // Failed and TurnEnded came before it
		}
		if e, ok := ev.(bridge.TurnEnded); ok {
			over = true
			if e.Reason == bridge.EndPartial && r.outcome == contract.Complete {
				r.outcome, r.summary = contract.Partial, "not everything was done; see the messages"
			}
			// The receipt does not wait for the engine to finish.
			if err := r.finish(ctx); err != nil {
				return err
			}
			continue
		}
		r.take(ev)
		r.verifyEarly(ctx, ev)
		if why := r.exhausted(ev); why != "" {
			r.stop(why)
			break // which aborts the turn
		}
		if err := r.door.out.failure(); err != nil {
			return err
		}
	}
	if over {
		return nil
	}
	return r.finish(ctx)
}

func (r *run) warnings() {
	about := r.door.about
	for _, w := range slices.Concat(about.Warnings, []string{about.Notice}, r.plan.warnings) {
		if w != "" {
			r.warn(w)
		}
	}
}

func (r *run) warn(text string) {
	r.emit(contract.Event{Kind: contract.Warning, Message: r.door.service.Clean(text)})
}

// stop says that a limit of the order ends the run.
func (r *run) stop(why string) {
	r.outcome, r.summary = contract.Partial, why
	r.warn("stopped: " + why)
}

// exhausted says which limit of the order is used up, if one is.
func (r *run) exhausted(ev bridge.Event) string {
	if most := r.plan.maxTurns; most != nil && r.turns >= *most {
		// Tools of the last turn may still run; but the model is not asked again.
		_, asked := ev.(bridge.ModelCalled)
		_, finished := ev.(bridge.ToolFinished)
		if asked || finished && len(r.pending) == 0 {
			return fmt.Sprintf("max_turns (%d) is used up", *most)
		}
	}
	if e, ok := ev.(bridge.UsageReported); ok && r.plan.maxCost != nil {
		return r.overBudget(*r.plan.maxCost, e)
	}
	return ""
}

// overBudget says that the budget is spent, or that another request to the model
// would pass it: that one costs at least what this one did, since the
// conversation only grows. The tool calls of this answer are then not run, because
// no request would carry their results.
func (r *run) overBudget(most float64, e bridge.UsageReported) string {
	cost := r.cost()
	if cost == nil {
		return ""
	}
	last := *cost - r.spent
	r.spent = *cost
	switch {
	case *cost > most:
		return fmt.Sprintf("max_budget_usd (%v) is used up: about %.6f USD", most, *cost)
	case e.Finish == "tool_calls" && *cost+last > most:
		return fmt.Sprintf("max_budget_usd (%v) does not allow another request to the model: about %.6f USD are spent, %.6f of them by the last one", most, *cost, last)
	}
	return ""
}

// cost is what the run has cost in US dollars, if that is known.
func (r *run) cost() *float64 {
	if r.usage.Credits > 0 {
		return new(r.usage.Credits * usdPerCredit)
	}
	p := r.plan.price
	if p == nil || len(r.counted) == 0 {
		return nil
	}
	fresh := max(r.usage.InputTokens-r.usage.CacheRead, 0)
	return new((float64(fresh)*p.Input + float64(r.usage.CacheRead)*p.Cached + float64(r.usage.OutputTokens)*p.Output) / 1e6)
}

// emit stamps an event, keeps it and sends it. No two events have the same
// millisecond, so that sorting by time keeps their order.
func (r *run) emit(e contract.Event) {
	now := r.door.opts.Now().Truncate(time.Millisecond)
	if !now.After(r.last) {
		now = r.last.Add(time.Millisecond)
	}
	r.last = now
	e.At = contract.At(now)
	e.Message, e.Text = clip(valid(e.Message), maxEvent), clip(valid(e.Text), maxEvent)
	e.Input, e.Output = bounded(e.Input), bounded(e.Output)
	for i, m := range e.Ext {
		e.Ext[i].Value = bounded(m.Value)
	}
	r.trace = append(r.trace, e)
	size, _ := r.door.out.write(&contract.Happened{RefID: r.ref, Event: e}, false) // a failure is seen by follow
	r.sizes = append(r.sizes, size)
}

// maxEvent bounds each part of an event, so that it fits into a line when escaped.
const maxEvent = 2 << 20

// bounded is a value, or a note in its place if it is too long.
func bounded(v any) any {
	switch v := v.(type) {
	case nil, bool:
		return v
	case string:
		if len(v) <= maxEvent {
			return v
		}
	}
	if n := len(contract.AppendValue(nil, v)); n > maxEvent {
		return contract.Object{{Key: "bytes", Value: uint64(n)}, {Key: "left_out", Value: "it is too long for an event"}}
	}
	return v
}

// finish writes the receipt.
func (r *run) finish(ctx context.Context) error {
	r.flushRaw()
	if cause := context.Cause(ctx); cause != nil && r.outcome == contract.Complete {
		r.stop(cause.Error())
	}
	if r.plan.maxCost != nil && len(r.counted) > 0 && r.cost() == nil {
		r.warn("max_budget_usd could not be held: the provider does not say what it charges (set config.vendor.copilot.price)")
	}
	v := r.verified(ctx)
	if !v.ok {
		r.warn("git could not say what has changed")
	}
	if r.summary == "" {
		r.summary = "Copilot is done"
	}
	r.emit(contract.Event{Kind: contract.RunCompleted, Message: r.summary})
	finished := r.door.opts.Now().Truncate(time.Millisecond)
	if finished.Before(r.last) {
		finished = r.last
	}
	receipt := contract.Receipt{
		Meta: contract.Meta{RunID: r.runID, WorkOrderID: r.work.ID, ContractVersion: contract.Version, StartedAt: contract.At(r.started),
			FinishedAt: contract.At(finished), DurationMS: uint64(max(finished.Sub(r.started).Milliseconds(), 0))},
		Backend: r.door.backend(), Capabilities: r.door.manifest, Mode: r.plan.mode, UsageRaw: r.usageRaw(), Usage: r.normalized(),
		Outcome: r.outcome,
	}
	receipt.Verification = r.verification(v)
	receipt.Artifacts, receipt.Trace = r.artifacts, fitting(r.trace, r.sizes)
	receipt.Seal()
	if err := r.door.out.end(&contract.Final{RefID: r.ref, Receipt: receipt}); err != nil {
		return err
	}
	return r.result()
}

// result is the run's outcome as an error for the caller of Serve.
func (r *run) result() error {
	if r.outcome == contract.Complete {
		return nil
	}
	code := bridge.CodeInternal
	if r.outcome == contract.Partial {
		code = bridge.CodeBudget
	}
	return &bridge.Error{Code: code, Message: r.summary}
}

func (r *run) normalized() contract.Usage {
	u := contract.Usage{EstimatedCostUSD: r.cost()}
	if len(r.counted) == 0 {
		return u
	}
	count := func(n int64) *uint64 { return new(uint64(max(n, 0))) }
	u.InputTokens, u.OutputTokens = count(r.usage.InputTokens), count(r.usage.OutputTokens)
	u.CacheReadTokens, u.CacheWriteTokens = count(r.usage.CacheRead), count(r.usage.CacheWrite)
	if r.usage.Premium > 0 {
		u.RequestUnits = new(uint64(math.Ceil(r.usage.Premium)))
	}
	return u
}

// usageRaw is what the runtime has reported, request by request.
func (r *run) usageRaw() any {
	requests := make([]any, len(r.counted))
	for i, u := range r.counted {
		requests[i] = contract.FromGo(u)
	}
	return contract.Object{{Key: "requests", Value: requests}, {Key: "total", Value: contract.FromGo(r.usage)},
		{Key: "answered_by", Value: contract.FromGo(r.session.Opened().Answers)}}
}

// maxTrace leaves room in a line for everything else.
const maxTrace = contract.MaxLine - 3<<20

// fitting drops events until the trace fits into a line: first pieces of messages,
// then the oldest events after the first.
func fitting(trace []contract.Event, sizes []int) []contract.Event {
	total := 0
	for _, n := range sizes {
		total += n
	}
	if total <= maxTrace {
		return trace
	}
	for _, dropped := range []func(contract.Kind) bool{
		func(k contract.Kind) bool { return k == contract.AssistantDelta },
		func(contract.Kind) bool { return true },
	} {
		var keep []contract.Event
		var kept []int
		for i, e := range trace {
			if 0 < i && i < len(trace)-1 && total > maxTrace && dropped(e.Kind) {
				total -= sizes[i]
				continue
			}
			keep, kept = append(keep, e), append(kept, sizes[i])
		}
		trace, sizes = keep, kept
	}
	return trace
}

// codes are ABP's codes for the domain's; those of all others are CodeInternal.
var codes = map[bridge.Code]contract.ErrorCode{
	bridge.CodeInvalid:         contract.CodeValidation,
	bridge.CodeConflict:        contract.CodeValidation,
	bridge.CodeUnsupported:     contract.CodeValidation,
	bridge.CodeNotFound:        contract.CodeModelNotFound,
	bridge.CodeUnauthenticated: contract.CodeBackendAuthFailed,
	bridge.CodeDenied:          contract.CodePermissionDenied,
	bridge.CodeConsent:         contract.CodePermissionDenied,
	bridge.CodeUnavailable:     contract.CodeBackendUnavailable,
	bridge.CodeBusy:            contract.CodeBackendUnavailable,
	bridge.CodeProvider:        contract.CodeBackendUnavailable,
	bridge.CodeCrashed:         contract.CodeBackendCrashed,
	bridge.CodeTimeout:         contract.CodeBackendTimeout,
	bridge.CodeRateLimited:     contract.CodeBackendRateLimited,
	bridge.CodeQuota:           contract.CodeBackendRateLimited,
}

func codeOf(err error) contract.ErrorCode {
	return cmp.Or(codes[bridge.CodeOf(err)], contract.CodeInternal)
}

// words is an error as a host shows it.
func words(err error) string {
	e := bridge.AsError(err)
	text := err.Error()
	if !strings.Contains(text, e.Message) {
		text = e.Error() // a cause that was not written for people
	}
	if e.Remedy != "" {
		text += " (" + e.Remedy + ")"
	}
	return text
}
