package guard

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/paths"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
)

// known are the runtime's own tools and the workspace's operations. The list changes with its versions: what
// is not on it is asked about, never allowed for being new.
var known = map[string]policy.Kind{
	"bash": policy.KindShell, "powershell": policy.KindShell,
	"view": policy.KindRead, "grep": policy.KindRead, "rg": policy.KindRead, "glob": policy.KindRead, "semantic_code_search": policy.KindRead,
	"create": policy.KindWrite, "edit": policy.KindWrite, "apply_patch": policy.KindWrite, "str_replace_editor": policy.KindWrite,
	"web_fetch": policy.KindNetwork, "web_search": policy.KindNetwork,
	"store_memory": policy.KindMemory, "vote_memory": policy.KindMemory,
	"read_bash": policy.KindOther, "write_bash": policy.KindShell, "stop_bash": policy.KindOther, "list_bash": policy.KindOther,
	"task": policy.KindOther, "read_agent": policy.KindOther, "write_agent": policy.KindOther, "list_agents": policy.KindOther,
	"sql": policy.KindOther, "session_store_sql": policy.KindOther, "ask_user": policy.KindOther, "skill": policy.KindOther,
	"report_intent": policy.KindOther, "update_todo": policy.KindOther, "exit_plan_mode": policy.KindOther, "task_complete": policy.KindOther,
	"mcp.fs.read": policy.KindRead, "mcp.fs.list": policy.KindRead, "mcp.search.code": policy.KindRead, "mcp.symbols.list": policy.KindRead,
	"mcp.edit.applyPatch": policy.KindWrite, "mcp.fs.create": policy.KindWrite, "mcp.format.apply": policy.KindWrite, "mcp.imports.organize": policy.KindWrite,
	"mcp.task.run": policy.KindShell, "mcp.shell.run": policy.KindShell, "mcp.language.server": policy.KindShell, "mcp.language.formatter": policy.KindShell,
	ToolServerStart: policy.KindShell, ToolServerConnect: policy.KindNetwork,
	"openclaw_memory_search": policy.KindOther, "openclaw_memory_read": policy.KindOther, "openclaw_user_prefs": policy.KindOther,
	"fetch_copilot_cli_documentation": policy.KindOther, "tool_search_tool": policy.KindOther,
}

// action makes of a tool call what a policy can judge.
func (g *Guard) action(call bridge.ToolCall) (a policy.Action) {
	a = policy.Action{Tool: call.Name, Server: call.Server, Args: call.Args, Wall: g.wall(call.Confined && call.Name != ToolServerStart), NoGrant: call.NoGrant}
	defer func() { g.confine(&a) }()
	if a.Server == "" {
		for _, s := range g.opts.Servers {
			if strings.HasPrefix(call.Name, s+"-") {
				a.Server = s
			}
		}
	}
	if tool, ok := g.githubTool(a.Server, call.Name); ok {
		if a.Server = githubServer; readsGitHub(tool) {
			a.Kind, a.ReadOnly = policy.KindOther, true
			return a
		}
	}
	kind, ok := known[call.Name]
	switch {
	case slices.Contains(g.opts.OwnTools, call.Name):
		a.Kind, a.ReadOnly = policy.KindOther, true // its paths are not of this workspace
		a.Server, a.Tool, _ = strings.Cut(call.Name, "-")
		return a
	case a.Server != "":
		a.Tool = ofServer(call.Name, a.Server)
		a.Kind = policy.KindMCP
	case slices.Contains(g.opts.ClientTools, call.Name):
		a.Kind = policy.KindOther // it runs in the caller, not here
		return a
	case !ok:
		a.Kind = policy.KindMCP
	default:
		a.Kind = kind
	}
	args, _ := call.Args.(map[string]any)
	switch a.Kind {
	case policy.KindShell:
		text, isText := commandOf(call)
		if !isText {
			a.Unparsable = "it has no command"
			return a
		}
		g.addCommand(&a, text)
		if runtimeShells[call.Name] {
			a.Line = g.line(text)
		}
		if harmless, _ := args["harmless"].(bool); harmless && strings.HasPrefix(call.Name, "mcp.language.") {
			for i := range a.Commands {
				a.Commands[i].Harmless = true
			}
		}
		if call.Name == ToolServerStart {
			asServer(&a)
		}
		return a
	case policy.KindNetwork:
		if u, ok := args["url"].(string); ok {
			addHosts(&a, []string{u})
		}
		return a
	case policy.KindOther, policy.KindMemory, policy.KindHook:
		return a
	case policy.KindRead, policy.KindWrite, policy.KindMCP:
		patch := call.Name == "mcp.edit.applyPatch"
		if dry, _ := args["dryRun"].(bool); patch && dry {
			a.Kind = policy.KindRead // it only compares
		}
		if patch {
			g.addVerified(&a, args["verify"])
			others := maps.Clone(args)
			delete(others, "verify")
			call.Args = others
		}
		verified := len(a.Paths)
		g.addPaths(&a, call)
		if patch && a.Kind == policy.KindWrite {
			// The answer tells whether the diff fits, and so shows a part of the
			// file: it is read too.
			for _, p := range slices.Clone(a.Paths[verified:]) {
				p.Write = false
				a.Paths = append(a.Paths, p)
			}
		}
	}
	return a
}

