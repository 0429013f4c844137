//go:build unix

package attempts

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/audit"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/guardtest"
)

// outcome is the result of one call.
type outcome struct {
	Ran     bool     // it was executed, at least in part
	Empty   bool     // it was executed and found nothing
	Denied  bool     // denied by the guard, with a reason
	Reason  string   // from the audit log or the answer
	Text    string   // what the model or the client saw
	File    string   // content of the written file afterwards
	Changed []string // on disk, by this call or another of its round
}

// script is what the model does in one turn. It makes the calls in rounds and
// records the changes on disk after each round.
type script struct {
	id     string
	y      *testEnv
	calls  []call
	rounds [][]int // indexes of calls
	// elsewhere: the turn works in a copy of the workspace. The model's first
	// call finds out where.
	elsewhere bool

	mu             sync.Mutex
	results        map[string]string // by call ID
	before         state
	recorded       int // entries in the audit log before the turn
	roundsRecorded int // rounds whose changes were recorded
	changed        map[int][]string
	files          map[int]string // content by call
	problem        error
}

// call is a case with its arguments as JSON.
type call struct {
	guardtest.Case
	args string
}

// writes reports whether a tool writes a file.
func writes(tool string) bool { return tool == "create" || tool == "edit" }

// file is the content of the file that the call writes; dir is the worktree.
func (c *call) file(dir string) string {
	name, _ := c.Args["path"].(string)
	if !writes(c.Tool) {
		return ""
	}
	data, err := os.ReadFile(strings.ReplaceAll(name, worktree, dir))
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// worktree is a placeholder for a directory that is known only when the turn
// runs.
const worktree = "@worktree@"

// fillCases puts the paths of the environment into the cases. Each case gets its own file
// that it must not create, so that a created file identifies its case.
func (y *testEnv) fillCases(t *testing.T, cases []guardtest.Case, workspace string) []call {
	t.Helper()
	out := make([]call, len(cases))
	for i, c := range cases {
		z := *y.Yard
		z.Pwned, z.Workspace = fmt.Sprintf("%s-%d", y.Pwned, i), workspace
		c.Args = z.Fill(t, c.Args)
		args, err := json.Marshal(c.Args)
		if err != nil {
			t.Fatal(err)
		}
		out[i] = call{c, string(args)}
	}
	return out
}

// newScript creates a script; together is the number of calls per round.
func (y *testEnv) newScript(t *testing.T, calls []call, together int, elsewhere bool) *script {
	t.Helper()
	before, err := y.snapshot()
	if err != nil {
		t.Fatal(err)
	}
	recorded := len(y.record(t))
	y.mu.Lock()
	defer y.mu.Unlock()
	s := &script{recorded: recorded, id: fmt.Sprintf("script-%d-", len(y.scripts)+1), y: y, calls: calls, elsewhere: elsewhere,
		before: before, results: map[string]string{}, changed: map[int][]string{}, files: map[int]string{}}
	indexes := make([]int, len(calls))
	for i := range indexes {
		indexes[i] = i
	}
	s.rounds = slices.Collect(slices.Chunk(indexes, together))
	y.scripts[s.id] = s
	return s
}

func (s *script) prompt() string      { return "Please do " + s.id + "." }
func (s *script) callID(i int) string { return fmt.Sprintf("%scall-%d", s.id, i) }
func (s *script) whereID() string     { return s.id + "where" }
func (s *script) workingDir() string  { return firstLine(s.results[s.whereID()]) }
func (s *script) args(i int) string {
	return strings.ReplaceAll(s.calls[i].args, worktree, s.workingDir())
}
func (s *script) answered(i int) bool { _, ok := s.results[s.callID(i)]; return ok }
func firstLine(s string) string       { l, _, _ := strings.Cut(s, "\n"); return l }
func (s *script) done(round []int) bool {
	return !slices.ContainsFunc(round, func(i int) bool { return !s.answered(i) })
}

var scriptName = regexp.MustCompile(`script-\d+-`)

// answer is the model: it checks every request and follows the script that the
// prompt names.
func (y *testEnv) answer(r demomodel.Request) (demomodel.Reply, bool) {
	y.checkForCanaries(&r)
	y.mu.Lock()
	s := y.scripts[scriptName.FindString(r.LastUser())]
	y.mu.Unlock()
	if s == nil || !slices.Contains(r.ToolNames(), "bash") {
		return nil, false
	}
	return s.next(&r), true
}

// next depends only on the results in the request, so that a retried request
// gets the same answer.
func (s *script) next(r *demomodel.Request) demomodel.Reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range r.Messages {
		if m.Role == "tool" && strings.HasPrefix(m.ToolCallID, s.id) {
			s.results[m.ToolCallID] = m.Content
		}
	}
	if _, known := s.results[s.whereID()]; s.elsewhere && !known {
		return demomodel.Reply{demomodel.ToolCallID(s.whereID(), "bash", `{"command":"pwd","description":"x"}`)}
	}
	for n, round := range s.rounds {
		if s.done(round) {
			s.recordChanges(n)
			continue
		}
		var reply demomodel.Reply
		for _, i := range round {
			reply = append(reply, demomodel.ToolCallID(s.callID(i), s.calls[i].Tool, s.args(i)))
		}
		return reply
	}
	return demomodel.Reply{demomodel.Text("That was all.")}
}

