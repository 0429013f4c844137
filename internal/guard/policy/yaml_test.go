package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// render shows a rule set in one line a rule.
func render(r Rules) []string {
	out := []string{}
	if r.ReadOnly != nil {
		out = append(out, fmt.Sprintf("readOnly %v (%s)", *r.ReadOnly, r.ReadOnlySource))
	}
	for _, l := range lists {
		for _, rule := range r.Lists[l.name] {
			text := rule.String()
			if rule.Key != l.name {
				text += " as " + l.name
			}
			out = append(out, text)
		}
	}
	return out
}

func TestParseYAML(t *testing.T) {
	const design = `# .agent-policy.yaml at the workspace root
readOnly: true
tools:    { allow: [], deny: [], ask: [] }         # names or globs
patterns: { deny: ['rm\s+-rf\s+/'] }               # over a tool's arguments
reads:    { allow: ["**"], deny: ["**/.env", "**/id_rsa"] }
writes:   { allow: ["src/**/*.ts"], deny: ["**/node_modules/**"] }
shell:    { allow: ["npm test"], deny: [] }
network:  { allow: [], deny: [] }
`
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"design", design, []string{"readOnly true (p.yaml:2)", `patterns.deny "rm\s+-rf\s+/" (p.yaml:4)`, `reads.allow "**" (p.yaml:5)`, `reads.deny "**/.env" (p.yaml:5)`,
			`reads.deny "**/id_rsa" (p.yaml:5)`, `writes.allow "src/**/*.ts" (p.yaml:6)`, `writes.deny "**/node_modules/**" (p.yaml:6)`, `shell.allow "npm test" (p.yaml:7)`}},
		{"vscode", "writes:\n  allow: [\"src/**/*.ts\",\"test/**/*.ts\"]\n  deny:  [\"**/node_modules/**\",\"**/dist/**\"]\nshell:\n  allow: [\"npm test\",\"dotnet test\"]\n",
			[]string{`writes.allow "src/**/*.ts" (p.yaml:2)`, `writes.allow "test/**/*.ts" (p.yaml:2)`, `writes.deny "**/node_modules/**" (p.yaml:3)`,
				`writes.deny "**/dist/**" (p.yaml:3)`, `shell.allow "npm test" (p.yaml:5)`, `shell.allow "dotnet test" (p.yaml:5)`}},
		{"plugin", "allowedTools: [view]\nblockedTools:\n- bash\n- web_*\naskTools: [edit]\nblockedPatterns: ['x+']\n",
			[]string{`allowedTools "view" (p.yaml:1) as tools.allow`, `blockedTools "bash" (p.yaml:3) as tools.deny`, `blockedTools "web_*" (p.yaml:4) as tools.deny`,
				`askTools "edit" (p.yaml:5) as tools.ask`, `blockedPatterns "x+" (p.yaml:6) as patterns.deny`}},
		{"mixed", "tools: {deny: [a]}\nallowedTools: [b]\n", []string{`allowedTools "b" (p.yaml:2) as tools.allow`, `tools.deny "a" (p.yaml:1)`}},
		{"block lists", "reads:\n  deny:\n    - a\n    # a comment\n    - 'b'\n    - \"c\"\n", []string{`reads.deny "a" (p.yaml:3)`, `reads.deny "b" (p.yaml:5)`, `reads.deny "c" (p.yaml:6)`}},
		{"scalars as text", "shell: {allow: [true, 7]}\ntools: {deny: [1.10]}\n", []string{`tools.deny "1.10" (p.yaml:2)`, `shell.allow "true" (p.yaml:1)`, `shell.allow "7" (p.yaml:1)`}},
		{"block scalar", "patterns:\n  deny:\n    - |\n      a b\n    - >-\n      c\n      d\n", []string{`patterns.deny "a b" (p.yaml:3)`, `patterns.deny "c d" (p.yaml:5)`}},
		{"crlf and bom", "\xef\xbb\xbfreadOnly: false\r\ntools:\r\n  deny:\r\n    - a\r\n", []string{"readOnly false (p.yaml:1)", `tools.deny "a" (p.yaml:4)`}},
		{"json", `{"readOnly": true, "tools": {"deny": ["a"]}}`, []string{"readOnly true (p.yaml:1)", `tools.deny "a" (p.yaml:1)`}},
		{"empty", "", []string{}},
		{"comment", "# nothing\n", []string{}},
		{"blank", "\n\n  \n", []string{}},
		{"null", "null\n", []string{}},
		{"document marks", "---\nreadOnly: true\n...\n", []string{"readOnly true (p.yaml:2)"}},
		{"null groups", "tools:\nreads: ~\nshell: {allow: }\n", []string{}},
		{"empty lists", "tools: {allow: []}\nwrites: {}\n", []string{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rules, err := ParseYAML("p.yaml", []byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if got := render(rules); !slices.Equal(got, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

func TestParseYAMLErrors(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"unknown key", "readOnly: true\ntool: {}\n", `p.yaml:2: unknown key "tool"; did you mean "tools"?`},
		{"snake case", "read_only: true\n", `p.yaml:1: unknown key "read_only"; did you mean "readOnly"?`},
		{"case", "readonly: true\n", `p.yaml:1: unknown key "readonly"; did you mean "readOnly"?`},
		{"far from all", "xyzzyplugh: 1\n", `p.yaml:1: unknown key "xyzzyplugh"; there are allowedTools, always, askTools, blockedPatterns, blockedTools, network, patterns, readOnly, reads, sandbox, shell, tools, writes`},
		{"relative place", "sandbox:\n  read:\n    - /ok\n    - data\n", `p.yaml:4: sandbox.read "data": write an absolute path; ~ and variables are not expanded`},
		{"place below home", "sandbox: {write: ['~/x']}\n", `p.yaml:1: sandbox.write "~/x": write an absolute path; ~ and variables are not expanded`},
		{"glob for a place", "sandbox: {read: ['/data/**']}\n", `p.yaml:1: sandbox.read "/data/**": it names one path and all below it, without wildcards`},
		{"place with dots", "sandbox: {read: [/data/../etc]}\n", `p.yaml:1: sandbox.read "/data/../etc": write it as /etc`},
		{"everything as a place", "sandbox: {write: [/]}\n", `p.yaml:1: sandbox.write "/": it is the whole file system; name what is needed`},
		{"range for the sandbox", "sandbox: {network: [10.0.0.0/8]}\n", `p.yaml:1: sandbox.network "10.0.0.0/8": the sandbox cannot hold ranges and wildcards within a name; write a host, host:port, *.name or *`},
		{"wildcard for the sandbox", "sandbox: {network: ['api-*.example.com']}\n", `p.yaml:1: sandbox.network "api-*.example.com": the sandbox cannot hold ranges and wildcards within a name; write a host, host:port, *.name or *`},
		{"every command", "sandbox: {shell: ['*']}\n", `p.yaml:1: sandbox.shell "*": it would allow every command; name one`},
		{"unknown list of the sandbox", "sandbox: {reads: [/x]}\n", `p.yaml:1: unknown key "sandbox.reads"; did you mean "read"?`},
		{"unknown list", "tools:\n  denny: [a]\n", `p.yaml:2: unknown key "tools.denny"; did you mean "deny"?`},
		{"no such list here", "shell:\n  ask: [a]\n", `p.yaml:2: unknown key "shell.ask"; there are allow, deny`},
		{"readOnly text", "readOnly: \"yes\"\n", `p.yaml:1: readOnly must be true or false`},
		{"readOnly null", "readOnly:\n", `p.yaml:1: readOnly must be true or false`},
		{"readOnly no", "readOnly: no\n", `p.yaml:1: readOnly must be true or false`},
		{"scalar for list", "tools: {deny: bash}\n", `p.yaml:1: tools.deny must be a list, such as: ["a", "b"]`},
		{"mapping for list", "tools: {deny: {a: b}}\n", `p.yaml:1: tools.deny must be a list, such as: ["a", "b"]`},
		{"scalar for group", "tools: bash\n", `p.yaml:1: tools must be a mapping of lists: allow, deny, ask`},
		{"list for group", "reads: [a]\n", `p.yaml:1: reads must be a mapping of lists: allow, deny`},
		{"nested list", "tools:\n  deny:\n    - [a]\n", `p.yaml:3: tools.deny: every entry must be a text`},
		{"null entry", "tools:\n  deny:\n    - a\n    -\n", `p.yaml:4: tools.deny: every entry must be a text`},
		{"empty entry", "tools: {deny: ['']}\n", `p.yaml:1: tools.deny: an entry is empty`},
		{"bad glob", "reads:\n  deny:\n    - ok\n    - '[a'\n", `p.yaml:4: reads.deny "[a": it is not a valid glob; brackets and braces must be closed`},
		{"bad regexp", "patterns:\n  deny: ['(?=x)']\n", `p.yaml:2: patterns.deny "(?=x)": it is not a valid regular expression (RE2 syntax): invalid or unsupported Perl syntax`},
		{"bad host", "network: {deny: ['http://x']}\n", `p.yaml:1: network.deny "http://x": write a host or host:port, not a URL`},
		{"bad command", "shell: {allow: ['a && b']}\n", `p.yaml:1: shell.allow "a && b": a rule names one command, without operators, substitutions or redirections; quote what is meant literally`},
		{"bad tool", "tools: {deny: ['a b']}\n", `p.yaml:1: tools.deny "a b": names hold no white space; a command belongs in shell`},
		{"twice", "tools: {deny: [a]}\nreads: {}\ntools: {deny: [b]}\n", `p.yaml:3: tools.deny is given twice; the first time is on line 1`},
		{"twice by two names", "blockedTools: [a]\ntools:\n  deny: [b]\n", `p.yaml:3: tools.deny is given twice; the first time is on line 1`},
		{"readOnly twice", "readOnly: true\nreadOnly: false\n", `p.yaml:2: readOnly is given twice; the first time is on line 1`},
		{"unquoted star", "reads:\n  deny: [**/.env]\n", `p.yaml:2: anchors and aliases have no place in a policy; put a pattern that begins with * or & in quotes`},
		{"alias", "tools: {deny: &a [x]}\nreads: {deny: *a}\n", `p.yaml:1: anchors and aliases have no place in a policy; put a pattern that begins with * or & in quotes`},
		{"tag", "readOnly: !!bool true\n", `p.yaml:1: tags have no place in a policy; put a pattern that begins with ! in quotes`},
		{"merge key", "<<: {readOnly: true}\n", `p.yaml:1: directives, merge keys and keys with a question mark have no place in a policy`},
		{"complex key", "? a\n: b\n", `p.yaml:1: directives, merge keys and keys with a question mark have no place in a policy`},
		{"directive", "%YAML 1.2\n---\nreadOnly: true\n", `p.yaml:1: directives, merge keys and keys with a question mark have no place in a policy`},
		{"two documents", "readOnly: true\n---\nreadOnly: false\n", `p.yaml:3: there must be one document only`},
		{"a list", "- a\n", `p.yaml:1: there must be a mapping, such as: readOnly: true`},
		{"a text", "hello\n", `p.yaml:1: there must be a mapping, such as: readOnly: true`},
		{"number key", "1: a\n", `p.yaml:1: keys must be plain names`},
		{"nul", "tools: {deny: [\"a\\0b\"]}\n", `p.yaml:1: tools.deny: an entry holds a NUL character`},
		{"raw nul", "a\x00b", `p.yaml:1: the file holds a NUL character`},
		{"not utf-8", "tools: \xff", `p.yaml:1: the file is not UTF-8 text`},
		{"too large", strings.Repeat("#", MaxFileSize+1), `p.yaml:1: the file is larger than 65536 bytes`},
		{"long entry", "tools: {deny: [" + strings.Repeat("a", 1025) + "]}", `p.yaml:1: tools.deny: an entry is longer than 1024 bytes`},
		{"nested brackets", "tools: " + strings.Repeat("[", 20), `p.yaml:1: it is nested too deeply`},
		{"nested entries", strings.Repeat("- ", 20), `p.yaml:1: it is nested too deeply`},
		{"many keys", strings.Repeat("a: b\n", 200), `p.yaml:101: there are more than 100 keys`},
		{"many expressions", "blockedPatterns: [" + strings.Repeat("a,", 256) + "b]", `p.yaml:1: blockedPatterns: there are more than 256 regular expressions`},
		{"many rules", "blockedTools: [" + strings.Repeat("a,", 2005) + "b]", `p.yaml:1: there are more than 2000 rules`},
		{"all at once", "tool: 1\nreads: {deny: ['..', '[']}\n", "p.yaml:1: unknown key \"tool\"; did you mean \"tools\"?\np.yaml:2: reads.deny \"..\": it may not hold .. as a directory\np.yaml:2: reads.deny \"[\": it is not a valid glob; brackets and braces must be closed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rules, err := ParseYAML("p.yaml", []byte(tt.text))
			var e *bridge.Error
			if !errors.As(err, &e) || e.Code != bridge.CodeInvalid {
				t.Fatalf("error %v, rules %q", err, render(rules))
			}
			if e.Message != tt.want {
				t.Errorf("got\n%s\nwant\n%s", e.Message, tt.want)
			}
			if e.Remedy == "" || len(render(rules)) != 0 {
				t.Errorf("remedy %q, rules %q", e.Remedy, render(rules))
			}
		})
	}
}

func TestParseYAMLSyntax(t *testing.T) {
	for text, line := range map[string]string{
		"tools: {deny: [a\n":              "p.yaml:",
		"readOnly: true\n  tools: x\n: [": "p.yaml:",
		"tools:\n\tdeny: [a]\n":           "p.yaml:2: ",
		"tools: {deny: [\"a]}\n":          "p.yaml:1: ",
		"a: b: c\n":                       "p.yaml:1: ",
	} {
		_, err := ParseYAML("p.yaml", []byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), line) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want one line that begins with %q", text, err, line)
		}
	}
}

