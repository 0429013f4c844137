package demomodel

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// role is something that a tool can be good for.
type role struct {
	names []string // of tools that do it, best first
	args  map[string][]string
}

var pathNames = []string{"path", "file_path", "filePath", "filename", "file"}

// The runtime's own tools come first; the others are what clients that bring
// tools of their own call theirs.
var (
	writing  = role{[]string{"create", "write_file", "create_file", "write"}, map[string][]string{"path": pathNames, "text": {"file_text", "content", "contents", "text"}}}
	editing  = role{[]string{"edit", "str_replace", "edit_file"}, map[string][]string{"path": pathNames, "old": {"old_str", "old_string", "oldString"}, "new": {"new_str", "new_string", "newString"}}}
	viewing  = role{[]string{"view", "read_file", "read"}, map[string][]string{"path": pathNames}}
	shelling = role{[]string{"bash", "powershell", "shell", "run_command", "execute_command", "exec_command", "run_shell_command", "run_commands"},
		map[string][]string{"command": {"command", "cmd", "commands"}, "description": {"description"}}}
	patching  = role{[]string{"apply_patch"}, map[string][]string{"patch": {"input"}}} // of Codex and Cline
	scripting = role{[]string{"exec"}, map[string][]string{"script": {"input"}}}       // of Codex, in JavaScript
	asking    = role{[]string{"ask_user"}, map[string][]string{"question": {"question"}}}
)

// toolbox is what a request allows the model to call, and where it works.
type toolbox struct {
	tools []Tool
	cwd   string // "" if the request does not say
}

// cwdLine is how the runtime and coding agents tell the directory.
var cwdLine = regexp.MustCompile(`(?m)^(?:\* Current working directory: |[ -]*(?:Primary w|W)orking directory: |\s*<cwd>|I'm currently working in the directory: )(.+?)(?:</cwd>)?\s*$`)

func newToolbox(req *Request) *toolbox {
	b := &toolbox{}
	if req.ToolChoice != "none" {
		b.tools = req.Tools
	}
	for _, message := range req.Messages { // the system's comes first
		if message.Role != "system" && message.Role != "user" {
			continue
		}
		if m := cwdLine.FindStringSubmatch(message.Content); m != nil {
			b.cwd = m[1]
			break
		}
	}
	return b
}

// named returns the first tool that has one of these names, or nil. Case does
// not count.
func (b *toolbox) named(names ...string) *Tool {
	for _, name := range names {
		for i := range b.tools {
			if name != "" && strings.EqualFold(b.tools[i].Name, name) {
				return &b.tools[i]
			}
		}
	}
	return nil
}

// call calls the tool that is best for a role. Arguments are named as the
// role names them and get the names that the tool's schema has; what the
// schema does not know is left out, what it requires is filled in.
func (b *toolbox) call(r role, args map[string]any) []callStep {
	tool := b.named(r.names...)
	if tool == nil {
		return nil
	}
	properties := tool.properties()
	out := tool.required()
	for name, value := range args {
		candidates := r.args[name]
		if len(properties) == 0 {
			out[candidates[0]] = value
			continue
		}
		for _, c := range candidates {
			if p, ok := properties[c]; ok {
				out[c] = p.fit(c, value)
				break
			}
		}
	}
	return []callStep{{name: tool.Name, args: string(encoded(out))}}
}

// property is what matters here of a property's schema.
type property struct {
	Type any   `json:"type"`
	Enum []any `json:"enum"`
}

// fit makes a command an array for tools that want one.
func (p property) fit(name string, value any) any {
	if s, ok := value.(string); ok && p.Type == "array" {
		if name == "commands" {
			return []string{s}
		}
		return []string{"bash", "-lc", s}
	}
	if len(p.Enum) > 0 && !slices.Contains(p.Enum, value) {
		return p.Enum[0]
	}
	return value
}

func (t *Tool) properties() map[string]property {
	var w struct {
		Properties map[string]property `json:"properties"`
	}
	if json.Unmarshal(t.Parameters, &w) != nil {
		return nil
	}
	return w.Properties
}

// required returns arguments that satisfy the tool's schema.
func (t *Tool) required() map[string]any {
	out := map[string]any{}
	if m, ok := instance(t.Parameters).(map[string]any); ok {
		out = m
	}
	return out
}

// join makes a name absolute, as the runtime's tools want it.
func (b *toolbox) join(name string) string {
	windows := strings.Contains(b.cwd, `:\`)
	switch {
	case b.cwd == "", strings.HasPrefix(name, "/"), strings.HasPrefix(name, "~"), drive.MatchString(name):
		return name
	case name == "" || name == ".":
		return b.cwd
	case windows:
		return strings.TrimRight(b.cwd, `\`) + `\` + strings.ReplaceAll(strings.TrimPrefix(name, "./"), "/", `\`)
	}
	return strings.TrimRight(b.cwd, "/") + "/" + strings.TrimPrefix(name, "./")
}

var drive = regexp.MustCompile(`^[A-Za-z]:[\\/]|^\\\\`)
