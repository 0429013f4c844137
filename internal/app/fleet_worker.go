package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet/worker"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/task"
)

// Worker says how this machine works for its fleet.
type Worker struct {
	Member   fleet.Member
	Capacity int
	Labels   map[string]string
	Root     string // where repositories and work are kept; "" for the bridge's home
	// Tell hears what is done, a line each. It is called concurrently.
	Tell func(line string)
}

// Work does parts of other machines' tasks. When drain is done it finishes what
// is begun and returns; when ctx ends it gives that up.
func (b *Bridge) Work(ctx, drain context.Context, w Worker) (err error) {
	c := b.opts.Config
	dir := memberDir(c, fleet.RoleWorker)
	unlock, free, err := durable.TryLock(filepath.Join(dir, "worker.lock"))
	if err != nil {
		return err
	}
	if !free {
		return &bridge.Error{Code: bridge.CodeBusy, Message: "the worker of this home, " + w.Member.ID + ", is running already",
			Remedy: "use that one, with --capacity for more tasks at a time; a second one on this machine needs a home of its own (COPILOT_BRIDGE_HOME)"}
	}
	defer func() { err = errors.Join(err, unlock()) }()
	conn, err := b.connectWorker(drain, dir, w.Tell)
	if conn == nil || err != nil {
		return err
	}
	defer conn.Close()
	if w.Root == "" {
		w.Root = filepath.Join(dir, "work")
	}
	f := &fleetWorker{bridge: b, Worker: w}
	if b.nobodyLoggedIn() {
		w.Tell(w.Member.ID + " takes no tasks: nobody is logged in on this machine; run `copilot-bridge login`, and it begins by itself")
	} else {
		w.Tell(fmt.Sprintf("%s waits for tasks, %d at a time", w.Member.ID, w.Capacity))
	}
	err = worker.Run(ctx, conn, worker.Options{Capacity: w.Capacity, Labels: w.Labels, Version: b.opts.Version, Root: w.Root, Environ: task.PlainEnviron(b.opts.Environ),
		Ready: f.ready, Attempt: f.attempt, Drain: drain.Done(), Logger: b.opts.Logger})
	if err == nil && drain.Err() == nil && ctx.Err() == nil {
		w.Tell(w.Member.ID + " was drained from afar: what it had begun is done, and it ends")
	}
	return err
}

// connectWorker connects to the fleet, whenever that can be reached: the machines
// of a fleet start in any order. It returns nil when ctx ends before.
func (b *Bridge) connectWorker(ctx context.Context, dir string, tell func(string)) (*fleet.Conn, error) {
	o := fleet.ConnectOptions{Logger: b.opts.Logger, Name: "worker",
		Lost: func(error) { tell(fleetLost) }, Back: func() { tell(fleetBack) }}
	tick := time.NewTicker(lookBound)
	defer tick.Stop()
	for told := false; ; told = true {
		conn, err := fleet.Connect(ctx, dir, o)
		switch {
		case ctx.Err() != nil && conn == nil:
			return nil, nil
		case bridge.CodeOf(err) != bridge.CodeUnavailable:
			return conn, err
		case !told:
			tell(bridge.AsError(err).Message + "; trying again…")
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, nil
		}
	}
}

// fleetWorker does attempts in sessions of a bridge.
type fleetWorker struct {
	Worker
	bridge *Bridge

	mu      sync.Mutex
	looked  time.Time
	trouble string
	models  []string
}

const (
	lookAgain = 15 * time.Second // how long a look at the login is good
	lookBound = 5 * time.Second
)

// nobodyLoggedIn reports whether the demo model answers only for want of a login.
func (b *Bridge) nobodyLoggedIn() bool {
	return b.Answers.Kind == bridge.AnswersDemo && !b.opts.Config.Demo
}

// ready says what this machine can do.
func (f *fleetWorker) ready() worker.Ready {
	b := f.bridge
	switch {
	case b.nobodyLoggedIn():
		return worker.Ready{NotReady: "nobody is logged in on this machine; run `copilot-bridge login` there"}
	case b.Answers.Kind == bridge.AnswersDemo:
		return worker.Ready{Answers: string(bridge.AnswersDemo)}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.looked) > lookAgain {
		was := f.trouble
		f.looked, f.trouble = time.Now(), f.look()
		if f.trouble != was && f.trouble != "" {
			f.Tell("takes no tasks: " + f.trouble)
		}
	}
	return worker.Ready{Answers: string(b.Answers.Kind), Models: f.models, NotReady: f.trouble}
}

