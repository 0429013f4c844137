package policy

import (
	"encoding/json"
	"strings"
	"testing"
)

func FuzzParseYAML(f *testing.F) {
	for _, seed := range []string{
		"", reasonsPolicy, "readOnly: true\n", "tools: {deny: [a, 'b*', \"c\"]}\n", "allowedTools:\n- a\n", "patterns: {deny: ['(?i)x\\s+']}\n", "a: &x 1\nb: *x\n",
		"<<: {readOnly: true}\n", "? {a: b}\n: c\n", "---\n...\n---\nx: y\n", "!!map {readOnly: !!bool true}\n", "%YAML 1.2\n---\nreadOnly: true\n", "\xef\xbb\xbfreads: {}",
		"reads: [", "shell:\n  allow:\n    - |\n      npm test\n    - >-\n      a\n", "network: {deny: ['[::1]:443', 10.0.0.0/8, '*.x.y', 1.5]}\n", "tools: {deny: [**]}\n",
		"reads:\r\n  deny:\r\n  - '**/.env'\r\n", "writes: {deny: ['{a,b}/[!c]?*/**', '\\[x\\]']}\n", "blockedPatterns: [.*]\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		rules, err := ParseYAML("p", data)
		lines := strings.Count(string(data), "\n") + strings.Count(string(data), "\r") + 1
		if err != nil {
			if len(render(rules)) > 0 {
				t.Errorf("rules beside the error %v", err)
			}
			for line := range strings.SplitSeq(err.Error(), "\n") {
				if !strings.HasPrefix(line, "p:") && !strings.HasPrefix(line, "and ") {
					t.Errorf("%q", line)
				}
			}
			return
		}
		for _, list := range rules.Lists {
			for _, r := range list {
				if r.Source.Line < 1 || r.Source.Line > lines || strings.Contains(r.String(), "\n") {
					t.Errorf("%s of %d lines", r, lines)
				}
			}
		}
		p := Combine(DefaultsRun(), Layer{rules, true})
		for _, a := range []Action{
			{Tool: "bash", Kind: KindShell, Commands: run("npm", "test"), Args: map[string]any{"command": "npm test"}},
			{Tool: "view", Kind: KindRead, Paths: read("a/b.c")},
			{Tool: "web_fetch", Kind: KindNetwork, Hosts: []Host{{Name: "a.b", Port: 443}}},
		} {
			if out := p.Evaluate(a); strings.Contains(out.Reason, "policy failed") {
				t.Errorf("%+v: %s", a, out.Reason)
			}
		}
		if out := p.Evaluate(Action{Tool: "edit", Kind: KindWrite, Paths: write(".agent-policy.yaml")}); out.Verdict != Deny {
			t.Errorf("%s: %s", out.Verdict, out.Reason)
		}
	})
}

func FuzzEvaluate(f *testing.F) {
	f.Add("bash", "", "shell", `{"command":"npm test"}`, "src/a", "npm\x1ftest", "a.com", "**\n*\nnpm test", byte(0))
	f.Add("view", "srv", "read", `["x"]`, "../x", "ls", "0x7f.1", "src/**", byte(0xff))
	f.Add("edit", "", "write", `"s"`, ".git/config", "$X", "::1", "*", byte(0x55))
	f.Add("x-y-z", "", "mcp", `{"a":{"b":[1,true,null]}}`, "a\\b", "", "", "[a", byte(3))
	f.Fuzz(func(t *testing.T, tool, server, kind, args, path, words, host, rules string, bits byte) {
		bit := func(i int) bool { return bits>>i&1 == 1 }
		// Rules that allow as much as rules can.
		wide := "tools: {allow: ['*']}\nreads: {allow: ['**']}\nwrites: {allow: ['**']}\nshell: {allow: ['*']}\nnetwork: {allow: ['*']}\nreadOnly: false\n"
		layers := []Layer{{mustYAML(t, "wide", wide), true}}
		patterns := strings.Split(rules, "\n")
		for _, abp := range []ABPPolicy{{DenyRead: patterns}, {DisallowedTools: patterns}, {DenyNetwork: patterns}} {
			if r, err := FromABP(abp); err == nil && bit(7) {
				layers = append(layers, Layer{r, true})
			}
		}
		var expressions builder
		for _, pattern := range patterns {
			expressions.add("patterns.deny", "patterns.deny", pattern, Source{Name: "env"})
		}
		if r, err := expressions.finish(""); err == nil && bit(6) {
			layers = append(layers, Layer{r, true})
		}
		var decoded any
		if json.Unmarshal([]byte(args), &decoded) != nil {
			decoded = args
		}
		a := Action{Tool: tool, Server: server, Kind: Kind(kind), Args: decoded,
			Paths:    []Path{{Rel: path, Write: bit(0), Outside: bit(1), Tree: bit(2)}},
			Commands: []Command{{Words: strings.Split(words, "\x1f"), Text: words, Opaque: bit(3), Globs: []int{int(bits >> 5)}}},
		}
		if bit(4) {
			a.Hosts = []Host{{Name: host, Port: int(bits)}}
		}
		if bit(5) {
			a.Unparsable = "no"
		}
		for _, d := range []Defaults{DefaultsRun(), DefaultsServe(), DefaultsABP()} {
			d.Root = "/w"
			out := Combine(d, layers...).Evaluate(a)
			if strings.Contains(out.Reason, "policy failed") || out.Reason == "" || strings.Contains(out.Reason, "\n") {
				t.Fatalf("%+v: %q", a, out.Reason)
			}
			if out.Verdict == Deny {
				continue
			}
			segments := strings.Split(strings.ToLower(path), "/")
			switch {
			case bit(1), bit(5), !validRel(path):
				t.Fatalf("%s: %+v: %s", out.Verdict, a, out.Reason)
			case bit(3) && out.Verdict == Allow:
				t.Fatalf("an opaque command was allowed: %+v: %s", a, out.Reason)
			case bit(0) && (contains(segments, ".git") || contains(segments, ".agent-policy.yaml")):
				t.Fatalf("a protected file: %+v: %s", a, out.Reason)
			}
		}
	})
}

func contains(segments []string, name string) bool {
	for _, s := range segments {
		if s == name {
			return true
		}
	}
	return false
}

func FuzzGlob(f *testing.F) {
	f.Add("**/.env", "a/.env")
	f.Add("src/**/*.{ts,tsx}", "src/a/b.ts")
	f.Add("[!a]?/**", "bc/d")
	f.Add(`\[x\]`, "[x]/y")
	f.Add("{,a/.b,c*/,*d,c*,/e,f}", "c")
	f.Fuzz(func(t *testing.T, glob, path string) {
		if !validRel(path) {
			return
		}
		allow, err := newPathGlob(glob, false)
		if err != nil {
			return
		}
		deny, err := newPathGlob(glob, true)
		if err != nil {
			t.Fatalf("%q may be allowed but not denied: %v", glob, err)
		}
		n := newNamed(path)
		// A denial covers all that the same glob would allow.
		if allow.allows(&n, false) && !deny.denies(&n) {
			t.Errorf("%q allows %q but does not deny it", glob, path)
		}
	})
}
