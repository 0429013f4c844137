package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet/coordinator"
	"github.com/copilot-bridge/copilot-bridge/internal/git"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
)

// FleetRun is one run of orchestrate whose parts the fleet does.
type FleetRun struct {
	conn        *fleet.Conn
	coordinator *coordinator.Coordinator
	labels      []string
	demo        bool
	say         func(text string) // tells the run's watcher
	scratch     string
}

// UseFleet connects a run to the fleet: opts gets the Remote that does its parts.
// Only workers with all the labels get them. The caller closes it when the run has
// ended.
func (b *Bridge) UseFleet(ctx context.Context, g Guarding, labels []string, opts *orchestrate.Options) (*FleetRun, error) {
	return b.useFleet(ctx, g, b.fleetWork(labels), opts)
}

// fleetWork says which workers may do the parts of a run, and with what.
type fleetWork struct {
	labels        []string
	model, effort string // "" for the worker's own
}

func (b *Bridge) fleetWork(labels []string) fleetWork {
	c := b.opts.Config
	w := fleetWork{labels: labels, effort: c.ReasoningEffort}
	if c.Origin("model").Source != config.SourceDefault {
		w.model = c.Model
	}
	return w
}

func (b *Bridge) useFleet(ctx context.Context, g Guarding, w fleetWork, opts *orchestrate.Options) (*FleetRun, error) {
	c := b.opts.Config
	if _, err := FleetMember(c, fleet.RoleCoordinator); err != nil {
		return nil, err
	}
	layers, digest, err := sentPolicy(c, g.Workspace)
	if err != nil {
		return nil, err
	}
	dir := memberDir(c, fleet.RoleCoordinator)
	f := &FleetRun{labels: w.labels, demo: b.Answers.Kind == bridge.AnswersDemo}
	f.say = alsoSay(opts)
	if f.conn, err = fleet.Connect(ctx, dir, fleet.ConnectOptions{Logger: b.opts.Logger, Name: "orchestrate",
		Lost: func(error) { f.say(fleetLost) }, Back: func() { f.say(fleetBack) }}); err != nil {
		return nil, err
	}
	if f.scratch, err = makeScratch(dir); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	host, _ := os.Hostname() // without one the member's name says enough
	o := coordinator.Options{Host: cmp.Or(host, f.conn.Member.Name), Scratch: f.scratch, Labels: w.labels, Policy: layers, PolicyDigest: digest, Model: w.model, Effort: w.effort,
		Demo: f.demo, Wanted: wanted(w.labels, false), Ask: b.askHere(g), Record: b.recordFleet, Logger: b.opts.Logger}
	f.coordinator = coordinator.New(f.conn, o)
	opts.Remote = f.coordinator
	return f, nil
}

const scratchPrefix = "scratch-" // and the process: its bundles may be large

// makeScratch makes a directory for the bundles of a run, and removes those of
// processes that were killed.
func makeScratch(dir string) (string, error) {
	old, err := filepath.Glob(filepath.Join(dir, scratchPrefix+"*-*"))
	if err != nil {
		return "", err
	}
	for _, name := range old {
		text, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(name), scratchPrefix), "-")
		pid, err := strconv.Atoi(text)
		if err != nil || supervise.ProcessOf(pid).Start != 0 {
			continue
		}
		if err := os.RemoveAll(name); err != nil {
			return "", err
		}
	}
	return os.MkdirTemp(dir, fmt.Sprintf("%s%d-", scratchPrefix, os.Getpid()))
}

// What people hear of the connection.
const (
	fleetLost = "the fleet cannot be reached; trying again…"
	fleetBack = "the fleet is back"
)

// alsoSay lets others than the run tell the watcher something. It hears one event
// at a time all the same.
func alsoSay(opts *orchestrate.Options) func(text string) {
	watch := opts.Watch
	if watch == nil {
		return func(string) {}
	}
	var mu sync.Mutex
	opts.Watch = func(e orchestrate.Event) {
		mu.Lock()
		defer mu.Unlock()
		watch(e)
	}
	return func(text string) {
		opts.Watch(orchestrate.Event{Type: orchestrate.Noticed, Time: time.Now(), Text: text})
	}
}

// askHere puts the questions of workers to the person here, wherever they are
// shown: they say which part wants what, and where.
func (b *Bridge) askHere(g Guarding) func(context.Context, coordinator.Question) (json.RawMessage, error) {
	asker := b.inbox(g.Asker)
	return func(ctx context.Context, q coordinator.Question) (json.RawMessage, error) {
		return answerWorker(ctx, asker, "Copilot, for "+q.Task+" on "+cmp.Or(q.Name, q.Member)+",", g.Workspace, q.Question)
	}
}

