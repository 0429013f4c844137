package anthropic

import (
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// maxLine bounds a line about a tool, in bytes.
const maxLine = 200

// activity puts into words what an agent does, for the place where the API
// shows thinking: its tools run here and not in the client, so there is no
// other place for them. It is "" for events that are not worth a line.
func activity(ev bridge.Event) string {
	switch e := ev.(type) {
	case bridge.ToolStarted:
		return "▸ " + line(join(": ", e.Call.Name, gist(e.Call.Args))) + "\n"
	case bridge.ToolFinished:
		if e.OK {
			return ""
		}
		return "  ✗ " + line(first(e.Error, e.Code, "failed")) + "\n"
	case bridge.PermissionAsked:
		r := e.Request
		return "  ? waiting for approval: " + line(first(r.Command, strings.Join(r.Paths, ", "), strings.Join(r.URLs, ", "), r.Intention, r.Tool, string(r.Kind))) + "\n"
	case bridge.PermissionDecided:
		if e.Decision.Verdict == bridge.Allow {
			return ""
		}
		return "  ✗ " + line("not allowed: "+first(e.Decision.Reason, "no reason given")) + "\n"
	default:
		return ""
	}
}

// gist picks the argument that tells most about a call.
func gist(args any) string {
	fields, ok := args.(map[string]any)
	if !ok {
		return ""
	}
	for _, name := range [...]string{"command", "path", "pattern", "url", "query", "description", "prompt"} {
		if s, ok := fields[name].(string); ok && s != "" {
			return s
		}
	}
	return ""
}

// line keeps a line a line, and short.
func line(s string) string {
	short := s
	if i := strings.IndexAny(short, "\r\n"); i >= 0 {
		short = short[:i]
	}
	if len(short) > maxLine {
		short = firstBytes(short, maxLine)
	}
	if short != s {
		short += " …"
	}
	return short
}

// first is the first that says something.
func first(list ...string) string {
	for _, s := range list {
		if s = strings.TrimSpace(s); s != "" {
			return s
		}
	}
	return ""
}
