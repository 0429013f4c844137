package sessionstore

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestProcessesLoseNothing(t *testing.T) {
	const processes, puts = 8, 50
	path := filepath.Join(t.TempDir(), "home", "sessions")
	var running []*exec.Cmd
	for p := range processes {
		cmd := putter(t, path, fmt.Sprintf("child%d", p), puts)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		running = append(running, cmd)
	}
	for _, cmd := range running {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	have := ids(t, Open(path))
	if len(have) != processes*puts {
		t.Errorf("%d entries, want %d", len(have), processes*puts)
	}
	for p := range processes {
		for i := range puts {
			if id := fmt.Sprintf("child%d-%04d", p, i); !have[id] {
				t.Errorf("%s is lost", id)
			}
		}
	}
}

// TestKilledProcesses kills several writers of one store in the middle of
// their work, over and over. The store stays readable and writable, and holds
// everything that a writer was told is stored.
func TestKilledProcesses(t *testing.T) {
	const rounds, processes, putsBeforeKill = 5, 3, 4
	path := filepath.Join(t.TempDir(), "sessions")
	store := Open(path)
	for round := range rounds {
		var wg sync.WaitGroup
		var mu sync.Mutex
		var stored []string
		for p := range processes {
			cmd := putter(t, path, fmt.Sprintf("r%dp%d", round, p), 0)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				lines := killAfter(t, cmd, out, putsBeforeKill)
				mu.Lock()
				defer mu.Unlock()
				stored = append(stored, lines...)
			})
		}
		wg.Wait()

		if len(stored) < processes*putsBeforeKill {
			t.Fatalf("only %d entries were stored before the kills", len(stored))
		}
		have := ids(t, store)
		for _, id := range stored {
			if !have[id] {
				t.Errorf("round %d: %s is lost", round, id)
			}
		}
		after := fmt.Sprintf("after-%d", round)
		if err := store.Put(t.Context(), sample(after)); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		name := entry.Name()
		if name != "sessions" && !strings.HasPrefix(name, "sessions.json.lock") {
			t.Errorf("unexpected file %q", name)
		}
	}
}

// killAfter returns all ids that the process reported in its life.
func killAfter(t *testing.T, cmd *exec.Cmd, out io.Reader, puts int) []string {
	var stored []string
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		stored = append(stored, lines.Text())
		if len(stored) == puts {
			if err := cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	if err := lines.Err(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the process ended by itself")
	}
	return stored
}

func TestGoroutinesLoseNoUpdate(t *testing.T) {
	const goroutines, updates = 8, 10
	store := Open(filepath.Join(t.TempDir(), "sessions"))
	if err := store.Put(t.Context(), sample("shared")); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range updates {
				err := store.Update(t.Context(), "shared", func(e *Entry) error {
					e.Turns++
					e.InputTokens += 100
					e.OutputTokens += 10
					return nil
				})
				if err != nil {
					t.Error(err)
				}
				if _, err := store.Get(t.Context(), "shared"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	e, err := store.Get(t.Context(), "shared")
	if err != nil {
		t.Fatal(err)
	}
	const n = goroutines * updates
	if e.Turns != n || e.InputTokens != 100*n || e.OutputTokens != 10*n {
		t.Errorf("turns %d, input %d, output %d after %d updates", e.Turns, e.InputTokens, e.OutputTokens, n)
	}
}

func ids(t *testing.T, store *Store) map[string]bool {
	t.Helper()
	entries, err := store.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	have := make(map[string]bool)
	for _, e := range entries {
		have[e.ID] = true
	}
	return have
}
