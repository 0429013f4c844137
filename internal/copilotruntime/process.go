package copilotruntime

import (
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// filterEnv returns env without the variables whose upper-case name drop
// wants gone.
func filterEnv(env []string, drop func(name string) bool) []string {
	return slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return drop(strings.ToUpper(name))
	})
}

// quoted is a program's own words as the end of a message, shortened to what
// a person reads.
func quoted(said string) string {
	if said = text.LastLines(said, 8, 800); said == "" {
		return ""
	}
	return ": " + said
}
