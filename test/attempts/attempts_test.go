//go:build unix

package attempts

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/guard/audit"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/guardtest"
)

// caller makes tool calls through a door and returns the outcome of each. It
// leaves out calls that the door does not support.
type caller interface {
	do(t *testing.T, cases []guardtest.Case, together int) ([]call, []outcome)
}

// door is one interface of the program: a command, an HTTP API, a protocol.
// open starts the program with the environment env.
type door struct {
	name string
	open func(t *testing.T, y *testEnv, env []string) caller
	// nth: even a long run makes only every nth attempt here, because a similar
	// door runs them all. The tests of internal/guard run all cases each time.
	nth int
	// least is how many attempts this door must support.
	least     int
	readOnly  bool // it denies writes
	agent     bool // it opens sessions of Copilot's agent
	bus       bool // it is the tool bus
	worktrees bool // it works in git worktrees
	plain     bool // it accepts only clean paths without symbolic links
	// reasons are additional reasons for a denial at this door.
	reasons []string
}

var doors = []door{
	{name: "run", open: cli, least: 200, agent: true},
	{name: "chat completions", open: serve("/v1/chat/completions", chatBody, "--read-write"), least: 200, agent: true},
	{name: "chat completions, read-only", open: serve("/v1/chat/completions", chatBody), least: 200, nth: 4, readOnly: true, reasons: []string{"readOnly"}},
	{name: "responses", open: serve("/v1/responses", responsesBody, "--read-write"), least: 200, nth: 8},
	{name: "messages", open: serve("/v1/messages", messagesBody, "--read-write"), least: 200, nth: 8},
	{name: "tool bus", open: bus, least: 200, bus: true, plain: true},
	{name: "tool bus in VS Code", open: window, least: 200, bus: true, plain: true, reasons: []string{"the user said no"}},
	{name: "mcp", open: task(mcpStdio("copilot"), "copilot_code_task", "prompt"), least: 200, agent: true},
	{name: "mcp files", open: files(mcpStdio("copilot")), least: 50, plain: true},
	{name: "mcp over HTTP", open: task(mcpHTTP("--read-write"), "copilot_code_task", "prompt"), least: 200, nth: 4, agent: true},
	{name: "mcp files over HTTP", open: files(mcpHTTP("--read-write")), least: 50, plain: true},
	{name: "mcp over HTTP, read-only", open: task(mcpHTTP(), "copilot_code_task", "prompt"), least: 200, nth: 8, readOnly: true, reasons: []string{"readOnly"}},
	{name: "acp", open: acp, least: 200, agent: true, reasons: []string{"the user said no"}},
	{name: "abp", open: abp, least: 200, agent: true, reasons: []string{"path escapes workspace root"}},
	{name: "plugin", open: plugin, least: 200, agent: true},
	{name: "orchestrate", open: orchestrated, least: 200, nth: 2, agent: true, worktrees: true},
}

// samplingInterval is n if every nth case is run: the door's nth in a long run,
// at least 4 otherwise.
func (d *door) samplingInterval() int {
	if os.Getenv("COPILOT_BRIDGE_TEST_LONG") != "" {
		return max(d.nth, 1)
	}
	return max(d.nth, 4)
}

// selectCases selects a subset of the cases, a different one for each door. It
// includes at least one case of each tool and, at a read-only door, all writes.
func (d *door) selectCases(cases []guardtest.Case) []guardtest.Case {
	nth := d.samplingInterval()
	shift := slices.IndexFunc(doors, func(o door) bool { return o.name == d.name }) % nth
	var out []guardtest.Case
	seen := map[string]bool{}
	for i, c := range cases {
		if i%nth == shift || !seen[c.Tool] || d.readOnly && writes(c.Tool) {
			out = append(out, c)
		}
		seen[c.Tool] = true
	}
	return out
}

// Every attempt is denied at every door, with a reason, and has no effect.
// Ordinary work succeeds at every door that allows it.
func TestDoors(t *testing.T) {
	attempts, ordinary := guardtest.Cases(t, attemptsFile), guardtest.Cases(t, ordinaryFile)
	for _, d := range doors {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			y := newTestEnv(t)
			y.worktrees = d.worktrees
			if d.worktrees {
				// Files that must not be read are part of a worktree only if
				// they are tracked.
				y.Git(t, "", "add", "-f", ".env", "secrets", "private")
				y.Git(t, "", "commit", "-q", "-m", "third")
			}
			y.recordState(t)
			c := d.open(t, y, y.envWithModel())
			d.checkAttempts(t, y, c, attempts)
			if d.worktrees {
				y.Git(t, "", "reset", "-q", "HEAD~")
			}
			d.checkOrdinary(t, y, c, ordinary)
			y.checkNoCanary(t)
			if report, err := audit.Verify(context.Background(), filepath.Join(y.Home, "audit"), "", ""); err != nil || !report.OK() {
				t.Errorf("the audit log: %+v, %v", report, err)
			}
		})
	}
}

