package copilotruntime

import "strings"

// filterEnv returns env without the variables whose upper-case name drop
// wants gone.
func filterEnv(env []string, drop func(name string) bool) []string {
	kept := make([]string, 0, len(env)+1)
	for _, entry := range env {
		name, _, _ := strings.Cut(entry, "=")
		if !drop(strings.ToUpper(name)) {
			kept = append(kept, entry)
		}
	}
	return kept
}

// quoted is a program's own words as the end of a message, shortened to what
// a person reads.
func quoted(said string) string {
	const maxLines, maxBytes = 8, 800
	said = strings.TrimSpace(said)
	if said == "" {
		return ""
	}
	lines := strings.Split(said, "\n")
	said = strings.Join(lines[max(0, len(lines)-maxLines):], "\n")
	said = strings.ToValidUTF8(said[max(0, len(said)-maxBytes):], "")
	return ": " + said
}
