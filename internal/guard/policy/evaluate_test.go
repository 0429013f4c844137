package policy

import (
	"strings"
	"testing"
)

func mustYAML(t testing.TB, name, text string) Rules {
	t.Helper()
	rules, err := ParseYAML(name, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

const reasonsPolicy = `readOnly: false
tools:
  allow: [view, edit, bash, "web_*", task, "srv/ok", "srv/careful"]
  deny:
    - "web_s*"
    - srv/bad
  ask: [edit, "srv/careful", extra]
patterns:
  deny:
    - 'DROP\s+TABLE'
reads:
  allow: ["src/**", "docs/**"]
  deny:
    - "**/.env"
writes:
  allow: ["src/**"]
  deny: ["src/gen"]
shell:
  allow: ["npm test", "go test *", "builtin:read-only"]
  deny:
    - git push
network:
  allow: ["*.example.com", "localhost:3000"]
  deny: ["bad.example.com"]
`

func read(rel string) []Path  { return []Path{{Rel: rel}} }
func write(rel string) []Path { return []Path{{Rel: rel, Write: true}} }
func run(words ...string) []Command {
	return []Command{{Words: words, Text: strings.Join(words, " ")}}
}

func TestReasons(t *testing.T) {
	const file = "/w/.agent-policy.yaml"
	p := Combine(DefaultsRun(), Layer{Rules: mustYAML(t, file, reasonsPolicy), Trusted: true})
	for _, tt := range []struct {
		name    string
		a       Action
		verdict Verdict
		stage   Stage
		reason  string
	}{
		{"denied tool", Action{Tool: "web_search", Kind: KindNetwork}, Deny, StageTool, `denied by tools.deny "web_s*" (` + file + `:5)`},
		{"denied mcp tool", Action{Tool: "bad", Server: "srv", Kind: KindMCP}, Deny, StageTool, `denied by tools.deny "srv/bad" (` + file + `:6)`},
		{"tool before pattern", Action{Tool: "web_search", Kind: KindNetwork, Args: map[string]any{"q": "DROP TABLE"}}, Deny, StageTool,
			`denied by tools.deny "web_s*" (` + file + `:5)`},
		{"pattern", Action{Tool: "task", Kind: KindOther, Args: map[string]any{"prompt": "DROP  TABLE x"}}, Deny, StagePattern,
			`denied by patterns.deny "DROP\s+TABLE" (` + file + `:10)`},
		{"pattern before path", Action{Tool: "view", Kind: KindRead, Args: "DROP TABLE", Paths: []Path{{Outside: true}}}, Deny, StagePattern,
			`denied by patterns.deny "DROP\s+TABLE" (` + file + `:10)`},
		{"unparsable", Action{Tool: "bash", Kind: KindShell, Unparsable: "the command\ncannot be parsed"}, Deny, StagePath, "denied: the command cannot be parsed"},
		{"outside", Action{Tool: "view", Kind: KindRead, Paths: []Path{{Rel: "src/x", Name: "../x", Outside: true}}}, Deny, StagePath,
			`reading "../x" is denied: it is outside the workspace`},
		{"problem", Action{Tool: "view", Kind: KindRead, Paths: []Path{{Rel: "src/x", Problem: "it is a link to nothing"}}}, Deny, StagePath,
			`reading "src/x" is denied: it is a link to nothing`},
		{"unclean", Action{Tool: "view", Kind: KindRead, Paths: read("src/../../x")}, Deny, StagePath,
			`reading "src/../../x" is denied: it is not a clean path inside the workspace`},
		{"denied read", Action{Tool: "view", Kind: KindRead, Paths: read("src/.env")}, Deny, StagePath, `reading "src/.env" is denied by reads.deny "**/.env" (` + file + `:14)`},
		{"not on the list", Action{Tool: "view", Kind: KindRead, Paths: read("etc/x")}, Deny, StagePath, `reading "etc/x" is denied: not in reads.allow (` + file + `:12)`},
		{"denied write", Action{Tool: "edit", Kind: KindWrite, Paths: write("src/gen/a.go")}, Deny, StagePath,
			`writing "src/gen/a.go" is denied by writes.deny "src/gen" (` + file + `:17)`},
		{"write not on the list", Action{Tool: "edit", Kind: KindWrite, Paths: write("docs/a")}, Deny, StagePath,
			`writing "docs/a" is denied: not in writes.allow (` + file + `:16)`},
		{"protected before rules", Action{Tool: "edit", Kind: KindWrite, Paths: write("src/gen/.git/config")}, Deny, StagePath,
			`writing "src/gen/.git/config" is denied by protected "**/.git" (built-in)`},
		{"second path", Action{Tool: "view", Kind: KindRead, Paths: append(read("src/a"), read("x")...)}, Deny, StagePath,
			`reading "x" is denied: not in reads.allow (` + file + `:12)`},
		{"path before network", Action{Tool: "bash", Kind: KindShell, Commands: run("npm", "test"), Paths: read("x"), Hosts: []Host{{Name: "bad.example.com"}}}, Deny, StagePath,
			`reading "x" is denied: not in reads.allow (` + file + `:12)`},
		{"denied host", Action{Tool: "web_fetch", Kind: KindNetwork, Hosts: []Host{{Name: "bad.example.com", Port: 443}}}, Deny, StageNetwork,
			`reaching "bad.example.com" is denied by network.deny "bad.example.com" (` + file + `:24)`},
		{"host not on the list", Action{Tool: "web_fetch", Kind: KindNetwork, Hosts: []Host{{Name: "localhost", Port: 80}}}, Deny, StageNetwork,
			`reaching "localhost" is denied: not in network.allow (` + file + `:23)`},
		{"odd host", Action{Tool: "web_fetch", Kind: KindNetwork, Hosts: []Host{{Name: "0x7f.1"}}}, Deny, StageNetwork,
			`reaching "0x7f.1" is denied: it is not a plain host name or address`},
		{"no host, but a list", Action{Tool: "web_x", Kind: KindNetwork}, Deny, StageNetwork,
			`reaching a host that is not known is denied: not in network.allow (` + file + `:23)`},
		{"network before shell", Action{Tool: "bash", Kind: KindShell, Commands: run("git", "push"), Hosts: []Host{{Name: "x.org"}}}, Deny, StageNetwork,
			`reaching "x.org" is denied: not in network.allow (` + file + `:23)`},
		{"denied command", Action{Tool: "bash", Kind: KindShell, Commands: run("/usr/bin/git", "push", "-f")}, Deny, StageShell,
			`running "/usr/bin/git" is denied by shell.deny "git push" (` + file + `:21)`},
		{"command not on the list", Action{Tool: "bash", Kind: KindShell, Commands: run("npm", "test", "--x")}, Deny, StageShell,
			`running "npm" is denied: not in shell.allow (` + file + `:19)`},
		{"second command", Action{Tool: "bash", Kind: KindShell, Commands: append(run("npm", "test"), run("curl", "x")...)}, Deny, StageShell,
			`running "curl" is denied: not in shell.allow (` + file + `:19)`},
		{"shell before allow list", Action{Tool: "other", Kind: KindShell, Commands: run("curl")}, Deny, StageShell,
			`running "curl" is denied: not in shell.allow (` + file + `:19)`},
		{"no words", Action{Tool: "bash", Kind: KindShell, Commands: []Command{{}}}, Deny, StageShell,
			`running "a command that is not known" is denied: it has no words`},
		{"no command", Action{Tool: "bash", Kind: KindShell}, Deny, StageShell, `denied: no command is known that it would run`},
		{"no path", Action{Tool: "view", Kind: KindRead}, Deny, StagePath, `denied: no path is known that it would read`},
		{"no written path", Action{Tool: "edit", Kind: KindWrite, Paths: read("src/a")}, Deny, StagePath, `denied: no path is known that it would write`},
		{"asked tool", Action{Tool: "edit", Kind: KindWrite, Paths: write("src/a")}, Ask, StageAsk, `tools.ask "edit" (` + file + `:7) wants consent`},
		{"asked, and so on the list", Action{Tool: "extra", Kind: KindOther}, Ask, StageAsk, `tools.ask "extra" (` + file + `:7) wants consent`},
		{"asked mcp tool", Action{Tool: "careful", Server: "srv", Kind: KindMCP}, Ask, StageAsk, `tools.ask "srv/careful" (` + file + `:7) wants consent`},
		{"tool not on the list", Action{Tool: "sql", Kind: KindOther}, Deny, StageAllowList, `denied: not in tools.allow (` + file + `:3)`},
		{"no tool name", Action{Kind: KindRead, Paths: read("src/a")}, Deny, StageAllowList, `denied: not in tools.allow (` + file + `:3)`},
		{"mcp tool posing as another", Action{Tool: "view", Server: "evil", Kind: KindMCP}, Deny, StageAllowList, `denied: not in tools.allow (` + file + `:3)`},
		{"allowed read", Action{Tool: "view", Kind: KindRead, Paths: read("src/a")}, Allow, StageDefault, `reading "src/a" is allowed (built-in default)`},
		{"allowed command", Action{Tool: "bash", Kind: KindShell, Commands: run("go", "test", "./...")}, Allow, StageShell,
			`running "go" is allowed by shell.allow "go test *" (` + file + `:19)`},
		{"read-only command", Action{Tool: "bash", Kind: KindShell, Commands: run("ls")}, Allow, StageShell,
			`running "ls" is allowed by shell.allow "builtin:read-only" (` + file + `:19)`},
		{"allowed host", Action{Tool: "web_fetch", Kind: KindNetwork, Hosts: []Host{{Name: "a.example.com", Port: 443}}}, Allow, StageNetwork,
			`reaching "a.example.com" is allowed by network.allow "*.example.com" (` + file + `:23)`},
		{"allowed mcp tool", Action{Tool: "ok", Server: "srv", Kind: KindMCP}, Allow, StageAllowList, `allowed by tools.allow "srv/ok" (` + file + `:3)`},
		{"allowed other", Action{Tool: "task", Kind: KindOther}, Allow, StageDefault, `allowed: no rule speaks against it (built-in default)`},
		{"unknown kind", Action{Tool: "view", Kind: "x"}, Deny, StageDefault, `denied: unknown kind of action "x"`},
		{"no kind", Action{Tool: "view"}, Deny, StageDefault, `denied: unknown kind of action ""`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := p.Evaluate(tt.a)
			if out.Verdict != tt.verdict || out.Stage != tt.stage || out.Reason != tt.reason {
				t.Errorf("got %s, %s: %s\nwant %s, %s: %s", out.Verdict, out.Stage, out.Reason, tt.verdict, tt.stage, tt.reason)
			}
			if out.Rule.Key == "" {
				t.Errorf("rule %+v from %+v", out.Rule, out.Rule.Source)
			}
			if out.Rule.Source.Line > 0 && !strings.Contains(out.Reason, out.Rule.Source.String()) {
				t.Errorf("%q does not name %s", out.Reason, out.Rule.Source)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	runs, serves := Combine(DefaultsRun()), Combine(DefaultsServe())
	for _, tt := range []struct {
		name       string
		a          Action
		run, serve Verdict
		reason     string // of serve
	}{
		{"read", Action{Tool: "view", Kind: KindRead, Paths: read("a")}, Allow, Allow, `reading "a" is allowed (built-in default)`},
		{"search", Action{Tool: "grep", Kind: KindRead, Paths: []Path{{Rel: ".", Tree: true}}}, Allow, Allow, `reading "." is allowed (built-in default)`},
		{"write", Action{Tool: "create", Kind: KindWrite, Paths: write("a")}, Allow, Deny, `writing "a" is denied by readOnly (built-in default; --read-write lifts it)`},
		{"git status", Action{Tool: "bash", Kind: KindShell, Commands: run("git", "status")}, Allow, Allow,
			`running "git" is allowed by builtin:read-only (built-in default)`},
		{"npm test", Action{Tool: "bash", Kind: KindShell, Commands: run("npm", "test")}, Ask, Deny,
			`running "npm", which may write, is denied by readOnly (built-in default; --read-write lifts it)`},
		{"pipe", Action{Tool: "bash", Kind: KindShell, Commands: append(run("cat", "a"), run("wc", "-l")...), Paths: read("a")}, Allow, Allow,
			`running "cat" is allowed by builtin:read-only (built-in default)`},
		{"redirection", Action{Tool: "bash", Kind: KindShell, Commands: run("echo", "x"), Paths: write("a")}, Allow, Deny, `writing "a" is denied by readOnly (built-in default; --read-write lifts it)`},
		{"opaque", Action{Tool: "bash", Kind: KindShell, Commands: []Command{{Words: []string{"ls"}, Opaque: true}}}, Ask, Deny,
			`running "ls", which may write, is denied by readOnly (built-in default; --read-write lifts it)`},
		{"curl", Action{Tool: "bash", Kind: KindShell, Commands: run("cat"), Hosts: []Host{{Name: "x.org", Port: 443}}}, Ask, Ask,
			`reaching "x.org" needs consent (built-in default)`},
		{"fetch", Action{Tool: "web_fetch", Kind: KindNetwork, Hosts: []Host{{Name: "x.org", Port: 443}}}, Ask, Ask, `reaching "x.org" needs consent (built-in default)`},
		{"web search", Action{Tool: "web_search", Kind: KindNetwork}, Ask, Ask, `reaching a host that is not known needs consent (built-in default)`},
		{"mcp", Action{Tool: "t", Server: "s", Kind: KindMCP}, Ask, Deny, `calling "s-t", which may write, is denied by readOnly (built-in default; --read-write lifts it)`},
		{"mcp that only reads", Action{Tool: "t", Server: "s", Kind: KindMCP, ReadOnly: true}, Ask, Ask, `calling "s-t" needs consent (built-in default)`},
		{"mcp with a path outside", Action{Tool: "t", Server: "s", Kind: KindMCP, ReadOnly: true, Paths: []Path{{Name: "/x", Outside: true}}}, Deny, Deny,
			`reading "/x" is denied: it is outside the workspace`},
		{"memory", Action{Kind: KindMemory}, Ask, Ask, `remembering something needs consent (built-in default)`},
		{"hook", Action{Kind: KindHook}, Ask, Ask, `what a hook asks about needs consent (built-in default)`},
		{"other", Action{Tool: "task", Kind: KindOther}, Allow, Allow, `allowed: no rule speaks against it (built-in default)`},
		{"other that writes", Action{Tool: "task", Kind: KindOther, Paths: write("a")}, Allow, Deny, `writing "a" is denied by readOnly (built-in default; --read-write lifts it)`},
		{"unknown", Action{Tool: "x", Kind: "unknown"}, Deny, Deny, `denied: unknown kind of action "unknown"`},
	} {
		if out := runs.Evaluate(tt.a); out.Verdict != tt.run {
			t.Errorf("%s under run: %s %s", tt.name, out.Verdict, out.Reason)
		}
		if out := serves.Evaluate(tt.a); out.Verdict != tt.serve || out.Reason != tt.reason {
			t.Errorf("%s under serve: %s %s", tt.name, out.Verdict, out.Reason)
		}
	}
}

func TestNeverWritten(t *testing.T) {
	defaults := DefaultsRun()
	defaults.Root = "/home/u/ws"
	defaults.Protected = []string{"/home/u/ws/.state[1]", "build/locked", "/elsewhere"}
	p := Combine(defaults, Layer{Rules: mustYAML(t, "p", "writes: {allow: ['**']}"), Trusted: true})
	for _, rel := range []string{
		".agent-policy.yaml", ".agent-policy.yml", "sub/.agent-policy.yaml", ".Agent-Policy.YAML", ".agent-policy.yaml.", ".agent-policy.yaml::$DATA", ".agent-policy.yaml/x",
		"AGENT-~1.YAM", ".git", ".git/config", ".git/hooks/pre-commit", ".git/HEAD", ".git/modules/x/config", ".git/info/attributes", ".GIT/config", ".Git/hooks/x",
		"sub/.git/config", "a/b/.git", ".git./config", ".git /config", ".g\u200cit/config", "\u200d.git/hooks/x", ".git::$INDEX_ALLOCATION/config", "GIT~1/config", "git~2",
		"bare.git/config", "bare.git/hooks/post-receive", "x/bare.git/hooks/y", "HEAD", "sub/HEAD", ".state[1]", ".state[1]/x", ".STATE[1]/x", "build/locked/y",
	} {
		out := p.Evaluate(Action{Tool: "create", Kind: KindWrite, Paths: write(rel)})
		if out.Verdict != Deny || out.Rule.Key != "protected" {
			t.Errorf("%q: %s %s", rel, out.Verdict, out.Reason)
		}
		if out := p.Evaluate(Action{Tool: "view", Kind: KindRead, Paths: read(rel)}); out.Verdict != Allow {
			t.Errorf("reading %q: %s", rel, out.Reason)
		}
	}
	for _, rel := range []string{
		".gitignore", ".github/workflows/ci.yml", "git/config", "x.git/description", "agent-policy.yaml", "head", "components/Head/index.tsx",
		"HEAD.md", "legit/config", "hooks/x", "config", ".states/x", "build/unlocked", "elsewhere/x",
	} {
		if out := p.Evaluate(Action{Tool: "create", Kind: KindWrite, Paths: write(rel)}); out.Verdict != Allow {
			t.Errorf("%q: %s", rel, out.Reason)
		}
	}
	for rel, denied := range map[string]bool{".": true, "build": true, "src": false, "build/other": false} {
		out := p.Evaluate(Action{Tool: "remove", Kind: KindWrite, Paths: []Path{{Rel: rel, Write: true, Tree: true}}})
		if (out.Verdict == Deny) != denied {
			t.Errorf("removing %q: %s %s", rel, out.Verdict, out.Reason)
		}
	}
	defaults.CaseInsensitive = true
	if out := Combine(defaults).Evaluate(Action{Tool: "create", Kind: KindWrite, Paths: write("head")}); out.Verdict != Deny {
		t.Error("head is HEAD where case does not count")
	}
}

// Files that configure agents, editors or git need consent, wherever the
// workspace is and however they are called.
func TestConfigurationNeedsConsent(t *testing.T) {
	defaults := DefaultsRun()
	defaults.Root = "/home/u/ws"
	trusted := Layer{Rules: mustYAML(t, "p", "writes: {allow: ['**']}\ntools: {allow: [create, '*']}"), Trusted: true}
	p := Combine(defaults, trusted)
	create := func(path Path) Action {
		path.Write = true
		return Action{Tool: "create", Kind: KindWrite, Paths: []Path{path}}
	}
	for _, rel := range []string{
		".github/hooks/a.json", ".GitHub/Hooks/a.json", "sub/.github/hooks/x", ".github/copilot/settings.local.json", ".github/copilot-instructions.md",
		".github/instructions/go.instructions.md", ".github/agents/a.md", ".github/skills/x/SKILL.md", ".github/lsp.json", ".claude/settings.json", ".claude/hooks/x.sh",
		".mcp.json", "sub/.mcp.json", "AGENTS.md", "docs/agents.md", "CLAUDE.md", "GEMINI.md", ".vscode/tasks.json", ".vscode/settings.json", "x.code-workspace",
		".devcontainer/devcontainer.json", ".env", "sub/.envrc", "rust-toolchain.toml", ".cargo/config.toml", ".husky/pre-commit", ".gitattributes", ".gitmodules",
		".env::$DATA", ".env.", ".e\u200cnv",
	} {
		if out := p.Evaluate(create(Path{Rel: rel})); out.Verdict != Ask || !out.Firm {
			t.Errorf("%q: %s %s", rel, out.Verdict, out.Reason)
		}
		if out := p.Evaluate(Action{Tool: "view", Kind: KindRead, Paths: read(rel)}); out.Verdict != Allow {
			t.Errorf("reading %q: %s", rel, out.Reason)
		}
	}
	for _, path := range []Path{{Rel: "real/x", Named: ".claude/x"}, {Rel: "x", Doubt: "y"}} {
		if out := p.Evaluate(create(path)); out.Verdict != Ask || !out.Firm {
			t.Errorf("%+v: %s %s", path, out.Verdict, out.Reason)
		}
	}
	for _, rel := range []string{".github/workflows/ci.yml", ".github", ".github/CODEOWNERS", ".vscode/notes.md", "env.example", ".env.example", "docs/AGENTS", "src/claude.go", "hooks/a.json"} {
		if out := p.Evaluate(create(Path{Rel: rel})); out.Verdict != Allow {
			t.Errorf("%q: %s", rel, out.Reason)
		}
	}
	// One question does not hide the other.
	a := create(Path{Rel: "sub", Doubt: "it is not clear"})
	a.Paths = append(a.Paths, Path{Rel: ".env", Write: true}, Path{Rel: "x", Doubt: "neither"})
	if out := p.Evaluate(a); !out.Firm || out.Verdict != Ask {
		t.Errorf("%s %s", out.Verdict, out.Reason)
	}
}

// Protection looks at every component of the absolute path, also where
// the workspace lies inside.
func TestProtectedAboveTheWorkspace(t *testing.T) {
	for _, tt := range []struct {
		root string
		path Path
		want Verdict
	}{
		{"/x/.git", Path{Rel: "config"}, Deny}, {"/x/.git/modules/y", Path{Rel: "notes.txt"}, Deny}, {"/srv/x.git", Path{Rel: "hooks/post-receive"}, Deny},
		{"/srv/x.git", Path{Rel: "config"}, Deny}, {"/srv/x.git", Path{Rel: "description"}, Allow}, {`C:\x\.git`, Path{Rel: "a"}, Deny}, {"/x/.GIT", Path{Rel: "a"}, Deny},
		{"/x/.github", Path{Rel: "hooks/a.json"}, Ask}, {"/x/.claude", Path{Rel: "a"}, Allow}, {"/x/.claude/w", Path{Rel: "AGENTS.md"}, Ask}, {"/x/.github", Path{Rel: "workflows/a.yml"}, Allow},
		{"/x/repo", Path{Rel: "store/config", Named: ".git/config"}, Deny}, {"/x/repo", Path{Rel: "a", Named: ".agent-policy.yaml"}, Deny},
		{"/x/legit", Path{Rel: "config"}, Allow}, {"/", Path{Rel: "x/.git/config"}, Deny}, {"/", Path{Rel: "x/y"}, Allow},
	} {
		d := DefaultsRun()
		d.Root = tt.root
		tt.path.Write = true
		if out := Combine(d).Evaluate(Action{Tool: "create", Kind: KindWrite, Paths: []Path{tt.path}}); out.Verdict != tt.want {
			t.Errorf("%s %+v: %s %s", tt.root, tt.path, out.Verdict, out.Reason)
		}
	}
}

func TestProtectedEverything(t *testing.T) {
	for name, change := range map[string]func(*Defaults){
		"the workspace":              func(d *Defaults) { d.Root, d.Protected = "/w", []string{"/w"} },
		"above it":                   func(d *Defaults) { d.Root, d.Protected = "/w/x", []string{"/w"} },
		"above it, in another case":  func(d *Defaults) { d.Root, d.Protected = "/W/x", []string{"/w/"} },
		"the workspace is not known": func(d *Defaults) { d.Protected = []string{"/w"} },
		"a path that is no good":     func(d *Defaults) { d.Root, d.Protected = "/w", []string{"../x"} },
		"the root of all":            func(d *Defaults) { d.Root, d.Protected = "/", []string{"/"} },
		"the workspace, relative":    func(d *Defaults) { d.Root, d.Protected = "/w", []string{"."} },
		"the workspace, on Windows":  func(d *Defaults) { d.Root, d.Protected = `C:\w\x`, []string{`C:\w`} },
	} {
		d := DefaultsRun()
		change(&d)
		if out := Combine(d).Evaluate(Action{Tool: "create", Kind: KindWrite, Paths: write("a")}); out.Verdict != Deny {
			t.Errorf("%s: %s", name, out.Reason)
		}
	}
}

func TestTrees(t *testing.T) {
	d := DefaultsRun()
	d.Root = "/w"
	p := Combine(d, Layer{Rules: mustYAML(t, "p", "reads: {deny: ['secrets/**', '/w/private/*']}\nwrites: {deny: ['src/gen/**']}")})
	narrow := Combine(d, Layer{Rules: mustYAML(t, "p", "reads: {allow: ['src/**', 'docs/*', 'lib/**/*.go']}")})
	tree := func(rel string, write bool) Action {
		a := Action{Tool: "x", Kind: KindRead, Paths: []Path{{Rel: rel, Tree: true, Write: write}}}
		if write {
			a.Kind = KindWrite
		}
		return a
	}
	for _, tt := range []struct {
		p      *Policy
		a      Action
		want   Verdict
		reason string
	}{
		{p, tree(".", false), Ask, `reading "." and all below may touch what is denied by reads.deny "secrets/**" (p:1)`},
		{p, tree("src", false), Allow, `reading "src" is allowed (built-in default)`},
		{p, tree("secrets", false), Deny, `reading "secrets" is denied by reads.deny "secrets/**" (p:1)`},
		{p, tree("private", false), Ask, `reading "private" and all below may touch what is denied by reads.deny "/w/private/*" (p:1)`},
		{p, tree("src", true), Ask, `writing "src" and all below may touch what is denied by writes.deny "src/gen/**" (p:2)`},
		{p, tree("docs", true), Allow, `writing "docs" is allowed (built-in default)`},
		{p, tree(".", true), Deny, `writing "." is denied by protected (built-in)`},
		{narrow, tree("src", false), Allow, `reading "src" is allowed (built-in default)`},
		{narrow, tree("src/a", false), Allow, `reading "src/a" is allowed (built-in default)`},
		{narrow, tree("docs/a", false), Deny, `reading "docs/a" is denied: not in reads.allow (p:1)`},
		{narrow, tree("lib", false), Deny, `reading "lib" is denied: not in reads.allow (p:1)`},
		{narrow, tree(".", false), Deny, `reading "." is denied: not in reads.allow (p:1)`},
	} {
		if out := tt.p.Evaluate(tt.a); out.Verdict != tt.want || out.Reason != tt.reason {
			t.Errorf("%+v: %s %s", tt.a.Paths, out.Verdict, out.Reason)
		}
	}
}

func TestReadDenied(t *testing.T) {
	d := DefaultsRun()
	d.Root = "/"
	p := Combine(d, Layer{Rules: mustYAML(t, "p", "reads:\n  deny: ['**/.env', /etc/shadow]\n  allow: ['src/**', 'etc/*', .env]")})
	for rel, want := range map[string]string{
		"src/a": "", "etc/passwd": "", "src/.env": `reads.deny "**/.env" (p:2)`, "etc/shadow": `reads.deny "/etc/shadow" (p:2)`, "doc/a": "reads.allow (p:3)",
		".env": `reads.deny "**/.env" (p:2)`, "../x": "default (built-in default)", ".": "reads.allow (p:3)",
	} {
		rule, denied := p.ReadDenied(rel)
		if denied != (want != "") || denied && rule.String() != want {
			t.Errorf("%q: %v %s", rel, denied, rule)
		}
		if out := p.Evaluate(Action{Tool: "view", Kind: KindRead, Paths: read(rel)}); (out.Verdict == Deny) != denied {
			t.Errorf("%q: evaluated to %s", rel, out.Verdict)
		}
	}
}

func TestAbsoluteGlobsWithoutRoot(t *testing.T) {
	deny := Combine(DefaultsRun(), Layer{Rules: mustYAML(t, "p", "reads: {deny: ['/etc/**']}")})
	allow := Combine(DefaultsRun(), Layer{Rules: mustYAML(t, "p", "reads: {allow: ['/w/**']}")})
	for _, p := range []*Policy{deny, allow} {
		if out := p.Evaluate(Action{Tool: "view", Kind: KindRead, Paths: read("a")}); out.Verdict != Deny {
			t.Error(out.Reason)
		}
	}
}

func TestUncleanPathsAreDenied(t *testing.T) {
	p := Combine(DefaultsABP())
	for _, rel := range []string{"", "/", "/etc/passwd", "..", "../x", "a/..", "a/../b", "a//b", "./a", "a/", "a/.", "a\x00b", `a\b`, `..\x`, `C:\x`, "a\xffb"} {
		for _, a := range []Action{{Tool: "t", Kind: KindRead, Paths: read(rel)}, {Tool: "t", Kind: KindWrite, Paths: write(rel)}, {Tool: "t", Kind: KindOther, Paths: read(rel)}} {
			if out := p.Evaluate(a); out.Verdict != Deny || out.Stage != StagePath {
				t.Errorf("%q: %s %s", rel, out.Verdict, out.Reason)
			}
		}
	}
}

// An order to ask by default gives way to a rule as the reason.
func TestReasonOfARuleBeforeADefault(t *testing.T) {
	p := Combine(DefaultsRun(), Layer{Rules: mustYAML(t, "p", "tools: {ask: [bash]}")})
	out := p.Evaluate(Action{Tool: "bash", Kind: KindShell, Commands: run("npm", "test")})
	if out.Verdict != Ask || out.Stage != StageAsk || out.Reason != `tools.ask "bash" (p:1) wants consent` {
		t.Errorf("%s %s: %s", out.Verdict, out.Stage, out.Reason)
	}
}

func TestFailsClosed(t *testing.T) {
	var none *Policy
	good := Action{Tool: "view", Kind: KindRead, Paths: read("a")}
	handmade := Rule{Key: "x", Pattern: "y"}
	for name, p := range map[string]*Policy{
		"no policy":   none,
		"no defaults": Combine(Defaults{}),
		"zero":        {},
		"tools.deny":  Combine(DefaultsRun(), Layer{Rules: Rules{Lists: map[string][]Rule{"tools.deny": {handmade}}}}),
		"patterns":    Combine(DefaultsRun(), Layer{Rules: Rules{Lists: map[string][]Rule{"patterns.deny": {handmade}}}}),
		"reads.deny":  Combine(DefaultsRun(), Layer{Rules: Rules{Lists: map[string][]Rule{"reads.deny": {handmade}}}}),
		"reads.allow": Combine(DefaultsRun(), Layer{Rules: Rules{Lists: map[string][]Rule{"reads.allow": {handmade}}}}),
		"tools.allow": Combine(DefaultsRun(), Layer{Rules: Rules{Lists: map[string][]Rule{"tools.allow": {handmade}}}}),
		"panics":      {defaults: DefaultsRun(), allow: map[string][]allowList{"tools.allow": {{}}}},
	} {
		if out := p.Evaluate(good); out.Verdict != Deny || out.Reason == "" {
			t.Errorf("%s: %s %q", name, out.Verdict, out.Reason)
		}
	}
	shell := Action{Tool: "bash", Kind: KindShell, Commands: run("ls"), Hosts: []Host{{Name: "x.org"}}}
	for _, name := range []string{"shell.deny", "shell.allow", "network.deny", "network.allow"} {
		if out := Combine(DefaultsABP(), Layer{Rules: Rules{Lists: map[string][]Rule{name: {handmade}}}, Trusted: true}).Evaluate(shell); out.Verdict != Deny {
			t.Errorf("%s: %s %q", name, out.Verdict, out.Reason)
		}
	}
}

// A reason is one line and shows no argument of a command.
func TestReasonsAreSafeToShow(t *testing.T) {
	p := Combine(DefaultsRun(), Layer{Rules: mustYAML(t, "p", "shell: {deny: [curl]}")})
	for _, a := range []Action{
		{Tool: "bash", Kind: KindShell, Commands: run("curl", "-H", "Authorization: SECRET")},
		{Tool: "bash", Kind: KindShell, Commands: run("wget", "SECRET")},
		{Tool: "bash", Kind: KindShell, Commands: []Command{{Env: []string{"TOKEN=SECRET"}, Words: []string{"npm"}}}},
		{Tool: "view", Kind: KindRead, Paths: read("a\nb/../" + strings.Repeat("x", 5000))},
	} {
		out := p.Evaluate(a)
		if out.Verdict == Allow || strings.Contains(out.Reason, "SECRET") || strings.Contains(out.Reason, "\n") || len(out.Reason) > 600 {
			t.Errorf("%s: %q", out.Verdict, out.Reason)
		}
	}
}

// A harmless command needs no rule that allows it, and obeys one
// that denies it.
func TestHarmlessCommands(t *testing.T) {
	cmd := Command{Words: []string{"gopls"}, Text: "gopls", Harmless: true}
	for rules, want := range map[string]Verdict{"": Allow, "shell: {allow: [make]}": Allow, "readOnly: true": Allow, "shell: {deny: [gopls]}": Deny, "tools: {deny: [x]}": Deny} {
		parsed, err := ParseYAML("policy.yaml", []byte(rules))
		if err != nil {
			t.Fatal(err)
		}
		p := Combine(DefaultsServe(), Layer{Rules: parsed, Trusted: true})
		if got := p.Evaluate(Action{Tool: "x", Kind: KindShell, Commands: []Command{cmd}}); got.Verdict != want {
			t.Errorf("%q: %+v", rules, got)
		}
		unsure := cmd
		unsure.Opaque = true
		if got := p.Evaluate(Action{Tool: "x", Kind: KindShell, Commands: []Command{unsure}}); got.Verdict == Allow {
			t.Errorf("%q, opaque: %+v", rules, got)
		}
	}
}