// ofServer is a tool's name as its MCP server has it. Agents call it with the
// server's name in front.
func ofServer(tool, server string) string {
	if server == "" {
		return tool
	}
	return strings.TrimPrefix(tool, server+"-")
}

// asServer makes of a command the start of an MCP server: no such start counts
// as a command that only reads, and consent to it covers files outside that it
// names.
func asServer(a *policy.Action) {
	for i := range a.Commands {
		a.Commands[i].Unsafe = "it is started as an MCP server"
	}
	for i, p := range a.Paths {
		if p.Outside && !p.Write {
			a.Paths[i].Doubt = "an MCP server is given it"
		}
	}
}

// addVerified adds the files whose sums a patch compares: an answer has the sum
// that was found, so they are read.
func (g *Guard) addVerified(a *policy.Action, given any) {
	names, ok := given.([]any)
	if !ok && given != nil {
		a.Unparsable = "the files to verify are not a list"
	}
	for _, n := range names {
		name, ok := n.(string)
		if !ok {
			a.Unparsable = "a file to verify is not named by a text"
			return
		}
		g.addPath(a, name, false)
	}
}

// addPaths adds the files that a tool's arguments name.
func (g *Guard) addPaths(a *policy.Action, call bridge.ToolCall) {
	found, err := paths.Collect(call.Args)
	if err != nil {
		a.Unparsable = err.Error()
		return
	}
	write := a.Kind == policy.KindWrite || a.Kind == policy.KindMCP && !a.ReadOnly
	for _, f := range found {
		if g.isPlan(f.Value) {
			a.Paths = append(a.Paths, policy.Path{Name: f.Value, Write: write, Own: true})
			continue
		}
		switch {
		case f.Glob && call.Name != "glob":
			continue // a regular expression, or a filter on names
		case f.Glob:
			res, err := g.here.ResolveGlob(f.Value)
			a.Paths = append(a.Paths, pathOf(res, err, f.Value, false))
			continue
		case a.Kind == policy.KindMCP && !f.Certain:
			// It may be anything; but what leads outside is suspect enough.
			if res, err := g.here.Resolve(f.Value); err == nil && res.Inside {
				continue
			}
		}
		res, err := g.here.Resolve(f.Value)
		p := pathOf(res, err, f.Value, write && a.Kind == policy.KindWrite)
		p.Tree = searches(call.Name) && res.IsDir && g.deniedBelow(res)
		if a.Kind == policy.KindMCP && !a.ReadOnly && res.Inside && (g.policy().Protected(res.Rel) || res.Named != "" && g.policy().Protected(res.Named)) {
			p.Doubt = "the tool may write it, and it is protected"
		}
		a.Paths = append(a.Paths, p)
	}
	if len(a.Paths) == 0 && a.Kind == policy.KindRead {
		res, err := g.here.Resolve(".")
		p := pathOf(res, err, "", false)
		p.Tree = err == nil && searches(call.Name) && g.deniedBelow(res)
		a.Paths = append(a.Paths, p)
	}
}

// searches reports a tool that shows the contents of all files below a directory.
func searches(tool string) bool {
	return tool == "grep" || tool == "rg" || tool == "semantic_code_search"
}

