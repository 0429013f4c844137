package orchestrate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/git"
)

// elsewhere is a Remote whose worker is this process, with a mirror of its own:
// commits travel as they would between machines. Its record outlives runs, as
// that of a fleet does.
type elsewhere struct {
	t      *testing.T
	home   string // the worker's
	mirror *git.Repository
	log    string
	before func(ctx context.Context, w RemoteWork, report func(Progress)) error // what happens before an attempt
	after  func(w RemoteWork, out *Outcome)                                     // and with its result
	refuse func(Event) error
	check  error // says Check

	mu     sync.Mutex
	meta   Meta
	lines  []byte
	repo   *git.Repository // the coordinator's
	open   bool
	ended  bool
	begins int
}

func newElsewhere(t *testing.T) *elsewhere {
	t.Helper()
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	e := &elsewhere{t: t, home: home, log: filepath.Join(home, "log")}
	e.mirror, err = git.OpenMirror(t.Context(), git.Options{Dir: filepath.Join(home, "mirror"), Environ: os.Environ(), Scratch: filepath.Join(home, "scratch")}, "sha1")
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *elsewhere) Check(context.Context, *git.Repository, string) error { return e.check }

func (e *elsewhere) Begin(_ context.Context, m Meta, past []Event, repo *git.Repository) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open {
		e.t.Error("two sittings at once")
	}
	e.meta, e.repo, e.open, e.ended = m, repo, true, false
	e.begins++
	if len(e.lines) == 0 {
		for _, x := range past {
			if err := e.store(x); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *elsewhere) Append(_ context.Context, x Event) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.refuse != nil {
		if err := e.refuse(x); err != nil {
			return err
		}
	}
	return e.store(x)
}

func (e *elsewhere) store(x Event) error {
	line, err := json.Marshal(x)
	e.lines = append(append(e.lines, line...), '\n')
	return err
}

func (e *elsewhere) Attempt(ctx context.Context, w RemoteWork, report func(Progress)) (Outcome, error) {
	if e.before != nil {
		if err := e.before(ctx, w, report); err != nil {
			return Outcome{}, err
		}
	}
	report(Progress{Text: "fetching", At: Place{Worker: "box"}})
	if err := e.carry(e.repo.Top, e.mirror.Common, w.Begin); err != nil {
		return Outcome{}, err
	}
	out, err := Attempt(ctx, AttemptOptions{RemoteWork: w, Repo: e.mirror, Dir: filepath.Join(e.home, "attempts", w.Task.ID), Open: workers(e.log, "")}, func(p Progress) {
		if p.At != (Place{}) {
			p.At.Worker = "box"
		}
		report(p)
	})
	if err != nil {
		return out, err
	}
	if e.after != nil {
		e.after(w, &out)
	}
	return out, e.carry(e.mirror.Common, e.repo.Top, out.Work)
}

func (e *elsewhere) End(_ context.Context, ended bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.open && !ended { // a run that is done need not begin
		e.t.Error("End without Begin")
	}
	e.open, e.ended = false, ended
	return nil
}

// carry brings commits from one repository to another. git fetch would look at
// the worktrees that are made meanwhile.
func (e *elsewhere) carry(from, to string, commits ...string) error {
	pack := exec.Command("git", "pack-objects", "--revs", "--stdout", "-q")
	pack.Dir, pack.Stdin = from, strings.NewReader(strings.Join(commits, "\n")+"\n")
	data, err := pack.Output()
	if err != nil {
		return err
	}
	unpack := exec.Command("git", "unpack-objects", "-q")
	unpack.Dir, unpack.Stdin = to, bytes.NewReader(data)
	return unpack.Run()
}

// noted is what the worker was asked to do.
func (e *elsewhere) noted() []string {
	data, err := os.ReadFile(e.log)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		e.t.Fatal(err)
	}
	return strings.Fields(string(data))
}

func (y *yard) remotely(e *elsewhere, p TaskPlan) Options {
	o := y.options(p)
	o.Remote, y.log = e, ""
	return o
}

