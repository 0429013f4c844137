package policy

import "testing"

// A read-only default may be a question where a person can answer it. Other
// denials, and a policy file that says readOnly, still hold.
func TestReadOnlyByDefaultAsks(t *testing.T) {
	write := func(rel string) Action {
		return Action{Tool: "edit", Kind: KindWrite, Paths: []Path{{Rel: rel, Write: true}}}
	}
	run := func(words ...string) Action {
		return Action{Tool: "bash", Kind: KindShell, Commands: []Command{{Words: words}}}
	}
	for _, tt := range []struct {
		name, rules string
		asks        bool
		action      Action
		want        Verdict
	}{
		{"write", "", true, write("a"), Ask},
		{"write, nobody", "", false, write("a"), Deny},
		{"write, forbidden", "writes: {deny: ['a']}", true, write("a"), Deny},
		{"write, not allowed", "writes: {allow: ['b']}", true, write("a"), Deny},
		{"write, allowed", "writes: {allow: ['a']}", true, write("a"), Ask},
		{"write, policy file", "", true, write(".agent-policy.yaml"), Deny},
		{"write, somebody's word", "readOnly: true", true, write("a"), Deny},
		{"write, lifted", "readOnly: false", true, write("a"), Allow},
		{"outside", "", true, Action{Tool: "edit", Kind: KindWrite, Paths: []Path{{Rel: "a", Write: true, Outside: true}}}, Deny},
		{"run", "", true, run("make"), Ask},
		{"run, nobody", "", false, run("make"), Deny},
		{"run, reads only", "", true, run("ls"), Allow},
		{"run, forbidden", "shell: {deny: ['make']}", true, run("make"), Deny},
		{"run, allowed", "shell: {allow: ['make']}", true, run("make"), Ask},
		{"tool", "", true, Action{Tool: "x", Server: "s", Kind: KindMCP}, Ask},
		{"tool, nobody", "", false, Action{Tool: "x", Server: "s", Kind: KindMCP}, Deny},
	} {
		rules, err := ParseYAML("p", []byte(tt.rules))
		if err != nil {
			t.Fatal(err)
		}
		d := DefaultsServe()
		d.ReadOnlyAsks = tt.asks
		if got := Combine(d, Layer{Rules: rules, Trusted: true}).Evaluate(tt.action); got.Verdict != tt.want || got.Reason == "" {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}
