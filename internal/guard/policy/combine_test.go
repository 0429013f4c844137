package policy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestReadOnlyCombines(t *testing.T) {
	yes, no := mustYAML(t, "yes", "readOnly: true"), mustYAML(t, "no", "readOnly: false")
	silent := Rules{}
	for _, tt := range []struct {
		name   string
		byDoor bool
		layers []Layer
		want   bool
		source string
	}{
		{"door's default", true, nil, true, "built-in default"},
		{"no default", false, nil, false, ""},
		{"silence", true, []Layer{{silent, true}}, true, "built-in default"},
		{"trusted false lifts the default", true, []Layer{{no, true}}, false, ""},
		{"untrusted false does not", true, []Layer{{no, false}}, true, "built-in default"},
		{"trusted true", false, []Layer{{yes, true}}, true, "yes:1"},
		{"untrusted true", false, []Layer{{yes, false}}, true, "yes:1"},
		{"true beats trusted false", false, []Layer{{yes, false}, {no, true}}, true, "yes:1"},
		{"in any order", true, []Layer{{no, true}, {yes, false}}, true, "yes:1"},
		{"two falses", true, []Layer{{no, false}, {no, true}}, false, ""},
	} {
		d := DefaultsRun()
		d.ReadOnly = tt.byDoor
		got, source := Combine(d, tt.layers...).ReadOnly()
		if got != tt.want || source.String() != tt.source {
			t.Errorf("%s: %v by %q", tt.name, got, source)
		}
	}
}

func TestCombine(t *testing.T) {
	user := mustYAML(t, "user", "tools: {allow: [view, bash, edit, 'srv/*'], deny: [sql]}\nshell: {allow: ['npm test', make]}\nnetwork: {allow: ['*.a.com', b.com]}\nwrites: {allow: ['src/**', 'doc/**']}")
	work := mustYAML(t, "work", "tools: {allow: [view, bash, 'srv/x'], ask: [grep]}\nshell: {allow: ['npm test', ls], deny: [make]}\nnetwork: {allow: ['x.a.com', c.com]}\nwrites: {allow: ['src/**'], deny: ['src/gen']}")
	for _, tt := range []struct {
		name string
		a    Action
		// with the user's layer trusted alone; and with the workspace's untrusted; and trusted
		user, untrusted, both Verdict
	}{
		{"on both lists", Action{Tool: "view", Kind: KindRead, Paths: read("a")}, Allow, Allow, Allow},
		{"on one list", Action{Tool: "edit", Kind: KindOther}, Allow, Deny, Deny},
		{"denied by one", Action{Tool: "sql", Kind: KindOther}, Deny, Deny, Deny},
		{"asked by one, not listed by the other", Action{Tool: "grep", Kind: KindOther}, Deny, Deny, Deny},
		{"command of both", Action{Tool: "bash", Kind: KindShell, Commands: run("npm", "test")}, Allow, Allow, Allow},
		{"command of one, denied by the other", Action{Tool: "bash", Kind: KindShell, Commands: run("make")}, Allow, Deny, Deny},
		{"read-only command, not listed", Action{Tool: "bash", Kind: KindShell, Commands: run("ls")}, Deny, Deny, Deny},
		{"host of both", Action{Tool: "view", Kind: KindNetwork, Hosts: []Host{{Name: "x.a.com"}}}, Allow, Allow, Allow},
		{"host of one", Action{Tool: "view", Kind: KindNetwork, Hosts: []Host{{Name: "b.com"}}}, Allow, Deny, Deny},
		{"path of both", Action{Tool: "view", Kind: KindWrite, Paths: write("src/a")}, Allow, Allow, Allow},
		{"path of one", Action{Tool: "view", Kind: KindWrite, Paths: write("doc/a")}, Allow, Deny, Deny},
		{"denied path", Action{Tool: "view", Kind: KindWrite, Paths: write("src/gen/a")}, Allow, Deny, Deny},
		{"mcp tool of both", Action{Tool: "x", Server: "srv", Kind: KindMCP}, Allow, Allow, Allow},
		{"mcp tool of one", Action{Tool: "y", Server: "srv", Kind: KindMCP}, Allow, Deny, Deny},
	} {
		for name, c := range map[string]struct {
			layers []Layer
			want   Verdict
		}{
			"user":      {[]Layer{{user, true}}, tt.user},
			"untrusted": {[]Layer{{user, true}, {work, false}}, tt.untrusted},
			"both":      {[]Layer{{user, true}, {work, true}}, tt.both},
		} {
			if out := Combine(DefaultsRun(), c.layers...).Evaluate(tt.a); out.Verdict != c.want {
				t.Errorf("%s, %s: %s %s", tt.name, name, out.Verdict, out.Reason)
			}
		}
	}
}

