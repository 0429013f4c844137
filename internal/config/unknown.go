package config

import (
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// prefix begins the variables that nobody but the bridge uses.
const prefix = "COPILOT_BRIDGE_"

// internal begin variables of the bridge that are no settings: what it hands to
// the programs that it starts, what OpenClaw's plugin reads, and what tests use.
var internal = []string{prefix + "DEPTH", prefix + "TREE", prefix + "RECORD", prefix + "PLACE", prefix + "BINARY", prefix + "TEST_"}

// unknownVariables returns a warning for each variable that looks like one of
// ours and is none. Those of other programs' prefixes may be theirs.
func (l *loader) unknownVariables(values map[string]string) (warnings []string) {
	names := make([]string, len(l.table))
	for i, s := range l.table {
		names[i] = s.env
	}
	for name, value := range values {
		known := slices.Contains(names, name) || slices.ContainsFunc(internal, func(own string) bool { return strings.HasPrefix(name, own) })
		if !strings.HasPrefix(name, prefix) || known || value == "" {
			continue
		}
		warning := name + " is no variable of copilot-bridge, and has no effect"
		if near := text.Nearest(name, names); near != "" {
			warning += "; did you mean " + near + "?"
		}
		warnings = append(warnings, warning)
	}
	slices.Sort(warnings)
	return warnings
}

// UnknownVariables are warnings about variables that look like the bridge's and
// are none. They hold no values.
func (c *Config) UnknownVariables() []string { return c.unknown }
