package guard

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
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
	"mcp.task.run": policy.KindShell, "mcp.shell.run": policy.KindShell, "mcp.language.server": policy.KindShell,
	ToolServerStart: policy.KindShell, ToolServerConnect: policy.KindNetwork,
	"openclaw_memory_search": policy.KindOther, "openclaw_memory_read": policy.KindOther, "openclaw_user_prefs": policy.KindOther,
	"fetch_copilot_cli_documentation": policy.KindOther, "tool_search_tool": policy.KindOther,
}

// action makes of a tool call what a policy can judge.
func (g *Guard) action(call bridge.ToolCall) policy.Action {
	a := policy.Action{Tool: call.Name, Server: call.Server, Args: call.Args}
	if a.Server == "" {
		for _, s := range g.opts.Servers {
			if strings.HasPrefix(call.Name, s+"-") {
				a.Server = s
			}
		}
	}
	kind, ok := known[call.Name]
	switch {
	case slices.Contains(g.opts.OwnTools, call.Name):
		a.Kind, a.ReadOnly = policy.KindOther, true // its paths are not of this workspace
		a.Server, _, _ = strings.Cut(call.Name, "-")
		return a
	case a.Server != "":
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
		text, isText := args["command"].(string)
		if call.Name == "write_bash" {
			text, isText = args["input"].(string)
		}
		if !isText {
			a.Unparsable = "it has no command"
			return a
		}
		g.addCommand(&a, text)
		if call.Name == ToolServerStart {
			// A server's own files lie where it is installed. The command is
			// what is judged, with every word of it.
			a.Paths = slices.DeleteFunc(a.Paths, func(p policy.Path) bool { return p.Outside && !p.Write })
		}
		return a
	case policy.KindNetwork:
		if u, ok := args["url"].(string); ok {
			a.Hosts = append(a.Hosts, host(u))
		}
		return a
	case policy.KindOther, policy.KindMemory, policy.KindHook:
		return a
	case policy.KindRead, policy.KindWrite, policy.KindMCP:
		patch := call.Name == "mcp.edit.applyPatch"
		if dry, _ := args["dryRun"].(bool); patch && dry {
			a.Kind = policy.KindRead // it only compares
		}
		g.addPaths(&a, call)
		if patch && a.Kind == policy.KindWrite {
			// Whether a diff fits, and what was found instead, tells what is in
			// the file.
			for _, p := range slices.Clone(a.Paths) {
				p.Write = false
				a.Paths = append(a.Paths, p)
			}
		}
	}
	return a
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
		switch {
		case f.Glob && call.Name != "glob":
			continue // a regular expression, or a filter on names
		case f.Glob:
			res, err := g.opts.Workspace.ResolveGlob(f.Value)
			a.Paths = append(a.Paths, path(res, err, f.Value, false))
			continue
		case a.Kind == policy.KindMCP && !f.Certain:
			// It may be anything; but what leads outside is suspect enough.
			if res, err := g.opts.Workspace.Resolve(f.Value); err == nil && res.Inside {
				continue
			}
		}
		res, err := g.opts.Workspace.Resolve(f.Value)
		p := path(res, err, f.Value, write && a.Kind == policy.KindWrite)
		p.Tree = call.Name == "grep" && res.IsDir && g.deniedBelow(res)
		a.Paths = append(a.Paths, p)
	}
	if len(a.Paths) == 0 && a.Kind == policy.KindRead {
		p := policy.Path{Rel: "."}
		if res, err := g.opts.Workspace.Resolve("."); err == nil {
			p.Tree = call.Name == "grep" && g.deniedBelow(res)
		}
		a.Paths = append(a.Paths, p)
	}
}

func path(res paths.Resolved, err error, name string, write bool) policy.Path {
	p := policy.Path{Rel: res.Rel, Name: name, Write: write, Outside: !res.Inside}
	if err != nil {
		p.Outside, p.Problem = false, err.Error()
	}
	return p
}

