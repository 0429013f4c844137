package policy

import (
	"fmt"
	"strings"
	"testing"
)

// A rule for good allows the line that was asked about, and nothing else.
func TestAlways(t *testing.T) {
	ask := func(p *Policy, a Action) Outcome {
		a.Tool, a.Kind = "bash", KindShell
		return p.Evaluate(a)
	}
	words := func(line string) []Command { return []Command{{Words: strings.Fields(line), Text: line}} }
	plain := Combine(DefaultsRun())
	out := ask(plain, Action{Commands: words("npm test"), Line: LineOf("/w", "npm test")})
	if out.Verdict != Ask || fmt.Sprint(out.Lasting) != `[always.shell: "/w: npm test"]` {
		t.Fatalf("%+v", out)
	}
	rules, err := ParseYAML("policy.yaml", []byte("always:\n  shell:\n    - '/w: npm test'\n    - '/w: ls && npm test'\n"))
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		a       Action
		layer   Layer
		verdict Verdict
		lasting int
	}{
		"the same line":     {Action{Commands: words("npm test"), Line: "/w: npm test"}, Layer{rules, true}, Allow, 0},
		"in a longer line":  {Action{Commands: append(words("ls"), words("npm test")...), Line: "/w: ls && npm test"}, Layer{rules, true}, Allow, 0},
		"untrusted":         {Action{Commands: words("npm test"), Line: "/w: npm test"}, Layer{rules, false}, Ask, 1},
		"more words":        {Action{Commands: words("npm test x"), Line: "/w: npm test x"}, Layer{rules, true}, Ask, 1},
		"another directory": {Action{Commands: words("npm test"), Line: "/w/a: npm test"}, Layer{rules, true}, Ask, 1},
		"no line":           {Action{Commands: words("npm test")}, Layer{rules, true}, Ask, 0},
		"a glob":            {Action{Commands: []Command{{Words: []string{"rm", "*"}, Globs: []int{1}}}, Line: "/w: npm test"}, Layer{rules, true}, Ask, 0},
		"not all known":     {Action{Commands: []Command{{Words: []string{"npm", "test"}, Opaque: true}}, Line: "/w: npm test"}, Layer{rules, true}, Ask, 0},
		"a doubtful path":   {Action{Commands: words("npm test"), Paths: []Path{{Rel: "a", Doubt: "it may be more"}}, Line: "/w: npm test"}, Layer{rules, true}, Ask, 0},
		"a host":            {Action{Commands: words("npm test"), Hosts: []Host{{Name: "example.com"}}, Line: "/w: npm test"}, Layer{rules, true}, Ask, 0},
		"a denial":          {Action{Commands: words("npm test"), Paths: []Path{{Rel: "a", Problem: "bad"}}, Line: "/w: npm test"}, Layer{rules, true}, Deny, 0},
	} {
		if out := ask(Combine(DefaultsRun(), tt.layer), tt.a); out.Verdict != tt.verdict || len(out.Lasting) != tt.lasting {
			t.Errorf("%s: %+v", name, out)
		}
	}
	denying, err := ParseYAML("other", []byte("tools: {ask: [bash]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if out := ask(Combine(DefaultsRun(), Layer{rules, true}, Layer{denying, true}), Action{Commands: words("npm test"), Line: "/w: npm test"}); out.Verdict != Ask {
		t.Errorf("tools.ask: %+v", out)
	}
	for _, bad := range []string{"npm test", "w: npm test", "/w:npm test", "/w: "} {
		err := Addition{"always.shell", bad}.Check()
		want := "this rule: always.shell " + quoteRule(bad) + ": write the absolute directory, a colon, a blank and the command line, such as /home/me/app: npm test"
		if err == nil || err.Error() != want {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
