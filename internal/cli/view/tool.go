package view

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

const (
	maxSubject = 120 // characters of what a tool works on
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
		subject, ok := args[key].(string)
		if !ok || strings.TrimSpace(subject) == "" {
			continue
		}
		if strings.HasPrefix(subject, dir) && dir != "" {
			subject = Shorten(subject, dir, "")
		}
		return approval.Visible(name + " " + text.FirstLine(subject, maxSubject))
	}
	return approval.Visible(name)
}

// The runtime's words around the reason of a denial. They name the user also
// where it was the policy that decided.
var denialPrefixes = []string{
	"The user rejected this tool call. User feedback:",
	"The user rejected this tool call.",
	"Denied by preToolUse hook:",
}

// reason is why a tool call did not succeed, on one line.
func reason(words string) string {
	words = strings.TrimSpace(words)
	for _, p := range denialPrefixes {
		if rest, ok := strings.CutPrefix(words, p); ok {
			words = strings.TrimSpace(rest)
			break
		}
	}
	first, _, _ := strings.Cut(words, "\n")
	return approval.Visible(first)
}

// exitTrailer is how the runtime's shell tool ends its output.
var exitTrailer = regexp.MustCompile(`\n?<(?:shellId: \S+ completed|command completed|exited) with exit code (-?\d+)>\s*$`)

// ending is how a tool call ended: in words, and the last lines of its output.
type ending struct {
	state state
	text  string
	tail  []string
}

func toolEnd(e bridge.ToolFinished, printed string) ending {
	end := ending{state: done, text: Duration(e.Duration)}
	switch why := reason(cmp.Or(e.Error, e.Result)); {
	case e.OK:
	case e.Code == string(bridge.CodeDenied):
		return ending{failed, "denied: " + why, nil}
	default:
		end = ending{failed, "failed: " + why, nil}
	}
	if m := exitTrailer.FindStringSubmatchIndex(e.Result); m != nil {
		if code := e.Result[m[2]:m[3]]; code != "0" && e.OK {
			end.state, end.text = warned, fmt.Sprintf("exit code %s, %s", code, end.text)
		}
		printed = e.Result[:m[0]]
	}
	end.tail = lastLines(printed, tailLines)
	return end
}

// Denials counts the calls that were denied and those that were done, those of
// sub-agents too, and says why the first was denied.
func Denials(tools []engine.ToolUse) (denied, did int, why string) {
	for _, u := range tools {
		switch {
		case u.OK:
			did++
		case u.Denied:
			if denied++; denied == 1 {
				why = toolText(bridge.ToolCall{Name: u.Name, Args: u.Args}, "") + ": " + reason(u.Error)
			}
		}
	}
	return denied, did, why
}

// toolCounts is "create, bash ×3", in the order of first use.
func toolCounts(tools []engine.ToolUse) string {
	var names []string
	times := map[string]int{}
	for _, u := range tools {
		if times[u.Name]++; times[u.Name] == 1 {
			names = append(names, u.Name)
		}
	}
	for i, name := range names {
		names[i] = approval.Visible(name)
		if n := times[name]; n > 1 {
			names[i] += fmt.Sprintf(" ×%d", n)
		}
	}
	return strings.Join(names, ", ")
}

// lastLines returns the last n lines of a command's output as a terminal
// would show them: of a line that was written over, what came last.
func lastLines(printed string, n int) []string {
	printed = strings.TrimRight(printed, "\r\n")
	if printed == "" {
		return nil
	}
	all := strings.Split(printed, "\n")
	all = all[max(0, len(all)-n):]
	out := make([]string, len(all))
	for i, l := range all {
		l = strings.TrimRight(l, "\r")
		if at := strings.LastIndexByte(l, '\r'); at >= 0 {
			l = l[at+1:]
		}
		out[i] = approval.Visible(strings.ReplaceAll(escape.ReplaceAllString(l, ""), "\t", "    "))
	}
	return out
}

// escape matches the sequences that colour and move; programs print them
// without being asked, and here they would only be clutter.
var escape = regexp.MustCompile(`\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])`)
