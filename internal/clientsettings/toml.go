package clientsettings

import (
	"regexp"
	"strings"
)

// Codex's settings are TOML: what belongs to no table has to come first, and a key
// may be there once. So two blocks are added, and the user's own lines of these keys
// become comments.
const (
	blockBegin = "# copilot-bridge: begin\n"
	blockEnd   = "# copilot-bridge: end\n"
	offPrefix  = "# copilot-bridge: off: "
)

var (
	ownKey = regexp.MustCompile(`^\s*(?:model|model_provider)\s*=`)
	block  = regexp.MustCompile(`(?ms)^` + blockBegin + `.*?^` + blockEnd)
)

func addBlocks(text, top, end string) string {
	var b strings.Builder
	b.WriteString(blockBegin + top + blockEnd)
	table := false
	for line := range strings.Lines(text) {
		table = table || strings.HasPrefix(strings.TrimSpace(line), "[")
		if !table && ownKey.MatchString(line) {
			b.WriteString(offPrefix)
		}
		b.WriteString(line)
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		b.WriteString("\n")
	}
	return b.String() + blockBegin + end + blockEnd
}

func removeBlocks(text string) string {
	var b strings.Builder
	for line := range strings.Lines(block.ReplaceAllString(text, "")) {
		b.WriteString(strings.TrimPrefix(line, offPrefix))
	}
	return b.String()
}
