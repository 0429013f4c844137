package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const redacted = "[REDACTED]"

// Whatever is printed passes the streams, so one command stands for all.
func TestNoSecretIsPrinted(t *testing.T) {
	w := newWorld(t)
	w.Environ = append(w.Environ, "COPILOT_GITHUB_TOKEN=ghp_0123456789abcdef", "COPILOT_PROJECT_CONTEXT=use ghp_0123456789abcdef",
		"COPILOT_BYOK_API_KEY=sk-0123456789", "COPILOT_BYOK_PROVIDER=openai", "COPILOT_BYOK_MODEL=sk-0123456789", "OPENCLAW_GATEWAY_TOKEN=claw-0123456789")
	for _, args := range [][]string{{"config", "show"}, {"config", "show", "--json"}, {"sessions", "show", "ghp_0123456789abcdef"}, {"--log-level", "all", "sessions", "list"}} {
		w.run(args...)
	}
	all := w.out.String() + w.err.String()
	for _, s := range []string{"ghp_0123456789abcdef", "sk-0123456789", "claw-0123456789"} {
		if strings.Contains(all, s) {
			t.Errorf("%s was printed:\n%s", s, all)
		}
	}
	if !strings.Contains(all, "use [REDACTED]") {
		t.Errorf("nothing was scrubbed:\n%s", all)
	}
}

// A token in the place of another argument is not printed, though it is not a
// configured secret.
func TestTokensInArgumentsAreNotPrinted(t *testing.T) {
	token := "ghp_" + strings.Repeat("a1B2c3", 6)
	for _, args := range [][]string{
		{token}, {"run", "--" + token, "x"}, {"run", "--resume", token, "x"}, {"run", "--attach", token, "x"}, {"run", "--attach", "dir/" + token + ".txt", "x"},
		{"run", "--cwd", token, "x"}, {"run", "--log-level", token, "x"}, {"sessions", "show", token}, {"serve", "--port", token}, {"orchestrate", "--resume", token},
		{"orchestrate", "--plan", token, "x"}, {"abp", "verify", token}, {"validate", "--log-level", token},
	} {
		for _, more := range [][]string{nil, {"--json"}} {
			w := newWorld(t)
			w.Environ = append(w.Environ, "COPILOT_CLI_PATH="+filepath.Join(w.home, "none")) // no runtime is started or installed
			if code := w.run(append(slices.Clone(args), more...)...); code == 0 {
				t.Errorf("%v %v: exit 0", args, more)
			}
			all := w.out.String() + w.err.String()
			if strings.Contains(all, token) || !strings.Contains(all, redacted) && args[0] != "serve" {
				t.Errorf("%v %v:\n%s", args, more, all)
			}
		}
	}
}

// Whatever goes to standard error: logs of serve and of others, and notices.
func TestNoTokenIsLogged(t *testing.T) {
	token := "ghp_" + strings.Repeat("a1B2c3", 6)
	w := newWorld(t)
	w.Environ = append(w.Environ, "COPILOT_LOG_LEVEL=info")
	p, stop := newProgram(w.Env, func(error) {})
	defer stop()
	if _, err := p.load(nil); err != nil {
		t.Fatal(err)
	}
	p.log.Info("request", "path", "/v1/"+token)
	p.console.Line("! " + token)
	if text := w.err.String(); strings.Contains(text, token) || strings.Count(text, redacted) != 2 {
		t.Errorf("%s", text)
	}
}

func TestABadSecretIsNotPrinted(t *testing.T) {
	w := newWorld(t)
	if err := os.WriteFile(filepath.Join(w.Dir, ".env"), []byte("COPILOT_GITHUB_TOKEN=\"ghp_\x01secret\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code := w.run("trust", "--yes"); code != 0 || strings.Contains(w.out.String(), "secret") {
		t.Errorf("trust: exit %d, %s", code, w.out)
	}
	if code := w.run("config", "show"); code != 2 {
		t.Errorf("exit %d", code)
	}
	if strings.Contains(w.err.String(), "secret") || !strings.Contains(w.err.String(), "COPILOT_GITHUB_TOKEN") {
		t.Errorf("stderr %q", w.err)
	}
}