// requested makes the same of a permission request. What the runtime says of
// a command is used as well, never instead.
func (g *Guard) requested(r bridge.PermissionRequest) policy.Action {
	a := policy.Action{Tool: r.Tool, Server: r.Server, Args: r.Args, ReadOnly: r.ReadOnly}
	switch r.Kind {
	case bridge.PermissionShell:
		a.Kind = policy.KindShell
		g.addCommand(&a, r.Command)
		for _, p := range r.Paths {
			res, err := g.opts.Workspace.Resolve(p)
			if err == nil && !res.Inside && !harmless[res.Abs] {
				a.Paths = append(a.Paths, path(res, err, p, false))
			}
		}
		for _, u := range r.URLs {
			a.Hosts = append(a.Hosts, host(u))
		}
	case bridge.PermissionRead, bridge.PermissionWrite:
		a.Kind = policy.KindRead
		if r.Kind == bridge.PermissionWrite {
			a.Kind = policy.KindWrite
		}
		for _, p := range r.Paths {
			res, err := g.opts.Workspace.Resolve(p)
			a.Paths = append(a.Paths, path(res, err, p, r.Kind == bridge.PermissionWrite))
		}
	case bridge.PermissionURL:
		a.Kind = policy.KindNetwork
		for _, u := range r.URLs {
			a.Hosts = append(a.Hosts, host(u))
		}
	case bridge.PermissionMCP:
		a.Kind = policy.KindMCP
		if slices.Contains(g.opts.OwnTools, r.Tool) {
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

// harmless are files outside that every command may name.
var harmless = map[string]bool{"/dev/null": true, "/dev/stdin": true, "/dev/stdout": true, "/dev/stderr": true}

// subjectsOf names what an action is about, so that a call and the permission
// request that follows it can be told to be the same.
func subjectsOf(a policy.Action) []string {
	var out []string
	switch a.Kind {
	case policy.KindShell:
		for _, c := range a.Commands {
			out = append(out, "command\x00"+c.Text)
		}
	case policy.KindMCP:
		b, err := json.Marshal(a.Args)
		if err == nil {
			out = append(out, "mcp\x00"+a.Server+"\x00"+string(b))
		}
	default:
		for _, p := range a.Paths {
			out = append(out, "path\x00"+p.Rel)
		}
		for _, h := range a.Hosts {
			out = append(out, fmt.Sprintf("host\x00%s:%d", h.Name, h.Port))
		}
	}
	return out
}

// requestOf words a tool call as a request, to be put to a person.
func requestOf(call bridge.ToolCall, a policy.Action) bridge.PermissionRequest {
	r := bridge.PermissionRequest{CallID: call.ID, Tool: call.Name, Server: a.Server, Args: call.Args}
	args, _ := call.Args.(map[string]any)
	switch a.Kind {
	case policy.KindShell:
		r.Kind = bridge.PermissionShell
		r.Command, _ = args["command"].(string)
		r.Intention, _ = args["description"].(string)
	case policy.KindRead, policy.KindWrite:
		r.Kind = bridge.PermissionRead
		if a.Kind == policy.KindWrite {
			r.Kind = bridge.PermissionWrite
		}
		for _, p := range a.Paths {
			if a.Kind == policy.KindRead || p.Write {
				r.Paths = append(r.Paths, p.Rel)
			}
		}
	case policy.KindNetwork:
		r.Kind = bridge.PermissionURL
		if u, ok := args["url"].(string); ok {
			r.URLs = []string{u}
		}
	case policy.KindMemory:
		r.Kind = bridge.PermissionMemory
	case policy.KindHook:
		r.Kind = bridge.PermissionHook
	default:
		r.Kind = bridge.PermissionMCP
	}
	return r
}

// question words a request for a person.
func question(r bridge.PermissionRequest) approval.Question {
	q := approval.Question{Request: r}
	detail := func(v any) string {
		b, err := json.MarshalIndent(v, "", "  ")
		if v == nil || err != nil {
			return ""
		}
		return string(b)
	}
	switch r.Kind {
	case bridge.PermissionShell:
		q.Summary = "run: " + r.Command
		if first, _, more := strings.Cut(r.Command, "\n"); more {
			q.Summary, q.Detail = "run: "+first+" …", r.Command
		}
	case bridge.PermissionURL:
		q.Summary = "fetch: " + strings.Join(r.URLs, " ")
	case bridge.PermissionRead:
		q.Summary = "read: " + strings.Join(r.Paths, " ")
	case bridge.PermissionWrite:
		q.Summary, q.Detail = "write: "+strings.Join(r.Paths, " "), r.Diff
	case bridge.PermissionMCP:
		q.Summary, q.Detail = "call tool: "+strings.TrimPrefix(r.Server+"/"+r.Tool, "/"), detail(r.Args)
	case bridge.PermissionMemory:
		q.Summary = "remember: " + r.Intention
	case bridge.PermissionHook:
		q.Summary = "go on with " + r.Tool + ": " + r.Intention
	case bridge.PermissionCustom, bridge.PermissionUnknown:
		q.Summary, q.Detail = string(r.Kind)+" "+r.Tool, detail(r.Args)
	}
	return q
}
