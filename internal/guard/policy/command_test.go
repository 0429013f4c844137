package policy

import (
	"slices"
	"strings"
	"testing"
)

func TestShellRules(t *testing.T) {
	const (
		both  = "both"
		deny  = "deny only"
		never = "never"
	)
	cmd := func(words ...string) Command { return Command{Words: words} }
	for _, tt := range []struct {
		rule    string
		cmd     Command
		matches string
	}{
		{"npm test", cmd("npm", "test"), both},
		{"npm test", cmd("npm", "test", "--", "--x"), deny},
		{"npm test", cmd("npm", "testing"), never},
		{"npm test", cmd("npm"), never},
		{"npm  test ", cmd("npm", "test"), both},
		{"npm test *", cmd("npm", "test"), both},
		{"npm test *", cmd("npm", "test", "--", "--x"), both},
		{"npm test *", cmd("npm", "run"), never},
		{"rm", cmd("rm"), both},
		{"rm", cmd("rm", "-rf", "/"), deny},
		{"rm", cmd("/bin/rm", "-rf"), deny},
		{"rm", cmd("./rm"), deny},
		{"rm", cmd("RM"), deny},
		{"rm", cmd("rm.exe"), deny},
		{"rm", cmd(`C:\x\rm.EXE`), deny},
		{"rm", cmd("rmdir"), never},
		{"/bin/rm", cmd("rm"), deny},
		{"/bin/rm", cmd("/bin/rm"), both},
		{"git push", cmd("git", "push", "-f"), deny},
		{"git push", cmd("git", "pull"), never},
		{"git push *", cmd("git", "push", "-f"), both},
		{"*", cmd("anything", "at", "all"), both},
		{"*", Command{Opaque: true}, both},
		{"*", Command{Env: []string{"A=1"}, Words: []string{"x"}}, both},
		{`git commit -m "a b"`, cmd("git", "commit", "-m", "a b"), both},
		{`git commit -m 'a b'`, cmd("git", "commit", "-m", "a"), never},
		{`ls '*.go'`, cmd("ls", "*.go"), both},
		{`echo ''`, cmd("echo", ""), both},
		{`echo a"b c"d`, cmd("echo", "ab cd"), both},
		{"npm test", Command{Env: []string{"CI=1"}, Words: []string{"npm", "test"}}, deny},
		{"rm", Command{Words: []string{"/bin/r?", "x"}, Globs: []int{0}}, deny},
		{"rm", Command{Words: []string{"/bin/l?", "x"}, Globs: []int{0}}, never},
		{"rm", Command{Words: []string{"*"}, Globs: []int{0}}, deny},
		{"git push", Command{Words: []string{"git", "pu*"}, Globs: []int{1}}, deny},
		{"git push", Command{Words: []string{"git", "[p"}, Globs: []int{1}}, deny},
		{"git push", Command{Words: []string{"git", "st*"}, Globs: []int{1}}, never},
		{"ls 'a*'", Command{Words: []string{"ls", "a*"}, Globs: []int{1}}, deny},
		{"ls *", Command{Words: []string{"ls", "a*"}, Globs: []int{1}}, both},
		{"npm test", Command{Words: []string{"npm"}, Opaque: true}, deny}, // it may be
		{"npm test", Command{Words: []string{"npm", "test"}, Opaque: true}, deny},
		{"npm test *", Command{Words: []string{"npm", "test"}, Opaque: true}, deny},
		{"npm test", Command{Words: []string{"yarn"}, Opaque: true}, never},
		{"npm test", Command{Opaque: true}, deny},
	} {
		a, d := Rule{Pattern: tt.rule}, Rule{Pattern: tt.rule}
		if err := compileAllowCommand(&a); err != nil {
			t.Errorf("%q: %v", tt.rule, err)
			continue
		}
		if err := compileDenyCommand(&d); err != nil {
			t.Errorf("%q: %v", tt.rule, err)
			continue
		}
		got := never
		switch allows, denies := a.command.allows(&tt.cmd), d.command.denies(&tt.cmd); {
		case allows && denies:
			got = both
		case allows:
			got = "allow only"
		case denies:
			got = deny
		}
		if got != tt.matches {
			t.Errorf("%q on %+v: %s, want %s", tt.rule, tt.cmd, got, tt.matches)
		}
	}
}

