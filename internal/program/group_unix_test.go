//go:build unix

package program

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
)

// The test binary is also the supervisor.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == supervise.Verb {
		os.Exit(supervise.Main(os.Args[2:], os.Stderr))
	}
	goleak.VerifyTestMain(m)
}

func trees(t *testing.T) Trees {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	return func() (*supervise.Tree, error) { return supervise.NewTree(dir, self) }
}

func start(t *testing.T, trees Trees, script string) *Group {
	t.Helper()
	c, err := New(Place{Env: []string{"PATH=/usr/bin:/bin"}}, "/bin/sh", "-c", script)
	if err != nil {
		t.Fatal(err)
	}
	g, err := c.Start(Streams{}, trees)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestExit(t *testing.T) {
	for name, trees := range map[string]Trees{"group": nil, "supervised": trees(t)} {
		for script, want := range map[string]struct {
			code   int
			signal string
		}{"exit 7": {7, ""}, "true": {0, ""}, "kill -TERM $$": {143, "SIGTERM"}} {
			g := start(t, trees, script)
			<-g.Done()
			if code, signal := g.Exit(); code != want.code || signal != want.signal {
				t.Errorf("%s, %s: %d %q", name, script, code, signal)
			}
			if err := g.End(t.Context(), time.Second); err != nil { // has gone: nothing to do
				t.Error(err)
			}
			if err := g.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestEnd(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, trees := range map[string]Trees{"group": nil, "supervised": trees(t)} {
		ready := filepath.Join(t.TempDir(), "ready")
		g := start(t, trees, "trap '' TERM; : > "+ready+"; sleep 300 & wait; sleep 300")
		for deadline := time.Now().Add(30 * time.Second); ; {
			if _, err := os.Stat(ready); err == nil && g.PID() > 1 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("it does not start")
			}
			<-time.After(5 * time.Millisecond)
		}
		began := time.Now()
		if err := g.End(canceled, time.Hour); err != nil { // the context cuts the grace short
			t.Error(err)
		}
		if code, signal := g.Exit(); code != 137 || signal != "SIGKILL" || time.Since(began) > 30*time.Second {
			t.Errorf("%s: %d %q after %s", name, code, signal, time.Since(began))
		}
	}
}

// Killed before its supervisor has told who it is.
func TestKillAtOnce(t *testing.T) {
	for name, trees := range map[string]Trees{"group": nil, "supervised": trees(t)} {
		g := start(t, trees, "trap '' TERM; sleep 300")
		if err := g.Kill(); err != nil {
			t.Error(err)
		}
		if code, signal := g.Exit(); code == 0 || signal == "" {
			t.Errorf("%s: %d %q", name, code, signal)
		}
	}
}

func TestStartRefuses(t *testing.T) {
	if _, err := (Command{Path: "/bin/true", Args: []string{"true"}}).Start(Streams{}, nil); err == nil {
		t.Error("nobody has made it")
	}
	c, err := New(Place{}, "/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	if c.Env == nil {
		t.Error("it would inherit our environment")
	}
	c.Path = "/none"
	if _, err := c.Start(Streams{}, nil); err == nil {
		t.Error("it does not exist")
	}
}

// A program with the terminal is in our own group, gets the signals that are passed on,
// and its exit is told.
func TestForeground(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		line   string
		signal os.Signal
		want   Exit
	}{
		{`[ "$(ps -o pgid= -p $$)" = "$(ps -o pgid= -p $PPID)" ] && exit 7`, nil, Exit{Code: 7}},
		{`echo ready; exec sleep 60`, syscall.SIGTERM, Exit{Code: 143, Signal: "SIGTERM"}},
		{`trap 'exit 5' INT; echo ready; while :; do sleep 0.05; done`, os.Interrupt, Exit{Code: 5}},
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		c, err := New(Place{Env: os.Environ()}, "sh", "-c", tt.line)
		if err != nil {
			t.Fatal(err)
		}
		f, err := c.StartForeground(Streams{Out: w})
		if err := errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		if tt.signal != nil {
			if _, err := r.Read(make([]byte, 8)); err != nil {
				t.Fatal(err)
			}
			f.Signal(tt.signal)
		}
		if got, err := f.Wait(); err != nil || got != tt.want {
			t.Errorf("%s: %+v, %v", tt.line, got, err)
		}
		_ = r.Close()
	}
}