// On other machines a run comes to the same files as on this one.
func TestRemoteEqualsLocal(t *testing.T) {
	t.Parallel()
	here, there := newYard(t), newYard(t)
	var files [2][]string
	var want []byte
	e := newElsewhere(t)
	for i, y := range []*yard{here, there} {
		y.write("README.md", "hello\nmine\n")
		y.write("notes.txt", "mine\n")
		o := y.options(diamond())
		if y == there {
			o = y.remotely(e, diamond())
			o.Watch = func(x Event) {
				line, err := json.Marshal(x)
				if err != nil {
					t.Error(err)
				}
				if x.recorded() {
					want = append(append(want, line...), '\n')
				}
			}
		}
		r, err := Run(t.Context(), o)
		if err != nil || !r.Success || r.Done != 5 {
			t.Fatalf("%v: %+v", err, r)
		}
		files[i] = r.Files
		for _, x := range r.Tasks {
			if (x.Worker == "box") != (y == there) || x.Started.IsZero() || x.Duration <= 0 {
				t.Errorf("%+v", x)
			}
		}
		y.clean()
	}
	if here.tree() != there.tree() || !slices.Equal(files[0], files[1]) {
		t.Errorf("%v\n%s\n%v\n%s", files[0], here.tree(), files[1], there.tree())
	}
	if !e.ended || e.begins != 1 {
		t.Errorf("%+v", e)
	}
	// What the remote has is the record without what passes.
	if string(want) != string(e.lines) {
		t.Errorf("the record is\n%s\nand should be\n%s", e.lines, want)
	}
	seen, err := NewLooker(there.home).List(1)
	if err != nil || seen[0].Tasks[0].Worker != "box" || seen[0].Tasks[0].Tree != "" || seen[0].Concurrency != 0 || !seen[0].Remote {
		t.Errorf("%v: %+v", err, seen)
	}
	left, err := filepath.Glob(filepath.Join(e.home, "attempts", "*", "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("%v: %v", err, left)
	}
}

// Parts work in the directory of the run, and their changes are seen when they
// are done.
func TestRemoteBelowTheRoot(t *testing.T) {
	t.Parallel()
	y, e := newYard(t), newElsewhere(t)
	y.write("sub/dir/x.txt", "x\n")
	l := NewLooker(y.home)
	release := make(chan struct{})
	e.before = func(_ context.Context, w RemoteWork, report func(Progress)) error {
		if w.Task.ID == "b" {
			report(Progress{Text: "at it", At: Place{Worker: "box", Session: "s", Tree: y.dir, Base: w.Begin}})
			<-release
		}
		return nil
	}
	o := y.remotely(e, TaskPlan{Tasks: []SubTask{task("a", "append x.txt more", "write y.txt y", "write ../z.txt z", "commit"), task("b", "append x.txt again")}, Dependencies: map[string][]string{"b": {"a"}}})
	o.Dir, o.Watch = filepath.Join(y.dir, "sub", "dir"), nil
	ended := make(chan error, 1)
	go func() {
		r, err := Run(t.Context(), o)
		if err == nil && !slices.Equal(r.Files, []string{"x.txt", "y.txt", "../../sub/z.txt"}) {
			t.Error(r.Files)
		}
		ended <- err
	}()
	r := lookUntil(t, l, func(r Looked) bool { return len(r.Tasks) == 2 && r.Tasks[1].Worker != "" })
	if b := r.Tasks[1]; b.State != Running || b.Doing != "at it" || b.Session != "s" || b.Tree != "" {
		t.Errorf("%+v", b)
	}
	git := Options{Home: y.home, Environ: os.Environ()}
	if d, err := r.Diff(t.Context(), "a", git); err != nil || !slices.Equal(d.Files, []string{"x.txt", "y.txt", "../../sub/z.txt"}) || !strings.Contains(d.Diff, "+more") {
		t.Errorf("%v: %+v", err, d)
	}
	if _, err := r.Diff(t.Context(), "b", git); bridge.CodeOf(err) != bridge.CodeUnsupported || !strings.Contains(err.Error(), "b is at work on box") {
		t.Error(err)
	}
	close(release)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	y.expect(map[string]string{"sub/dir/x.txt": "x\nmore\nagain\n", "sub/dir/y.txt": "y\n", "sub/z.txt": "z\n"})
}

func TestRemoteNeedsARepository(t *testing.T) {
	bare := &yard{t: t, dir: t.TempDir(), home: t.TempDir()}
	y := newYard(t)
	shared := y.remotely(newElsewhere(t), diamond())
	shared.Isolation = IsolationShared
	for _, o := range []Options{bare.remotely(newElsewhere(t), diamond()), shared} {
		if _, err := Run(t.Context(), o); bridge.CodeOf(err) != bridge.CodeUnsupported || !strings.Contains(bridge.AsError(err).Remedy, "git init") {
			t.Error(err)
		}
	}
}

// Of a run that cannot be given to other machines nothing stays behind: there is
// nothing to resume.
func TestRefusedRunIsNotRecorded(t *testing.T) {
	t.Parallel()
	y, e := newYard(t), newElsewhere(t)
	e.check = &bridge.Error{Code: bridge.CodeUnsupported, Message: "it is a shallow clone"}
	r, err := Run(t.Context(), y.remotely(e, diamond()))
	if !errors.Is(err, e.check) || r.Run != "" || e.begins != 0 {
		t.Errorf("%+v %v", r, err)
	}
	left, err := os.ReadDir(RunsDir(y.home))
	if err != nil || len(left) > 0 {
		t.Errorf("%v %v", left, err)
	}
	y.clean()
	// What began may be refused later, where it is resumed.
	e.check = nil
	e.before = func(context.Context, RemoteWork, func(Progress)) error { return errors.New("no") }
	if r, err = Run(t.Context(), y.remotely(e, diamond())); err != nil || r.Run == "" {
		t.Fatalf("%+v %v", r, err)
	}
	e.check = &bridge.Error{Code: bridge.CodeUnsupported, Message: "it is a shallow clone"}
	if _, err := Resume(t.Context(), r.Run, y.remotely(e, diamond())); !errors.Is(err, e.check) {
		t.Error(err)
	}
	if _, err := FindRun(y.home, r.Run); err != nil {
		t.Error(err)
	}
}

// An attempt that failed is tried again, and what a worker has done of it is
// not kept.
func TestRemoteRetries(t *testing.T) {
	t.Parallel()
	y, e := newYard(t), newElsewhere(t)
	e.before = func(_ context.Context, w RemoteWork, _ func(Progress)) error {
		if w.Task.ID == "left" && w.Attempt == 1 {
			return &bridge.Error{Code: bridge.CodeBusy, Message: "lost"}
		}
		return nil
	}
	o := y.remotely(e, diamond())
	o.MaxRetries = 2
	o.Plan.Tasks[3] = task("alone", "write half.txt half", "fail internal")
	r, err := Run(t.Context(), o)
	if err != nil || r.Tasks[1].Attempts != 2 || r.Done != 4 || r.Failed != 1 || r.Tasks[3].Work != "" || len(r.Kept) > 0 {
		t.Fatalf("%v: %+v", err, r)
	}
	want := diamondTree()
	delete(want, "alone.txt")
	y.expect(want)
}

// The time of an attempt is that of its work: waiting for a worker is not
// counted.
func TestTimeoutsCountFromTheWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := TaskPlan{Tasks: []SubTask{task("a", "x"), task("b", "x")}}
		began := time.Now()
		results, err := RunPlan(t.Context(), p, executor(func(ctx context.Context, a Assignment, report func(Progress)) (Outcome, error) {
			time.Sleep(time.Hour)
			report(Progress{At: Place{Worker: "box"}})
			if a.Task.ID == "b" {
				time.Sleep(50 * time.Second)
				return Outcome{}, ctx.Err()
			}
			report(Progress{At: Place{Worker: "box", Session: "s"}})
			<-ctx.Done()
			return Outcome{}, ctx.Err()
		}), Schedule{Limit: 2, TaskTimeout: time.Minute, Remote: true})
		if err != nil || time.Since(began) != time.Hour+time.Minute {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		if a, b := results[0], results[1]; a.Error == nil || a.Error.Code != bridge.CodeTimeout || a.Duration != time.Minute || b.State != Done || b.Duration != 50*time.Second {
			t.Errorf("%+v", results)
		}
	})
}

