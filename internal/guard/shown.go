package guard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/redact"
)

// hiding takes secrets out of the text of a question. A nil one changes nothing.
type hiding struct{ redactor *redact.Redactor }

func (h *hiding) text(s string) string {
	if h != nil {
		s, _ = h.redactor.String(s)
	}
	return s
}

func (h *hiding) value(v any) any {
	if h != nil {
		v, _ = h.redactor.Value(v)
	}
	return v
}

// shown is a request in words: a line that begins with what would happen, and
// all that is not in it.
func (g *Guard) shown(r bridge.PermissionRequest, content string, h *hiding) (summary, detail string) {
	args, _ := argsOf(r).(map[string]any)
	args = maps.Clone(args)
	var parts []string
	take := func(name string) any { v := args[name]; delete(args, name); return v }
	switch r.Kind {
	case bridge.PermissionShell:
		verb := "run"
		if r.Tool == "write_bash" {
			verb = fmt.Sprintf("type into shell %v", take("shellId"))
			take("input")
		}
		take("command")
		summary, detail = headline(verb, h.text(r.Command))
		parts = append(parts, detail, "in "+approval.Visible(g.place(args, take)))
		parts = append(parts, variables(h.value(take("env")))...)
	case bridge.PermissionURL:
		take("url")
		summary, detail = headline("fetch", h.text(strings.Join(r.URLs, " ")))
		parts = append(parts, detail)
	case bridge.PermissionRead:
		take("path")
		summary, detail = headline("read", h.text(strings.Join(r.Paths, " ")))
		parts = append(parts, detail)
		if content != "" { // what the files are compared with
			parts = append(parts, quoted(h.text(content)))
		}
	case bridge.PermissionWrite:
		verb := "write"
		if r.Native == "delete" || r.Native == "move" {
			verb = r.Native
		}
		summary, detail = headline(verb, h.text(strings.Join(r.Paths, " ")))
		change := g.change(r, content, take, h)
		if change == "" && verb == "write" && !saysMore(args) {
			return summary, "" // nobody could know what they consent to
		}
		parts = append(parts, detail, change)
		summary += extent(change)
	case bridge.PermissionMCP:
		summary, detail = headline("call tool", strings.TrimPrefix(r.Server+"/"+r.Tool, "/"))
		parts = append(parts, detail)
	case bridge.PermissionMemory:
		summary, detail = headline("remember", h.text(r.Intention))
		parts = append(parts, detail)
	case bridge.PermissionHook:
		summary, detail = headline("go on with "+r.Tool, h.text(r.Intention))
		parts = append(parts, detail)
	case bridge.PermissionCustom, bridge.PermissionUnknown:
		summary, detail = headline(string(r.Kind), strings.TrimSpace(r.Tool+" "+h.text(r.Intention)))
		parts = append(parts, detail)
	}
	switch {
	case len(args) > 0:
		parts = append(parts, indented(h.value(args)))
	case args == nil && r.Args != nil && r.Kind != bridge.PermissionWrite:
		parts = append(parts, indented(h.value(r.Args)))
	}
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	return summary, strings.Join(parts, "\n")
}

// A headline may have a text of this length. A longer one, or one that does
// not look on a line as it is, is shown below it.
const (
	maxHeadline = 200
	maxBegin    = 80
)

// headline is what would happen on a line, and the whole of it if the line has
// only its beginning.
func headline(verb, text string) (line, whole string) {
	if utf8.RuneCountInString(text) <= maxHeadline && !strings.Contains(text, "\n") && approval.Lines(text) == text {
		return verb + ": " + text, ""
	}
	first, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return verb + ": " + approval.Clip(first+" …", maxBegin) + extent(text), quoted(text)
}

// quoted marks the lines of a text, so that none of them can be taken for a
// line of the question itself.
func quoted(text string) string {
	return "| " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n| ")
}

// extent says how long a text is.
func extent(text string) string {
	if text == "" {
		return ""
	}
	return fmt.Sprintf(" (lines: %d, characters: %d)", strings.Count(strings.TrimSuffix(text, "\n"), "\n")+1, utf8.RuneCountInString(text))
}

// place is the directory of a command.
func (g *Guard) place(args map[string]any, take func(string) any) string {
	for _, name := range []string{"dir", "cwd"} {
		if dir, ok := args[name].(string); ok && dir != "" {
			take(name)
			return dir
		}
	}
	return g.here.Base()
}

// variables are those that a command is run with.
func variables(env any) []string {
	if env == nil {
		return nil
	}
	m, ok := env.(map[string]any)
	if !ok {
		return []string{"with env " + indented(env)}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out = append(out, approval.Visible(fmt.Sprintf("with %s=%v", name, m[name])))
	}
	return out
}

