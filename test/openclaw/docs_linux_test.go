package openclaw

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/openclawtest"
)

// TestDocsNameWhatOpenClawHas checks that OpenClaw has all commands and flags
// that docs/guides/openclaw.md names. The examples of the bridge's own commands
// are tested in test/e2e.
func TestDocsNameWhatOpenClawHas(t *testing.T) {
	u := openclawtest.NewUser(t)
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "guides", "openclaw.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "OpenClaw "+openclawtest.Version) {
		t.Errorf("the document does not name version %s", openclawtest.Version)
	}
	flags := map[string][]string{} // by command
	for _, m := range regexp.MustCompile("(?m)(?:^|`)openclaw ([a-z][^`…\n]*)(?:`|$)").FindAllStringSubmatch(string(text), -1) {
		var name []string
		words := strings.Fields(m[1])
		for len(words) > 0 && len(name) < 2 && regexp.MustCompile(`^[a-z]+$`).MatchString(words[0]) {
			name, words = append(name, words[0]), words[1:]
		}
		command := strings.Join(name, " ")
		flags[command] = append(flags[command], regexp.MustCompile(`--[a-z-]+`).FindAllString(m[1], -1)...)
	}
	for _, want := range []string{"plugins install", "plugins uninstall", "plugins list", "mcp set", "mcp probe", "setup", "doctor"} {
		if _, ok := flags[want]; !ok {
			t.Errorf("the document does not name `openclaw %s`", want)
		}
	}
	for command, used := range flags {
		help := u.Run(t, append(strings.Fields(command), "--help")...)
		if !strings.Contains(help, "openclaw "+command) {
			t.Errorf("`openclaw %s --help` says\n%s", command, help)
		}
		for _, f := range used {
			if !strings.Contains(help, f) {
				t.Errorf("`openclaw %s` has no %s", command, f)
			}
		}
	}
}
