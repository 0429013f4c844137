package wire

import (
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// maxActivity bounds a line about a tool, in bytes.
const maxActivity = 200

// Activity puts what an agent does into words, for the place where an API shows
// reasoning: its tools run here and not in the client, so there is no other
// place for them. It is a line, or "" for events that are not worth one.
func Activity(ev bridge.Event) string {
	switch e := ev.(type) {
	case bridge.ToolStarted:
		return "▸ " + oneLine(e.Call.Name+about(e.Call.Args)) + "\n"
	case bridge.ToolFinished:
		if e.OK {
			return ""
		}
		return "  ✗ " + oneLine(firstOf(e.Error, e.Code, "failed")) + "\n"
	case bridge.PermissionAsked:
		r := e.Request
		return "  ? waiting for approval: " + oneLine(firstOf(r.Command, strings.Join(r.Paths, ", "), strings.Join(r.URLs, ", "), r.Intention, r.Tool, string(r.Kind))) + "\n"
	case bridge.PermissionDecided:
		if e.Decision.Verdict == bridge.Allow {
			return ""
		}
		return "  ✗ " + oneLine("not allowed: "+firstOf(e.Decision.Reason, "no reason given")) + "\n"
	default:
		return ""
	}
}

// about picks the argument that tells most about a call.
func about(args any) string {
	fields, ok := args.(map[string]any)
	if !ok {
		return ""
	}
	for _, name := range []string{"command", "path", "pattern", "url", "query", "description", "prompt"} {
		if s, ok := fields[name].(string); ok && s != "" {
			return ": " + s
		}
	}
	return ""
}

// oneLine keeps a line a line, and short.
func oneLine(s string) string {
	cut := false
	if i := strings.IndexAny(s, "\r\n"); i >= 0 {
		s, cut = s[:i], true
	}
	if len(s) > maxActivity {
		s, cut = strings.ToValidUTF8(s[:maxActivity], ""), true
	}
	if cut {
		s += " …"
	}
	return s
}

// firstOf is the first that says something.
func firstOf(list ...string) string {
	for _, s := range list {
		if s = strings.TrimSpace(s); s != "" {
			return s
		}
	}
	return ""
}