// Options in front of a subcommand hide it from no rule.
func TestDenyPassesOverOptions(t *testing.T) {
	for line, denied := range map[string]bool{
		"git push": true, "git -C . push": true, "git -c a=b push": true, "git --no-pager push": true, "git --git-dir=.git push": true, "git --git-dir .git --work-tree . push": true,
		"/usr/bin/git -C . -C .. push origin": true, "git -C a -c b push -f": true, "git log": false, "git commit -m x push": false, "git stash push": false, "git log push": false,
		"npm --prefix . publish": true, "npm publish --tag x": true, "npm --silent publish": true, "npm run publish": false,
		"docker --host x run": true, "docker -H x container run": false, "kubectl -n x delete pod y": true, "kubectl get delete": false,
		"cargo test --release -- --force": true, "cargo test -p x --force": true, "cargo --locked test a --force": true, "cargo test": false, "cargo build --force": false,
	} {
		got := false
		for _, rule := range []string{"git push", "npm publish", "docker run", "kubectl delete", "cargo test --force"} {
			r := Rule{Pattern: rule}
			if err := compileDenyCommand(&r); err != nil {
				t.Fatal(err)
			}
			got = got || r.command.denies(&Command{Words: strings.Fields(line)})
		}
		if got != denied {
			t.Errorf("%q: denied %v", line, got)
		}
	}
	push := Rule{Pattern: "git push"}
	if err := compileDenyCommand(&push); err != nil {
		t.Fatal(err)
	}
	for _, cmd := range []Command{{Words: []string{"git", "-C"}, Opaque: true}, {Words: []string{"git", "p"}, Alias: true}, {Words: []string{"git", "-c", "x", "*"}, Globs: []int{3}}} {
		if !push.command.denies(&cmd) {
			t.Errorf("%+v may be a push", cmd)
		}
	}
	// The work is bounded, whatever the words are.
	many := Rule{Pattern: "a " + strings.Repeat("-x ", 300) + "b"}
	if err := compileDenyCommand(&many); err != nil {
		t.Fatal(err)
	}
	if many.command.denies(&Command{Words: append([]string{"a"}, slices.Repeat([]string{"-x"}, 2000)...)}) {
		t.Error("it has no b")
	}
}

func TestAssignments(t *testing.T) {
	with := func(env ...string) Command { return Command{Env: env, Words: []string{"npm", "test"}} }
	for _, tt := range []struct {
		rule string
		cmd  Command
		want bool
	}{
		{"CI=1 npm test", with("CI=1"), true},
		{"CI=1 npm *", with("CI=1"), true},
		{"CI=1 *", with("CI=1"), true},
		{"CI=1 npm test", with(), false},
		{"CI=1 npm test", with("CI=2"), false},
		{"CI=1 npm test", with("CI=1", "NODE_OPTIONS=x"), false},
		{"CI=1 *", with("CI=1", "NODE_OPTIONS=x"), false},
		{"npm test", with("CI=1"), false},
		{"npm *", with("CI=1"), false},
		{"*", with("CI=1"), true},
	} {
		rule := Rule{Pattern: tt.rule}
		if err := compileAllowCommand(&rule); err != nil {
			t.Fatal(err)
		}
		if got := rule.command.allows(&tt.cmd); got != tt.want {
			t.Errorf("%q on %+v: %v", tt.rule, tt.cmd, got)
		}
	}
	if err := compileDenyCommand(&Rule{Pattern: "CI=1 npm test"}); err == nil {
		t.Error("a deny rule that would never match was taken")
	}
}

func TestReadOnlyRule(t *testing.T) {
	a := Rule{Pattern: "builtin:read-only"}
	if err := compileAllowCommand(&a); err != nil {
		t.Fatal(err)
	}
	if !a.command.allows(&Command{Words: []string{"git", "status"}}) || a.command.allows(&Command{Words: []string{"git", "push"}}) {
		t.Error("it does not stand for the built-in list")
	}
	if err := compileDenyCommand(&Rule{Pattern: "builtin:read-only"}); err == nil {
		t.Error("it may be denied")
	}
}

func TestBadShellRules(t *testing.T) {
	for rule, want := range map[string]string{
		"npm test && x": "one command", "a; b": "one command", "a | b": "one command", "a > b": "one command", "echo $X": "one command",
		"`a`": "one command", "(a)": "one command", `a\b`: "one command", "a # b": "one command", "a\nb": "one command",
		"npm run test:*": "only wildcard", "ls *.go": "only wildcard", "ls ?": "only wildcard", "[a]": "only wildcard",
		"npm * test": "* may only be the last word", "* *": "* may only be the last word",
		`echo "a`: "not closed", `echo 'a`: "not closed", `echo a*"b"`: "only wildcard", "": "names no command", "  ": "names no command",
	} {
		if err := compileAllowCommand(&Rule{Pattern: rule}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", rule, err, want)
		}
	}
}

func TestSplitRule(t *testing.T) {
	words, open, err := splitRule(`a 'b  c' "" d'e'"f" *  `)
	if err != nil || !open || !slices.Equal(words, []string{"a", "b  c", "", "def"}) {
		t.Errorf("%q %v %v", words, open, err)
	}
}
