package agentfiles_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agentfiles"
)

func TestFind(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	in := func(path string) string { return filepath.Join(base, filepath.FromSlash(path)) }
	for _, f := range []string{"AGENTS.md", "repo/.git/HEAD", "repo/.github/hooks/x.json", "repo/sub/CLAUDE.md", "loose/x/GEMINI.md", "loose/AGENTS.md", "plain/README.md"} {
		if err := os.MkdirAll(filepath.Dir(in(f)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(in(f), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for dir, want := range map[string][]string{
		"repo":     {in("repo/.github/hooks")},
		"repo/sub": {in("repo/sub/CLAUDE.md"), in("repo/.github/hooks")},
		"loose/x":  {in("loose/x/GEMINI.md")},
		"plain":    nil,
	} {
		if got := agentfiles.Find(in(dir)); !slices.Equal(got, want) {
			t.Errorf("%s: %q", dir, got)
		}
	}
	trusted := func(dir string) bool { return dir == in("repo") }
	if err := agentfiles.Check("x", in("repo"), trusted); err != nil {
		t.Error(err)
	}
	err = agentfiles.Check("x", in("repo/sub"), trusted)
	if bridge.CodeOf(err) != bridge.CodeDenied || !strings.Contains(err.Error(), "and 1 more") || bridge.AsError(err).Remedy == "" {
		t.Error(err)
	}
}
