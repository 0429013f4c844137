package registration

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// serverPath is where the MCP server stands in OpenClaw's configuration.
var serverPath = []string{"mcp", "servers", serverName}

// taskLimit is how long OpenClaw waits for a tool, in milliseconds. Its default
// of a minute is too short for a coding task.
const taskLimit = 1_800_000

// definition is an MCP server as OpenClaw's configuration has it.
type definition struct {
	Command   string            `json:"command"`
	Args      []string          `json:"args"`
	Dir       string            `json:"cwd"`
	Env       map[string]string `json:"env,omitempty"`
	TimeoutMS int               `json:"requestTimeoutMs"`
}

// definition is the bridge as such a server. It starts in its workspace, so
// that a .env file there counts as it does for every other command.
func (r *Registrar) definition(q Request) definition {
	return definition{Command: literal(r.opts.Executable), Args: []string{"mcp", "copilot", "--workspace", literal(q.Workspace)}, Dir: literal(q.Workspace),
		Env: literals(q.Env), TimeoutMS: taskLimit}
}

// registeredServer is what stands there now; ok is false if nothing does.
func (s *settings) registeredServer() (d definition, ok bool) {
	text, ok := s.doc.Get(serverPath...)
	if !ok {
		return d, false
	}
	_ = json.Unmarshal(text, &d) // something else is not ours
	return d, true
}

// ours says whether it is a bridge.
func (d definition) ours() bool {
	name := strings.TrimSuffix(strings.ToLower(filepath.Base(strings.ReplaceAll(d.Command, `\`, "/"))), ".exe")
	return strings.HasPrefix(name, "copilot-bridge") && len(d.Args) >= 2 && d.Args[0] == "mcp" && d.Args[1] == "copilot"
}

// workspace is the one that it works in.
func (d definition) workspace() string {
	if i := slices.Index(d.Args, "--workspace"); i >= 0 && i+1 < len(d.Args) {
		return d.Args[i+1]
	}
	return ""
}

// server makes the changes of the server's registration.
func (p *plan) server(q Request) error {
	have, there := p.settings.registeredServer()
	if there && !have.ours() && p.entry == nil && !q.Force {
		return &bridge.Error{Code: bridge.CodeConflict,
			Message: "OpenClaw has an MCP server called " + serverName + " already, and it is not this program",
			Remedy:  "rename it there, or replace it with --force: unregister puts it back"}
	}
	if there && have.ours() {
		p.adopt(serverPath)
	}
	return p.set(p.r.definition(q), serverPath)
}

// reference is what OpenClaw would replace by a variable of its environment.
var reference = regexp.MustCompile(`\$\{[A-Z_][A-Z0-9_]*\}`)

// literal writes a text so that OpenClaw takes it as it is.
func literal(s string) string {
	return reference.ReplaceAllStringFunc(s, func(m string) string { return "$" + m })
}

func literals(env map[string]string) map[string]string {
	if len(env) == 0 {
		return nil
	}
	out := map[string]string{}
	for name, value := range env {
		if value != Reference(name) {
			value = literal(value)
		}
		out[name] = value
	}
	return out
}

// Reference is how OpenClaw's configuration names a variable of the gateway's
// environment, as the value of a variable of the same name.
func Reference(name string) string { return "${" + name + "}" }
