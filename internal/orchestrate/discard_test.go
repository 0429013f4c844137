package orchestrate

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// TestDiscard kills runs at random points and discards them: nothing of theirs
// is left in the repository or the home, and what the user had is there.
func TestDiscard(t *testing.T) {
	t.Parallel()
	trial := newYard(t)
	began := time.Now()
	if _, killed := trial.strike("", time.Minute); killed {
		t.Fatal("a run takes more than a minute")
	}
	whole := time.Since(began)
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	rounds := 4
	if os.Getenv("COPILOT_BRIDGE_TEST_LONG") != "" {
		rounds = 20
	}
	for done, tries := 0, 0; done < rounds; tries++ {
		if tries > 10*rounds {
			t.Fatalf("only %d runs could be hit", done)
		}
		y := newYard(t)
		y.write("notes.txt", "mine\n")
		before := y.tree()
		_, killed := y.strike("", time.Duration(rng.Int64N(int64(whole))))
		runs, err := Runs(y.home)
		if err != nil {
			t.Fatal(err)
		}
		if !killed || len(runs) == 0 {
			continue
		}
		done++
		run, last := runs[0], y.lastEvent(runs[0].ID)
		// A child that was just being started may hold the lock a little longer.
		for deadline := time.Now().Add(time.Minute); run.State == StateRunning && time.Now().Before(deadline); {
			if runs, err = Runs(y.home); err != nil {
				t.Fatal(err)
			}
			run = runs[0]
		}
		if run.Outcome == nil && run.State != StateInterrupted {
			t.Errorf("the state of a killed run is %s", run.State)
		}
		o := Options{Home: y.home, Environ: os.Environ()}

		// Not while another process has it.
		j, err := lockJournal(t.Context(), filepath.Join(RunsDir(y.home), run.ID))
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Runs(y.home); err != nil || again[0].State != StateRunning {
			t.Errorf("%+v, %v", again, err)
		}
		if _, err := Discard(t.Context(), run.ID, o); bridge.CodeOf(err) != bridge.CodeBusy {
			t.Errorf("a run that is going on: %v", err)
		}
		if err := j.close(); err != nil {
			t.Fatal(err)
		}

		d, err := Discard(t.Context(), "last", o)
		if err != nil {
			t.Fatal(err)
		}
		if d.Notice == "" && run.Outcome == nil && y.tree() != before && last != MergeDone && last != PlanCompleted {
			t.Errorf("the user's files have changed:\n%s", y.tree())
		}
		for _, dir := range []string{filepath.Join(RunsDir(y.home), run.ID), filepath.Join(WorktreesDir(y.home), run.ID)} {
			if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: %v", dir, err)
			}
		}
		if trees := y.git("worktree", "list", "--porcelain"); strings.Count(trees, "worktree ") != 1 {
			t.Errorf("worktrees are left:\n%s", trees)
		}
		for _, ref := range strings.Fields(y.git("for-each-ref", "--format=%(refname)", "refs/heads/copilot-bridge", "refs/copilot-bridge-runs")) {
			kept := false
			for _, k := range d.Kept {
				kept = kept || ref == k || ref == "refs/heads/"+k
			}
			if !kept {
				t.Errorf("%s is left, kept is %q", ref, d.Kept)
			}
		}
		if names := y.git("status", "--porcelain", "--untracked-files=all"); strings.Contains(names, "copilot-bridge") {
			t.Errorf("files are left:\n%s", names)
		}
		if _, err := Discard(t.Context(), run.ID, o); bridge.CodeOf(err) != bridge.CodeNotFound {
			t.Errorf("a run that was discarded: %v", err)
		}
	}
}

// A run that cannot be cleaned up, as on a disk that has become read-only,
// counts as interrupted until it is discarded or resumed.
func TestCleanUpFails(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(y *yard, run string) error{
		"discard": func(y *yard, run string) error {
			_, err := Discard(t.Context(), run, Options{Home: y.home, Environ: os.Environ()})
			return err
		},
		"resume": func(y *yard, run string) error {
			_, err := Resume(t.Context(), run, y.options(TaskPlan{}))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			o := y.options(TaskPlan{Tasks: []SubTask{task("one", "write one.txt 1")}})
			worktrees := filepath.Join(y.dir, ".git", "worktrees")
			o.Watch = func(e Event) {
				if e.Type == PlanCompleted {
					// Its directory is no directory, so it cannot be read.
					if err := errors.Join(os.Rename(worktrees, worktrees+"-away"), os.WriteFile(worktrees, nil, 0o600)); err != nil {
						t.Error(err)
					}
				}
			}
			r, err := Run(t.Context(), o)
			if err == nil {
				t.Fatal("it was cleaned up")
			}
			if err := errors.Join(os.Remove(worktrees), os.Rename(worktrees+"-away", worktrees)); err != nil {
				t.Fatal(err)
			}
			if runs, err := Runs(y.home); err != nil || len(runs) != 1 || runs[0].State != StateInterrupted || runs[0].Outcome == nil {
				t.Fatalf("%+v, %v", runs, err)
			}
			if err := end(y, r.Run); err != nil {
				t.Fatal(err)
			}
			if runs, err := Runs(y.home); err != nil || len(runs) == 1 && runs[0].State != StateFinished {
				t.Errorf("%+v, %v", runs, err)
			}
			y.clean()
		})
	}
}

// Worktrees without a run are found, and the repository forgets them.
func TestOrphans(t *testing.T) {
	y := newYard(t)
	r, err := openRepository(t.Context(), os.Environ(), t.TempDir(), y.dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	r.lockFile = filepath.Join(y.home, "worktrees.lock")
	head, err := r.Head(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(WorktreesDir(y.home), "20260101-000000-abcdef")
	if _, err := r.addWorktree(t.Context(), dir, "part", "", head); err != nil {
		t.Fatal(err)
	}
	found, err := Orphans(y.home)
	if err != nil || len(found) != 1 || found[0] != dir {
		t.Fatalf("%q, %v", found, err)
	}
	if err := RemoveOrphan(dir); err != nil {
		t.Fatal(err)
	}
	if trees := y.git("worktree", "list", "--porcelain"); strings.Count(trees, "worktree ") != 1 {
		t.Errorf("worktrees are left:\n%s", trees)
	}
	if found, err := Orphans(y.home); err != nil || len(found) != 0 {
		t.Errorf("%q, %v", found, err)
	}
}