// addPath adds a path as it is named.
func (g *Guard) addPath(a *policy.Action, name string, write bool) {
	if g.isPlan(name) {
		a.Paths = append(a.Paths, policy.Path{Name: name, Write: write, Own: true})
		return
	}
	res, err := g.here.Resolve(name)
	a.Paths = append(a.Paths, pathOf(res, err, name, write))
}

// isPlan reports the file in which Copilot keeps the session's plan. In plan mode
// it is told to write it, and not to ask.
func (g *Guard) isPlan(name string) bool {
	g.mu.Lock()
	session := g.session
	g.mu.Unlock()
	return session != "" && slices.ContainsFunc(g.opts.Sessions, func(dir string) bool {
		if name != filepath.Join(dir, session, "plan.md") {
			return false
		}
		info, err := os.Lstat(name)
		return errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode().IsRegular()
	})
}

func pathOf(res paths.Resolved, err error, name string, write bool) policy.Path {
	p := policy.Path{Rel: res.Rel, Named: res.Named, Name: name, Write: write, Outside: !res.Inside}
	if p.Outside {
		p.Abs = res.Abs
	}
	if err != nil {
		p.Outside, p.Problem = false, err.Error()
	}
	return p
}

// requested makes the same of a permission request. What the runtime says of
// a command is used as well, never instead.
func (g *Guard) requested(r bridge.PermissionRequest) (a policy.Action) {
	a = policy.Action{Tool: ofServer(r.Tool, r.Server), Server: r.Server, Args: r.Args, ReadOnly: r.ReadOnly, Wall: g.wall(r.Confined)}
	defer func() { g.confine(&a) }()
	switch r.Kind {
	case bridge.PermissionShell:
		a.Kind = policy.KindShell
		g.addCommand(&a, r.Command)
		g.addMentioned(&a, r)
	case bridge.PermissionRead, bridge.PermissionWrite:
		a.Kind = policy.Kind(r.Kind) // they have the same names
		for _, p := range r.Paths {
			g.addPath(&a, p, r.Kind == bridge.PermissionWrite)
		}
	case bridge.PermissionURL:
		a.Kind = policy.KindNetwork
		addHosts(&a, r.URLs)
	case bridge.PermissionMCP:
		a.Kind = policy.KindMCP
		if slices.Contains(g.opts.OwnTools, r.Tool) {
			a.Kind, a.ReadOnly = policy.KindOther, true
			return a
		}
		if tool, ok := g.githubTool(r.Server, r.Tool); ok && readsGitHub(tool) {
			a.Kind, a.ReadOnly = policy.KindOther, true
			return a
		}
		g.addPaths(&a, bridge.ToolCall{Name: r.Tool, Args: r.Args})
	case bridge.PermissionMemory:
		a.Kind = policy.KindMemory
	case bridge.PermissionHook:
		a.Kind = policy.KindHook
	case bridge.PermissionCustom:
		a.Kind = policy.KindOther
		if !slices.Contains(g.opts.ClientTools, r.Tool) {
			a.Kind = policy.KindMCP // nobody has declared it
		}
	case bridge.PermissionUnknown:
		a.Kind = policy.Kind("unknown " + r.Native)
	}
	return a
}

// addMentioned adds what the runtime has seen in a command.
func (g *Guard) addMentioned(a *policy.Action, r bridge.PermissionRequest) {
	for _, p := range r.Paths {
		res, err := g.here.Resolve(p)
		if err == nil && !res.Inside && !harmless[res.Abs] {
			a.Paths = append(a.Paths, pathOf(res, err, p, false))
		}
	}
	addHosts(a, r.URLs)
}

// harmless are files outside that every command may name.
var harmless = map[string]bool{"/dev/null": true, "/dev/stdin": true, "/dev/stdout": true, "/dev/stderr": true}

// line is a command line as a rule may have it. One with a secret is not to be
// written into a file, and one in a worktree means nothing when that is gone.
func (g *Guard) line(text string) string {
	if g.opts.Live != nil && g.opts.Live.Root != g.opts.Workspace.Root() {
		return ""
	}
	line := policy.LineOf(filepath.ToSlash(g.here.Base()), text)
	if _, hits := g.opts.Redactor.String(line); hits > 0 {
		return ""
	}
	return line
}
