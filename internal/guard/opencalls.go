package guard

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/paths"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
)

// openCall is a tool call that was allowed and has not ended. The runtime may
// ask for the same again: a person who has consented need not, but only if it
// is the same to the byte, as far as the runtime tells.
type openCall struct {
	call   bridge.ToolCall
	args   []string // as it was called and as it was settled, in JSON
	action policy.Action
	agreed bool // a person has consented to it
	grant  *bridge.Confinement
	policy *policy.InForce // under which it was allowed
	id     string          // the runtime's own, from its first request on
	// withhold takes away what the command has made unseen; see Wall.Watch.
	withhold func() (string, error)
}

// maxOpen bounds the calls that are kept. Of those beyond it the oldest are
// forgotten, and asked about again.
const maxOpen = 256

// begin keeps a call that was allowed.
func (g *Guard) begin(call bridge.ToolCall, d bridge.Decision, a policy.Action, agreed bool, version *policy.InForce) {
	c := &openCall{call: call, args: []string{encoded(call.Args)}, action: a, agreed: agreed, grant: d.Grant, policy: version}
	if w := g.opts.Wall; w != nil && w.Watch != nil && a.Wall != policy.NoWall && runtimeShells[call.Name] && !agreed {
		c.withhold = w.Watch()
	}
	if agreed {
		g.withholdBackground(false) // what is made from here on was agreed to
	}
	if d.Args != nil {
		c.args = append(c.args, encoded(d.Args))
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls = append(g.calls, c)
	if len(g.calls) > maxOpen {
		g.calls = slices.Delete(g.calls, 0, 1)
	}
}

// ended forgets a call, and with it the consent. What it has made unseen is
// taken away, and notice says so. A command that runs on in the background is
// watched until the session ends.
func (g *Guard) ended(call bridge.ToolCall, running bool) (notice string) {
	args := encoded(call.Args)
	var withhold func() (string, error)
	agreed := false
	g.mu.Lock()
	i := slices.IndexFunc(g.calls, func(c *openCall) bool {
		return c.call.Name == call.Name && c.call.ID == call.ID && slices.Contains(c.args, args)
	})
	if i >= 0 {
		withhold, agreed = g.calls[i].withhold, g.calls[i].agreed
		g.calls = slices.Delete(g.calls, i, i+1)
	}
	g.mu.Unlock()
	if withhold != nil {
		notice = runWithhold(withhold)
	}
	notice += g.withholdBackground(agreed)
	if withhold != nil && running {
		g.mu.Lock()
		if g.background == nil {
			g.background = withhold
		}
		g.mu.Unlock()
	}
	return notice
}

// withholdBackground takes away what commands in the background have made. With
// renew that is kept which is there now: a person has agreed to it.
func (g *Guard) withholdBackground(renew bool) (notice string) {
	g.mu.Lock()
	withhold := g.background
	if renew && withhold != nil {
		g.background = g.opts.Wall.Watch()
	}
	g.mu.Unlock()
	if withhold == nil || renew {
		return ""
	}
	return runWithhold(withhold)
}

func runWithhold(withhold func() (string, error)) string {
	notice, err := withhold()
	if err != nil {
		notice += " It could not all be moved: " + err.Error()
	}
	return notice
}

// mayStillRun says whether a command may still run, by its arguments and by what the
// runtime says in its result.
func mayStillRun(call bridge.ToolCall, result any) bool {
	args, _ := call.Args.(map[string]any)
	m, _ := result.(map[string]any)
	text, _ := m["textResultForLlm"].(string)
	return args["mode"] == "async" || args["detach"] == true || strings.Contains(text, "still running") || strings.Contains(text, "in the background")
}

// forget ends a call that the runtime has asked about.
func (g *Guard) forget(call *openCall) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls = slices.DeleteFunc(g.calls, func(c *openCall) bool { return c == call })
}

