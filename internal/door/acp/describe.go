package acp

import (
	"cmp"
	"encoding/json"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/internal/acpwire"
	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

// kinds are those of Copilot's own tools; any other is "other".
var kinds = map[string]string{
	"bash": acpwire.KindExecute, "powershell": acpwire.KindExecute, "read_bash": acpwire.KindExecute, "write_bash": acpwire.KindExecute,
	"stop_bash": acpwire.KindExecute, "list_bash": acpwire.KindExecute,
	"view": acpwire.KindRead, "create": acpwire.KindEdit, "edit": acpwire.KindEdit, "str_replace_editor": acpwire.KindEdit, "apply_patch": acpwire.KindEdit,
	"glob": acpwire.KindSearch, "grep": acpwire.KindSearch, "semantic_code_search": acpwire.KindSearch, "web_search": acpwire.KindSearch,
	"web_fetch": acpwire.KindFetch, "fetch": acpwire.KindFetch,
	"task": acpwire.KindThink, "think": acpwire.KindThink, "report_intent": acpwire.KindThink, "exit_plan_mode": acpwire.KindSwitchMode,
}

// describe is a tool call as a client shows it.
func (s *session) describe(c bridge.ToolCall) *acpwire.ToolCall {
	args, _ := c.Args.(map[string]any)
	text := func(name string) string { v, _ := args[name].(string); return v }
	out := &acpwire.ToolCall{ToolCallID: c.ID, Name: c.Name, ToolKind: acpwire.KindOther, Title: c.Name}
	if c.Args != nil {
		if raw, err := json.Marshal(c.Args); err == nil {
			out.RawInput = raw
		}
	}
	if c.Server != "" {
		out.Title = oneLine(c.Server + ": " + strings.TrimPrefix(c.Name, c.Server+"-"))
		return out
	}
	if k, ok := kinds[c.Name]; ok {
		out.ToolKind = k
	}
	path := text("path")
	if path != "" {
		if !filepath.IsAbs(path) {
			path = filepath.Join(s.cwd, path)
		}
		out.Locations = []acpwire.Location{{Path: path}}
	}
	switch c.Name {
	case "bash", "powershell":
		out.Title = text("command")
	case "view":
		out.Title = "Read " + s.short(path)
		if from, ok := firstLine(args["view_range"]); ok && len(out.Locations) > 0 {
			out.Locations[0].Line = &from
		}
	case "create":
		out.Title = "Create " + s.short(path)
		if path != "" {
			out.Content = []acpwire.ToolContent{{Type: acpwire.ToolContentDiff, Path: path, NewText: text("file_text")}}
		}
	case "edit":
		out.Title = "Edit " + s.short(path)
		if old := text("old_str"); path != "" {
			out.Content = []acpwire.ToolContent{{Type: acpwire.ToolContentDiff, Path: path, OldText: &old, NewText: text("new_str")}}
		}
	case "glob", "grep":
		out.Title = "Find " + text("pattern")
	case "web_fetch", "fetch":
		out.Title = "Fetch " + text("url")
	}
	out.Title = oneLine(cmp.Or(out.Title, c.Name))
	return out
}

// short names a file as people in this directory do.
func (s *session) short(path string) string {
	if rel, err := filepath.Rel(s.cwd, path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}

// firstLine reads the beginning of a view_range; lines count from 1.
func firstLine(v any) (int, bool) {
	list, _ := v.([]any)
	if len(list) == 0 {
		return 0, false
	}
	n, ok := list[0].(float64)
	return int(n), ok && n >= 1
}

// maxTitle is how many characters a title may have. It begins with what
// happens, never with what the model says of it.
const maxTitle = 120

// oneLine is a text's first line, cut to what a title may hold.
func oneLine(s string) string {
	line, rest, _ := strings.Cut(strings.TrimSpace(s), "\n")
	if line = approval.Visible(line); utf8.RuneCountInString(line) > maxTitle {
		return approval.Clip(line, maxTitle)
	}
	if rest != "" {
		return line + " …"
	}
	return line
}

func textContent(s string) acpwire.ToolContent {
	block := acpwire.Text(s)
	return acpwire.ToolContent{Type: acpwire.ToolContentBlock, Content: &block}
}
