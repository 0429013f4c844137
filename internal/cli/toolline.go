package cli

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

const (
	maxSubject = 120 // columns of what a tool works on
	tailLines  = 5   // of a command's output that stay on the screen
	tailBytes  = 8 << 10
)

// subjects are the arguments that say what a tool works on, the most telling
// first. The list need not be complete: a tool without one is known by name.
var subjects = []string{"command", "path", "file", "filePath", "file_path", "fileName", "url", "pattern", "query", "question",
	"description", "skill", "name", "agent_type", "shellId", "prompt"}

// toolText is a tool call on one line: "create hello.txt", "bash npm test".
func toolText(call bridge.ToolCall, dir string) string {
	name := call.Name
	if call.Server != "" {
		name = call.Server + "/" + strings.TrimPrefix(call.Name, call.Server+"-")
	}
	args, _ := call.Args.(map[string]any) // other arguments have no names to go by
	for _, key := range subjects {
		text, ok := args[key].(string)
		if !ok || strings.TrimSpace(text) == "" {
			continue
		}
		if strings.HasPrefix(text, dir) && dir != "" {
			text = shorten(text, dir, "")
		}
		first, _, more := strings.Cut(strings.TrimSpace(text), "\n")
		first = approval.Visible(strings.TrimRight(first, "\r"))
		if more {
			first += " …"
		}
		return approval.Visible(name) + " " + fit(first, maxSubject)
	}
	return approval.Visible(name)
}

// denied says whether the guard or a person refused a tool call.
func denied(e bridge.ToolFinished) bool { return !e.OK && e.Code == "denied" }

// The runtime's words around the reason of a denial. They name the user also
// where it was the policy that decided.
var denialPrefixes = []string{
	"The user rejected this tool call. User feedback:",
	"The user rejected this tool call.",
	"Denied by preToolUse hook:",
}

// reason is why a tool call did not succeed, on one line.
func reason(e bridge.ToolFinished) string {
	text := strings.TrimSpace(e.Error)
	if text == "" {
		text = strings.TrimSpace(e.Result)
	}
	if denied(e) {
		for _, p := range denialPrefixes {
			if rest, ok := strings.CutPrefix(text, p); ok {
				text = strings.TrimSpace(rest)
				break
			}
		}
	}
	first, _, _ := strings.Cut(text, "\n")
	return approval.Visible(first)
}

// exitTrailer is how the runtime's shell tool ends its output.
var exitTrailer = regexp.MustCompile(`\n?<(?:shellId: \S+ completed|command completed|exited) with exit code (-?\d+)>\s*$`)

// outcome is the end of a tool call for people: its mark, how it went, and
// the last lines of its output.
type outcome struct {
	mark  string
	text  string
	tail  []string
	paint func(style, string) string
}

func judge(e bridge.ToolFinished, printed string) outcome {
	out := outcome{mark: "✓", text: duration(e.Duration), paint: style.green}
	switch {
	case denied(e):
		return outcome{mark: "✗", text: "denied: " + reason(e), paint: style.red}
	case !e.OK:
		out = outcome{mark: "✗", text: "failed: " + reason(e), paint: style.red}
	}
	if m := exitTrailer.FindStringSubmatchIndex(e.Result); m != nil {
		if code := e.Result[m[2]:m[3]]; code != "0" && e.OK {
			out.mark, out.paint = "!", style.yellow
			out.text = fmt.Sprintf("exit code %s, %s", code, out.text)
		}
		printed = e.Result[:m[0]]
	}
	if printed != "" {
		out.tail = lastLines(printed, tailLines)
	}
	return out
}

// lastLines returns the last n lines of a command's output as a terminal
// would show them: of a line that was written over, what came last.
func lastLines(text string, n int) []string {
	text = strings.TrimRight(text, "\r\n")
	if text == "" {
		return nil
	}
	all := strings.Split(text, "\n")
	all = all[max(0, len(all)-n):]
	out := make([]string, len(all))
	for i, l := range all {
		l = strings.TrimRight(l, "\r")
		if at := strings.LastIndexByte(l, '\r'); at >= 0 {
			l = l[at+1:]
		}
		out[i] = approval.Visible(strings.ReplaceAll(withoutEscapes(l), "\t", "    "))
	}
	return out
}

// escape matches the sequences that colour and move; programs print them
// without being asked, and here they would only be clutter.
var escape = regexp.MustCompile(`\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])`)

func withoutEscapes(s string) string {
	if !strings.Contains(s, "\x1b") {
		return s
	}
	return escape.ReplaceAllString(s, "")
}