func TestErrorsAreBounded(t *testing.T) {
	_, err := ParseYAML("p.yaml", []byte("reads:\n  deny:\n"+strings.Repeat("  - '['\n", 500)))
	if err == nil || strings.Count(err.Error(), "\n") != 20 || !strings.HasSuffix(err.Error(), "and 480 more") {
		t.Errorf("%v", err)
	}
}

// A file that the user has not seen yet must not be able to hang the program.
func TestHostileYAMLIsQuick(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("[", MaxFileSize), strings.Repeat("{a: ", MaxFileSize/4), strings.Repeat("- ", MaxFileSize/2), strings.Repeat("&a ", MaxFileSize/3),
		strings.Repeat("? ", MaxFileSize/2), strings.Repeat("!!a ", MaxFileSize/4), strings.Repeat("a: [x]\n", MaxFileSize/7), strings.Repeat("\"", MaxFileSize),
		strings.Repeat("a:\n- b\n", MaxFileSize/7), strings.Repeat("a: b\n", MaxFileSize/5), strings.Repeat("a:\n ", MaxFileSize/4), strings.Repeat("'a',", MaxFileSize/4), strings.Repeat("|\n", MaxFileSize/2), strings.Repeat(": ", MaxFileSize/2),
		"blockedPatterns: [" + strings.Repeat("'(a{1,30}){1,30}',", 3000) + "]", "tools: {deny: [" + strings.Repeat("'{a,b}{a,b}',", 4000) + "]}",
	} {
		start := time.Now()
		_, err := ParseYAML("p.yaml", []byte(text))
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%.20q…: %s", text, took)
		} else if err == nil {
			t.Errorf("%.20q…: no error", text)
		}
	}
}
