package guard_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/paths"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
)

// A server may lie outside the workspace. What else lies there is not for it
// to read unless a person consents, whatever commands are allowed.
func TestServersReadNothingOutside(t *testing.T) {
	root := t.TempDir()
	work, out := filepath.Join(root, "work"), filepath.Join(root, "out")
	for _, dir := range []string{work, filepath.Join(work, "sub"), out} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(out, "file"), []byte("canary\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(out, filepath.Join(work, "link")); err != nil {
		t.Skipf("this user may not make links, as on Windows: %v", err)
	}
	ws, err := paths.New(work)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.Close() })
	judge := func(t *testing.T, rules string, asker approval.Asker, dir, line string) bridge.Decision {
		t.Helper()
		r, err := policy.ParseYAML("policy.yaml", []byte(rules))
		if err != nil {
			t.Fatal(err)
		}
		d := policy.DefaultsRun()
		d.Root, d.AskIsDeny = ws.Root(), asker == nil
		g := guard.New(guard.Options{Workspace: ws, Policy: policy.Combine(d, policy.Layer{Rules: r, Trusted: true}), Asker: asker})
		words := strings.Split(strings.ReplaceAll(line, "OUT", out), " ")
		for i, w := range words {
			words[i] = strings.ReplaceAll(w, "_", " ")
		}
		call, err := guard.ServerCall("s", bridge.MCPServer{Command: words[0], Args: words[1:], Dir: strings.ReplaceAll(dir, "OUT", out)}, work)
		if err != nil {
			t.Fatal(err)
		}
		return g.Before(t.Context(), call)
	}
	const all = "shell: {allow: ['*']}\n"
	for _, line := range []string{"OUT/bin/server --flag", "node OUT/server.js --flag x", "node --no-warnings --max-old-space-size=64 OUT/server.js", "python OUT/x.py", "python3.12 -u OUT/x.py",
		"npx -y @scope/server .", "sh OUT/run.sh", "env node OUT/server.js", "uv run OUT/x.py", "java -jar OUT/x.jar", "deno run --allow-net OUT/x.ts", "cat sub"} {
		if d := judge(t, all, nil, "", line); d.Verdict != bridge.Allow {
			t.Errorf("%s: %s", line, d.Reason)
		}
		if d := judge(t, "", nil, "", line); d.Verdict == bridge.Allow {
			t.Errorf("%s without a rule: %s", line, d.Reason)
		}
		if d := judge(t, "shell: {allow: ['builtin:read-only']}\n", nil, "", line); d.Verdict == bridge.Allow {
			t.Errorf("%s as a command that only reads: %s", line, d.Reason)
		}
	}
	for _, tt := range []struct{ dir, line string }{
		{"", "cat OUT/file"}, {"", "cat link/file"}, {"", "cat ../out/file"}, {"sub", "cat ../../out/file"}, {"", "/bin/cat OUT/file"}, {"", "date -f OUT/file"}, {"", "date --file OUT/file"},
		{"", "date --file=OUT/file"}, {"", "node --env-file OUT/file server.js"}, {"", "node --env-file=OUT/file OUT/server.js"}, {"", "node -r OUT/file server.js"},
		{"", "node OUT/server.js OUT/file"}, {"", "python -m http.server -d OUT"}, {"", "sh -v OUT/file"}, {"", "sh -c sh_OUT/file;cat_OUT/file"}, {"", "sh -c cat_OUT/*"}, {"", "java @OUT/file"},
		{"", "uv run cat OUT/file"}, {"", "env -C OUT cat file"}, {"OUT", "node server.js"}, {"OUT", "cat file"}, {"link", "cat file"}, {"..", "cat out/file"},
	} {
		if d := judge(t, all, nil, tt.dir, tt.line); d.Verdict == bridge.Allow || !strings.Contains(d.Reason, "outside the workspace") {
			t.Errorf("%s in %q: %s", tt.line, tt.dir, d.Reason)
		}
		if d := judge(t, all, approval.Yes{}, tt.dir, tt.line); d.Verdict != bridge.Allow {
			t.Errorf("%s in %q with consent: %s", tt.line, tt.dir, d.Reason)
		}
	}
	if d := judge(t, all, approval.Yes{}, "", "cp a OUT/file"); d.Verdict == bridge.Allow {
		t.Errorf("writing outside: %s", d.Reason)
	}
}