// look asks the runtime whether it can answer, and with what. The caller holds mu.
func (f *fleetWorker) look() string {
	ctx, cancel := context.WithTimeout(context.Background(), lookBound)
	defer cancel()
	status, err := f.bridge.Engine.Status(ctx)
	switch t := f.bridge.Engine.Trouble(); {
	case err != nil:
		return reason(bridge.AsError(err))
	case status.Failure != nil:
		return reason(status.Failure)
	case !status.Authenticated:
		return "nobody is logged in on this machine"
	case t != nil && t.Fresh():
		return reason(t.Error)
	}
	f.models = nil
	if f.bridge.Answers.Kind == bridge.AnswersGitHub { // others take any name
		models, err := f.bridge.Engine.Models(ctx)
		if err != nil {
			return reason(bridge.AsError(err))
		}
		for _, m := range models {
			f.models = append(f.models, m.ID)
		}
	}
	return ""
}

// attempt does one attempt at one task, and says so.
func (f *fleetWorker) attempt(ctx context.Context, j worker.Job) (worker.Done, error) {
	what, began := j.Task+" of run "+j.Run, time.Now()
	f.Tell(what + ": " + text.FirstLine(j.Description, 60))
	out, err := f.do(ctx, j)
	took := time.Since(began).Round(100 * time.Millisecond)
	switch {
	case ctx.Err() != nil:
		f.Tell(fmt.Sprintf("%s: canceled after %s", what, took))
	case err != nil:
		f.Tell(fmt.Sprintf("%s: failed after %s: %v", what, took, err))
	default:
		f.Tell(fmt.Sprintf("%s: done in %s, %s", what, took, text.Plural(len(out.Files), "file")))
	}
	return worker.Done{Commit: out.Work, Summary: f.bridge.clean(out.Summary), Usage: out.Usage, Tools: out.Tools, Denied: out.Denied, Session: out.Session}, err
}

func (f *fleetWorker) do(ctx context.Context, j worker.Job) (orchestrate.Outcome, error) {
	other, err := receivedPolicy(&j.Assignment)
	if err != nil {
		return orchestrate.Outcome{}, err
	}
	if j.Limits.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, j.Limits.Timeout)
		defer cancel()
	}
	a := orchestrate.Assignment{Attempt: j.Attempt, Task: orchestrate.SubTask{ID: j.Task, Description: j.Description, EstimatedComplexity: orchestrate.Complexity(j.Complexity)}}
	for _, n := range j.Needs {
		a.Needs = append(a.Needs, orchestrate.TaskResult{ID: n.ID, State: orchestrate.Done, Outcome: orchestrate.Outcome{Summary: n.Summary, Files: n.Files}})
	}
	clean := f.bridge.clean
	out, err := orchestrate.Attempt(ctx, orchestrate.AttemptOptions{
		RemoteWork: orchestrate.RemoteWork{Assignment: a, Run: j.Run, Goal: j.Goal, Begin: j.Begin, Prefix: j.Prefix},
		Repo:       j.Repo, Dir: j.Dir, Open: f.opener(j, other),
	}, func(p orchestrate.Progress) {
		j.Report(fleet.Event{Schema: fleet.Schema, Text: clean(p.Text), Usage: p.Usage, Session: p.At.Session})
	})
	if err != nil {
		e := *bridge.AsError(err)
		e.Message, e.Remedy, e.Cause = clean(e.Error()), clean(e.Remedy), nil
		err = &e
	}
	return out, err
}

// opener opens the session of an attempt. Its guard stands under this machine's
// policy and the coordinator's, and asks the coordinator's person. A policy file
// in the repository is the coordinator's: it comes with its policy.
func (f *fleetWorker) opener(j worker.Job, other *policy.Other) orchestrate.Opener {
	b := f.bridge
	return func(ctx context.Context, what orchestrate.Opening) (orchestrate.Session, error) {
		gate, err := b.Gate(Guarding{Workspace: what.Dir, Rules: j.Repo.Common, Door: fleetDoor, Client: "fleet " + f.Member.Fleet, Caller: "Copilot, for " + j.Task + ",",
			Asker: fleetAsker{j.Ask}, Defaults: policy.DefaultsRun(), Other: other})
		if err != nil {
			return nil, err
		}
		leave := func() error { return b.guard.forget(what.Dir) }
		spec := b.Spec(bridge.ProfileAgent, what.Dir)
		if j.Model != "" && b.Answers.Kind != bridge.AnswersDemo {
			spec.Model = j.Model
		}
		if j.Effort != "" {
			spec.ReasoningEffort = j.Effort
		}
		spec.Gate = gate
		s, err := b.Engine.Open(ctx, engine.Request{Spec: spec, Door: fleetDoor, Keep: true, Title: what.Title, Client: "fleet", Run: what.Run, Task: what.Task})
		if err != nil {
			return nil, errors.Join(err, leave())
		}
		return &partSession{Session: s, leave: leave}, nil
	}
}