// A run that ended before any worker came says so.
func TestNoWorkerUntilTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, &bridge.Error{Code: bridge.CodeTimeout, Message: "the run took longer than 1m0s"})
		defer cancel()
		p := TaskPlan{Tasks: []SubTask{task("a", "x"), task("b", "x")}}
		results, err := RunPlan(ctx, p, executor(func(ctx context.Context, a Assignment, report func(Progress)) (Outcome, error) {
			if a.Task.ID == "b" {
				report(Progress{At: Place{Worker: "box"}})
			}
			<-ctx.Done()
			return Outcome{}, ctx.Err()
		}), Schedule{Limit: 2, Remote: true})
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []string{"the run took longer than 1m0s, and no worker took the task until then", "the run took longer than 1m0s"} {
			if e := results[i].Error; e == nil || e.Message != want || e.Code != bridge.CodeTimeout {
				t.Errorf("%+v", results[i])
			}
		}
	})
}

// The record of a run that was ended is written for a little longer.
func TestRecordOutlivesTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for after, want := range map[time.Duration]time.Duration{0: endPatience, time.Minute: time.Minute + endPatience, time.Hour: recordPatience} {
			run, cancel := context.WithTimeout(t.Context(), after)
			began := time.Now()
			within, done := outlive(run)
			<-within.Done()
			if took := time.Since(began); took != want {
				t.Errorf("%s, and not %s", took, want)
			}
			done()
			cancel()
		}
	})
}

