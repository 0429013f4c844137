package launch

import (
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

func TestFind(t *testing.T) {
	for name, want := range map[string]string{
		"claud": "did you mean claude? the clients are claude, codex, opencode, qwen, cline",
		"vim":   "the clients are claude, codex, opencode, qwen, cline",
	} {
		_, err := Find(name)
		if e := bridge.AsError(err); e.Code != bridge.CodeInvalid || e.Message != `there is no client "`+name+`"` || e.Remedy != want {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// The lines for a shell hold no token, and what may mean something to the
// shell is quoted.
func TestScript(t *testing.T) {
	at := Server{URL: "http://127.0.0.1:1", Token: "t0ken"}
	m := Model{ID: "gpt-5", ContextLength: 128000}
	m.Capabilities.Limits.Output = 16000
	for _, c := range Clients() {
		got := c.Script(c.SetUp(at, m), `"$TOKEN"`, []string{"-p", "it's $HOME"})
		if strings.Contains(got, "t0ken") || !strings.Contains(got, `="$TOKEN"`) || !strings.Contains(got, "http://127.0.0.1:1") || !strings.Contains(got, "gpt-5") ||
			!strings.HasSuffix(got, ` -p 'it'\''s $HOME'`+"\n") {
			t.Errorf("%s:\n%s", c.Name, got)
		}
	}
	claude, err := Find("claude")
	if err != nil {
		t.Fatal(err)
	}
	const want = `unset ANTHROPIC_API_KEY CLAUDE_CODE_USE_BEDROCK CLAUDE_CODE_USE_VERTEX CLAUDE_CODE_USE_FOUNDRY
export ANTHROPIC_BASE_URL=http://127.0.0.1:1
export ANTHROPIC_AUTH_TOKEN=any
export ANTHROPIC_MODEL=gpt-5
export ANTHROPIC_DEFAULT_HAIKU_MODEL=gpt-5
export CLAUDE_CODE_MAX_CONTEXT_TOKENS=128000
export CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1
claude
`
	at.Token = ""
	if got := claude.Script(claude.SetUp(at, m), "", nil); got != want {
		t.Errorf("got\n%s", got)
	}
}
