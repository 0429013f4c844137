package capabilities

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	copilot "github.com/github/copilot-sdk/go"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// loading looks at what the runtime loads and starts by itself from the files
// of a workspace and of Copilot's home, with which option it stops, and
// whether that holds for sub-agents and after a resume.
func loading(r *rig) {
	no, yes := copilot.Bool(false), copilot.Bool(true)
	usual := r.loads("by default", func(*copilot.SessionConfig) {}, true, nil)
	for _, s := range []struct {
		name   string
		change func(*copilot.SessionConfig)
	}{
		{"EnableFileHooks: false", func(c *copilot.SessionConfig) { c.EnableFileHooks = no }},
		{"SkipCustomInstructions: true", func(c *copilot.SessionConfig) { c.SkipCustomInstructions = yes }},
		{"EnableOnDemandInstructionDiscovery: true", func(c *copilot.SessionConfig) { c.EnableOnDemandInstructionDiscovery = yes }},
		{"EnableConfigDiscovery: true", func(c *copilot.SessionConfig) { c.EnableConfigDiscovery = yes }},
		{"ExcludedTools: lsp", func(c *copilot.SessionConfig) { c.ExcludedTools = []string{"builtin:lsp"} }},
	} {
		r.loads(s.name, s.change, false, usual)
	}
	r.loads("all of it off, and a general-purpose agent of our own", allOff, true, nil)
}

// loaded is what a session loaded by itself.
type loaded struct{ started, told, toldBelow []string }

// allOff keeps the runtime from loading anything from a workspace.
func allOff(c *copilot.SessionConfig) {
	no, yes := copilot.Bool(false), copilot.Bool(true)
	c.EnableFileHooks, c.EnableConfigDiscovery, c.EnableSkills, c.EnableOnDemandInstructionDiscovery = no, no, no, no
	c.SkipCustomInstructions, c.ExcludedTools = yes, []string{"builtin:lsp"}
	c.ExcludedBuiltInAgents = []string{"general-purpose"}
	c.CustomAgents = []copilot.CustomAgentConfig{{Name: "own", Description: "x", Prompt: "x"}}
}

// loads runs a turn in a workspace full of files that configure agents, and if
// asked to another after a cold resume. With usual it takes down how that
// differs.
func (r *rig) loads(name string, change func(*copilot.SessionConfig), resume bool, usual *loaded) *loaded {
	base := r.folder("loading")
	ws, home, marks := filepath.Join(base, "above", "ws"), filepath.Join(base, "home"), filepath.Join(base, "marks")
	check(runtimetest.Plant(ws, home, marks))
	env := append(r.environment(), "COPILOT_CUSTOM_INSTRUCTIONS_DIRS="+filepath.Join(base, "above", "extra"))
	rt := r.runtimeIn(home, env, func(o *copilot.ClientOptions) { o.WorkingDirectory = ws })
	var c *copilot.SessionConfig
	s := r.open(rt, func(made *copilot.SessionConfig) {
		made.WorkingDirectory = ws
		change(made)
		c = made
	})
	first := r.loadedIn(rt, s, marks)
	if r.differ(name, usual, first); usual == nil {
		r.saw(name+": hooks run at", "%s", listed(runtimetest.HooksRun(marks), "nothing"))
	}
	if !resume {
		return first
	}
	check(errors.Join(os.RemoveAll(marks), os.Mkdir(marks, 0o700)))
	rt = r.runtimeIn(home, env)
	s = r.reopen(rt, s.SessionID, ws, func(to *copilot.ResumeSessionConfig) {
		to.EnableFileHooks, to.EnableConfigDiscovery, to.EnableSkills = c.EnableFileHooks, c.EnableConfigDiscovery, c.EnableSkills
		to.EnableOnDemandInstructionDiscovery, to.SkipCustomInstructions = c.EnableOnDemandInstructionDiscovery, c.SkipCustomInstructions
		to.ExcludedTools, to.ExcludedBuiltInAgents, to.CustomAgents = c.ExcludedTools, c.ExcludedBuiltInAgents, c.CustomAgents
	})
	r.differ(name+", resumed", first, r.loadedIn(rt, s, marks))
	return first
}

// differ records the loaded files, or how they differ from the usual ones.
func (r *rig) differ(when string, usual, now *loaded) {
	seen := func(_, is []string) string { return listed(is, "nothing") }
	if usual != nil {
		seen = difference
	} else {
		usual = &loaded{}
	}
	r.saw(when+": started", "%s", seen(usual.started, now.started))
	r.saw(when+": told the model", "%s", seen(usual.told, now.told))
	r.saw(when+": told a sub-agent", "%s", seen(usual.toldBelow, now.toldBelow))
}

func difference(was, is []string) string {
	only := func(a, b []string) string {
		return strings.Join(slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) }), ", ")
	}
	gone, more := only(was, is), only(is, was)
	switch {
	case gone+more == "":
		return "the same"
	case len(is) == 0:
		return "nothing"
	case gone == "":
		return "also " + more
	case more == "":
		return "not " + gone
	}
	return "not " + gone + "; also " + more
}

// loadedIn runs a turn that triggers every loader, ends the runtime, and lists
// the files that were started or told to the model.
func (r *rig) loadedIn(rt *runtime, s *session, marks string) *loaded {
	file := filepath.Join(s.dir, "sub", "file.txt")
	view, began := tool("view", args{"path": file}), len(r.model.Requests())
	task := func(agent string) string {
		return tool("task", args{"description": "look", "name": "looker-" + agent, "agent_type": agent, "mode": "sync", "prompt": script(view, "next", "text BELOW")})
	}
	s.turn(shell("true"), view, tool("lsp", args{"operation": "documentSymbol", "file": file}), "next", task("general-purpose"), "next", task("own"), "next", "text ok")
	r.leave(rt)
	var above, below strings.Builder
	for _, q := range r.model.Requests()[began:] {
		// The main agent's prompt is the script, which names the sub-agents.
		if strings.Contains(string(q.Raw), "looker-own") {
			above.Write(q.Raw)
		} else {
			below.Write(q.Raw)
		}
	}
	return &loaded{started: must(runtimetest.Ran(marks)), told: runtimetest.Told(above.String()), toldBelow: runtimetest.Told(below.String())}
}