// Take brings a run of another machine here, so that Orchestrate can resume it in
// o.Dir, a clone of the repository. It is refused while its coordinator lives.
func (f *FleetRun) Take(ctx context.Context, run string, o orchestrate.Options) (err error) {
	r, err := f.coordinator.Take(ctx, run)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.coordinator.End(context.WithoutCancel(ctx), false))
		}
	}()
	repo, err := git.Open(ctx, git.Options{Dir: o.Dir, Scratch: f.scratch, Environ: o.Environ, Confine: o.Confine})
	if err != nil {
		return err
	}
	err = f.coordinator.Import(ctx, r, repo)
	if err = errors.Join(err, repo.Close()); err != nil {
		return err
	}
	_, err = orchestrate.Materialise(ctx, o.Home, o.Dir, r.Meta, r.Events)
	return err
}

// Missing says why no worker that is there now would take a part, "" if one
// would.
func (f *FleetRun) Missing(ctx context.Context) (string, error) {
	lack, _, err := f.lacks(ctx)
	if lack != "" {
		lack += "; parts wait until one is (see `copilot-bridge fleet status`)"
	}
	return lack, err
}

// lacks says which worker is not there now, "" if there is one, and whether one
// may be there in a moment.
func (f *FleetRun) lacks(ctx context.Context) (lack string, soon bool, err error) {
	s, err := fleet.GetStatus(ctx, f.conn)
	if err != nil {
		return "", false, err
	}
	now := time.Now()
	for _, w := range s.Workers {
		h := w.Hello
		switch {
		case w.Draining || !fleet.Fits(w.Offers, f.labels):
		case !w.Online: // the first sign of life may be under way
			soon = soon || now.Sub(s.Since) < readyBound || now.Sub(w.Joined) < readyBound
		case h.Draining:
		case h.NotReady == fleet.Starting:
			soon = true
		case h.NotReady == "" && (f.demo || h.Answers != string(bridge.AnswersDemo)):
			return "", false, nil
		}
	}
	return fmt.Sprintf("no %s is ready in the fleet now", wanted(f.labels, f.demo)), soon, nil
}

// How long a single task waits for a worker that starts, and how often it looks.
const (
	readyBound = 10 * time.Second
	readyEvery = 200 * time.Millisecond
)

// lacksNow is lacks, but it first waits for workers that are starting.
func (f *FleetRun) lacksNow(ctx context.Context) (string, error) {
	bound := time.Now().Add(readyBound)
	for {
		lack, soon, err := f.lacks(ctx)
		if lack == "" || !soon || time.Now().After(bound) {
			return lack, err
		}
		select {
		case <-time.After(readyEvery):
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// wanted is the worker that parts wait for.
func wanted(labels []string, demo bool) string {
	if demo {
		labels = append(slices.Clone(labels), "--demo")
	}
	if len(labels) == 0 {
		return "worker"
	}
	return "worker with " + strings.Join(labels, " and ")
}

// Close gives up a run that was taken over but not begun, for example because it was
// finished already, and ends the connection.
func (f *FleetRun) Close() (err error) {
	if f.coordinator != nil {
		err = f.coordinator.End(context.Background(), false)
	}
	f.conn.Close()
	if f.scratch == "" {
		return err
	}
	return errors.Join(err, os.RemoveAll(f.scratch))
}

// FindFleetRun returns the run of the fleet that an id, the beginning of one, or
// "last" names.
func FindFleetRun(ctx context.Context, o Options, id string) (fleet.RunStatus, error) {
	s, err := FleetStatus(ctx, o)
	if err != nil {
		return fleet.RunStatus{}, err
	}
	slices.SortFunc(s.Runs, func(a, b fleet.RunStatus) int { return strings.Compare(b.Run, a.Run) }) // an id begins with the time
	var found []fleet.RunStatus
	for _, r := range s.Runs {
		if r.Run == id || id == "last" {
			return r, nil
		}
		if strings.HasPrefix(r.Run, id) {
			found = append(found, r)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return fleet.RunStatus{}, &bridge.Error{Code: bridge.CodeNotFound, Message: fmt.Sprintf("the fleet knows no run %q", id), Remedy: "`copilot-bridge orchestrate --list --fleet` shows what there is"}
	}
	return fleet.RunStatus{}, &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("%d runs of the fleet begin with %q", len(found), id), Remedy: "give more of the id, such as " + found[0].Run}
}

// OnlyWorker is why this machine cannot resume a run, if it is a worker of a fleet
// and no coordinator; nil otherwise.
func OnlyWorker(c *config.Config) error {
	m, err := fleet.Load(memberDir(c, fleet.RoleWorker))
	if err == nil && !InFleet(c) {
		return &bridge.Error{Code: bridge.CodeNotFound, Message: "no such run began on this machine, and it may not take one over from the fleet " + m.Fleet + ": it is a worker, not a coordinator",
			Remedy: "run `copilot-bridge fleet invite --coordinator` on a coordinator, such as the hub's machine, and `copilot-bridge fleet join -` with that line here; then resume in a clone of the repository"}
	}
	return nil
}

// InFleet says whether this machine may give work to a fleet.
func InFleet(c *config.Config) bool {
	_, err := fleet.Load(memberDir(c, fleet.RoleCoordinator))
	return err == nil
}
