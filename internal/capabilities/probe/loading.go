package probe

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	copilot "github.com/github/copilot-sdk/go"
)

// setting is a way to open a session.
type setting struct {
	name   string
	change func(*copilot.SessionConfig)
}

// loading looks at what the runtime loads and starts by itself from the files
// of a workspace and of Copilot's home, with which option it stops, and
// whether that holds for sub-agents and after a resume.
func loading(ctx context.Context, r *rig) error {
	no, yes := copilot.Bool(false), copilot.Bool(true)
	usual, err := r.loads(ctx, setting{"by default", func(*copilot.SessionConfig) {}}, true, nil)
	if err != nil {
		return err
	}
	for _, s := range []setting{
		{"EnableFileHooks: false", func(c *copilot.SessionConfig) { c.EnableFileHooks = no }},
		{"SkipCustomInstructions: true", func(c *copilot.SessionConfig) { c.SkipCustomInstructions = yes }},
		{"EnableOnDemandInstructionDiscovery: true", func(c *copilot.SessionConfig) { c.EnableOnDemandInstructionDiscovery = yes }},
		{"EnableConfigDiscovery: true", func(c *copilot.SessionConfig) { c.EnableConfigDiscovery = yes }},
		{"ExcludedTools: lsp", func(c *copilot.SessionConfig) { c.ExcludedTools = []string{"builtin:lsp"} }},
	} {
		if _, err := r.loads(ctx, s, false, usual); err != nil {
			return err
		}
	}
	_, err = r.loads(ctx, setting{"all of it off, and a general-purpose agent of our own", allOff}, true, nil)
	return err
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
func (r *rig) loads(ctx context.Context, how setting, resume bool, usual *loaded) (*loaded, error) {
	base, err := r.folder("loading")
	if err != nil {
		return nil, err
	}
	ws, home, marks := filepath.Join(base, "above", "ws"), filepath.Join(base, "home"), filepath.Join(base, "marks")
	if err := Plant(ws, home, marks); err != nil {
		return nil, err
	}
	env := append(r.environment(), "COPILOT_CUSTOM_INSTRUCTIONS_DIRS="+filepath.Join(base, "above", "extra"))
	rt, err := r.runtimeIn(ctx, home, env, func(o *copilot.ClientOptions) { o.WorkingDirectory = ws })
	if err != nil {
		return nil, err
	}
	var c *copilot.SessionConfig
	s, err := r.open(ctx, rt, func(made *copilot.SessionConfig) {
		made.WorkingDirectory = ws
		how.change(made)
		c = made
	})
	if err != nil {
		return nil, err
	}
	first, err := r.loadedIn(ctx, rt, s, marks)
	if err != nil {
		return nil, err
	}
	if r.differ(how.name, usual, first); usual == nil {
		r.saw(how.name+": hooks run at", "%s", listed(eventsRun(marks)))
	}
	if !resume {
		return first, nil
	}
	if err := errors.Join(os.RemoveAll(marks), os.Mkdir(marks, 0o700)); err != nil {
		return nil, err
	}
	if rt, err = r.runtimeIn(ctx, home, env); err != nil {
		return nil, err
	}
	if s, err = r.reopen(ctx, rt, s.SessionID, ws, func(to *copilot.ResumeSessionConfig) { resumedAs(to, c) }); err != nil {
		return nil, err
	}
	again, err := r.loadedIn(ctx, rt, s, marks)
	if err == nil {
		r.differ(how.name+", resumed", first, again)
	}
	return first, err
}

// differ records what was loaded, or how it differs from the usual result.
func (r *rig) differ(when string, usual, now *loaded) {
	if usual == nil {
		r.saw(when+": started", "%s", listed(now.started))
		r.saw(when+": told the model", "%s", listed(now.told))
		r.saw(when+": told a sub-agent", "%s", listed(now.toldBelow))
		return
	}
	r.saw(when+": started", "%s", difference(usual.started, now.started))
	r.saw(when+": told the model", "%s", difference(usual.told, now.told))
	r.saw(when+": told a sub-agent", "%s", difference(usual.toldBelow, now.toldBelow))
}

func difference(was, is []string) string {
	only := func(a, b []string) []string {
		return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
	}
	gone, more := only(was, is), only(is, was)
	switch {
	case len(gone)+len(more) == 0:
		return "the same"
	case len(is) == 0:
		return "nothing"
	case len(gone) == 0:
		return "also " + listed(more)
	case len(more) == 0:
		return "not " + listed(gone)
	}
	return "not " + listed(gone) + "; also " + listed(more)
}

// resumedAs carries over what the settings of loading set.
func resumedAs(to *copilot.ResumeSessionConfig, c *copilot.SessionConfig) {
	to.EnableFileHooks, to.EnableConfigDiscovery, to.EnableSkills = c.EnableFileHooks, c.EnableConfigDiscovery, c.EnableSkills
	to.EnableOnDemandInstructionDiscovery, to.SkipCustomInstructions = c.EnableOnDemandInstructionDiscovery, c.SkipCustomInstructions
	to.ExcludedTools, to.ExcludedBuiltInAgents, to.CustomAgents = c.ExcludedTools, c.ExcludedBuiltInAgents, c.CustomAgents
}

// loadedIn runs a turn that gives every loader its chance, ends the runtime,
// and says what was started and told.
func (r *rig) loadedIn(ctx context.Context, rt *runtime, s *session, marks string) (*loaded, error) {
	file := filepath.Join(s.dir, "sub", "file.txt")
	view, began := tool("view", map[string]any{"path": file}), len(r.model.Requests())
	task := func(agent string) string {
		return tool("task", map[string]any{"description": "look", "name": "looker-" + agent, "agent_type": agent, "mode": "sync",
			"prompt": script(view, "next", "text BELOW")})
	}
	if _, err := s.turn(ctx, tool("bash", map[string]any{"command": "true", "description": "x"}), view,
		tool("lsp", map[string]any{"operation": "documentSymbol", "file": file}), "next", task("general-purpose"), "next", task("own"), "next", "text ok"); err != nil {
		return nil, err
	}
	if err := rt.leave(ctx); err != nil {
		return nil, err
	}
	var above, below strings.Builder
	for _, q := range r.model.Requests()[began:] {
		// The main agent's prompt is the script, which names the sub-agents.
		if strings.Contains(string(q.Raw), "looker-own") {
			above.Write(q.Raw)
		} else {
			below.Write(q.Raw)
		}
	}
	ran, err := Ran(marks)
	return &loaded{started: ran, told: Told(above.String()), toldBelow: Told(below.String())}, err
}

// eventsRun are the events at which a hook of a file ran.
func eventsRun(marks string) []string {
	var out []string
	for _, e := range slices.Concat(hookEvents, claudeEvents) {
		if found, _ := filepath.Glob(filepath.Join(marks, "*-"+e)); len(found) > 0 { // the pattern is well-formed
			out = append(out, e)
		}
	}
	return out
}

func listed(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}
