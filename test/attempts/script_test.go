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

	"github.com/copilot-bridge/copilot-bridge/internal/guard/audit"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/guardtest"
	"github.com/copilot-bridge/copilot-bridge/internal/rehearsal"
)

// outcome is what came of one call.
type outcome struct {
	Ran     bool     // it was done, or at least begun
	Empty   bool     // it was done and found nothing
	Denied  bool     // by the guard, with a reason
	Reason  string   // as it is on record, or as the door gave it
	Text    string   // what the model, or a client without one, got to see
	File    string   // what the file at its path holds then, if it writes one
	Changed []string // on disk, by this call or one beside it
}

// script is what the model does in one turn: it makes calls, some at a time,
// and looks after each round what has changed on disk.
type script struct {
	id     string
	y      *yard
	calls  []call
	rounds [][]int // indexes of calls
	// elsewhere: the turn does not work in the workspace but in a copy, and
	// the first thing the model does is to find out where.
	elsewhere bool

	mu       sync.Mutex
	results  map[string]string // by call id
	before   state
	recorded int // entries that were on record before
	looked   int // rounds whose effects were looked at
	changed  map[int][]string
	files    map[int]string // by call
	problem  error
}

// call is a case with its arguments as JSON.
type call struct {
	guardtest.Case
	args string
}

// writes says whether a tool writes a file.
func writes(tool string) bool { return tool == "create" || tool == "edit" }

// file is what the file holds that it writes; dir is where the worktree is.
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

// worktree stands for a directory that is not known until the turn runs.
const worktree = "@worktree@"

// filled puts the yard's paths into cases. Each gets a file of its own that it
// may not make, so that it is known whose doing it was.
func (y *yard) filled(t *testing.T, cases []guardtest.Case, workspace string) []call {
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

// write makes a script; together is how many calls the model makes at a time.
func (y *yard) write(t *testing.T, calls []call, together int, elsewhere bool) *script {
	t.Helper()
	before, err := y.look()
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

// answer is the model: it looks at every request, and follows the script that
// the prompt names.
func (y *yard) answer(r rehearsal.Request) (rehearsal.Reply, bool) {
	y.hears(&r)
	y.mu.Lock()
	s := y.scripts[scriptName.FindString(r.LastUser())]
	y.mu.Unlock()
	if s == nil || !slices.Contains(r.ToolNames(), "bash") {
		return nil, false
	}
	return s.next(&r), true
}

// next depends on nothing but the results that the request brings, so that a
// request which is sent twice gets the same answer.
func (s *script) next(r *rehearsal.Request) rehearsal.Reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range r.Messages {
		if m.Role == "tool" && strings.HasPrefix(m.ToolCallID, s.id) {
			s.results[m.ToolCallID] = m.Content
		}
	}
	if _, known := s.results[s.whereID()]; s.elsewhere && !known {
		return rehearsal.Reply{rehearsal.ToolCallID(s.whereID(), "bash", `{"command":"pwd","description":"x"}`)}
	}
	for n, round := range s.rounds {
		if s.done(round) {
			s.compare(n)
			continue
		}
		var reply rehearsal.Reply
		for _, i := range round {
			reply = append(reply, rehearsal.ToolCallID(s.callID(i), s.calls[i].Tool, s.args(i)))
		}
		return reply
	}
	return rehearsal.Reply{rehearsal.Text("That was all.")}
}

// compare notes what a round has changed. It is called with the lock held.
func (s *script) compare(round int) {
	if round < s.looked {
		return
	}
	now, err := s.y.look()
	if err != nil {
		s.problem = err
		return
	}
	s.looked, s.changed[round], s.before = round+1, s.before.changes(now), now
	for _, i := range s.rounds[round] {
		s.files[i] = s.calls[i].file(s.workingDir())
	}
}

// outcomes reads the record of the turn.
func (s *script) outcomes(t *testing.T) []outcome {
	t.Helper()
	entries := s.y.record(t)[s.recorded:]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.problem != nil {
		t.Error(s.problem)
	}
	if len(s.results) == 0 {
		t.Fatalf("the model was not asked, or its calls were not made:\n%s", s.y.said)
	}
	out := make([]outcome, len(s.calls))
	for n, round := range s.rounds {
		for _, i := range round {
			if !s.answered(i) {
				t.Errorf("%s: the model never heard what came of it", s.calls[i].Name)
			}
			out[i] = judged(entries, &s.calls[i], s.callID(i), s.args(i))
			out[i].Text, out[i].File = s.results[s.callID(i)], s.files[i]
		}
		// What has changed is the doing of a call that was not denied, if there
		// is one.
		all := !slices.ContainsFunc(round, func(i int) bool { return !out[i].Denied })
		for _, i := range round {
			if all || !out[i].Denied {
				out[i].Changed = s.changed[n]
			}
		}
	}
	return out
}

// record is all that the program has recorded in the yard.
func (y *yard) record(t *testing.T) []audit.Entry {
	t.Helper()
	entries, err := audit.Tail(context.Background(), filepath.Join(y.Home, "audit"), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// judged is what the record says about a call. The runtime does not tell the
// call's id before it runs, so that it is known by its arguments.
func judged(entries []audit.Entry, c *call, id, args string) outcome {
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

// session is a door behind which Copilot's agent works: the model makes the
// calls, and a prompt has it do so.
type session struct {
	y *yard
	// say has the prompt answered, and puts what comes back into y.said.
	say       func(t *testing.T, prompt string)
	elsewhere bool
}

func (s *session) do(t *testing.T, cases []guardtest.Case, together int) ([]call, []outcome) {
	t.Helper()
	cases = slices.DeleteFunc(slices.Clone(cases), func(c guardtest.Case) bool { return strings.HasPrefix(c.Tool, "mcp.") }) // of the tool bus
	where := s.y.Workspace
	if s.elsewhere {
		where = worktree
		cases = slices.DeleteFunc(cases, s.y.below(t))
	}
	sc := s.y.write(t, s.y.filled(t, cases, where), together, s.elsewhere)
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
