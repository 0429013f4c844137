package durable

import (
	"bufio"
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// shortWait is how long tests wait for a lock that they will not get: several
// polls, and long enough that a busy machine gets to the first of them.
const shortWait = 200 * time.Millisecond

func TestLockExcludesGoroutines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "dir", "lock")
	var inside, total atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 5 {
				unlock, err := Lock(t.Context(), path)
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d holders at once", n)
				}
				runtime.Gosched()
				total.Add(1)
				inside.Add(-1)
				if err := unlock(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := total.Load(); n != 40 {
		t.Errorf("held %d times, want 40", n)
	}
}

func TestLockBusy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := Lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), shortWait)
	defer cancel()
	_, err = Lock(ctx, path)
	var busy *bridge.Error
	if !errors.As(err, &busy) || busy.Code != bridge.CodeBusy {
		t.Fatalf("error %v, want code busy", err)
	}
	if !strings.Contains(busy.Message, path) || !strings.Contains(busy.Message, "another copilot-bridge") || busy.Remedy == "" {
		t.Errorf("message %q, remedy %q", busy.Message, busy.Remedy)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v hides its cause", err)
	}

	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	again, err := Lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	// The first holder's second unlock must not release the second holder.
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), shortWait)
	defer cancel()
	if _, err := Lock(ctx, path); bridge.CodeOf(err) != bridge.CodeBusy {
		t.Errorf("error %v, want code busy", err)
	}
	if err := again(); err != nil {
		t.Fatal(err)
	}
}

func TestLockContextAlreadyDone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	_, err := Lock(ctx, filepath.Join(dir, "lock"))
	if bridge.CodeOf(err) != bridge.CodeCanceled {
		t.Errorf("error %v, want code canceled: nobody holds the lock", err)
	}
	if got := names(t, dir); len(got) != 0 {
		t.Errorf("directory holds %q", got)
	}
}

func TestLockBelowAFileFails(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	file := filepath.Join(t.TempDir(), "file")
	mustWrite(t, file, "x")
	if _, err := Lock(ctx, filepath.Join(file, "lock")); err == nil || bridge.CodeOf(err) == bridge.CodeBusy {
		t.Errorf("error %v, want one that is not about a holder", err)
	}
}

// TestLockIsFair has one goroutine lock again as soon as it has unlocked. A
// waiter must still get its turn soon, and not by luck.
func TestLockIsFair(t *testing.T) {
	const waits, allowed = 10, 50 // without a queue it is some 300 a wait
	path := filepath.Join(t.TempDir(), "lock")
	var turns atomic.Int32
	stop, held := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(stop)
	wg.Go(func() {
		defer close(held)
		for {
			unlock, err := Lock(t.Context(), path)
			if err != nil {
				t.Error(err)
				return
			}
			turns.Add(1)
			select { // some work under the lock, which the waiter may watch
			case held <- struct{}{}:
			case <-stop:
			case <-time.After(time.Millisecond):
			}
			if err := unlock(); err != nil {
				t.Error(err)
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	var passed int32
	for range waits {
		<-held
		before := turns.Load()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		unlock, err := Lock(ctx, path)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		passed += turns.Load() - before
		if err := unlock(); err != nil {
			t.Fatal(err)
		}
	}
	if passed > waits*allowed {
		t.Errorf("the other came first %d times in %d waits", passed, waits)
	}
	t.Logf("the other came first %d times in %d waits", passed, waits)
}

// TestLockOfKilledHolder: the lock excludes other processes, and a holder
// that dies by SIGKILL gives it back.
func TestLockOfKilledHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	cmd := child(t, "lock", path)
	// Held open, since the child hangs on it; Wait closes it.
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "locked\n" {
		t.Fatalf("child said %q, %v", line, err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), shortWait)
	defer cancel()
	if _, err := Lock(ctx, path); bridge.CodeOf(err) != bridge.CodeBusy {
		t.Errorf("error %v, want code busy", err)
	}

	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the holder ended by itself")
	}
	ctx, cancel = context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	unlock, err := Lock(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
}

// Several hold a lock together, and nobody alone meanwhile.
func TestShare(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	take := func(what string, by func(string) (func() error, bool, error), want bool) func() error {
		t.Helper()
		unlock, ok, err := by(path)
		if err != nil || ok != want {
			t.Fatalf("%s: %v, %v", what, ok, err)
		}
		return unlock
	}
	share := func(path string) (func() error, bool, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		return Share(ctx, path)
	}
	one, two := take("share", share, true), take("share again", share, true)
	take("alone, while shared", TryLock, false)
	if err := errors.Join(one(), two()); err != nil {
		t.Fatal(err)
	}
	alone := take("alone", TryLock, true)
	take("share, while one has it alone", share, false)
	later := make(chan error, 1)
	time.AfterFunc(10*time.Millisecond, func() { later <- alone() })
	three, ok, err := Share(t.Context(), path)
	if err := errors.Join(err, <-later); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if err := three(); err != nil {
		t.Fatal(err)
	}
}
