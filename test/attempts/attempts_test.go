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
	"github.com/copilot-bridge/copilot-bridge/internal/guard/guardtest"
)

// caller makes calls at a door and says what came of each. Calls that the door
// has no way to make are left out of what it returns.
type caller interface {
	do(t *testing.T, cases []guardtest.Case, together int) ([]call, []outcome)
}

// door is one way into the program. env is the environment to start it with.
type door struct {
	name string
	open func(t *testing.T, y *yard, env []string) caller
	// nth: only every nth case is run, because the same abilities are reached
	// through a sister door that runs them all.
	nth int
	// least is how many attempts must have a counterpart at this door.
	least     int
	readOnly  bool // nobody may write
	agent     bool // it opens sessions of Copilot's agent
	bus       bool // it is the tool bus
	worktrees bool // it has git make worktrees
	plain     bool // it takes clean paths without links alone
	// reasons are those that this door may give where the table has others.
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

// pick keeps every nth case, at least one of each tool, and all that write
// where nobody may.
func (d *door) pick(cases []guardtest.Case) []guardtest.Case {
	if d.nth <= 1 {
		return cases
	}
	var out []guardtest.Case
	seen := map[string]bool{}
	for i, c := range cases {
		if i%d.nth == 0 || !seen[c.Tool] || d.readOnly && writes(c.Tool) {
			out = append(out, c)
		}
		seen[c.Tool] = true
	}
	return out
}

// Every attempt is refused at every door, with a reason, and has no effect;
// everyday work is done at every door that allows work.
func TestDoors(t *testing.T) {
	attempts, ordinary := guardtest.Cases(t, attemptsFile), guardtest.Cases(t, ordinaryFile)
	for _, d := range doors {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			places <- struct{}{}
			defer func() { <-places }()
			y := newYard(t)
			y.worktrees = d.worktrees
			if d.worktrees {
				// Worktrees hold a file that may not be read only if it is tracked.
				y.Git(t, "", "add", "-f", ".env", "secrets", "private")
				y.Git(t, "", "commit", "-q", "-m", "third")
			}
			y.starts(t)
			c := d.open(t, y, y.provided())
			d.attempts(t, y, c, attempts)
			if d.worktrees {
				y.Git(t, "", "reset", "-q", "HEAD~")
			}
			d.ordinary(t, y, c, ordinary)
			y.noCanary(t)
			if report, err := audit.Verify(context.Background(), filepath.Join(y.Home, "audit"), ""); err != nil || !report.OK() {
				t.Errorf("the record: %+v, %v", report, err)
			}
		})
	}
}

func (d *door) attempts(t *testing.T, y *yard, c caller, cases []guardtest.Case) {
	t.Helper()
	cases = d.pick(cases)
	began := time.Now()
	calls, outcomes := c.do(t, cases, 24)
	denied, unrun, through := 0, 0, 0
	for i, o := range outcomes {
		switch {
		case !held(t, calls[i], o):
			through++
		case o.Denied:
			denied++
			d.explained(t, calls[i], o)
		default:
			unrun++ // the runtime or the door refused it before the guard was asked, or it found nothing
		}
	}
	t.Logf("attempts at %s: %d in the table, %d made (%s), %d denied by the guard, %d came to nothing before, %d got through, %s",
		d.name, len(cases), len(calls), tools(calls), denied, unrun, through, time.Since(began).Round(time.Millisecond))
	if len(calls)*max(d.nth, 1) < d.least {
		t.Errorf("only %d attempts were made", len(calls))
	}
	if denied*3 < len(calls)*2 {
		t.Errorf("only %d attempts reached the guard", denied)
	}
	for _, c := range y.changed(t) {
		t.Errorf("after all attempts: %s", c)
	}
}

// held says whether an attempt came to nothing, and reports what it came to.
func held(t *testing.T, c call, o outcome) bool {
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

// explained checks that a denial says why, on record and to whoever tried.
func (d *door) explained(t *testing.T, c call, o outcome) {
	t.Helper()
	for _, said := range []string{o.Reason, o.Text} {
		if !slices.ContainsFunc(append([]string{c.Why}, d.reasons...), func(why string) bool { return strings.Contains(said, why) }) {
			t.Errorf("%s: %s %.300s: the reason %.300q does not say %q", c.Name, c.Tool, c.args, said, c.Why)
		}
	}
}

func (d *door) ordinary(t *testing.T, y *yard, c caller, cases []guardtest.Case) {
	t.Helper()
	cases = d.pick(cases)
	y.Write(t, "work/.github/workflows/other.yml", "on: push\n") // the runtime makes no directories
	if d.plain {
		cases = slices.DeleteFunc(slices.Clone(cases), func(c guardtest.Case) bool { return !y.plain(t, c) })
	}
	began := time.Now()
	calls, outcomes := c.do(t, cases, 6) // which start processes
	for i, o := range outcomes {
		if d.readOnly {
			if len(o.Changed) > 0 {
				t.Errorf("%s %.300s was done where nobody may write: %.300s, %q", calls[i].Name, calls[i].args, o.Text, o.Changed)
			}
			continue // what else is allowed there is the policy's matter
		}
		worked(t, calls[i], o)
	}
	t.Logf("ordinary work at %s: %d in the table, %d made, %s", d.name, len(cases), len(calls), time.Since(began).Round(time.Millisecond))
}

var ended = regexp.MustCompile(`(?i)exit ?code`)

// worked checks that a call was allowed and done.
func worked(t *testing.T, c call, o outcome) {
	t.Helper()
	switch {
	case o.Denied:
		t.Errorf("%s %.300s was denied: %s", c.Name, c.args, o.Reason)
	case !o.Ran, c.Tool == "bash" && !ended.MatchString(o.Text):
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

// plain says whether the path of a case is clean and leads through no link.
func (y *yard) plain(t *testing.T, c guardtest.Case) bool {
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

// finish runs a program to its end, and returns how it ended.
func finish(t *testing.T, y *yard, cmd *exec.Cmd) int {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || cmd.ProcessState.ExitCode() < 0 {
		t.Errorf("%s: %v\n%s", cmd.Args[1], err, y.said)
	}
	return cmd.ProcessState.ExitCode()
}
