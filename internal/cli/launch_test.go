package cli

import (
	"testing"
)

func TestLaunchErrors(t *testing.T) {
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{nil, 2, "copilot-bridge: say which client to start: claude, codex, opencode, qwen, cline\n  → see `copilot-bridge launch --help`\n"},
		{[]string{"codx"}, 2, "copilot-bridge: there is no client \"codx\"\n  → did you mean codex? the clients are claude, codex, opencode, qwen, cline\n"},
		{[]string{"claude", "-p", "hi"}, 1, "copilot-bridge: Claude Code is not installed: there is no program claude on the PATH\n  → install it: npm install -g @anthropic-ai/claude-code\n"},
		{[]string{"--print", "claude"}, 3, "copilot-bridge: no serve of yours is running, so there is no address to print\n  → start `copilot-bridge serve` in another terminal\n"},
	} {
		w := newWorld(t)
		w.Environ = []string{"PATH=" + t.TempDir(), "COPILOT_BRIDGE_PORT=1"} // on which nobody listens
		if code := w.run(append([]string{"launch"}, tt.args...)...); code != tt.code || w.err.String() != tt.want || w.out.String() != "" {
			t.Errorf("%q: exit %d, stdout %q, stderr\n%s", tt.args, code, w.out, w.err)
		}
	}
}