// What a workspace's file allows counts only once it is trusted.
func TestUntrustedAllowances(t *testing.T) {
	rules := mustYAML(t, "work", "readOnly: false\ntools: {allow: ['*', 'srv/x']}\nshell: {allow: ['npm test', '*']}\nnetwork: {allow: ['*']}")
	named := mustYAML(t, "work", "tools: {allow: ['srv/x', bash, web_fetch]}")
	for _, tt := range []struct {
		name               string
		rules              Rules
		a                  Action
		untrusted, trusted Verdict
	}{
		{"command", rules, Action{Tool: "bash", Kind: KindShell, Commands: run("npm", "test")}, Ask, Allow},
		{"any command", rules, Action{Tool: "bash", Kind: KindShell, Commands: run("curl")}, Ask, Allow},
		{"opaque command", rules, Action{Tool: "bash", Kind: KindShell, Commands: []Command{{Opaque: true}}}, Ask, Ask},
		{"read-only command", rules, Action{Tool: "bash", Kind: KindShell, Commands: run("ls")}, Allow, Allow},
		{"host", rules, Action{Tool: "web_fetch", Kind: KindNetwork, Hosts: []Host{{Name: "x.org"}}}, Ask, Allow},
		{"unknown host", rules, Action{Tool: "web_search", Kind: KindNetwork}, Ask, Allow},
		{"mcp tool by *", rules, Action{Tool: "x", Server: "srv", Kind: KindMCP}, Ask, Ask},
		{"mcp tool by name", named, Action{Tool: "x", Server: "srv", Kind: KindMCP}, Ask, Allow},
		{"naming bash allows no command", named, Action{Tool: "bash", Kind: KindShell, Commands: run("curl")}, Ask, Ask},
		{"naming web_fetch allows no host", named, Action{Tool: "web_fetch", Kind: KindNetwork, Hosts: []Host{{Name: "x.org"}}}, Ask, Ask},
		{"memory", rules, Action{Kind: KindMemory}, Ask, Ask},
	} {
		if out := Combine(DefaultsRun(), Layer{tt.rules, false}).Evaluate(tt.a); out.Verdict != tt.untrusted {
			t.Errorf("%s, untrusted: %s %s", tt.name, out.Verdict, out.Reason)
		}
		if out := Combine(DefaultsRun(), Layer{tt.rules, true}).Evaluate(tt.a); out.Verdict != tt.trusted {
			t.Errorf("%s, trusted: %s %s", tt.name, out.Verdict, out.Reason)
		}
	}
	write := Action{Tool: "edit", Kind: KindWrite, Paths: write("a")}
	if out := Combine(DefaultsServe(), Layer{rules, false}).Evaluate(write); out.Verdict != Deny {
		t.Errorf("an untrusted file made the workspace writable: %s", out.Reason)
	}
	if out := Combine(DefaultsServe(), Layer{rules, true}).Evaluate(write); out.Verdict != Allow {
		t.Errorf("a trusted file did not make the workspace writable: %s", out.Reason)
	}
}

func TestNothingLiftsADefaultDenial(t *testing.T) {
	d := DefaultsRun()
	d.Verdicts[KindShell], d.Verdicts[KindNetwork], d.Verdicts[KindMCP] = Deny, Deny, Deny
	p := Combine(d, Layer{mustYAML(t, "p", "tools: {allow: ['srv/x', a]}\nshell: {allow: ['*']}\nnetwork: {allow: ['*']}"), true})
	for _, a := range []Action{
		{Tool: "a", Kind: KindShell, Commands: run("ls")}, {Tool: "a", Kind: KindNetwork, Hosts: []Host{{Name: "x.org"}}}, {Tool: "x", Server: "srv", Kind: KindMCP},
	} {
		if out := p.Evaluate(a); out.Verdict != Deny || out.Stage != StageDefault {
			t.Errorf("%s %s", out.Verdict, out.Reason)
		}
	}
}

func TestCombineKeepsItsOwnCopy(t *testing.T) {
	d := DefaultsRun()
	rules := mustYAML(t, "p", "tools: {deny: [a], allow: [b, c]}")
	p := Combine(d, Layer{rules, true})
	d.Verdicts[KindOther] = Deny
	rules.Lists["tools.deny"][0], rules.Lists["tools.allow"][0] = Rule{}, Rule{}
	if out := p.Evaluate(Action{Tool: "b", Kind: KindOther}); out.Verdict != Allow {
		t.Error(out.Reason)
	}
	if out := p.Evaluate(Action{Tool: "a", Kind: KindOther}); out.Reason != `denied by tools.deny "a" (p:1)` {
		t.Error(out.Reason)
	}
}