// callOf finds the call that a permission request is about, and says whether a
// person has consented to these very bytes. The call is nil if there is none.
func (g *Guard) callOf(a policy.Action, r bridge.PermissionRequest) (found *openCall, agreed bool) {
	g.mu.Lock()
	calls := slices.Clone(g.calls)
	g.mu.Unlock()
	for _, c := range slices.Backward(calls) {
		if !c.names(a, r) {
			continue
		}
		if found == nil {
			found = c
		}
		if c.agreed && g.same(c, r) && g.bind(c, r.CallID) {
			return c, true
		}
	}
	return found, false
}

// judged finds the call that a request for a command is about, if its command
// is the same to the byte, it was confined alike, the policy is the same, and
// the runtime has seen nothing in it that was not judged.
func (g *Guard) judged(r bridge.PermissionRequest) (*openCall, bridge.Decision) {
	if r.Kind != bridge.PermissionShell {
		return nil, bridge.Decision{}
	}
	g.mu.Lock()
	calls := slices.Clone(g.calls)
	g.mu.Unlock()
	for _, c := range slices.Backward(calls) {
		if c.policy != g.version.Load() || !c.names(policy.Action{}, r) || c.call.Confined != r.Confined || !g.covered(c, r) || !g.bind(c, r.CallID) {
			continue
		}
		reason := "judged when it was called"
		if c.agreed {
			reason = "allowed when it was called"
		}
		d := allow(reason)
		d.Grant, d.Basis = c.grant, basisCall
		return c, d
	}
	return nil, bridge.Decision{}
}

// covered says whether all that the runtime has seen in a command was judged
// with the call.
func (g *Guard) covered(c *openCall, r bridge.PermissionRequest) bool {
	var seen policy.Action
	g.addMentioned(&seen, r)
	return !slices.ContainsFunc(seen.Paths, func(p policy.Path) bool {
		return !slices.ContainsFunc(c.action.Paths, func(q policy.Path) bool { return q.Outside && q.Abs == p.Abs })
	}) && !slices.ContainsFunc(seen.Hosts, func(h policy.Host) bool {
		return h.Problem != "" || !slices.Contains(c.action.Hosts, h)
	})
}

// bind uses a consent for one call of the runtime's: the runtime may ask about
// a call more than once, about several files for instance.
func (g *Guard) bind(c *openCall, id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case !slices.Contains(g.calls, c):
		return false // it has ended
	case id == "":
		g.calls = slices.DeleteFunc(g.calls, func(other *openCall) bool { return other == c })
		return true
	case c.id == "":
		c.id = id
	}
	return c.id == id
}

// names says whether a request names what the call does.
func (c *openCall) names(a policy.Action, r bridge.PermissionRequest) bool {
	args, _ := c.call.Args.(map[string]any)
	switch r.Kind {
	case bridge.PermissionShell:
		command, _ := commandOf(c.call)
		return c.action.Kind == policy.KindShell && r.Command == command &&
			(r.Tool == c.call.Name || runtimeShells[r.Tool] && runtimeShells[c.call.Name])
	case bridge.PermissionRead, bridge.PermissionWrite:
		return len(a.Paths) > 0 && c.action.Kind == a.Kind && !slices.ContainsFunc(a.Paths, func(p policy.Path) bool {
			return !slices.ContainsFunc(c.action.Paths, func(q policy.Path) bool { return p.Rel == q.Rel && p.Write == q.Write })
		})
	case bridge.PermissionURL:
		return c.action.Kind == policy.KindNetwork && len(r.URLs) == 1 && r.URLs[0] == args["url"]
	case bridge.PermissionMCP:
		return c.action.Kind == policy.KindMCP && r.Server == c.action.Server && slices.Contains(c.args, encoded(r.Args)) &&
			(r.Tool == c.call.Name || r.Server+"-"+r.Tool == c.call.Name)
	case bridge.PermissionCustom:
		return r.Tool == c.call.Name && slices.Contains(c.args, encoded(r.Args))
	case bridge.PermissionMemory:
		return c.action.Kind == policy.KindMemory && r.Intention == args["fact"]
	case bridge.PermissionHook, bridge.PermissionUnknown:
	}
	return false
}

