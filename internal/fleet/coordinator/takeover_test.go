package coordinator

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet/bundle"
	"github.com/copilot-bridge/copilot-bridge/internal/git"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/fleettest"
)

// clone is a repository of a test.
type clone struct {
	t    testing.TB
	dir  string
	repo *git.Repository
}

func newRepository(t testing.TB) *clone {
	t.Helper()
	c := &clone{t: t, dir: t.TempDir()}
	c.git("init", "-q", "-b", "main")
	c.commit("README", "hello\n")
	c.open()
	return c
}

func (c *clone) clone() *clone {
	c.t.Helper()
	n := &clone{t: c.t, dir: filepath.Join(c.t.TempDir(), "clone")}
	c.git("clone", "-q", c.dir, n.dir)
	n.open()
	return n
}

func (c *clone) open() {
	c.t.Helper()
	repo, err := git.Open(c.t.Context(), git.Options{Dir: c.dir, Environ: os.Environ(), Scratch: c.t.TempDir()})
	if err != nil {
		c.t.Fatal(err)
	}
	c.repo = repo
}

func (c *clone) git(args ...string) string {
	c.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"}, args...)...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		c.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit commits a file on what is checked out.
func (c *clone) commit(name, text string) string {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.git("add", name)
	c.git("commit", "-qm", "change "+name)
	return c.git("rev-parse", "HEAD")
}

// commitOn commits a file on a commit.
func (c *clone) commitOn(parent, name, text string) string {
	c.t.Helper()
	c.git("checkout", "-q", "--detach", parent)
	return c.commit(name, text)
}

func (c *clone) has(commit string) bool {
	cmd := exec.Command("git", "cat-file", "-e", commit+"^{commit}")
	cmd.Dir = c.dir
	return cmd.Run() == nil
}

// deliverCommit sends a commit of the worker's clone as the result of a claim.
func (h *hand) deliverCommit(c *clone, a *fleet.Assignment, commit string) {
	h.t.Helper()
	name := "result-" + a.Claim
	file := filepath.Join(h.t.TempDir(), name)
	b, err := bundle.Make(h.t.Context(), c.repo, file, name, commit, []string{a.Begin})
	if err != nil {
		h.t.Fatal(err)
	}
	if err := putFile(h.t.Context(), h.conn.JS, fleet.WorkerBucket(h.id), name, file, b.Size); err != nil {
		h.t.Fatal(err)
	}
	r := result(a)
	r.Commit, r.Bundle = commit, b
	h.mustDeliver(a, r)
}

// laptop joins a second machine that coordinates.
func laptop(t testing.TB, f *fleettest.Fleet) *fleet.Conn {
	t.Helper()
	f.Join(t, f.Invite(t, fleet.RoleCoordinator, 1), "laptop")
	return f.Connect(t, "laptop")
}

func event(text string) orchestrate.Event {
	return orchestrate.Event{Type: orchestrate.RunStarted, Run: testRun, Text: text, Time: time.Unix(1, 0).UTC()}
}

// A coordinator dies. Another goes on in another clone: what was done counts, what
// was delivered meanwhile too, and who is still at work goes on.
func TestTakeover(t *testing.T) {
	f := fleettest.Up(t)
	w := newHand(t, f, "alpha")
	here := newRepository(t)
	there := here.clone()
	base := here.commit("uncommitted", "of the first machine only\n")
	mirror := here.clone() // the worker's
	one := New(f.Connect(t, "coordinator"), Options{Host: "desk", Scratch: t.TempDir()})
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	if err := one.Begin(ctx, orchestrate.Meta{ID: testRun, Task: "all of it", Dir: "/w", Base: base}, nil, here.repo); err != nil {
		t.Fatal(err)
	}
	if err := one.Append(ctx, event("first")); err != nil {
		t.Fatal(err)
	}
	done := tryOn(ctx, one, "done", base)
	a := w.mustClaimOn(base)
	first := mirror.commitOn(base, "a.txt", "a\n")
	w.deliverCommit(mirror, a, first)
	if e := wait(t, done); e.err != nil || e.out.Work != first || !here.has(first) {
		t.Fatalf("%+v", e)
	}
	large := event(strings.Repeat("x", maxEntry))
	if err := one.Append(ctx, large); err != nil {
		t.Fatal(err)
	}
	tryOn(ctx, one, "delivered", base)
	b := w.mustClaimOn(base)
	tryOn(ctx, one, "at work", base)
	d := w.mustClaimOn(base)
	tryOn(ctx, one, "waiting", base)
	one.conn.NC.Close() // it dies
	beating, stop := context.WithCancel(t.Context())
	defer stop()
	go w.beatUntil(beating, d)
	second, third := mirror.commitOn(base, "b.txt", "b\n"), mirror.commitOn(base, "c.txt", "c\n")
	w.deliverCommit(mirror, b, second)

	conn := laptop(t, f)
	early := New(conn, Options{Host: "laptop", Scratch: t.TempDir(), Owner: time.Hour})
	if _, err := early.Take(t.Context(), testRun); bridge.CodeOf(err) != bridge.CodeBusy || !strings.Contains(err.Error(), "desk") {
		t.Fatalf("%v, want that it is still alive on desk", err)
	}
	two := New(conn, Options{Host: "laptop", Scratch: t.TempDir(), Owner: lease})
	var r Record
	fleettest.Wait(t, "the end of the owner's beats", func() bool {
		var err error
		if r, err = two.Take(t.Context(), testRun); err != nil && bridge.CodeOf(err) != bridge.CodeBusy {
			t.Fatal(err)
		}
		return err == nil
	})
	if r.Meta.Base != base || bytes.Count(r.Events, []byte("\n")) != 2 || !bytes.Contains(r.Events, []byte(`"first"`)) || len(r.Events) < maxEntry {
		t.Errorf("%+v, %d bytes of events", r.Meta, len(r.Events))
	}
	if err := two.Import(t.Context(), r, there.repo); err != nil {
		t.Fatal(err)
	}
	if !there.has(base) || !there.has(first) {
		t.Error("commits are missing")
	}
	if err := two.Begin(t.Context(), r.Meta, []orchestrate.Event{event("first"), event("elsewhere")}, there.repo); err != nil {
		t.Fatal(err)
	}
	// The result that waited counts; nobody does the task again.
	if e := wait(t, tryOn(t.Context(), two, "delivered", base)); e.err != nil || e.out.Work != second || !there.has(second) {
		t.Fatalf("%+v", e)
	}
	going := tryOn(t.Context(), two, "at work", base)
	again := tryOn(t.Context(), two, "waiting", base)
	if x := w.mustClaimOn(base); x.Task != "waiting" {
		t.Errorf("%+v", x)
	} else {
		w.mustDeliver(x, result(x))
	}
	if e := wait(t, again); e.err != nil {
		t.Error(e.err)
	}
	w.deliverCommit(mirror, d, third)
	if e := wait(t, going); e.err != nil || e.out.Work != third || !there.has(third) {
		t.Errorf("%+v", e)
	}
	if err := two.End(t.Context(), true); err != nil {
		t.Error(err)
	}
	kill()
	if err := one.End(t.Context(), false); err == nil {
		t.Error("the end of the dead one was recorded")
	}
	fresh := New(conn, Options{Host: "laptop", Scratch: t.TempDir(), Owner: lease})
	r, err := fresh.Take(t.Context(), testRun) // at once: it has ended
	if err != nil || bytes.Count(r.Events, []byte("\n")) != 3 {
		t.Errorf("%v %d", err, bytes.Count(r.Events, []byte("\n")))
	}
	for range 2 { // the second one does nothing
		if err := fresh.End(t.Context(), false); err != nil {
			t.Error(err)
		}
	}
	// It was only looked at, so it is as it was.
	if s, err := fleet.GetStatus(t.Context(), conn); err != nil || len(s.Runs) != 1 || !s.Runs[0].Owner.Ended || s.Runs[0].Owner.Task != "all of it" {
		t.Errorf("%+v %v", s.Runs, err)
	}
}

// A coordinator that hung and wakes cannot write any more, and ends.
func TestOldOwnerIsFencedOff(t *testing.T) {
	f := fleettest.Up(t)
	one := New(f.Coordinator, Options{Host: "desk", Scratch: t.TempDir(), Lease: lease, Owner: time.Hour}) // beats hardly ever
	if err := one.Begin(t.Context(), orchestrate.Meta{ID: testRun, Task: "all of it", Base: begin}, nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := one.Append(t.Context(), event("first")); err != nil {
		t.Fatal(err)
	}
	done := try(t.Context(), one, "a")
	conn := laptop(t, f)
	two := New(conn, Options{Host: "laptop", Scratch: t.TempDir(), Lease: lease, Owner: time.Millisecond})
	fleettest.Wait(t, "the run", func() bool {
		_, err := two.Take(t.Context(), testRun)
		return err == nil
	})
	const want = "was taken over by laptop"
	if err := one.Append(t.Context(), event("late")); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v", err)
	}
	if e := wait(t, done); e.err == nil || !strings.Contains(e.err.Error(), want) {
		t.Errorf("%v", e.err)
	}
	if _, err := one.Attempt(t.Context(), work("b", begin), func(orchestrate.Progress) {}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v", err)
	}
	if err := errors.Join(one.End(t.Context(), false), two.End(t.Context(), true)); err != nil {
		t.Error(err)
	}
	if s, err := fleet.GetStatus(t.Context(), f.Coordinator); err != nil || len(s.Runs) != 1 || s.Runs[0].Run != testRun || s.Runs[0].Alive || !s.Runs[0].Owner.Ended {
		t.Errorf("%+v %v", s.Runs, err)
	}
}

// A run of a plan alone has a name in the fleet too.
func TestStatusNamesARunOfAPlan(t *testing.T) {
	f := fleettest.Up(t)
	c := New(f.Coordinator, Options{Host: "desk", Scratch: t.TempDir()})
	if err := c.Begin(t.Context(), orchestrate.Meta{ID: testRun, Title: "tests (and 2 more)", Base: begin}, nil, nil); err != nil {
		t.Fatal(err)
	}
	if s, err := fleet.GetStatus(t.Context(), f.Coordinator); err != nil || len(s.Runs) != 1 || s.Runs[0].Owner.Task != "tests (and 2 more)" {
		t.Errorf("%+v %v", s.Runs, err)
	}
	if err := c.End(t.Context(), true); err != nil {
		t.Error(err)
	}
}

// Of several that take a run over at once, one gets it.
func TestTakeoverAtOnce(t *testing.T) {
	f := fleettest.Up(t)
	one := New(f.Coordinator, Options{Scratch: t.TempDir(), Lease: lease})
	if err := one.Begin(t.Context(), orchestrate.Meta{ID: testRun, Base: begin}, nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := one.End(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	conn := laptop(t, f)
	const n = 5
	errs := make(chan error, n)
	winner := make(chan *Coordinator, n)
	for range n {
		go func() {
			c := New(conn, Options{Host: "laptop", Scratch: t.TempDir()})
			_, err := c.Take(t.Context(), testRun)
			if err == nil {
				winner <- c
			}
			errs <- err
		}()
	}
	won := 0
	for range n {
		switch err := fleettest.Receive(t, "the end of a takeover", errs); {
		case err == nil:
			won++
		case bridge.CodeOf(err) != bridge.CodeBusy:
			t.Error(err)
		}
	}
	if won != 1 {
		t.Fatalf("%d took the run", won)
	}
	if err := fleettest.Receive(t, "the winner", winner).End(t.Context(), true); err != nil {
		t.Error(err)
	}
	if _, err := New(conn, Options{Scratch: t.TempDir()}).Take(t.Context(), "20200101-000000-000000"); bridge.CodeOf(err) != bridge.CodeNotFound {
		t.Error(err)
	}
}

// The server goes away in the middle and comes back: nothing is lost.
func TestServerRestart(t *testing.T) {
	f := fleettest.Up(t)
	w, other := newHand(t, f, "alpha"), newHand(t, f, "other")
	c := start(t, f.Coordinator, Options{})
	claimed := try(t.Context(), c, "claimed")
	a := w.mustClaim()
	waiting := try(t.Context(), c, "waiting")
	fleettest.Wait(t, "its ticket", func() bool {
		i, err := c.stores.tasks.Info(t.Context())
		return err == nil && i.State.Msgs == 2
	})
	beating, stop := context.WithCancel(t.Context())
	defer stop()
	go w.beatUntil(beating, a)
	if err := f.Hub.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	appended := make(chan error, 1)
	go func() { appended <- c.Append(t.Context(), event("meanwhile")) }()
	delivered := make(chan error, 1)
	go func() { delivered <- w.deliver(a, result(a), jetstream.WithMsgID(a.Claim)) }()
	begun := try(t.Context(), c, "begun meanwhile")
	f.Start(t)
	for what, done := range map[string]chan error{"the event": appended, "the result": delivered} {
		if err := fleettest.Receive(t, what, done); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	mustDone(t, claimed, "alpha")
	for range 2 {
		x := other.mustClaim()
		other.mustDeliver(x, result(x))
	}
	mustDone(t, waiting, "other")
	mustDone(t, begun, "other")
}

// What the fleet has of old runs is removed by those that come after.
func TestOldRunsAreForgotten(t *testing.T) {
	f := fleettest.Up(t)
	old := New(f.Coordinator, Options{Scratch: t.TempDir()})
	if err := old.Begin(t.Context(), orchestrate.Meta{ID: "20200101-000000-abcdef", Base: begin}, nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(old.Append(t.Context(), event(strings.Repeat("x", maxEntry))), old.End(t.Context(), true)); err != nil {
		t.Fatal(err)
	}
	c := start(t, f.Coordinator, Options{})
	if err := c.forgetOlder(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	if s, err := fleet.GetStatus(t.Context(), f.Coordinator); err != nil || len(s.Runs) != 2 {
		t.Fatalf("%+v %v", s.Runs, err)
	}
	if err := c.forgetOlder(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if s, err := fleet.GetStatus(t.Context(), f.Coordinator); err != nil || len(s.Runs) != 1 || s.Runs[0].Run != testRun || !s.Runs[0].Alive {
		t.Errorf("%+v %v", s.Runs, err)
	}
	if _, err := c.stores.runs.List(t.Context()); !errors.Is(err, jetstream.ErrNoObjectsFound) {
		t.Errorf("objects stayed: %v", err)
	}
	if _, err := c.stores.journal.GetLastMsgForSubject(t.Context(), fleet.JournalSubject("20200101-000000-abcdef")); !errors.Is(err, jetstream.ErrMsgNotFound) {
		t.Errorf("the journal stayed: %v", err)
	}
}

// What this machine has on record must not be older than what the fleet has.
func TestStaleRecordIsRefused(t *testing.T) {
	f := fleettest.Up(t)
	meta := orchestrate.Meta{ID: testRun, Base: begin}
	for i, past := range [][]orchestrate.Event{nil, {event("first")}} {
		c := New(f.Coordinator, Options{Scratch: t.TempDir()})
		if err := c.Begin(t.Context(), meta, past, nil); err != nil {
			t.Fatal(i, err)
		}
		if err := errors.Join(c.Append(t.Context(), event([]string{"first", "second"}[i])), c.End(t.Context(), false)); err != nil {
			t.Fatal(i, err)
		}
	}
	c := New(f.Coordinator, Options{Scratch: t.TempDir()})
	if err := c.Begin(t.Context(), meta, []orchestrate.Event{event("first")}, nil); bridge.CodeOf(err) != bridge.CodeConflict {
		t.Error(err)
	}
}
