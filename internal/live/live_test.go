package live

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// stay is a process that makes itself known until it is killed.
func stay(home string) int {
	l, err := Start(home, Process{Command: "run"})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(l.ID())
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test ends it
	return 0
}

func start(t *testing.T, home string, p Process) *Local {
	t.Helper()
	l, err := Start(home, p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func TestAProcessIsKnownWhileItLives(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	if list, err := Processes(home); err != nil || len(list) != 0 {
		t.Fatal(list, err)
	}
	l, err := Start(home, Process{Command: "serve", Workspace: "/w"})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.SetURL("http://127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	list, err := Processes(home)
	if err != nil || len(list) != 1 || list[0].ID != l.ID() || list[0].PID != os.Getpid() || list[0].URL == "" || !list[0].Alive() || !Alive(home, l.ID()) {
		t.Fatalf("%+v, %v", list, err)
	}
	if info, err := os.Stat(l.Dir()); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Error(info, err)
	}
	if err := errors.Join(l.Close(), l.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(l.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if list, err := Processes(home); err != nil || len(list) != 0 || Alive(home, l.ID()) {
		t.Error(list, err)
	}
	if Alive(home, "../live/"+l.ID()) {
		t.Error("an id leads out of the directory")
	}
}

// A process that is killed leaves a directory, which the next list removes. What
// does not look like one of ours stays, and so does a directory that has just
// been made.
func TestAKilledProcessIsForgotten(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env, cmd.Stderr = append(os.Environ(), "LIVE_TEST_HOME="+home), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(out)
	said.Scan()
	id := said.Text()
	if list, err := Processes(home); err != nil || len(list) != 1 || list[0].ID != id {
		t.Fatalf("%q: %+v, %v", id, list, err)
	}
	starting := filepath.Join(Dir(home), "1-starts")
	if err := os.Mkdir(starting, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if list, err := Processes(home); err != nil || len(list) != 0 {
		t.Fatalf("%+v, %v", list, err)
	}
	if _, err := os.Stat(filepath.Join(Dir(home), id)); !errors.Is(err, os.ErrNotExist) {
		t.Error("the directory of the killed process is still there:", err)
	}
	if _, err := os.Stat(starting); err != nil {
		t.Error(err)
	}
	if err := Send(t.Context(), home, id, Order{Kind: OrderStop}); bridge.CodeOf(err) != bridge.CodeNotFound {
		t.Error(err)
	}
}

func TestOrdersAreCarriedOutOnce(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	l := start(t, home, Process{})
	if err := Send(t.Context(), home, l.ID(), Order{Kind: OrderStop}); bridge.CodeOf(err) != bridge.CodeUnsupported {
		t.Error(err)
	}
	got := make(chan Order, 8)
	release := make(chan struct{})
	l.Handle(func(ctx context.Context, o Order) error {
		got <- o
		switch o.Session {
		case "unknown":
			return &bridge.Error{Code: bridge.CodeNotFound, Message: "no such session", Remedy: "look"}
		case "slow":
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
		return nil
	})
	slow := make(chan error, 1)
	go func() { slow <- Send(t.Context(), home, l.ID(), Order{Session: "slow"}) }()
	<-got
	// Another order does not wait for the slow one.
	if err := Send(t.Context(), home, l.ID(), Order{Kind: OrderSend, Session: "a", Text: "go on", Mode: ModeSteer, By: "top"}); err != nil {
		t.Fatal(err)
	}
	if o := <-got; o.Text != "go on" || o.Mode != ModeSteer || o.By != "top" || o.ID == "" {
		t.Errorf("%+v", o)
	}
	err := Send(t.Context(), home, l.ID(), Order{Session: "unknown"})
	if e := bridge.AsError(err); e == nil || e.Code != bridge.CodeNotFound || e.Remedy != "look" {
		t.Error(err)
	}
	<-got
	close(release)
	if err := <-slow; err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Join(l.Dir(), ordersDir)); err != nil || len(left)+len(got) > 0 {
		t.Error(left, err, len(got))
	}
}

// Close ends what is being carried out, and nobody waits for it in vain.
func TestCloseEndsOrders(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	l, err := Start(home, Process{})
	if err != nil {
		t.Fatal(err)
	}
	begun := make(chan struct{})
	l.Handle(func(ctx context.Context, _ Order) error { close(begun); <-ctx.Done(); return ctx.Err() })
	sent := make(chan error, 1)
	go func() { sent <- Send(t.Context(), home, l.ID(), Order{}) }()
	<-begun
	before := time.Now()
	if err := l.Close(); err != nil || time.Since(before) > orderLimit/2 {
		t.Fatal(err, time.Since(before))
	}
	if err := <-sent; err == nil {
		t.Error("an order that was broken off has succeeded")
	}
}

// A process that ends because of a stop may have no time to say that it stopped.
func TestStopEndsTheProcess(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	l, err := Start(home, Process{Command: "run"})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	l.Handle(func(ctx context.Context, _ Order) error {
		go func() { ended <- l.Close() }()
		<-ctx.Done()
		return nil
	})
	if err := Send(t.Context(), home, l.ID(), Order{Kind: OrderStop, Session: "a"}); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
