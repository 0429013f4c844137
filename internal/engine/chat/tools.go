package chat

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// legalName is what every API allows as a tool's name; how long it may be is
// each API's own rule. modelName is the longest that all providers take.
var legalName = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

const modelName = 64

// runtimeNames are tools that the runtime answers itself, or does not let
// others declare, whether it offers them or not. It does not list them all; a
// test tries each, and each that it lists.
var runtimeNames = []string{
	"catalog_search", "extensions_manage", "extensions_reload", "get_context_remaining", "invoke_canvas_action", "list_canvas_capabilities",
	"list_powershell", "local_shell", "new_context", "open_canvas", "powershell", "read_powershell", "report_progress", "session_artifacts",
	"session_history", "stop_powershell", "store_memory", "task_complete", "tool_search_tool", "vote_memory",
}

// agentNames are Copilot's own tools in an agent's session.
var agentNames = []string{
	"apply_patch", "ask_user", "bash", "context_board", "create", "create_pull_request", "edit", "exit_plan_mode", "factories_manage",
	"fetch_copilot_cli_documentation", "generic_tool_search", "glob", "grep", "list_agents", "list_bash", "lsp", "manage_schedule",
	"read_agent", "read_bash", "read_inbox", "reply_to_comment", "report_intent", "rg", "run_factory", "semantic_code_search", "send_inbox",
	"session_store_sql", "skill", "sql", "stop_bash", "str_replace_editor", "task", "update_todo", "view", "web_fetch", "write_agent",
}

// tools are a client's tools as the model sees them. Nearly all keep their
// names. A name that the runtime reserves, or that is too long for some provider,
// is replaced by another, which only the model sees.
type tools struct {
	agent  bool
	specs  []bridge.ToolSpec
	client map[string]string // the client's name, by the model's
	model  map[string]string // the model's name, by the client's
}

func newTools(specs []bridge.ToolSpec, agent bool) (*tools, error) {
	t := &tools{agent: agent, client: map[string]string{}, model: map[string]string{}}
	for _, spec := range specs {
		if _, twice := t.model[spec.Name]; twice {
			return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("there are two tools named %q", spec.Name)}
		}
		if !legalName.MatchString(spec.Name) {
			return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("%q cannot be the name of a tool", spec.Name),
				Remedy: "use letters, digits, underscores and hyphens"}
		}
		t.model[spec.Name] = ""
	}
	for _, spec := range specs {
		name := t.rename(spec.Name)
		for name != spec.Name && t.taken(name) {
			name = hashed(name)
		}
		t.client[name], t.model[spec.Name] = spec.Name, name
		schema, err := objectSchema(spec)
		if err != nil {
			return nil, err
		}
		t.specs = append(t.specs, bridge.ToolSpec{Name: name, Description: spec.Description, Schema: schema})
	}
	return t, nil
}

// taken reports whether a made-up name belongs to another tool.
func (t *tools) taken(name string) bool {
	_, theirs := t.model[name]
	_, made := t.client[name]
	return theirs || made
}

// rename makes a name that the runtime and the providers take.
func (t *tools) rename(name string) string {
	for {
		switch {
		case len(name) > modelName:
			name = hashed(name)
		case slices.Contains(runtimeNames, name) || t.agent && slices.Contains(agentNames, name):
			name += "_tool"
		default:
			return name
		}
	}
}

// hashed makes another name of a name, always the same one.
func hashed(name string) string {
	sum := sha256.Sum256([]byte(name))
	tail := "_" + hex.EncodeToString(sum[:4])
	return name[:min(len(name), modelName-len(tail))] + tail
}

// seen is the model's name of a tool. The tool may be one of the history that is
// no longer offered.
func (t *tools) seen(name string) string {
	if m, ok := t.model[name]; ok {
		return m
	}
	return t.rename(name)
}

// has says whether the model's name of a tool is one of the client's.
func (t *tools) has(name string) bool { return t.client[name] != "" }

// calls returns the calls of the client's tools among those of a message,
// under the client's names. The rest are Copilot's own, or of tools that do
// not exist, which the runtime answers by itself.
func (t *tools) calls(calls []bridge.ToolCall) []bridge.ToolCall {
	var out []bridge.ToolCall
	for _, c := range calls {
		if t.has(c.Name) {
			c.Name = t.client[c.Name]
			out = append(out, c)
		}
	}
	return out
}

// objectSchema is a tool's schema as the runtime wants it: the runtime silently
// drops a tool whose schema has no "type": "object". Arguments are always an
// object, so the type can be added, and a schema of another type is an error.
func objectSchema(spec bridge.ToolSpec) (map[string]any, error) {
	switch kind := spec.Schema["type"].(type) {
	case string:
		if kind == "object" {
			return spec.Schema, nil
		}
	case []any:
		if !slices.Contains(kind, any("object")) {
			break
		}
		return withType(spec.Schema), nil
	case nil:
		return withType(spec.Schema), nil
	}
	return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("the parameters of the tool %q are not an object, but of type %v", spec.Name, spec.Schema["type"]),
		Remedy: `give it a JSON schema with "type": "object"`}
}

func withType(schema map[string]any) map[string]any {
	out := map[string]any{}
	maps.Copy(out, schema)
	out["type"] = "object"
	return out
}
