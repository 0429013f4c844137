//go:build unix

package task

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
)

var testEnv = []string{"PATH=/usr/local/bin:/usr/bin:/bin"}

func trees(t *testing.T) program.Trees {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Cleanup(func() {
		if left, _ := filepath.Glob(filepath.Join(dir, "*.json")); len(left) > 0 {
			t.Errorf("records left: %v", left)
		}
	})
	return func() (*supervise.Tree, error) { return supervise.NewTree(dir, self) }
}

// spec is a command without a workspace, and its bounds.
type spec struct {
	Dir       string
	Command   []string
	Shell     string
	Env       []string
	Stdin     []byte
	Timeout   time.Duration
	MaxOutput int
	OnOutput  func(string, []byte)
	Trees     program.Trees
}

func run(ctx context.Context, s spec) (Result, error) {
	p := program.Place{Dir: s.Dir, Env: s.Env}
	c, err := program.Shell(p, s.Shell)
	if len(s.Command) > 0 {
		c, err = program.New(p, s.Command[0], s.Command[1:]...)
	}
	if err != nil {
		return Result{}, err
	}
	return Run(ctx, Spec{Program: c, Stdin: s.Stdin, Timeout: s.Timeout, MaxOutput: s.MaxOutput, OnOutput: s.OnOutput, Trees: s.Trees})
}

// both runs a test with a process group alone and under a supervisor.
func both(t *testing.T, f func(t *testing.T, trees program.Trees)) {
	t.Helper()
	t.Run("group", func(t *testing.T) { f(t, nil) })
	t.Run("supervised", func(t *testing.T) { f(t, trees(t)) })
}

func TestRun(t *testing.T) {
	both(t, func(t *testing.T, trees program.Trees) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "tool.sh"), []byte("#!/bin/sh\necho tool \"$@\"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		tests := []struct {
			name string
			spec spec
			want Result
		}{
			{"output and code", spec{Shell: "echo out; echo err >&2; exit 3"}, Result{ExitCode: 3, Stdout: "out\n", Stderr: "err\n"}},
			{"no shell", spec{Command: []string{"printf", "%s|", "a b", "$HOME", "*"}}, Result{Stdout: "a b|$HOME|*|"}},
			{"program in the directory", spec{Command: []string{"./tool.sh", "x"}}, Result{Stdout: "tool x\n"}},
			{"directory", spec{Shell: "test \"$(pwd -P)\" = \"$(cd " + dir + " && pwd -P)\" && echo here"}, Result{Stdout: "here\n"}},
			{"input is empty", spec{Shell: "cat; echo end"}, Result{Stdout: "end\n"}},
			{"input", spec{Command: []string{"cat"}, Stdin: []byte("fed")}, Result{Stdout: "fed"}},
			{"input unread", spec{Command: []string{"true"}, Stdin: make([]byte, 1<<20)}, Result{}},
			{"signal", spec{Shell: "kill -KILL $$"}, Result{ExitCode: 137, Signal: "SIGKILL"}},
			{"not UTF-8", spec{Shell: `printf 'a\377b\303\244'`}, Result{Stdout: "a\uFFFDbä"}},
		}
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				tt.spec.Dir, tt.spec.Trees, tt.spec.Env = dir, trees, testEnv
				got, err := run(t.Context(), tt.spec)
				if err != nil {
					t.Fatal(err)
				}
				got.DurationMs = 0
				if got != tt.want {
					t.Errorf("got %+v\nwant %+v", got, tt.want)
				}
			})
		}
	})
}

func TestRunInheritsNothing(t *testing.T) {
	t.Setenv("MY_SECRET", "hush")
	both(t, func(t *testing.T, trees program.Trees) {
		for _, env := range [][]string{nil, {"ONLY=this"}} {
			got, err := run(t.Context(), spec{Dir: t.TempDir(), Command: []string{"/usr/bin/env"}, Env: env, Trees: trees})
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(got.Stdout) {
				if name, _, _ := strings.Cut(line, "="); name != "ONLY" && !strings.HasPrefix(name, "COPILOT_BRIDGE_TREE") {
					t.Errorf("inherited %q", line)
				}
			}
		}
	})
}

