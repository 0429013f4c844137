package policy

import (
	"errors"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// toolMatcher is a tool's name or a glob over names. Names have no
// directories, so * matches anything, a slash included.
type toolMatcher struct {
	name   string // folded
	glob   bool
	prefix string // what a glob begins with
	all    bool   // matches every tool, and so names none
}

func compileTool(r *Rule) error {
	p := strings.TrimSpace(r.Pattern)
	switch {
	case strings.HasPrefix(p, "!"):
		return errors.New("a name cannot be negated; use the opposite list")
	case strings.Contains(p, `\`):
		return errors.New(`names hold no \`)
	case strings.ContainsAny(p, " \t\r\n"):
		return errors.New("names hold no white space; a command belongs in shell")
	}
	m := &toolMatcher{name: flat(fold(p)), glob: strings.ContainsAny(p, wildcards)}
	m.all = strings.Trim(p, "*") == ""
	if m.glob {
		m.prefix = m.name[:strings.IndexAny(m.name, wildcards)]
		if !doublestar.ValidatePattern(m.name) {
			return errors.New("it is not a valid glob; brackets and braces must be closed")
		}
		if alternatives(m.name) > maxAlternatives {
			return errors.New("its braces stand for too many alternatives")
		}
	}
	r.tool = m
	return nil
}

// flat takes the meaning of a separator from slashes.
func flat(s string) string { return strings.ReplaceAll(s, "/", "\x1f") }

func (m *toolMatcher) match(names []string) bool {
	if m.all {
		return true
	}
	for _, name := range names {
		if m.name == name || m.glob && strings.HasPrefix(name, m.prefix) && doublestar.MatchUnvalidated(m.name, name) {
			return true
		}
	}
	return false
}

// toolNames are the names that a tool goes by.
type toolNames struct {
	// own are those that an allow rule may use. A bare name is not among those
	// of an MCP tool: a server could call its tool view or bash.
	own []string
	// any are those that a deny or ask rule may use.
	any []string
}

func qualified(server, tool string) []string {
	return []string{server + "\x1f" + tool, server + "-" + tool, "mcp:" + server + "-" + tool}
}

func namesOf(tool, server string) toolNames {
	tool, server = flat(fold(tool)), flat(fold(server))
	if server != "" {
		all := qualified(server, tool)
		n := toolNames{own: all[:3:3], any: append(all, tool)}
		// Should the name come with its server in front, a denial still holds.
		if bare, ok := strings.CutPrefix(strings.TrimPrefix(tool, "mcp:"), server+"-"); ok {
			n.any = append(append(n.any, qualified(server, bare)...), bare)
		}
		return n
	}
	n := toolNames{own: []string{tool, "builtin:" + tool, "custom:" + tool}}
	n.any = n.own[:3:3]
	// Where the server is not known, the name may still be server-tool; a
	// denial of that holds however it is split.
	if parts := strings.Split(tool, "-"); len(parts) > 1 {
		n.any = append(n.any, "mcp:"+tool)
		for i := 1; i < len(parts) && i <= 8; i++ {
			n.any = append(n.any, strings.Join(parts[:i], "-")+"\x1f"+strings.Join(parts[i:], "-"))
		}
	}
	return n
}