// same says whether a request that names what the call does is about the same
// bytes, as far as it tells. For all but writes the name is everything.
func (g *Guard) same(c *openCall, r bridge.PermissionRequest) bool {
	if r.Kind != bridge.PermissionWrite {
		return true
	}
	if r.Args != nil && !slices.Contains(c.args, encoded(r.Args)) {
		return false
	}
	if r.Diff == "" {
		return true
	}
	if name, replace, ok := replacement(c.call, ""); ok {
		before, _ := g.current(name)
		after, ok := replace(before)
		got, applies := patched(before, r.Diff)
		return ok && applies && slices.Equal(got, split(after))
	}
	text, ok := c.call.Args.(string)
	return ok && len(r.Paths) > 0 && g.inPatch(text, r)
}

// inPatch says whether a diff has the changes that a patch of the runtime's
// own form makes to the same file, all of them and no others.
func (g *Guard) inPatch(patch string, r bridge.PermissionRequest) bool {
	var want []string
	here := false
	for line := range strings.SplitSeq(patch, "\n") {
		switch {
		case strings.HasPrefix(line, "*** "):
			_, name, file := strings.Cut(line, " File: ")
			if strings.HasPrefix(line, "*** Move to: ") && here {
				return false // the diff does not tell where to
			}
			here = file && g.sameFile(name, r.Paths)
		case here && (strings.HasPrefix(line, "+") || strings.HasPrefix(line, "-")):
			want = append(want, line)
		}
	}
	var got []string
	for _, h := range hunks(r.Diff) {
		for _, l := range h.lines {
			if !strings.HasPrefix(l, " ") {
				got = append(got, l)
			}
		}
	}
	return want != nil && slices.Equal(trimmed(want, "+"), trimmed(got, "+"))
}

// sameFile says whether a name leads to one of the files.
func (g *Guard) sameFile(name string, files []string) bool {
	res, err := g.opts.Workspace.Resolve(name)
	return err == nil && slices.ContainsFunc(files, func(f string) bool {
		other, err := g.opts.Workspace.Resolve(f)
		return err == nil && sameResolved(res, other)
	})
}

func sameResolved(a, b paths.Resolved) bool { return a.Inside && b.Inside && a.Rel == b.Rel }

type hunk struct {
	from  int      // the first of its lines in the old text, from 1 on
	lines []string // with their signs
}

var hunkHead = regexp.MustCompile(`^@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@`)

// hunks reads a diff of one file as the runtime writes it.
func hunks(diff string) []hunk {
	var out []hunk
	for line := range strings.SplitSeq(strings.ReplaceAll(diff, "\r\n", "\n"), "\n") {
		if m := hunkHead.FindStringSubmatch(line); m != nil {
			from, err := strconv.Atoi(m[1])
			if err != nil {
				return nil
			}
			out = append(out, hunk{from: from})
		} else if len(out) > 0 && line != "" && strings.ContainsRune(" +-", rune(line[0])) {
			out[len(out)-1].lines = append(out[len(out)-1].lines, line)
		}
	}
	return out
}

// patched applies a diff to a text, exactly where it says.
func patched(text, diff string) (lines []string, ok bool) {
	old, at := strings.Split(text, "\n"), 0
	if text == "" {
		old = nil
	}
	var out []string
	for _, h := range hunks(diff) {
		from := min(max(h.from-1, 0), len(old))
		if from < at {
			return nil, false
		}
		out = append(out, old[at:from]...)
		at = from
		for _, l := range h.lines {
			if l[0] == '+' {
				out = append(out, l[1:])
				continue
			}
			if at >= len(old) || old[at] != l[1:] {
				return nil, false
			}
			if at++; l[0] == ' ' {
				out = append(out, l[1:])
			}
		}
	}
	return trimmed(append(out, old[at:]...), ""), true
}

// split is a text as patched returns it.
func split(text string) []string {
	return trimmed(strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n"), "")
}

// trimmed drops empty lines at the end: the runtime's diffs do not tell how a
// text ends.
func trimmed(lines []string, empty string) []string {
	for len(lines) > 0 && lines[len(lines)-1] == empty {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// encoded is a value as JSON, by which values are compared.
func encoded(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "" // such a call cannot have come over a wire
	}
	return string(b)
}
