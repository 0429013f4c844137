package worker

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/fleettest"
)

const (
	victimDir  = "WORKER_TEST_MEMBER"
	victimRoot = "WORKER_TEST_ROOT"
)

// victim is a worker that hangs in the middle of a task, with a worktree.
func victim(dir string) error {
	ctx := context.Background()
	conn, err := fleet.Connect(ctx, dir, fleet.ConnectOptions{Name: "victim"})
	if err != nil {
		return err
	}
	defer conn.Close()
	return Run(ctx, conn, Options{Capacity: 1, Root: os.Getenv(victimRoot), Environ: os.Environ(), Ready: ready, Attempt: func(ctx context.Context, j Job) (Done, error) {
		tree := filepath.Join(j.Dir, "tree")
		if err := os.Mkdir(tree, 0o700); err != nil {
			return Done{}, err
		}
		gitDir, err := j.Repo.AddWorktree(ctx, tree, "", j.Begin)
		if err != nil {
			return Done{}, err
		}
		for _, lock := range []string{filepath.Join(gitDir, "index.lock"), filepath.Join(j.Repo.Common, "packed-refs.lock"), filepath.Join(tree, "ready")} {
			if err := os.WriteFile(lock, nil, 0o400); err != nil {
				return Done{}, err
			}
		}
		if err := os.Chmod(tree, 0o500); err != nil {
			return Done{}, err
		}
		<-ctx.Done()
		return Done{}, ctx.Err()
	}})
}

// A worker that is killed leaves nothing that the next start does not remove.
func TestKill(t *testing.T) {
	t.Parallel()
	y := newYard(t, "any")
	y.fleet.Join(t, y.fleet.Invite(t, fleet.RoleWorker, 1), "victim")
	self, err := os.Executable()
	y.must(err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), victimDir+"="+filepath.Join(y.fleet.Dir, "victim"), victimRoot+"="+y.root)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	y.must(cmd.Start())
	y.put("any", "one")
	fleettest.Wait(t, "the worktree", func() bool {
		found, _ := filepath.Glob(filepath.Join(y.root, "trees", "*", "tree", "ready"))
		return len(found) == 1
	})
	y.must(cmd.Process.Kill())
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != -1 {
		t.Fatalf("the worker ended by itself: %v\n%s", err, out.String())
	}
	if left := y.left(); len(left) == 0 {
		t.Error("the kill has left nothing to remove")
	}
	w := y.start(Options{Attempt: commit})
	fleettest.Wait(t, "the sweep", func() bool {
		found, _ := filepath.Glob(filepath.Join(y.root, "trees", "*"))
		return len(found) == 0
	})
	y.put("any", "two")
	if two := y.wait(1)["two"]; two.Error != nil {
		t.Error(two.Error)
	}
	w.stop()
}