// generator makes layers and actions that have much to do with each other.
type generator struct{ *rand.Rand }

func (g generator) some(from []string, most int) []string {
	var out []string
	for range g.IntN(most + 1) {
		out = append(out, from[g.IntN(len(from))])
	}
	return out
}

func (g generator) rules(t *testing.T) Rules {
	var b builder
	pools := map[string][]string{
		"tools":    {"view", "bash", "edit", "web_*", "*", "srv/*", "srv/x", "x", "builtin:view", "*a*"},
		"patterns": {"rm", "^command=npm", `"path"`, "secret"},
		"reads":    {"**", "src/**", "**/.env", "secrets", "*.md", "SRC/*", "/w/src/**", "src/a.go"},
		"shell":    {"npm test", "npm *", "ls *", "*", "git push", "rm", "builtin:read-only", "A=1 npm test"},
		"network":  {"*", "*.a.com", "a.com", "10.0.0.0/8", "a.com:443"},
		"always":   {"/w: npm test", "/w: rm x", "/v: npm test"},
	}
	pools["writes"] = pools["reads"]
	sandbox := map[string][]string{"sandbox.read": {"/data", "/x/y"}, "sandbox.write": {"/data/w", "/x"}, "sandbox.network": {"*", "a.com", "*.a.com"}, "sandbox.shell": {"npm *", "rm x", "git push"}}
	for _, l := range lists {
		if g.IntN(5) > 0 {
			continue
		}
		group, _, _ := strings.Cut(l.name, ".")
		pool := pools[group]
		if group == "sandbox" {
			pool = sandbox[l.name]
		}
		for _, pattern := range g.some(pool, 3) {
			if l.name == "shell.deny" && (pattern == readOnlyCommands || strings.Contains(pattern, "=")) {
				continue
			}
			b.add(l.name, l.name, pattern, Source{l.name, 1})
		}
	}
	if g.IntN(4) == 0 {
		v := g.IntN(2) == 0
		b.rules.ReadOnly = &v
	}
	r, err := b.finish("")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (g generator) action() Action {
	if g.IntN(2) == 0 {
		return g.ordinary()
	}
	kinds := []Kind{KindRead, KindWrite, KindShell, KindNetwork, KindMCP, KindMemory, KindHook, KindOther, "odd"}
	pick := func(s ...string) string { return s[g.IntN(len(s))] }
	a := Action{Kind: kinds[g.IntN(len(kinds))], Tool: pick("view", "bash", "edit", "web_fetch", "x", ""), Wall: Wall(g.IntN(3)), Line: pick("", "/w: npm test", "/w: rm x")}
	if g.IntN(3) == 0 {
		a.Server = "srv"
	}
	a.ReadOnly = g.IntN(2) == 0
	if g.IntN(2) == 0 {
		a.Args = map[string]any{"command": pick("npm test", "rm x", "secret"), "path": "src/a.go"}
	}
	for range g.IntN(3) {
		a.Paths = append(a.Paths, Path{Rel: pick("src/a.go", "src", ".", "README.md", ".env", "secrets/x", "../x", ".git/config"), Write: g.IntN(2) == 0,
			Tree: g.IntN(4) == 0, Outside: g.IntN(10) == 0, Abs: pick("", "/data/w/f", "/x/y", "/own/f"), Seen: g.IntN(4) == 0})
	}
	for range g.IntN(3) {
		words := [][]string{{"npm", "test"}, {"npm", "install"}, {"ls", "-l"}, {"git", "push"}, {"git", "status"}, {"rm", "x"}, {"A"}}
		c := Command{Words: words[g.IntN(len(words))], Opaque: g.IntN(6) == 0, Network: g.IntN(5) == 0, Destroys: pick("", "", "it removes files")}
		if g.IntN(5) == 0 {
			c.Env = []string{"A=1"}
		}
		if g.IntN(5) == 0 {
			c.Globs = []int{g.IntN(2)}
		}
		a.Commands = append(a.Commands, c)
	}
	for range g.IntN(2) {
		a.Hosts = append(a.Hosts, Host{Name: pick("a.com", "x.a.com", "10.1.1.1", "b.org", "0x1"), Port: []int{0, 80, 443}[g.IntN(3)]})
	}
	return a
}

// ordinary actions are often allowed, so that there is something to tighten.
func (g generator) ordinary() Action {
	all := []Action{
		{Tool: "view", Kind: KindRead, Paths: read("src/a.go")},
		{Tool: "edit", Kind: KindWrite, Paths: write("src/a.go"), Args: map[string]any{"path": "src/a.go"}},
		{Tool: "bash", Kind: KindShell, Commands: run("npm", "test"), Args: map[string]any{"command": "npm test"}},
		{Tool: "bash", Kind: KindShell, Commands: run("npm", "test"), Line: "/w: npm test"},
		{Tool: "bash", Kind: KindShell, Commands: run("git", "status")},
		{Tool: "web_fetch", Kind: KindNetwork, Hosts: []Host{{Name: "a.com", Port: 443}}},
		{Tool: "x", Server: "srv", Kind: KindMCP, ReadOnly: true},
		{Tool: "task", Kind: KindOther},
		{Tool: "bash", Kind: KindShell, Commands: []Command{{Words: []string{"rm", "x"}, Destroys: "it removes files"}}, Wall: WholeWall},
		{Tool: "bash", Kind: KindShell, Commands: []Command{{Words: []string{"npm", "install"}, Network: true}}, Wall: WholeWall},
		{Tool: "bash", Kind: KindShell, Commands: run("curl", "a.com"), Hosts: []Host{{Name: "a.com", Port: 443}}, Wall: WholeWall},
		{Tool: "bash", Kind: KindShell, Commands: run("cat", "/data/w/f"), Paths: []Path{{Outside: true, Abs: "/data/w/f"}}, Wall: WholeWall},
	}
	return all[g.IntN(len(all))]
}

func (g generator) defaults() Defaults {
	d := []Defaults{DefaultsRun(), DefaultsServe(), DefaultsABP()}[g.IntN(3)]
	d.Root, d.Protected = "/w", []string{"/own"}
	d.CaseInsensitive = g.IntN(2) == 0
	return d
}

// Whatever there is, another layer never loosens it, but that a trusted one
// may lift a default: a question, or that a door is read-only.
func TestLayersOnlyTighten(t *testing.T) {
	g := generator{rand.New(rand.NewPCG(3, 4))}
	changes, seen := map[string]int{}, map[Verdict]int{}
	for range 10_000 {
		d := g.defaults()
		var layers []Layer
		for range g.IntN(3) {
			layers = append(layers, Layer{g.rules(t), g.IntN(2) == 0})
		}
		extra := Layer{g.rules(t), g.IntN(2) == 0}
		a := g.action()
		before, after := Combine(d, layers...).Evaluate(a), Combine(d, append(slices.Clone(layers), extra)...).Evaluate(a)
		seen[before.Verdict]++
		if after.Verdict <= before.Verdict {
			if after.Verdict < before.Verdict {
				changes["tightened"]++
			}
			continue
		}
		byDefault := before.Rule.Source == d.Source && (before.Stage == StageDefault || before.Rule.Key == "readOnly" || d.AskIsDeny || a.Wall == WholeWall && before.Verdict == Ask && before.Rule.Key == "default")
		if !extra.Trusted || !byDefault {
			t.Fatalf("%s → %s by a layer that is trusted: %v\n%+v\nbefore: %s\nafter: %s\nlayer: %q", before.Verdict, after.Verdict, extra.Trusted, a,
				before.Reason, after.Reason, render(extra.Rules))
		}
		changes[fmt.Sprintf("%s to %s", before.Verdict, after.Verdict)]++
	}
	for _, c := range []string{"tightened", "ask to allow", "deny to allow"} {
		if changes[c] == 0 {
			t.Errorf("never %s: the test has lost its point (%v)", c, changes)
		}
	}
	if seen[Allow] < 150 || seen[Ask] < 150 {
		t.Errorf("too few to be tightened: %v", seen)
	}
}

func TestOrderOfLayersDoesNotMatter(t *testing.T) {
	g := generator{rand.New(rand.NewPCG(5, 6))}
	for range 3_000 {
		d, a := g.defaults(), g.action()
		layers := []Layer{{g.rules(t), true}, {g.rules(t), false}, {g.rules(t), g.IntN(2) == 0}}
		want := Combine(d, layers...).Evaluate(a)
		g.Shuffle(len(layers), func(i, j int) { layers[i], layers[j] = layers[j], layers[i] })
		if got := Combine(d, layers...).Evaluate(a); got.Verdict != want.Verdict {
			t.Fatalf("%s: %s\n%s: %s\n%+v", want.Verdict, want.Reason, got.Verdict, got.Reason, a)
		}
	}
}

// The same layer twice says nothing new, and an empty one nothing at all.
func TestIdempotent(t *testing.T) {
	g := generator{rand.New(rand.NewPCG(7, 8))}
	for range 5_000 {
		d, a, l := g.defaults(), g.action(), Layer{g.rules(t), g.IntN(2) == 0}
		want := Combine(d, l).Evaluate(a)
		if got := Combine(d, l, Layer{Trusted: true}, l).Evaluate(a); got.Verdict != want.Verdict || got.Reason != want.Reason {
			t.Fatalf("%+v\n%+v", want, got)
		}
	}
}
