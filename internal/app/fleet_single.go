package app

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
)

// readyWorker connects a single task to the fleet. It fails if the workspace is
// read-only, or no matching worker is ready or about to be. The caller closes what
// it returns.
func (b *Bridge) readyWorker(ctx context.Context, g Guarding, w fleetWork, opts *orchestrate.Options) (*FleetRun, error) {
	gate, err := b.Gate(g)
	if err != nil {
		return nil, err
	}
	if gate.ReadOnly() {
		return nil, &bridge.Error{Code: bridge.CodeDenied, Message: "the workspace is read-only here, so what a worker does could not be put into its files",
			Remedy: "start the server with --read-write"}
	}
	f, err := b.useFleet(ctx, g, w, opts)
	if err != nil {
		return nil, err
	}
	lack, err := f.lacksNow(ctx)
	if lack != "" {
		err = &bridge.Error{Code: bridge.CodeUnavailable, Message: lack, Remedy: noWorkerRemedy}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// single is a task that one worker of the fleet does as a whole.
type single struct {
	Guarding
	fleetWork
	prompt string
	watch  func(line string) // hears what happens; may be nil
}

// doOnWorker has a worker do a task, and adds its work to the files of the
// workspace.
func (b *Bridge) doOnWorker(ctx context.Context, s single) (out engine.Result, err error) {
	plan := orchestrate.Single(s.prompt)
	if err := plan.Validate(); err != nil {
		return out, &bridge.Error{Code: bridge.CodeInvalid, Message: "the task cannot be given to a worker: " + err.Error(), Remedy: "make it shorter, or have it done on this machine"}
	}
	has, said := &holder{}, ""
	opts := b.Orchestration(s.Guarding, orchestrate.Options{Task: s.prompt, Plan: &plan, Concurrency: 1, Watch: func(e orchestrate.Event) {
		has.hear(e)
		if line := singleLine(e, has.worker); line != "" && line != said && s.watch != nil {
			said = line
			s.watch(line)
		}
	}})
	f, err := b.readyWorker(ctx, s.Guarding, s.fleetWork, &opts)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	opts.Remote = forOnce{opts.Remote}
	ctx, stop := f.withWorker(ctx, has, lostEvery, lostBound)
	defer stop()
	r, err := b.Orchestrate(ctx, "", opts)
	if err == nil {
		err = singleVerdict(r)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
		b.forgetRun(ctx, r.Run, opts)
	}
	if err != nil {
		return out, err
	}
	t := r.Tasks[0]
	notice := "The work was done by " + t.Worker + ", a worker of the fleet; the session is on that machine."
	return engine.Result{Session: t.Session, Text: t.Summary, Reason: bridge.EndDone, Tools: []engine.ToolUse{}, Files: r.Files, Usage: r.Usage, Duration: r.Duration,
		Notice: strings.TrimSpace(b.Answers.Notice + " " + notice), Answers: f.answers(ctx, t.Worker)}, nil
}

// forOnce marks the run of a single task as ended, so that it cannot be resumed.
type forOnce struct{ orchestrate.Remote }

// End implements orchestrate.Remote.
func (f forOnce) End(ctx context.Context, _ bool) error { return f.Remote.End(ctx, true) }

// forgetBound is how long a run may take to be removed.
const forgetBound = 10 * time.Second

// forgetRun removes the run of a task whose client has left.
func (b *Bridge) forgetRun(ctx context.Context, run string, opts orchestrate.Options) {
	if run == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), forgetBound)
	defer cancel()
	if _, err := orchestrate.Discard(ctx, run, opts); err != nil {
		b.opts.Logger.Warn("fleet.run_not_removed", "run", run, "error", err)
	}
}

// singleLine is the line of progress that the client sees for an event, "" for none.
func singleLine(e orchestrate.Event, worker string) string {
	switch e.Type {
	case orchestrate.TaskProgress:
		if worker != "" && e.Text != "" && !e.Loses(worker) {
			return worker + ": " + e.Text
		}
		return e.Text
	case orchestrate.TaskRetry:
		return "it is tried again: " + e.Error.Error()
	case orchestrate.MergeStarted, orchestrate.Noticed:
		return e.Line()
	default:
		return ""
	}
}

// singleVerdict is why a task that has ended did not succeed.
func singleVerdict(r orchestrate.Result) error {
	if r.Success {
		return nil
	}
	for _, t := range r.Tasks {
		if t.Error != nil {
			e := *t.Error
			if t.Worker != "" {
				e.Message = "on the worker " + t.Worker + ": " + e.Message
			}
			return &e
		}
	}
	for _, c := range r.Conflicts {
		if !c.Resolved {
			return &bridge.Error{Code: bridge.CodeConflict, Message: "the work was done, but " + c.Message, Remedy: "merge that branch, or put the reason right and run `copilot-bridge orchestrate --resume " + r.Run + "`"}
		}
	}
	return &bridge.Error{Code: bridge.CodeInternal, Message: r.Summary, Remedy: "run `copilot-bridge orchestrate --resume " + r.Run + "`"}
}

// answers says who answers on a worker.
func (f *FleetRun) answers(ctx context.Context, worker string) bridge.Answers {
	out := bridge.Answers{Detail: "the worker " + worker}
	s, err := fleet.GetStatus(ctx, f.conn)
	if err != nil {
		return out // the task is done all the same
	}
	for _, w := range s.Workers {
		if w.Hello != nil && (w.Name == worker || w.ID == worker) {
			out.Kind = bridge.AnswersKind(w.Hello.Answers)
			out.Detail += " (" + w.Hello.Answers + ")"
			return out
		}
	}
	return out
}