// saysMore says whether arguments tell more of a write than where it is.
func saysMore(args map[string]any) bool {
	for name, v := range args {
		if _, flag := v.(bool); !flag && !slices.Contains([]string{"path", "paths", "fileName", "file_name", "file_path", "filePath", "abs_path"}, name) {
			return true
		}
	}
	return false
}

// indented is a value as JSON for people.
func indented(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if e.Encode(v) != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// change is what a write does to a file, as a diff where that can be worked
// out; "" if nothing says. take takes the arguments that it shows.
func (g *Guard) change(r bridge.PermissionRequest, content string, take func(string) any, h *hiding) string {
	call := bridge.ToolCall{Name: r.Tool, Args: r.Args}
	if name, replace, ok := replacement(call, content); ok {
		for _, n := range []string{"path", "old_str", "new_str", "file_text"} {
			take(n)
		}
		before, exists := g.current(name)
		if exists && g.Unreadable(name) != "" {
			before, exists = "", false
		}
		after, ok := replace(before)
		switch {
		case !ok:
			m, _ := r.Args.(map[string]any)
			before, _ = m["old_str"].(string)
			after, _ = m["new_str"].(string)
			return "(wherever in the file this is)\n" + diffOf(h.text(before), h.text(after))
		case !exists && after == "":
			return "(an empty file)"
		}
		return diffOf(h.text(before), h.text(after))
	}
	switch r.Tool {
	case "mcp.format.apply":
		return "the formatter or the language server for " + fmt.Sprint(take("path")) + " lays it out anew"
	case "mcp.imports.organize":
		return "the language server for " + fmt.Sprint(take("path")) + " sorts and completes its imports"
	}
	switch {
	case content != "":
		take("paths")
		return quoted(h.text(content))
	case r.Diff != "":
		return quoted(h.text(strings.TrimLeft(r.Diff, "\n")))
	}
	if text, ok := r.Args.(string); ok {
		return quoted(h.text(text))
	}
	for _, name := range []string{"input", "patch"} {
		if text, ok := take(name).(string); ok {
			return quoted(h.text(text))
		}
	}
	return ""
}

// replacement reads a call that gives a file a new text: which file, and what
// is made of the old text. It fails if the text to replace is not there once.
func replacement(call bridge.ToolCall, content string) (name string, replace func(before string) (string, bool), ok bool) {
	args, _ := call.Args.(map[string]any)
	name, named := args["path"].(string)
	before, edits := args["old_str"].(string)
	after, _ := args["new_str"].(string)
	whole, creates := args["file_text"].(string)
	if call.Name == "mcp.fs.create" {
		whole, creates = content, true
	}
	switch {
	case !named || edits == creates:
		return "", nil, false
	case creates:
		return name, func(string) (string, bool) { return whole, true }, true
	}
	return name, func(text string) (string, bool) {
		if before == "" || strings.Count(text, before) != 1 {
			return "", false
		}
		return strings.Replace(text, before, after, 1), true
	}, true
}

// maxCompared bounds the file that a change is compared with.
const maxCompared = 4 << 20

// current is the text of a file of the workspace, with line feeds at the ends
// of its lines as the runtime's tools have them.
func (g *Guard) current(name string) (text string, exists bool) {
	res, err := g.opts.Workspace.Resolve(name)
	if err != nil || !res.Inside || res.IsDir {
		return "", false
	}
	f, err := g.opts.Workspace.FS().OpenFile(res.Rel, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", false
	}
	b, _, err := readRegular(f, maxCompared+1)
	if err != nil || len(b) > maxCompared {
		return "", false
	}
	return strings.ReplaceAll(string(b), "\r\n", "\n"), true
}

const contextLines = 3

// diffOf shows what becomes of a text: the lines that go, those that come, and
// a few around them.
func diffOf(before, after string) string {
	a, b := slices.Collect(strings.Lines(before)), slices.Collect(strings.Lines(after))
	head, tail := 0, 0
	for head < min(len(a), len(b)) && a[head] == b[head] {
		head++
	}
	for tail < min(len(a), len(b))-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	from, rest := max(0, head-contextLines), max(0, tail-contextLines)
	var out strings.Builder
	fmt.Fprintf(&out, "@@ -%d,%d +%d,%d @@\n", from+1, len(a)-rest-from, from+1, len(b)-rest-from)
	write := func(sign string, lines []string) {
		for _, l := range lines {
			out.WriteString(sign + l)
			if !strings.HasSuffix(l, "\n") {
				out.WriteString("\n\\ No newline at end of file\n")
			}
		}
	}
	write(" ", a[from:head])
	write("-", a[head:len(a)-tail])
	write("+", b[head:len(b)-tail])
	write(" ", a[len(a)-tail:len(a)-rest])
	return out.String()
}
