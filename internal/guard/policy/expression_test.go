package policy

import (
	"encoding/json"
	"math"
	"regexp/syntax"
	"strings"
	"testing"
)

func TestPatterns(t *testing.T) {
	type params struct {
		Command string   `json:"command"`
		Files   []string `json:"files"`
	}
	nested := map[string]any{"outer": map[string]any{"list": []any{"first", map[string]any{"deep": "needle here"}}}}
	for _, tt := range []struct {
		pattern string
		args    any
		want    bool
	}{
		{`rm\s+-rf\s+/`, map[string]any{"command": "rm  -rf /tmp"}, true},
		{`rm\s+-rf\s+/`, map[string]any{"command": "rm -r /tmp"}, false},
		{`^rm`, map[string]any{"command": "rm x"}, true},
		{`^rm`, map[string]any{"command": "farm"}, false},
		{`^command=rm`, map[string]any{"command": "rm x"}, true},
		{`^file=rm`, map[string]any{"command": "rm x"}, false},
		{`^detach=true$`, map[string]any{"detach": true}, true},
		{`^detach=true$`, map[string]any{"detach": false}, false},
		{`^n=1\.5$`, map[string]any{"n": 1.5}, true},
		{`^n=100000000$`, map[string]any{"n": 1e8}, true},
		{`^n=7$`, map[string]any{"n": 7}, true},
		{`^n=12$`, map[string]any{"n": json.Number("12")}, true},
		{`needle`, nested, true},
		{`^deep=needle here$`, nested, true},
		{`^list=first$`, nested, true},
		{`"deep":"needle`, nested, true},
		{`\{"outer":\{"list":\["first",`, nested, true},
		{`a&b`, map[string]any{"url": "http://x/?a&b"}, true},
		{`"url":"http://x/\?<a&b>"`, map[string]any{"url": "http://x/?<a&b>"}, true},
		{`(?i)PASSWORD`, map[string]any{"x": "my password"}, true},
		{`(?i)kelvin`, map[string]any{"x": "\u212aelvin"}, true},
		{`(?i)\x{212a}`, map[string]any{"x": "k"}, true},
		{`Password`, map[string]any{"x": "password"}, false},
		{`é`, map[string]any{"x": "café"}, true},
		{"\ufffd", map[string]any{"x": "a\xffb"}, true},
		{`x`, "xyz", true},
		{`^xyz$`, "xyz", true},
		{`=xyz`, "xyz", false},
		{`b`, []any{"a", "b"}, true},
		{`^k=b$`, map[string]any{"k": []string{"a", "b"}}, true},
		{`^command=danger$`, params{Command: "danger"}, true},
		{`^files=two$`, &params{Files: []string{"one", "two"}}, true},
		{`^a=b$`, json.RawMessage(`{"a":"b"}`), true},
		{`^a=b$`, map[string]string{"a": "b"}, true},
		{`LD_PRELOAD`, map[string]any{"env": map[string]any{"LD_PRELOAD": "x"}}, true},
		{`a|b`, map[string]any{"x": "b"}, true},
		{`(ab)+c{0,2}`, map[string]any{"x": "zabab"}, true},
		{`x*`, map[string]any{"x": "q"}, true},
		{`anything`, nil, false},
	} {
		rule := Rule{Pattern: tt.pattern}
		if err := compileExpression(&rule); err != nil {
			t.Errorf("%s: %v", tt.pattern, err)
			continue
		}
		h, err := newHaystack(&Action{Args: tt.args})
		if err != nil {
			t.Errorf("%v: %v", tt.args, err)
			continue
		}
		if got := rule.text.matches(h); got != tt.want {
			t.Errorf("%s on %v: %v", tt.pattern, tt.args, got)
		}
	}
}

func TestPatternsSeeTheAnalysis(t *testing.T) {
	rules := mustYAML(t, "test", "blockedPatterns: ['^command=evil', '^path=secret/']")
	p := Combine(DefaultsRun(), Layer{Rules: rules, Trusted: true})
	for _, a := range []Action{
		{Tool: "bash", Kind: KindShell, Commands: []Command{{Words: []string{"x"}, Text: "evil x"}}},
		{Tool: "view", Kind: KindRead, Paths: []Path{{Rel: "secret/a"}}},
	} {
		if out := p.Evaluate(a); out.Verdict != Deny || out.Stage != StagePattern {
			t.Errorf("%+v", out)
		}
	}
}

func TestArgumentsBeyondBounds(t *testing.T) {
	rules := mustYAML(t, "test", "patterns: {deny: [never]}")
	p := Combine(DefaultsRun(), Layer{Rules: rules, Trusted: true})
	deep := any("x")
	for range 100 {
		deep = []any{deep}
	}
	many := make([]any, 30_000)
	for i := range many {
		many[i] = "x"
	}
	for name, tt := range map[string]struct {
		args any
		want string
	}{
		"large":     {map[string]any{"file_text": strings.Repeat("a", 4<<20)}, "denied: the arguments are too large to be checked against patterns.deny (test:1)"},
		"largeType": {map[string]string{"file_text": strings.Repeat("a", 4<<20)}, "denied: the arguments are too large to be checked against patterns.deny (test:1)"},
		"many":      {many, "denied: the arguments are too large to be checked against patterns.deny (test:1)"},
		"deep":      {deep, "denied: the arguments are nested too deeply to be checked against patterns.deny (test:1)"},
		"nan":       {map[string]any{"x": math.NaN()}, "denied: the arguments cannot be checked: json: unsupported value: NaN against patterns.deny (test:1)"},
		"func":      {map[string]any{"x": func() {}}, "denied: the arguments cannot be checked: json: unsupported type: func() against patterns.deny (test:1)"},
	} {
		out := p.Evaluate(Action{Tool: "create", Kind: KindOther, Args: tt.args})
		if out.Verdict != Deny || out.Stage != StagePattern || out.Reason != tt.want {
			t.Errorf("%s: %+v", name, out)
		}
	}
	if out := p.Evaluate(Action{Tool: "create", Kind: KindOther, Args: map[string]any{"file_text": strings.Repeat("a", 900_000)}}); out.Verdict != Allow {
		t.Errorf("900 kB: %+v", out)
	}
	// Without patterns there is nothing to check.
	if out := Combine(DefaultsRun()).Evaluate(Action{Tool: "create", Kind: KindOther, Args: deep}); out.Verdict != Allow {
		t.Errorf("no patterns: %+v", out)
	}
}

func TestBadPatterns(t *testing.T) {
	for _, p := range []string{`(?=x)`, `(`, `a{1001}`, `\1`, `[z-a]`, "\xff"} {
		if err := compileExpression(&Rule{Pattern: p}); err == nil || !strings.Contains(err.Error(), "not a valid regular expression") {
			t.Errorf("%q: %v", p, err)
		}
	}
}

func TestRequiredLiteral(t *testing.T) {
	for pattern, want := range map[string]string{
		`rm\s+-rf\s+/`:       "-rf",
		`(?i)PASSWORD\s*=`:   "password",
		`(abc)+`:             "abc",
		`(abc)*`:             "",
		`a|b`:                "",
		`x{2,}longer`:        "longer",
		`[0-9]+`:             "",
		`^curl\b.*evil\.com`: "evil.com",
		`a?`:                 "",
	} {
		tree, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		if got := required(tree.Simplify()); got != want {
			t.Errorf("%s: %q, want %q", pattern, got, want)
		}
	}
}
