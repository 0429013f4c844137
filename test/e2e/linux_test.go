//go:build linux

package e2e

import (
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/programtest"
)

// TestProcesses runs the scripts that start, signal and kill processes and look
// for them in /proc.
func TestProcesses(t *testing.T) { runScripts(t, "testdata/linux", platformCommands()) }

func platformCommands() map[string]scriptCommand {
	return map[string]scriptCommand{
		"start": start, "seen": seen, "signal": sendSignal, "finish": finish,
		"noleftovers": noLeftovers, "proc": proc, "killruntime": killRuntime, "ask": ask,
	}
}

// job is a program that runs in the background of a script.
type job struct {
	cmd        *exec.Cmd
	out, err   *output
	done       chan struct{}
	lastSignal time.Time // when the job was last signalled, or its runtime killed
}

type output = programtest.Output

// jobs holds the job of each script; a script has at most one.
var jobs sync.Map // *testscript.TestScript → *job

func jobOf(ts *testscript.TestScript) *job {
	value, _ := jobs.Load(ts)
	j, ok := value.(*job)
	if !ok {
		ts.Fatalf("nothing was started")
	}
	return j
}

// patience is long because test machines are busy.
const patience = 3 * time.Minute

// poll waits until ok returns true. After the limit it fails with what.
func poll(ts *testscript.TestScript, limit time.Duration, what string, ok func() bool) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(limit)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			ts.Fatalf("within %s: %s", limit, what)
		}
	}
}

// start STDIN ARGS… runs copilot-bridge in the background with a file as its
// input ("-" for none).
func start(ts *testscript.TestScript, _ bool, args []string) {
	j := &job{out: &output{}, err: &output{}, done: make(chan struct{})}
	j.cmd = exec.Command(binary, args[1:]...)
	if args[0] != "-" {
		j.cmd.Stdin = strings.NewReader(ts.ReadFile(args[0]))
	}
	j.cmd.Dir, j.cmd.Env = ts.MkAbs("."), environ(ts)
	j.cmd.Stdout, j.cmd.Stderr = j.out, j.err
	j.cmd.WaitDelay = patience // a surviving child may hold the pipes
	ts.Check(j.cmd.Start())
	jobs.Store(ts, j)
	go func() {
		defer close(j.done)
		_ = j.cmd.Wait() // checked by the exit code
	}()
	ts.Defer(func() {
		jobs.Delete(ts)
		select {
		case <-j.done:
		default:
			_ = j.cmd.Process.Kill()
			<-j.done
		}
	})
}

// environ returns the script's environment, which testscript does not expose as
// a whole.
func environ(ts *testscript.TestScript) []string {
	names := []string{"PATH", "HOME", "TMPDIR", "TERM", "NO_COLOR"}
	for _, k := range config.Keys() {
		names = append(names, k.Env)
	}
	var out []string
	for _, n := range names {
		if v := ts.Getenv(n); v != "" {
			out = append(out, n+"="+v)
		}
	}
	return out
}

// seen PATTERN waits until the job has printed the pattern.
func seen(ts *testscript.TestScript, _ bool, args []string) {
	j, re := jobOf(ts), regexp.MustCompile(args[0])
	poll(ts, patience, "no "+args[0]+" was written", func() bool {
		return re.MatchString(j.out.String()) || re.MatchString(j.err.String())
	})
}

// signal NAME signals the job.
func sendSignal(ts *testscript.TestScript, _ bool, args []string) {
	j := jobOf(ts)
	s := map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL, "HUP": syscall.SIGHUP}[args[0]]
	j.lastSignal = time.Now()
	ts.Check(j.cmd.Process.Signal(s))
}

// finish CODE [TIME] waits until the job has ended with this exit code, within
// this time after the last signal or kill. -1 is the code of a killed job.
// Afterwards stdout and stderr hold its output.
func finish(ts *testscript.TestScript, _ bool, args []string) {
	j := jobOf(ts)
	limit := patience
	if len(args) > 1 {
		d, err := time.ParseDuration(args[1])
		ts.Check(err)
		limit = d
	}
	select {
	case <-j.done:
	case <-time.After(patience + limit):
		ts.Fatalf("it did not end; stderr:\n%s", j.err)
	}
	if took := time.Since(j.lastSignal); !j.lastSignal.IsZero() && took > limit {
		ts.Fatalf("it took %s to end", took)
	}
	_, err := ts.Stdout().Write([]byte(j.out.String()))
	ts.Check(err)
	_, err = ts.Stderr().Write([]byte(j.err.String()))
	ts.Check(err)
	if code := strconv.Itoa(j.cmd.ProcessState.ExitCode()); code != args[0] {
		ts.Fatalf("exit code %s, want %s\nstdout:\n%s\nstderr:\n%s", code, args[0], j.out, j.err)
	}
}

// noleftovers [TIME] checks that no supervised process with this script's home
// is left.
func noLeftovers(ts *testscript.TestScript, _ bool, args []string) {
	limit := 5 * time.Second
	if len(args) > 0 {
		d, err := time.ParseDuration(args[0])
		ts.Check(err)
		limit = d
	}
	poll(ts, limit, "processes are left", func() bool { return len(tree(ts)) == 0 })
}

// tree returns the processes below a bridge with this script's home, with their
// command lines.
func tree(ts *testscript.TestScript) map[int]string {
	return programtest.Processes(ts.Getenv("HOME"), "COPILOT_BRIDGE_TREE")
}

// proc PATTERN waits for a process in the tree with a matching command line.
func proc(ts *testscript.TestScript, _ bool, args []string) {
	re := regexp.MustCompile(args[0])
	poll(ts, patience, "no process "+args[0], func() bool {
		for _, cmdline := range tree(ts) {
			if re.MatchString(cmdline) {
				return true
			}
		}
		return false
	})
}

// killruntime kills the runtime, not its supervisor.
func killRuntime(ts *testscript.TestScript, _ bool, _ []string) {
	path := ts.Getenv("COPILOT_CLI_PATH")
	j := jobOf(ts)
	for pid, cmdline := range tree(ts) {
		if strings.HasPrefix(cmdline, path) {
			j.lastSignal = time.Now()
			ts.Check(syscall.Kill(pid, syscall.SIGKILL))
			return
		}
	}
	ts.Fatalf("no runtime is running: %v", tree(ts))
}
