package e2e

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/githubtest"
)

// models lists what an account has (the runtime tells efforts of models by their
// names), and the shell completes it from then on.
func TestModelsOfAnAccount(t *testing.T) {
	t.Parallel()
	k, s := newGitHubHome(t)
	s.SetModels(
		githubtest.Model{ID: "small", Name: "Small", Vendor: "V", Endpoint: githubtest.ChatPath, Context: 64000, Prompt: 60000, Output: 4000, Policy: "disabled"},
		githubtest.Model{ID: "gpt-large", Name: "Large", Vendor: "V", Endpoint: githubtest.ResponsesPath, Context: 264000, Prompt: 200000, Output: 64000, Vision: true, Efforts: []string{"low", "medium", "high"}, Multiplier: 1.5, Policy: "enabled"},
	)
	complete := func() string { return string(k.run("__complete", "run", "--model", "")) }
	if out := complete(); strings.Contains(out, "small") {
		t.Errorf("completed before anything was listed: %s", out)
	}
	out := string(k.run("models"))
	for _, want := range []string{`(?m)^small +Small +- +64 000 +4 000 +- +- +0 +disabled$`, `(?m)^gpt-large +Large +- +264 000 +64 000 +yes +low,medium,high +1\.5 +enabled$`} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
	var listed struct {
		Answers bridge.Answers
		Models  []bridge.Model
	}
	if err := json.Unmarshal(k.run("models", "--json"), &listed); err != nil {
		t.Fatal(err)
	}
	last := listed.Models[len(listed.Models)-1]
	if listed.Answers.Kind != bridge.AnswersGitHub || last.ID != "gpt-large" || last.PromptTokens != 200000 || last.Multiplier == nil || *last.Multiplier != 1.5 || last.Policy != "enabled" {
		t.Errorf("%+v", listed)
	}
	if out := complete(); !strings.Contains(out, "small\tSmall, premium × 0\n") || !strings.Contains(out, "gpt-large\tLarge, premium × 1.5\n") {
		t.Errorf("completed: %s", out)
	}
	if n := len(s.Calls(githubtest.ChatPath)) + len(s.Calls(githubtest.ResponsesPath)); n > 0 {
		t.Errorf("%d turns", n)
	}
}

// models lists the demo model, and a provider's models with what it tells.
func TestModelsWithoutAnAccount(t *testing.T) {
	t.Parallel()
	k := newTestHome(t)
	if out := string(k.run("models", "--demo")); !regexp.MustCompile(`(?m)^rehearsal-1 `).MatchString(out) {
		t.Error(out)
	}
	m := provider(t)
	k.env = []string{"COPILOT_BYOK_PROVIDER=openai", "COPILOT_BYOK_BASE_URL=" + m.URL(), "COPILOT_BYOK_API_KEY=" + m.Key(), "COPILOT_BYOK_MODEL=" + m.Model()}
	if out := string(k.run("models", "--json")); !strings.Contains(out, `"kind":"provider"`) || !strings.Contains(out, `"id":"rehearsal-1"`) || !strings.Contains(out, `"vendor":"copilot-bridge"`) || strings.Contains(out, "created") {
		t.Error(out)
	}
}