type executor func(ctx context.Context, a Assignment, report func(Progress)) (Outcome, error)

func (x executor) Execute(ctx context.Context, a Assignment, report func(Progress)) (Outcome, error) {
	return x(ctx, a, report)
}

// A run that was canceled goes on later, also one that began without a Remote,
// and then the Remote has all of its record.
func TestRemoteCanceledAndResumed(t *testing.T) {
	t.Parallel()
	for name, remote := range map[string]bool{"begun with": true, "begun without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y, e := newYard(t), newElsewhere(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			o := y.options(diamond())
			if remote {
				e.before = func(ctx context.Context, w RemoteWork, _ func(Progress)) error {
					if w.Task.ID == "right" {
						<-ctx.Done()
					}
					return ctx.Err()
				}
				o = y.remotely(e, diamond())
			} else {
				o.Plan.Tasks[2] = task("right", "hang")
			}
			watch := o.Watch
			o.Watch = func(x Event) {
				if watch(x); x.Type == TaskCompleted && x.Task == "left" {
					cancel(&bridge.Error{Code: bridge.CodeCanceled, Message: "interrupted"})
				}
			}
			before := y.tree()
			r, err := Run(ctx, o)
			if bridge.CodeOf(err) != bridge.CodeCanceled || y.tree() != before || e.ended || e.open {
				t.Fatalf("%v: %+v", err, r)
			}
			if !remote {
				journal := filepath.Join(RunsDir(y.home), r.Run, "events.jsonl")
				data, err := os.ReadFile(journal)
				if err != nil {
					t.Fatal(err)
				}
				fixed := strings.ReplaceAll(string(data), "do: hang", `do: replace big.txt line-40 RIGHT\ndo: remove old.txt`)
				if err := os.WriteFile(journal, []byte(fixed), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			e.before = nil
			if err := os.WriteFile(e.log, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			r, err = Resume(t.Context(), "last", y.remotely(e, TaskPlan{}))
			if err != nil || !r.Success || !e.ended {
				t.Fatalf("%v: %+v", err, r)
			}
			y.expect(diamondTree())
			y.clean()
			if done := e.noted(); slices.Contains(done, "left") || slices.Contains(done, "top") || !slices.Contains(done, "bottom") {
				t.Error(done)
			}
			past, _, err := replayEvents(e.lines)
			if err != nil || past.plan == nil || len(past.done) != 5 || past.outcome == nil || past.busy <= 0 {
				t.Errorf("%v: %+v", err, past)
			}
			if m, err := FindRun(y.home, "last"); err != nil || !m.Remote {
				t.Errorf("%v: %+v", err, m)
			}
		})
	}
}

// A run whose record cannot be written ends, says why and what to do, and
// changes nothing any more.
func TestRecordIsLost(t *testing.T) {
	t.Parallel()
	for _, at := range []EventType{RunStarted, PlanReady, TaskCompleted, Joined, MergeStarted, PlanCompleted} {
		t.Run(string(at), func(t *testing.T) {
			t.Parallel()
			y, e := newYard(t), newElsewhere(t)
			appends := 0
			e.refuse = func(x Event) error {
				if appends > 0 {
					appends++
				}
				if x.Type == at && appends == 0 {
					appends = 1
					return &bridge.Error{Code: bridge.CodeConflict, Message: "the run was taken over by laptop", Remedy: "see it there"}
				}
				return nil
			}
			before := y.tree()
			r, err := Run(t.Context(), y.remotely(e, diamond()))
			failed := bridge.AsError(err)
			if r.Success && at != PlanCompleted || failed == nil || failed.Code != bridge.CodeConflict || failed.Remedy != "see it there" || !strings.Contains(err.Error(), "taken over by laptop") || strings.Count(err.Error(), "taken over") != 1 {
				t.Errorf("%v: %+v", err, r)
			}
			if appends != 1 || e.ended || e.open {
				t.Errorf("%d events after the first that was lost", appends-1)
			}
			if at != PlanCompleted && y.tree() != before {
				t.Error("files were changed")
			}
			e.refuse = nil
			o := y.remotely(e, TaskPlan{})
			if r, err = Resume(t.Context(), "last", o); err != nil || !r.Success {
				t.Fatalf("%v: %+v", err, r)
			}
			y.expect(diamondTree())
			y.clean()
		})
	}
}

// Progress is seen while the record waits for the network.
func TestProgressDoesNotWaitForTheRecord(t *testing.T) {
	t.Parallel()
	y, e := newYard(t), newElsewhere(t)
	waiting, seen := make(chan struct{}), make(chan struct{})
	e.refuse = func(x Event) error {
		if x.Type == TaskCompleted && x.Task == "a" {
			close(waiting)
			select {
			case <-seen:
			case <-time.After(30 * time.Second):
				return errors.New("no progress came through")
			}
		}
		return nil
	}
	e.before = func(_ context.Context, w RemoteWork, report func(Progress)) error {
		if w.Task.ID == "b" {
			<-waiting
			report(Progress{Text: "still here"})
		}
		return nil
	}
	o := y.remotely(e, TaskPlan{Tasks: []SubTask{task("a", "write a.txt a"), task("b", "write b.txt b")}})
	o.Watch = func(x Event) {
		if x.Text == "still here" {
			close(seen)
		}
	}
	if r, err := Run(t.Context(), o); err != nil || !r.Success {
		t.Fatalf("%v: %+v", err, r)
	}
}

// No secret leaves this machine: not in the record, and not in what a part is
// told of others.
func TestRemoteHearsNoSecrets(t *testing.T) {
	t.Parallel()
	y, e := newYard(t), newElsewhere(t)
	e.before = func(_ context.Context, w RemoteWork, _ func(Progress)) error {
		if said := fmt.Sprintf("%+v", w); strings.Contains(said, "hush") || w.Task.ID == "left" && w.Needs[0].Summary != "(hidden)" {
			t.Error(said)
		}
		return nil
	}
	e.after = func(w RemoteWork, out *Outcome) { out.Summary = "hush" }
	o := y.remotely(e, diamond())
	o.Task, o.Mask = "the hush whole", func(s string) string { return strings.ReplaceAll(s, "hush", "(hidden)") }
	if r, err := Run(t.Context(), o); err != nil || !r.Success {
		t.Fatalf("%v: %+v", err, r)
	}
	if strings.Contains(string(e.lines), "hush") || strings.Contains(e.meta.Task, "hush") || !strings.Contains(string(e.lines), "(hidden)") {
		t.Errorf("%+v\n%s", e.meta, e.lines)
	}
}

// What does not build on what an attempt began with is refused, and does not
// reach the user's files.
func TestWrongResultsAreRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(e *elsewhere, y *yard, begin, work string) string{
		"another's parent": func(e *elsewhere, y *yard, begin, work string) string {
			return e.commitOf(y, work, y.git("commit-tree", "-m", "x", begin+"^{tree}"))
		},
		"no parent":   func(e *elsewhere, y *yard, _, work string) string { return e.commitOf(y, work) },
		"two parents": func(e *elsewhere, y *yard, begin, work string) string { return e.commitOf(y, work, begin, work) },
		"two commits": func(e *elsewhere, y *yard, _, work string) string { return e.commitOf(y, work, work) },
		"a name":      func(*elsewhere, *yard, string, string) string { return "HEAD" },
		"an option":   func(*elsewhere, *yard, string, string) string { return "--output=x" },
		"a tree":      func(e *elsewhere, _ *yard, _, work string) string { return e.git("rev-parse", work+"^{tree}") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y, e := newYard(t), newElsewhere(t)
			before := y.tree()
			wrong := ""
			e.after = func(w RemoteWork, out *Outcome) { wrong = change(e, y, w.Begin, out.Work); out.Work = wrong }
			o := y.remotely(&elsewhere{}, TaskPlan{Tasks: []SubTask{task("a", "write a.txt a")}})
			o.Remote = lenient{e}
			r, err := Run(t.Context(), o)
			if err != nil || r.Success || r.Failed != 1 || wrong == "" || y.tree() != before {
				t.Fatalf("%v: %+v", err, r)
			}
			if why := r.Tasks[0].Error.Error(); !strings.Contains(why, "refused") && name != "a tree" {
				t.Error(why)
			}
			if refs := y.git("for-each-ref"); strings.Contains(refs, "task-a") {
				t.Error(refs)
			}
		})
	}
}

