package policy

import "testing"

// MayRead is Evaluate in a hurry.
func TestMayReadIsEvaluate(t *testing.T) {
	for _, text := range []string{
		"", "reads: {deny: ['**/.env', 'secret/**']}", "reads: {allow: ['src/**']}", "reads: {allow: ['src/**'], deny: ['**/*.key']}",
		"tools: {deny: ['mcp.fs.*']}", "tools: {ask: ['mcp.fs.read']}", "tools: {allow: ['mcp.search.code']}", "patterns: {deny: ['x']}",
		"readOnly: true", "reads: {deny: ['/etc/**']}",
	} {
		rules, err := ParseYAML("p", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range []Defaults{DefaultsRun(), DefaultsServe(), DefaultsABP(), {}} {
			for _, root := range []string{"", "/etc/w"} {
				d.Root = root
				for _, trusted := range []bool{false, true} {
					p := Combine(d, Layer{Rules: rules, Trusted: trusted})
					for _, rel := range []string{".", "a", ".env", "src/.ENV", "src/a.key", "secret/x", "../x", "/x", "", "a//b", `a\b`} {
						want := p.Evaluate(Action{Tool: "mcp.fs.read", Kind: KindRead, Paths: []Path{{Rel: rel}}}).Verdict == Allow
						if got := p.MayRead("mcp.fs.read", rel); got != want {
							t.Errorf("%s, %q: %t, want %t", text, rel, got, want)
						}
					}
				}
			}
		}
	}
	if (*Policy)(nil).MayRead("mcp.fs.read", "a") {
		t.Error("allowed without a policy")
	}
}