// recordChanges records what a round has changed. The caller holds the lock.
func (s *script) recordChanges(round int) {
	if round < s.roundsRecorded {
		return
	}
	now, err := s.y.snapshot()
	if err != nil {
		s.problem = err
		return
	}
	s.roundsRecorded, s.changed[round], s.before = round+1, s.before.changes(now), now
	for _, i := range s.rounds[round] {
		s.files[i] = s.calls[i].file(s.workingDir())
	}
}

// outcomes reads the audit log of the turn.
func (s *script) outcomes(t *testing.T) []outcome {
	t.Helper()
	entries := s.y.record(t)[s.recorded:]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.problem != nil {
		t.Error(s.problem)
	}
	if len(s.results) == 0 {
		t.Fatalf("the model got no request, or its calls were not made:\n%s", s.y.output)
	}
	out := make([]outcome, len(s.calls))
	for n, round := range s.rounds {
		for _, i := range round {
			if !s.answered(i) {
				t.Errorf("%s: the model got no result", s.calls[i].Name)
			}
			out[i] = auditOutcome(entries, &s.calls[i], s.callID(i), s.args(i))
			out[i].Text, out[i].File = s.results[s.callID(i)], s.files[i]
		}
		// A change is attributed to the calls of its round that were not
		// denied, or to all if every call was denied.
		all := !slices.ContainsFunc(round, func(i int) bool { return !out[i].Denied })
		for _, i := range round {
			if all || !out[i].Denied {
				out[i].Changed = s.changed[n]
			}
		}
	}
	return out
}

// record returns the audit log.
func (y *testEnv) record(t *testing.T) []audit.Entry {
	t.Helper()
	entries, err := audit.Tail(context.Background(), filepath.Join(y.Home, "audit"), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// auditOutcome returns what the audit log says about a call. The runtime
// reports no call ID before it runs a call, so the call is found by its
// arguments.
func auditOutcome(entries []audit.Entry, c *call, id, args string) outcome {
	var o outcome
	for _, e := range entries {
		input, err := json.Marshal(e.Input)
		if e.Call != id && (err != nil || e.Hook != audit.HookPreTool || e.Tool != c.Tool || string(input) != args) {
			continue
		}
		switch {
		case e.Decision == "deny":
			o.Denied, o.Reason = true, cmp.Or(e.Reason, o.Reason)
		case e.Hook == audit.HookPreTool || e.Hook == audit.HookPostTool:
			o.Ran = true
		}
	}
	o.Ran = o.Ran && !o.Denied
	return o
}

// session is a door with Copilot's agent behind it. A prompt starts the turn,
// and the model makes the calls.
type session struct {
	y *testEnv
	// say sends the prompt and appends the output to y.output.
	say       func(t *testing.T, prompt string)
	elsewhere bool
}

func (s *session) do(t *testing.T, cases []guardtest.Case, together int) ([]call, []outcome) {
	t.Helper()
	cases = slices.DeleteFunc(slices.Clone(cases), func(c guardtest.Case) bool { return strings.HasPrefix(c.Tool, "mcp.") }) // tools of the tool bus
	where := s.y.Workspace
	if s.elsewhere {
		where = worktree
		cases = slices.DeleteFunc(cases, s.y.below(t))
	}
	sc := s.y.newScript(t, s.y.fillCases(t, cases, where), together, s.elsewhere)
	s.say(t, sc.prompt())
	return sc.calls, sc.outcomes(t)
}

func tools(calls []call) string {
	n := map[string]int{}
	for _, c := range calls {
		n[c.Tool]++
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(n)) {
		out = append(out, fmt.Sprintf("%d %s", n[name], name))
	}
	return strings.Join(out, ", ")
}
