//go:build unix

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// TestOpenClawDocs runs the commands of docs/guides/openclaw.md one after the
// other. OpenClaw's own command is not on the PATH; test/openclaw tests the
// parts that need it. At the end all files are as before.
func TestOpenClawDocs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "guides", "openclaw.md"))
	if err != nil {
		t.Fatal(err)
	}
	const config = "{\n  // mine\n  gateway: { port: 18789, },\n}\n"
	home := t.TempDir()
	for name, content := range map[string]string{".openclaw/openclaw.json": config, ".openclaw/workspace/AGENTS.md": "# Mine\n", "src/app/README.md": "x\n"} {
		path := filepath.Join(home, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"HOME=" + home, "PATH=" + filepath.Dir(binary) + ":/usr/bin:/bin", "COPILOT_CLI_PATH=" + runtimetest.Path(t), "OPENCLAW_PORT=1", "TMPDIR=" + os.TempDir()}
	seen := map[string]bool{}
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		for line := range strings.Lines(block[1]) {
			line = strings.TrimSpace(line)
			if !strings.HasPrefix(line, "copilot-bridge ") {
				if !strings.HasPrefix(line, "export ") && !strings.HasPrefix(line, "openclaw ") {
					t.Errorf("the test does not know the command %q", line)
				}
				continue
			}
			words := strings.Fields(line)
			if words[1] == "setup" { // the runtime is already installed
				line = "copilot-bridge setup --help"
			}
			cmd := exec.Command("sh", "-c", line)
			cmd.Dir, cmd.Env = filepath.Join(home, "src", "app"), env
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%s: %v\n%s", line, err, out)
			}
			switch {
			case strings.Contains(line, "again: nothing to do") && !strings.Contains(string(out), "already; nothing was changed"),
				words[1] == "unregister" && !strings.Contains(line, "--json") && !strings.Contains(line, "--dry-run") && !strings.Contains(string(out), "was taken out"),
				strings.Contains(line, "--dry-run") && !strings.Contains(string(out), "and was not"):
				t.Errorf("%s: %s", line, out)
			}
			seen[words[1]] = true
		}
	}
	for _, want := range []string{"register", "unregister", "validate", "audit", "sessions"} {
		if !seen[want] {
			t.Errorf("the document has no `copilot-bridge %s`", want)
		}
	}
	for name, want := range map[string]string{"openclaw.json": config, "workspace/AGENTS.md": "# Mine\n"} {
		if got, err := os.ReadFile(filepath.Join(home, ".openclaw", filepath.FromSlash(name))); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
}