func TestRunRefuses(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if err := os.WriteFile(filepath.Join(dir, "only-on-our-path"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		spec spec
		want bridge.Code
	}{
		{"nothing", spec{Dir: dir}, bridge.CodeInvalid},
		{"NUL", spec{Dir: dir, Shell: "echo \x00"}, bridge.CodeInvalid},
		{"relative directory", spec{Dir: "x", Shell: "true"}, bridge.CodeInvalid},
		{"no such directory", spec{Dir: filepath.Join(dir, "none"), Shell: "true"}, bridge.CodeNotFound},
		{"no such program", spec{Dir: dir, Command: []string{"no-such-program"}}, bridge.CodeNotFound},
		{"a program on our PATH, not its own", spec{Dir: dir, Command: []string{"only-on-our-path"}}, bridge.CodeNotFound},
		{"a relative PATH", spec{Dir: dir, Command: []string{"only-on-our-path"}, Env: []string{"PATH=.:"}}, bridge.CodeNotFound},
		{"no such program here", spec{Dir: dir, Command: []string{"./none"}}, bridge.CodeNotFound},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.spec.Env == nil {
				tt.spec.Env = testEnv
			}
			if _, err := run(t.Context(), tt.spec); bridge.CodeOf(err) != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

// stubborn starts two processes that ignore SIGTERM, prints their pids and
// says that it is ready.
const stubborn = `trap '' TERM; (trap '' TERM; exec sleep 300) & echo $$ $!; wait; sleep 300`

const killMargin = 15 * time.Second // for a busy machine

func TestRunEndsTheWholeGroup(t *testing.T) {
	both(t, func(t *testing.T, trees program.Trees) {
		t.Run("time-out", func(t *testing.T) {
			t.Parallel()
			const timeout = 4 * time.Second // long enough for it to be there on a busy machine
			r, err := run(t.Context(), spec{Dir: t.TempDir(), Shell: stubborn, Env: testEnv, Timeout: timeout, Trees: trees})
			if err != nil {
				t.Fatal(err)
			}
			if !r.TimedOut || r.Signal != "SIGKILL" || r.ExitCode != 137 {
				t.Errorf("got %+v", r)
			}
			if took := r.DurationMs; took < (timeout+grace).Milliseconds() || took > (timeout+grace+killMargin).Milliseconds() {
				t.Errorf("took %d ms, want SIGKILL 2 s after SIGTERM", took)
			}
			allGone(t, r.Stdout)
		})
		t.Run("cancel", func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r, err := run(ctx, spec{
				Dir: t.TempDir(), Shell: stubborn, Env: testEnv, Trees: trees,
				OnOutput: func(string, []byte) { cancel() },
			})
			if bridge.CodeOf(err) != bridge.CodeCanceled {
				t.Errorf("got %v", err)
			}
			allGone(t, r.Stdout)
		})
	})
}

// Under a supervisor it is the supervisor's patience that counts.
func TestRunLetsTheGroupCleanUp(t *testing.T) {
	// The shell dies of SIGTERM at once; what it started takes a moment.
	const script = `(trap 'sleep 0.1; echo cleaned; exit' TERM; echo ready; while :; do sleep 0.02; done) & wait`
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := run(ctx, spec{Dir: t.TempDir(), Shell: script, Env: testEnv, OnOutput: func(string, []byte) { cancel() }})
	if bridge.CodeOf(err) != bridge.CodeCanceled || r.Stdout != "ready\ncleaned\n" || r.Signal != "SIGTERM" {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestRunDeadlineOfTheCaller(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := run(ctx, spec{Dir: t.TempDir(), Shell: "sleep 300", Env: testEnv}); bridge.CodeOf(err) != bridge.CodeTimeout {
		t.Errorf("got %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	if _, err := run(ctx, spec{Dir: t.TempDir(), Shell: "true", Env: testEnv}); bridge.CodeOf(err) != bridge.CodeCanceled {
		t.Errorf("got %v", err)
	}
}

func TestRunDoesNotWaitForHeldPipes(t *testing.T) {
	both(t, func(t *testing.T, trees program.Trees) {
		for name, script := range map[string]string{
			"in the group":   "sleep 300 & echo $!",
			"left the group": "setsid sleep 300 & echo $!",
		} {
			t.Run(name, func(t *testing.T) {
				r, err := run(t.Context(), spec{Dir: t.TempDir(), Shell: script, Env: testEnv, Trees: trees})
				if err != nil || r.ExitCode != 0 {
					t.Fatalf("got %+v, %v", r, err)
				}
				if r.DurationMs > killMargin.Milliseconds() { // it would be 300 s
					t.Errorf("took %d ms", r.DurationMs)
				}
				pid := pids(t, r.Stdout)[0]
				if trees == nil && name == "left the group" {
					if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
						t.Errorf("only a supervisor should have found it: %v", err)
					}
					return
				}
				allGone(t, r.Stdout)
			})
		}
	})
}

func TestRunKeepsHeadAndTail(t *testing.T) {
	r, err := run(t.Context(), spec{
		Dir: t.TempDir(), Env: testEnv, MaxOutput: 100,
		Shell: `echo first; i=0; while [ $i -lt 2000 ]; do echo "line ä $i"; i=$((i+1)); done; echo last`,
	})
	if err != nil {
		t.Fatal(err)
	}
	if !r.Truncated || !strings.HasPrefix(r.Stdout, "first\n") || !strings.HasSuffix(r.Stdout, "last\n") ||
		!strings.Contains(r.Stdout, "bytes left out") || !utf8.ValidString(r.Stdout) || strings.Contains(r.Stdout, "\uFFFD") {
		t.Errorf("got %+v", r)
	}
	if len(r.Stdout) > 100+60 {
		t.Errorf("%d bytes kept", len(r.Stdout))
	}
}

func TestRunStreams(t *testing.T) {
	var mu sync.Mutex
	got := map[string]string{}
	r, err := run(t.Context(), spec{
		Dir: t.TempDir(), Env: testEnv, MaxOutput: 1000,
		// The character comes in two writes, with the reader in between.
		Shell: `printf 'a\303'; echo e >&2; sleep 0.05; printf '\244b\360\237'; yes | head -c 5000`,
		OnOutput: func(stream string, text []byte) {
			if !mu.TryLock() {
				t.Error("calls overlap")
				return
			}
			defer mu.Unlock()
			if !utf8.Valid(text) || len(text) == 0 {
				t.Errorf("piece %q", text)
			}
			got[stream] += string(text)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got["stderr"] != "e\n" || !strings.HasPrefix(got["stdout"], "aäb\uFFFDy\n") || len(got["stdout"]) > 1010 || !r.Truncated {
		t.Errorf("got %q, %v", got, r.Truncated)
	}
}

// bridgeMain is a bridge that runs a command and is killed meanwhile.
func bridgeMain() int {
	self, err := os.Executable()
	if err != nil {
		return 1
	}
	_, err = run(context.Background(), spec{
		Dir: os.TempDir(), Env: testEnv,
		Shell:    `trap '' TERM HUP; setsid sleep 300 & sleep 301 & echo $$ $!; sleep 302`,
		OnOutput: func(_ string, b []byte) { fmt.Print(string(b)) },
		Trees:    func() (*supervise.Tree, error) { return supervise.NewTree(os.Getenv("TASK_TEST_BRIDGE"), self) },
	})
	fmt.Println(err)
	return 1
}

func TestKilledBridgeLeavesNothing(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	dir := t.TempDir()
	cmd.Env = append(os.Environ(), "TASK_TEST_BRIDGE="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // reports the signal
	deadline := time.Now().Add(30 * time.Second)
	for {
		files, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(files) == 0 { // the supervisor's last act
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the supervisor is still there")
		}
		<-time.After(10 * time.Millisecond)
	}
	allGone(t, line)
}

func pids(t *testing.T, text string) []int {
	t.Helper()
	var found []int
	for _, f := range strings.Fields(text) {
		pid, err := strconv.Atoi(f)
		if err != nil {
			t.Fatalf("not pids: %q", text)
		}
		found = append(found, pid)
	}
	if len(found) == 0 {
		t.Fatal("no pids")
	}
	return found
}

// allGone waits for the system to notice; Run has killed them before it
// returned, but a process may be a zombie until its new parent looks.
func allGone(t *testing.T, text string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for _, pid := range pids(t, text) {
		for alive(pid) {
			if time.Now().After(deadline) {
				t.Fatalf("process %d is still there", pid)
			}
			<-time.After(5 * time.Millisecond)
		}
	}
}

func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	return !strings.Contains(string(b[strings.LastIndexByte(string(b), ')')+1:])[:3], "Z")
}