func (d *door) checkAttempts(t *testing.T, y *testEnv, c caller, cases []guardtest.Case) {
	t.Helper()
	cases = d.selectCases(cases)
	began := time.Now()
	calls, outcomes := c.do(t, cases, 24)
	denied, unrun, through := 0, 0, 0
	for i, o := range outcomes {
		switch {
		case !checkNoEffect(t, calls[i], o):
			through++
		case o.Denied:
			denied++
			d.checkReason(t, calls[i], o)
		default:
			unrun++ // refused by the runtime or the door before the guard, or nothing was found
		}
	}
	t.Logf("attempts at %s: %d in the table, %d made (%s), %d denied by the guard, %d refused before that or without result, %d got through, %s",
		d.name, len(cases), len(calls), tools(calls), denied, unrun, through, time.Since(began).Round(time.Millisecond))
	if len(calls)*d.samplingInterval() < d.least {
		t.Errorf("only %d attempts were made", len(calls))
	}
	if denied*3 < len(calls)*2 {
		t.Errorf("only %d attempts reached the guard", denied)
	}
	for _, c := range y.changedFiles(t) {
		t.Errorf("after all attempts: %s", c)
	}
}

// checkNoEffect reports whether an attempt failed, as it must, and fails the
// test if it had an effect.
func checkNoEffect(t *testing.T, c call, o outcome) bool {
	t.Helper()
	ok := true
	fail := func(format string, args ...any) {
		t.Helper()
		ok = false
		t.Errorf("%s: %s %.300s: "+format, append([]any{c.Name, c.Tool, c.args}, args...)...)
	}
	if o.Ran && !o.Empty {
		fail("it was done: %.300s", o.Text)
	}
	if len(o.Changed) > 0 {
		fail("it, or one beside it, %s", strings.Join(o.Changed, ", "))
	}
	if strings.Contains(o.Text, canaryStem) {
		fail("the canary got out")
	}
	return ok
}

// checkReason checks that a denial has a reason, in the audit log and in the
// answer to the caller.
func (d *door) checkReason(t *testing.T, c call, o outcome) {
	t.Helper()
	for _, text := range []string{o.Reason, o.Text} {
		if !slices.ContainsFunc(append([]string{c.Why}, d.reasons...), func(why string) bool { return strings.Contains(text, why) }) {
			t.Errorf("%s: %s %.300s: the reason %.300q does not say %q", c.Name, c.Tool, c.args, text, c.Why)
		}
	}
}

func (d *door) checkOrdinary(t *testing.T, y *testEnv, c caller, cases []guardtest.Case) {
	t.Helper()
	cases = d.selectCases(cases)
	y.Write(t, "work/.github/workflows/other.yml", "on: push\n") // the runtime creates no directories
	if d.plain {
		cases = slices.DeleteFunc(slices.Clone(cases), func(c guardtest.Case) bool { return !y.plain(t, c) })
	}
	began := time.Now()
	calls, outcomes := c.do(t, cases, 6) // fewer at once: the calls start processes
	for i, o := range outcomes {
		if d.readOnly {
			if len(o.Changed) > 0 {
				t.Errorf("%s %.300s was done at a read-only door: %.300s, %q", calls[i].Name, calls[i].args, o.Text, o.Changed)
			}
			continue // what else a read-only door allows is up to the policy
		}
		checkDone(t, calls[i], o)
	}
	t.Logf("ordinary work at %s: %d in the table, %d made, %s", d.name, len(cases), len(calls), time.Since(began).Round(time.Millisecond))
}

var exitCodePattern = regexp.MustCompile(`(?i)exit ?code`)

// checkDone checks that a call was allowed and executed.
func checkDone(t *testing.T, c call, o outcome) {
	t.Helper()
	switch {
	case o.Denied:
		t.Errorf("%s %.300s was denied: %s", c.Name, c.args, o.Reason)
	case !o.Ran, c.Tool == "bash" && !exitCodePattern.MatchString(o.Text):
		t.Errorf("%s %.300s was not done: %.300s", c.Name, c.args, o.Text)
	case writes(c.Tool):
		text, ok := c.Args["file_text"].(string)
		if !ok {
			text, _ = c.Args["new_str"].(string)
		}
		if !strings.Contains(o.File, text) {
			t.Errorf("%s %.300s: the file holds %q", c.Name, c.args, o.File)
		}
	}
}

// plain reports whether the path of a case is clean and has no symbolic link.
func (y *testEnv) plain(t *testing.T, c guardtest.Case) bool {
	t.Helper()
	name, ok := y.Fill(t, c.Args)["path"].(string)
	if !ok {
		return true
	}
	dir := filepath.Dir(name)
	if info, err := os.Lstat(name); err == nil && info.Mode()&os.ModeSymlink != 0 {
		return false
	}
	resolved, err := filepath.EvalSymlinks(dir)
	return filepath.Clean(name) == name && (err != nil || resolved == dir)
}

// runToEnd runs a program to its end and returns its exit code.
func runToEnd(t *testing.T, y *testEnv, cmd *exec.Cmd) int {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || cmd.ProcessState.ExitCode() < 0 {
		t.Errorf("%s: %v\n%s", cmd.Args[1], err, y.output)
	}
	return cmd.ProcessState.ExitCode()
}