// lenient lets results through that cannot be fetched.
type lenient struct{ *elsewhere }

func (l lenient) Attempt(ctx context.Context, w RemoteWork, report func(Progress)) (Outcome, error) {
	out, err := l.elsewhere.Attempt(ctx, w, report)
	if out.Work != "" {
		err = nil
	}
	return out, err
}

func (e *elsewhere) git(args ...string) string {
	out, err := e.mirror.Line(context.Background(), git.Call{Args: args})
	if err != nil {
		return err.Error()
	}
	return out
}

// commitOf makes a commit of another's tree in a mirror.
func (e *elsewhere) commitOf(y *yard, work string, parents ...string) string {
	args := []string{"commit-tree", "-m", "x", work + "^{tree}"}
	for _, p := range parents {
		if err := e.carry(y.dir, e.mirror.Common, p); err != nil && p != work {
			y.t.Error(err)
		}
		args = append(args, "-p", p)
	}
	return e.git(args...)
}

// Another machine goes on with a run in a clone of its own: what is done is not
// done again, and the files come out the same.
func TestTakeover(t *testing.T) {
	t.Parallel()
	y, e := newYard(t), newElsewhere(t)
	y.write("README.md", "hello\nnot committed, so it stays on this machine\n")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	o := y.remotely(e, diamond())
	o.Watch = func(x Event) {
		if x.Type == Joined {
			cancel(&bridge.Error{Code: bridge.CodeCanceled, Message: "the power is gone"})
		}
	}
	if _, err := Run(ctx, o); bridge.CodeOf(err) != bridge.CodeCanceled {
		t.Fatal(err)
	}
	other := y.clone()
	if err := e.bring(y.dir, other.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(e.log); err != nil {
		t.Fatal(err)
	}
	past, _, err := replayEvents(e.lines)
	if err != nil || len(past.done) < 3 || len(past.joins) != 1 {
		t.Fatalf("%v: %+v", err, past)
	}
	m, err := Materialise(t.Context(), other.home, other.dir, e.meta, e.lines)
	if err != nil || m.Dir != other.dir || m.ID != e.meta.ID {
		t.Fatalf("%v: %+v", err, m)
	}
	r, err := Resume(t.Context(), m.ID, other.remotely(e, TaskPlan{}))
	if err != nil || !r.Success || !e.ended {
		t.Fatalf("%v: %+v", err, r)
	}
	other.expect(diamondTree())
	other.clean()
	for _, id := range e.noted() {
		if _, done := past.done[id]; done {
			t.Errorf("%s was done again", id)
		}
	}
	// Back on the first machine the run is known to be finished.
	if m, err = Materialise(t.Context(), y.home, "/elsewhere", e.meta, e.lines); err != nil || m.Dir != y.dir {
		t.Fatalf("%v: %+v", err, m)
	}
	before := y.tree()
	e.ended = false
	if r, err = Resume(t.Context(), m.ID, y.remotely(e, TaskPlan{})); err != nil || !r.Success || y.tree() != before || !e.ended {
		t.Errorf("%v: %+v", err, r)
	}
	if runs, err := Runs(y.home); err != nil || len(runs) != 1 || runs[0].State != StateFinished {
		t.Errorf("%v %+v", err, runs)
	}
	y.clean()
}

// What one machine wrote to its files is not in another's: there all of the
// work is merged. At home only what was added is.
func TestTakeoverAfterAMerge(t *testing.T) {
	t.Parallel()
	y, e := newYard(t), newElsewhere(t)
	e.before = func(_ context.Context, w RemoteWork, _ func(Progress)) error {
		if w.Task.ID == "left" {
			return &bridge.Error{Code: bridge.CodeInternal, Message: "planted"}
		}
		return nil
	}
	r, err := Run(t.Context(), y.remotely(e, diamond()))
	if err != nil || r.Success || r.Done != 3 || !e.ended {
		t.Fatalf("%v: %+v", err, r)
	}
	y.write("alone.txt", "changed since\n")
	e.before = nil
	record := slices.Clone(e.lines)
	for _, machine := range []struct {
		*yard
		alone string
	}{{y.clone(), "alone\n"}, {y, "changed since\n"}} {
		e.lines = slices.Clone(record)
		if err := e.bring(y.dir, machine.dir); err != nil {
			t.Fatal(err)
		}
		if _, err := Materialise(t.Context(), machine.home, machine.dir, e.meta, e.lines); err != nil {
			t.Fatal(err)
		}
		if r, err := Resume(t.Context(), "last", machine.remotely(e, TaskPlan{})); err != nil || !r.Success {
			t.Fatalf("%v: %+v", err, r)
		}
		want := diamondTree()
		want["alone.txt"] = machine.alone
		machine.expect(want)
	}
}

func TestMaterialiseRefuses(t *testing.T) {
	y, e := newYard(t), newElsewhere(t)
	if _, err := Run(t.Context(), y.remotely(e, diamond())); err != nil {
		t.Fatal(err)
	}
	try := func(what string, code bridge.Code, change func(m *Meta), lines []byte) {
		t.Helper()
		m := e.meta
		change(&m)
		home := t.TempDir()
		if code == bridge.CodeBusy {
			home = y.home
		}
		if _, err := Materialise(t.Context(), home, y.dir, m, lines); bridge.CodeOf(err) != code {
			t.Errorf("%s: %v", what, err)
		}
		if runs, err := Runs(home); home != y.home && (err != nil || len(runs) > 0) {
			t.Errorf("%s: %v: %v", what, err, runs)
		}
	}
	try("a newer version", bridge.CodeUnsupported, func(m *Meta) { m.Version++ }, e.lines)
	try("another place", bridge.CodeInvalid, func(m *Meta) { m.ID = "../" + m.ID }, e.lines)
	try("no repository", bridge.CodeInvalid, func(m *Meta) { m.Isolation = IsolationShared }, e.lines)
	try("no plan", bridge.CodeNotFound, func(*Meta) {}, e.lines[:strings.IndexByte(string(e.lines), '\n')+1])
	try("a damaged record", bridge.CodeInvalid, func(*Meta) {}, slices.Concat([]byte("{\n"), e.lines))
	j, _, err := openJournal(t.Context(), y.home, e.meta.ID)
	if err != nil {
		t.Fatal(err)
	}
	try("one that goes on", bridge.CodeBusy, func(*Meta) {}, e.lines)
	if err := j.close(); err != nil {
		t.Fatal(err)
	}
}

// bring puts the commits of a run where it is to go on.
func (e *elsewhere) bring(from, to string) error {
	past, _, err := replayEvents(e.lines)
	commits := []string{e.meta.Base}
	for _, r := range past.done {
		commits = append(commits, r.Work)
	}
	for _, j := range past.joins {
		commits = append(commits, j.Commit)
	}
	return errors.Join(err, e.carry(from, to, commits...))
}

// clone is another machine with the same repository.
func (y *yard) clone() *yard {
	y.t.Helper()
	root, err := filepath.EvalSymlinks(y.t.TempDir())
	if err != nil {
		y.t.Fatal(err)
	}
	other := &yard{t: y.t, dir: filepath.Join(root, "clone"), home: filepath.Join(root, "home")}
	y.git("clone", "--quiet", "--no-local", y.dir, other.dir)
	other.git("remote", "remove", "origin")
	return other
}
