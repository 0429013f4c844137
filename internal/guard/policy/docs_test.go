package policy

import (
	"os"
	"strings"
	"testing"
)

// What the documentation shows can be copied.
func TestTheExampleInTheDocs(t *testing.T) {
	b, err := os.ReadFile("../../../docs/guides/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(b), "```yaml\n")
	example, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("there is no example")
	}
	rules, err := ParseYAML("security.md", []byte(example))
	if err != nil {
		t.Fatal(err)
	}
	p := Combine(DefaultsRun(), Layer{Rules: rules, Trusted: true})
	if out := p.Evaluate(Action{Tool: "web_fetch", Kind: KindNetwork}); out.Verdict != Deny {
		t.Errorf("%+v", out)
	}
}
