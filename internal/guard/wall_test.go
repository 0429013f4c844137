package guard_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/audit"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/paths"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/sandbox"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/guardtest"
)

// walled is a repository with a guard, and the questions that were asked.
type walled struct {
	*guard.Guard
	root   string
	answer approval.Consent
	asked  []approval.Question
	record []audit.Entry
}

// planOf is a plan as the sandbox makes it, without toolchains.
func planOf(_ context.Context, s sandbox.Scope) (bridge.Confinement, error) {
	c := bridge.Confinement{Write: []string{s.Root}, Read: s.Protected, Hide: s.Hidden}
	if s.ReadOnly {
		c.Write, c.Read = nil, append(c.Read, s.Root)
	}
	return c, nil
}

// newRepository is a workspace with all that the table of the documentation
// mentions.
func newRepository(t testing.TB) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	put := func(text string, names ...string) {
		for _, name := range names {
			file := filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			// Git takes no notice of times that are as new as its index.
			if err := os.Chtimes(file, time.Time{}, time.Unix(1_700_000_000, 0)); err != nil {
				t.Fatal(err)
			}
		}
	}
	git := func(args ...string) {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.email=a@example.com", "-c", "user.name=a"}, args...)...)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	put("x\n", "tracked.txt", "modified.txt", "AGENTS.md", "src/a.go", "script.sh", "script.py")
	put("node_modules/\nsecret.txt\n", ".gitignore")
	git("init", "-q")
	git("add", ".")
	git("commit", "-q", "-m", "first")
	git("branch", "other")
	put("y\ny\n", "modified.txt", "untracked.txt", "src/new.go", "node_modules/m/index.js", "secret.txt", "a.tar")
	if err := os.Mkdir(filepath.Join(root, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	return root
}

func newWalled(t testing.TB, root, rules string, change func(*guard.Options)) *walled {
	t.Helper()
	ws, err := paths.New(root, paths.WithHome("/home/somebody"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ws.Close(); err != nil {
			t.Error(err)
		}
	})
	parsed, err := policy.ParseYAML("policy.yaml", []byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	d := policy.DefaultsRun()
	d.Root, d.Protected = ws.Root(), []string{"/home/somebody/.copilot-bridge"}
	w := &walled{root: ws.Root()}
	o := guard.Options{Workspace: ws, Policy: policy.Combine(d, policy.Layer{Rules: parsed, Trusted: true}), Wall: &guard.Wall{Plan: planOf},
		Asker: askerFunc(func(_ context.Context, q approval.Question) (approval.Answer, error) {
			w.asked = append(w.asked, q)
			return approval.Answer{Consent: w.answer}, nil
		}),
		Audit: recorderFunc(func(e audit.Entry) error { w.record = append(w.record, e); return nil })}
	if change != nil {
		change(&o)
	}
	w.Guard = guard.New(o)
	return w
}

// verdict says in the words of the table what becomes of a command.
func (w *walled) verdict(t testing.TB, command string, confined bool) (string, bridge.Decision) {
	t.Helper()
	before := len(w.asked)
	call := shell(command)
	call.Confined = confined
	d := w.Before(t.Context(), call)
	switch {
	case len(w.asked) > before:
		return "asked", d
	case d.Verdict == bridge.Allow:
		return "run", d
	}
	return "denied", d
}

var quotedCode = regexp.MustCompile("`([^`]+)`")

// Every row of the table in docs/guides/policy.md is what the guard does.
func TestWhatIsAskedWhen(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the table is that of Linux")
	}
	doc, err := os.ReadFile("../../docs/guides/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(doc), "\n## What is asked when\n")
	if !found {
		t.Fatal("there is no table")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	root := newRepository(t)
	commands := 0
	for line := range strings.Lines(section) {
		line = strings.ReplaceAll(strings.TrimSpace(line), `\|`, "\x00")
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) != 5 || strings.HasPrefix(cells[0], "--") || strings.TrimSpace(cells[0]) == "commands" {
			continue
		}
		var want []string
		for _, c := range cells[2:] {
			want = append(want, strings.TrimSpace(c))
		}
		var pending []string
		run := func(rules string) {
			nobody := func(o *guard.Options) { o.Asker = approval.Nobody{} }
			guards := []*walled{newWalled(t, root, rules, nil), newWalled(t, root, rules, nil), newWalled(t, root, rules, nobody)}
			for _, command := range pending {
				commands++
				for i, w := range guards {
					if got, d := w.verdict(t, command, i > 0); got != want[i] {
						t.Errorf("%s, column %d: %q under %q: %s, want %s (%s)", strings.TrimSpace(cells[0]), i, command, rules, got, want[i], d.Reason)
					}
				}
			}
			pending = nil
		}
		rest := cells[1]
		for {
			m := quotedCode.FindStringSubmatchIndex(rest)
			if m == nil {
				break
			}
			under := strings.HasSuffix(rest[:m[0]], " under ")
			text := strings.ReplaceAll(rest[m[2]:m[3]], "\x00", "|")
			rest = rest[m[1]:]
			if under {
				run(text)
			} else {
				pending = append(pending, text)
			}
		}
		run("")
	}
	if commands < 70 {
		t.Errorf("only %d commands were found in the table", commands)
	}
}

// A call that is not confined is judged as if there were no sandbox.
func TestOnlyWhatIsConfinedIsLifted(t *testing.T) {
	w := newWalled(t, newRepository(t), "", nil)
	for command, want := range map[string]string{"make": "asked", "cat /etc/hosts": "denied"} {
		if got, d := w.verdict(t, command, false); got != want || d.Grant != nil {
			t.Errorf("%s: %s %+v", command, got, d)
		}
	}
	call := bridge.ToolCall{Name: "view", Args: map[string]any{"path": "/etc/hosts"}, Confined: true}
	if d := w.Before(t.Context(), call); d.Verdict == bridge.Allow {
		t.Errorf("a tool that runs no program: %+v", d)
	}
	call = bridge.ToolCall{Name: guard.ToolServerStart, Args: map[string]any{"command": "server"}, Confined: true}
	if d := w.Before(t.Context(), call); d.Verdict == bridge.Allow || len(w.asked) != 2 {
		t.Errorf("a server: %+v", d)
	}
}

// No attempt gets further where the sandbox does not hold the whole policy; and
// where it does, tools that run no program get no further, and no command is
// granted anything.
func TestAttemptsBehindAWall(t *testing.T) {
	y := guardtest.New(t)
	text, err := os.ReadFile("testdata/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	holds := strings.Replace(string(text), `"**/*.pem", "**/node_modules/**"`, "docs", 1)
	nobody := func(o *guard.Options) { o.Asker, o.Servers = approval.Nobody{}, []string{"files"} }
	bare, gaps, whole := newWalled(t, y.Workspace, string(text), nobody), newWalled(t, y.Workspace, string(text), nobody), newWalled(t, y.Workspace, holds, nobody)
	for _, w := range []*walled{gaps, whole} {
		if _, err := w.Confinement(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if gaps.Gap() == "" || whole.Gap() != "" {
		t.Fatalf("%q %q", gaps.Gap(), whole.Gap())
	}
	for _, c := range guardtest.Cases(t, "testdata/attempts.yaml") {
		call := bridge.ToolCall{Name: c.Tool, Args: y.Fill(t, c.Args)}
		want := bare.Before(t.Context(), call)
		call.Confined = true
		if got := gaps.Before(t.Context(), call); got.Verdict != want.Verdict || got.Reason != want.Reason {
			t.Errorf("%s: %+v, want %+v", c.Name, got, want)
		}
		got := whole.Before(t.Context(), call)
		if got.Grant != nil || c.Tool != "bash" && got.Verdict == bridge.Allow && want.Verdict != bridge.Allow && !strings.HasPrefix(c.Name, "denied_by_the_policy's_own_globs") {
			t.Errorf("%s: %+v, want %+v", c.Name, got, want)
		}
	}
}

// A grant is exactly what the question named, for one call or the session.
func TestGrants(t *testing.T) {
	w := newWalled(t, newRepository(t), "", nil)
	is := func(d bridge.Decision, want bridge.Confinement) {
		t.Helper()
		if d.Verdict != bridge.Allow || d.Grant == nil || !slices.Equal(d.Grant.Read, want.Read) || !slices.Equal(d.Grant.Write, want.Write) || d.Grant.Network != want.Network {
			t.Errorf("%+v, want %+v", d.Grant, want)
		}
	}
	w.answer = approval.Once
	_, d := w.verdict(t, "cat /srv/data.txt", true)
	is(d, bridge.Confinement{Read: []string{"/srv/data.txt"}})
	q := w.asked[0]
	if lead, body, err := q.Whole(approval.MaxShown); err != nil || !strings.Contains(lead+body, "needs read /srv/data.txt") ||
		!strings.Contains(body, "outside the workspace, and the sandbox does not show it") || strings.Contains(body, "always:") {
		t.Errorf("%v\n%s\n%s", err, lead, body)
	}
	if got, _ := w.verdict(t, "cat /srv/data.txt", true); got != "asked" {
		t.Error("once was taken for always")
	}
	_, d = w.verdict(t, "curl https://example.com/x | python3 script.py", true)
	is(d, bridge.Confinement{Network: true})
	if !slices.Equal(d.Grant.Hosts, []string{"example.com"}) {
		t.Errorf("hosts %q", d.Grant.Hosts)
	}
	for _, open := range []string{"npm install", "curl https://example.com && npm install", "git clone ssh://example.com/x"} {
		if _, d := w.verdict(t, open, true); d.Grant == nil || !d.Grant.Network || len(d.Grant.Hosts) > 0 {
			t.Errorf("%s: %+v", open, d.Grant)
		}
	}
	w.verdict(t, "curl https://example.com/x | python3 script.py", true)
	if q := w.asked[len(w.asked)-1]; !strings.Contains(q.Detail, "every host, not only example.com") {
		t.Error(q.Detail)
	}
	_, d = w.verdict(t, "echo x >> AGENTS.md", true)
	is(d, bridge.Confinement{Write: []string{filepath.Join(w.root, "AGENTS.md")}})
	call := bridge.ToolCall{Name: "edit", Args: map[string]any{"path": "AGENTS.md", "old_str": "x", "new_str": "y"}, Confined: true}
	is(w.Before(t.Context(), call), bridge.Confinement{Write: []string{filepath.Join(w.root, "AGENTS.md")}})
	if _, d = w.verdict(t, "make", true); d.Grant != nil {
		t.Errorf("%+v", d.Grant)
	}

	w.answer = approval.Session
	w.verdict(t, "cat /srv/data.txt", true)
	if got, d := w.verdict(t, "wc -l /srv/data.txt", true); got != "run" {
		t.Errorf("a path that was granted for the session: %s", got)
	} else {
		is(d, bridge.Confinement{Read: []string{"/srv/data.txt"}})
	}
	for _, other := range []string{"cat /srv/other.txt", "touch /var/lib"} {
		if got, _ := w.verdict(t, other, true); got != "asked" {
			t.Errorf("%s: %s", other, got)
		}
	}
	w.verdict(t, "rm untracked.txt", true)
	if got, _ := w.verdict(t, "rm untracked.txt", true); got != "run" {
		t.Error("the same command was asked about again")
	}
	if got, _ := w.verdict(t, "cd src && rm ../untracked.txt", true); got != "asked" {
		t.Error("consent was stretched to another command")
	}
}

// What can be granted nothing is not asked about what it would need.
func TestNoGrant(t *testing.T) {
	w := newWalled(t, newRepository(t), "network: {allow: [example.com]}", nil)
	w.answer = approval.Once
	for command, want := range map[string]bridge.Verdict{
		"cat /srv/x": bridge.Deny, "npm install": bridge.Deny, "echo x >> AGENTS.md": bridge.Deny, "make": bridge.Allow, "curl https://example.com": bridge.Allow,
	} {
		call := shell(command)
		call.Confined, call.NoGrant = true, true
		if d := w.Before(t.Context(), call); d.Verdict != want || d.Grant != nil || want == bridge.Deny && !strings.Contains(d.Reason, "cannot be granted") || len(w.asked) > 0 {
			t.Errorf("%s: %+v, asked %v", command, d, w.asked)
		}
	}
	call := shell("rm untracked.txt")
	call.Confined, call.NoGrant = true, true
	if d := w.Before(t.Context(), call); d.Verdict != bridge.Allow || len(w.asked) != 1 {
		t.Errorf("%+v", d)
	}
}

// A link that has come to lead elsewhere is another thing.
func TestGrantIsForWhatTheLinkLedTo(t *testing.T) {
	w := newWalled(t, newRepository(t), "", nil)
	link := filepath.Join(w.root, "link")
	turn := func(to string) {
		_ = os.Remove(link) // there may be none yet
		if err := os.Symlink(to, link); err != nil {
			t.Skipf("this user may not make links, as on Windows: %v", err)
		}
	}
	turn("/srv/one")
	w.answer = approval.Session
	w.verdict(t, "cat link", true)
	turn("/srv/two")
	if got, _ := w.verdict(t, "cat link", true); got != "asked" || !slices.Equal(w.asked[1].Outside, []string{"/srv/two"}) {
		t.Errorf("%s %+v", got, w.asked)
	}
}

// Always writes the rule that was shown, and the rule allows just the grant.
func TestAlways(t *testing.T) {
	root, home := newRepository(t), t.TempDir()
	with := func(o *guard.Options) { o.Home = home }
	w := newWalled(t, root, "", with)
	w.answer = approval.Always
	for command, rule := range map[string]string{
		"cat /srv/data.txt": `sandbox.read: "/srv/data.txt"`, "touch /var/lib": `sandbox.write: "/var/lib"`, "curl https://example.com/x": `sandbox.network: "example.com:443"`,
		"npm install": `sandbox.shell: "npm install"`, "rm 'untracked.txt'": `sandbox.shell: "rm untracked.txt"`,
	} {
		got, d := w.verdict(t, command, true)
		q := w.asked[len(w.asked)-1]
		if got != "asked" || d.Verdict != bridge.Allow || !slices.Equal(q.Rules, []string{rule}) || !strings.Contains(d.Reason, rule+" was written into ") {
			t.Errorf("%s: %s %v %s", command, got, q.Rules, d.Reason)
		}
		if _, body, _ := q.Whole(approval.MaxShown); !strings.Contains(body, "always: writes into your policy file "+rule) {
			t.Error(body)
		}
		last := w.record[len(w.record)-2]
		if last.Hook != audit.HookApproval || !strings.Contains(last.Reason, rule) {
			t.Errorf("not on record: %+v", last)
		}
		if got, _ := w.verdict(t, command, true); got != "run" {
			t.Errorf("%s again: %s", command, got)
		}
	}
	file, err := policy.LoadUser(home)
	if err != nil {
		t.Fatal(err)
	}
	w = newWalled(t, root, string(file.Data), nil)
	for command, want := range map[string]string{
		"cat /srv/data.txt": "run", "touch /var/lib": "run", "cp tracked.txt /var/lib/new": "run", "curl https://example.com/y": "run", "npm install": "run", "rm untracked.txt": "run",
		"cat /srv/other": "asked", "touch /var": "asked", "curl http://example.com": "asked", "npm install x": "asked", "rm modified.txt": "asked",
		"npm install && ./script.sh": "asked", // the network would be open to it
	} {
		if got, d := w.verdict(t, command, true); got != want {
			t.Errorf("%s: %s, want %s (%s)", command, got, want, d.Reason)
		}
	}
	// Where no rule means just that, none is offered.
	w = newWalled(t, root, "tools: {ask: [write_bash]}", with)
	for _, command := range []string{"rm *.txt", "rm $X", "echo x >> AGENTS.md", "cat '/srv/{a}'", "rm untracked.txt; echo x >> AGENTS.md"} {
		if got, _ := w.verdict(t, command, true); got != "asked" || len(w.asked[len(w.asked)-1].Rules) > 0 {
			t.Errorf("%s: %s %+v", command, got, w.asked[len(w.asked)-1:])
		}
	}
	w.answer = approval.Always
	if _, d := w.verdict(t, "rm *.txt", true); d.Verdict == bridge.Allow {
		t.Error("what was not offered was taken for a yes")
	}
}

// A rule that cannot be written is said, and counts for the session.
func TestAlwaysThatCannotBeWritten(t *testing.T) {
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, policy.UserFile), []byte("{readOnly: false}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWalled(t, newRepository(t), "", func(o *guard.Options) { o.Home = home })
	w.answer = approval.Always
	if _, d := w.verdict(t, "cat /srv/x", true); d.Verdict != bridge.Allow || !strings.Contains(d.Reason, "for this session only") || !strings.Contains(d.Reason, `add there yourself: sandbox.read: "/srv/x"`) {
		t.Errorf("%+v", d)
	}
}

// Consent by --yes, without a person, grants nothing outside.
func TestNobodyLooksAtAGrant(t *testing.T) {
	root := newRepository(t)
	for name, change := range map[string]func(*guard.Options){
		"--yes":   func(o *guard.Options) { o.Asker = approval.Yes{} },
		"allowed": func(o *guard.Options) { o.AllowTools, o.Asker = []string{"bash"}, approval.Nobody{} },
	} {
		w := newWalled(t, root, "", change)
		if got, d := w.verdict(t, "cat /srv/data.txt", true); got != "denied" || d.Grant != nil {
			t.Errorf("%s: %+v", name, d)
		}
		if got, d := w.verdict(t, "npm install", true); got != "run" || d.Grant == nil || !d.Grant.Network {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// Where nothing can be asked, what the sandbox holds need not be denied.
func TestAskIsDenyInsideTheSandbox(t *testing.T) {
	ws, err := paths.New(newRepository(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ws.Close() }()
	d := policy.DefaultsABP()
	d.Root = ws.Root()
	g := guard.New(guard.Options{Workspace: ws, Policy: policy.Combine(d), Wall: &guard.Wall{Plan: planOf}})
	for command, want := range map[string][2]bridge.Verdict{
		"$CMD x": {bridge.Deny, bridge.Allow}, "make": {bridge.Allow, bridge.Allow}, "rm untracked.txt": {bridge.Allow, bridge.Allow},
		"tar xf a.tar": {bridge.Deny, bridge.Allow}, "cat /srv/x": {bridge.Deny, bridge.Deny}, "npm install": {bridge.Allow, bridge.Allow},
	} {
		for i, confined := range []bool{false, true} {
			call := shell(command)
			call.Confined = confined
			if d := g.Before(t.Context(), call); d.Verdict != want[i] || d.Grant != nil {
				t.Errorf("%s, confined %v: %+v", command, confined, d)
			}
		}
	}
	if c, err := g.Confinement(t.Context()); err != nil || !c.Network {
		t.Errorf("a policy that allows every host: %+v, %v", c, err)
	}
}

func TestConfinement(t *testing.T) {
	root := newRepository(t)
	system := func(p string) bool { return strings.HasPrefix(p, "/etc/") }
	for _, tt := range []struct {
		name, rules, gap  string
		write, read, hide []string
	}{
		{"plain", "", "", []string{"."}, []string{"AGENTS.md"}, nil},
		{"read-only", "readOnly: true", "", nil, []string{"AGENTS.md", "."}, nil},
		{"hidden", "reads: {deny: [secret.txt, node_modules]}", "", []string{"."}, []string{"AGENTS.md"}, []string{"node_modules", "secret.txt"}},
		{"hidden by its name", "reads: {deny: ['**/secret.*']}", "", []string{"."}, []string{"AGENTS.md"}, []string{"secret.txt"}},
		{"only some", "reads: {allow: ['**/*.go', '*.md', '.git*', '*.txt', '*.sh', '*.py', '*.tar']}", "", []string{"."}, []string{"AGENTS.md"}, []string{"node_modules/m/index.js"}},
		{"tracked", "reads: {deny: [src]}", "history", []string{"."}, []string{"AGENTS.md"}, []string{"src"}},
		{"not written", "writes: {deny: ['src/**', untracked.txt]}", "", []string{"."}, []string{"AGENTS.md", "src", "untracked.txt"}, nil},
		{"not written by name", "writes: {deny: ['**/*.go']}", "writes.deny", []string{"."}, []string{"AGENTS.md", "src/a.go", "src/new.go"}, nil},
		{"not there yet", "writes: {deny: [later]}", "writes.deny", []string{"."}, []string{"AGENTS.md"}, nil},
		{"written", "writes: {allow: ['src/**']}", "writes.allow", []string{"."}, []string{"AGENTS.md"}, nil},
		{"all written", "writes: {allow: ['**']}", "", []string{"."}, []string{"AGENTS.md"}, nil},
		{"nothing written", "writes: {deny: ['**']}", "writes.deny", []string{"."}, []string{".gitignore", "AGENTS.md", "a.tar", "empty", "modified.txt", "node_modules", "script.py", "script.sh", "secret.txt", "src", "tracked.txt", "untracked.txt"}, nil},
		{"written by name", "writes: {allow: ['**/*.go']}", "writes.allow", []string{"."}, []string{"AGENTS.md"}, nil},
	} {
		w := newWalled(t, root, tt.rules, nil)
		c, err := w.Confinement(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(c.Hide, "/etc") {
			t.Error("the system is hidden")
		}
		c.Hide = slices.DeleteFunc(c.Hide, system)
		for what, lists := range map[string][2][]string{"write": {c.Write, tt.write}, "read": {c.Read, tt.read}, "hide": {c.Hide, tt.hide}} {
			var got []string
			for _, p := range lists[0] {
				rel, err := filepath.Rel(root, p)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, filepath.ToSlash(rel))
			}
			slices.Sort(got)
			slices.Sort(lists[1])
			if !slices.Equal(got, lists[1]) {
				t.Errorf("%s, %s: %v, want %v", tt.name, what, got, lists[1])
			}
		}
		if gap := w.Gap(); (gap == "") != (tt.gap == "") || !strings.Contains(gap, tt.gap) {
			t.Errorf("%s: gap %q", tt.name, gap)
		}
		if c.Network {
			t.Errorf("%s: the network is open", tt.name)
		}
	}
	// What the user has granted for good is shown if it is there.
	place := t.TempDir()
	w := newWalled(t, root, "sandbox: {read: ["+place+", /srv/missing], network: ['*']}", nil)
	if c, err := w.Confinement(t.Context()); err != nil || !slices.Contains(c.Read, place) || slices.Contains(c.Read, "/srv/missing") || !c.Network {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err := newGuard(t, guard.Options{}).Confinement(t.Context()); c != nil || err != nil {
		t.Errorf("without a sandbox: %+v, %v", c, err)
	}
}

// The repository of a linked worktree is shown where the plan shows it, and never
// written. A directory that only a .git file names is hidden, like the bridge's
// own.
func TestRepositoryOfAWorktree(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no sandbox on Windows yet")
	}
	root := newRepository(t)
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(home, "other")
	tree := filepath.Join(home, "worktrees", "one")
	cmd := exec.CommandContext(t.Context(), "git", "-C", root, "worktree", "add", "-q", tree)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	common := filepath.Join(root, ".git")
	own := filepath.Join(common, "worktrees", "one")
	for _, rules := range []string{"", "readOnly: true"} {
		w := newWalled(t, tree, rules, func(o *guard.Options) {
			parsed, err := policy.ParseYAML("policy.yaml", []byte(rules))
			if err != nil {
				t.Fatal(err)
			}
			d := policy.DefaultsRun()
			d.Root, d.Protected = tree, []string{home + "/audit", own, common, other}
			o.Policy = policy.Combine(d, policy.Layer{Rules: parsed, Trusted: true})
			o.Wall = &guard.Wall{Plan: func(_ context.Context, s sandbox.Scope) (bridge.Confinement, error) {
				s.Hidden = append(s.Hidden, home)
				return sandbox.Plan(s, []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}, filepath.Join(home, "cache"))
			}}
		})
		if err := errors.Join(os.MkdirAll(home+"/audit", 0o700), os.MkdirAll(other, 0o700)); err != nil {
			t.Fatal(err)
		}
		c, err := w.Confinement(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{own, common} {
			below := func(path string) bool { return sandbox.Within(path, dir) }
			if !slices.Contains(c.Read, dir) || slices.ContainsFunc(c.Write, below) || slices.ContainsFunc(c.Hide, below) {
				t.Errorf("%q, %s: %+v", rules, dir, c)
			}
		}
		for _, dir := range []string{home, home + "/audit", other} {
			if !slices.Contains(c.Hide, dir) || slices.Contains(c.Read, dir) || slices.Contains(c.Write, dir) {
				t.Errorf("%q, %s: %+v", rules, dir, c)
			}
		}
	}
}

// A link that configures agents protects what it leads to.
func TestProtectedLinks(t *testing.T) {
	root := newRepository(t)
	if err := os.Symlink("tracked.txt", filepath.Join(root, "CLAUDE.md")); err != nil {
		t.Skipf("this user may not make links, as on Windows: %v", err)
	}
	if c, err := newWalled(t, root, "", nil).Confinement(t.Context()); err != nil || !slices.Contains(c.Read, filepath.Join(root, "tracked.txt")) {
		t.Errorf("%+v %v", c, err)
	}
}

// Consent to write in a read-only workspace covers nothing else.
func TestReadOnlyThatAsks(t *testing.T) {
	root := newRepository(t)
	d := policy.DefaultsServe()
	d.Root, d.ReadOnlyAsks = root, true
	w := newWalled(t, root, "", func(o *guard.Options) { o.Policy = policy.Combine(d) })
	c, err := w.Confinement(t.Context())
	if err != nil || slices.Contains(c.Write, root) {
		t.Fatalf("%+v %v", c, err)
	}
	w.answer = approval.Once
	got, decided := w.verdict(t, "make", true)
	if got != "asked" || decided.Grant == nil || len(w.asked[0].Rules) > 0 {
		t.Fatalf("%s %+v", got, decided)
	}
	wide := c.With(*decided.Grant)
	if !slices.Contains(wide.Write, root) || slices.Contains(wide.Read, root) || !slices.Contains(wide.Read, filepath.Join(root, "AGENTS.md")) {
		t.Errorf("%+v", wide)
	}
	if got, decided := w.verdict(t, "git log", true); got != "run" || decided.Grant != nil {
		t.Errorf("%s %+v", got, decided)
	}
}

// The record has what the guard decided and what the sandbox does.
func TestBothVerdictsAreRecorded(t *testing.T) {
	w := newWalled(t, newRepository(t), "", nil)
	w.answer = approval.Once
	w.verdict(t, "make", true)
	w.verdict(t, "cat /srv/x", true)
	w.verdict(t, "ls", false)
	var got []string
	for _, e := range w.record {
		got = append(got, string(e.Hook)+" "+e.Decision+": "+e.Sandbox)
	}
	if want := []string{"pre_tool allow: confined", "approval allow: read /srv/x", "pre_tool allow: confined, but for: read /srv/x", "pre_tool allow: "}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// The hook and the permission request of one call share a verdict, if they are
// about the same bytes.
func TestACommandIsJudgedOnce(t *testing.T) {
	w := newWalled(t, newRepository(t), "", nil)
	call := shell("git status")
	call.ID = "1"
	request := bridge.PermissionRequest{Kind: bridge.PermissionShell, Tool: "bash", CallID: "1", Command: "git status"}
	if d := w.Before(t.Context(), call); d.Verdict != bridge.Allow {
		t.Fatal(d.Reason)
	}
	// Judged anew it would be a question from here on.
	config := filepath.Join(w.root, ".git", "config")
	if err := os.WriteFile(config, []byte("[core]\n\tfsmonitor = touch x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if d := w.Permit(t.Context(), request); d.Verdict != bridge.Allow || d.Reason != "judged when it was called" {
		t.Errorf("%+v", d)
	}
	for name, change := range map[string]func(*bridge.PermissionRequest){
		"another command":       func(r *bridge.PermissionRequest) { r.Command = "git  status" },
		"another call":          func(r *bridge.PermissionRequest) { r.CallID = "2" },
		"another path":          func(r *bridge.PermissionRequest) { r.Paths = []string{"/srv/x"} },
		"another host":          func(r *bridge.PermissionRequest) { r.URLs = []string{"https://example.com"} },
		"confined another way":  func(r *bridge.PermissionRequest) { r.Confined = true; r.Paths = []string{"/srv/x"} },
		"of another shell tool": func(r *bridge.PermissionRequest) { r.Tool = "mcp.shell.run" },
	} {
		r := request
		change(&r)
		w.Before(t.Context(), call)
		if d := w.Permit(t.Context(), r); d.Verdict == bridge.Allow {
			t.Errorf("%s: %+v", name, d)
		}
	}
	w.Failed(t.Context(), call, "x")
}

func BenchmarkPermitAfterBefore(b *testing.B) {
	w := newWalled(b, newRepository(b), "", nil)
	const many = "git status && git diff --stat && git log -3 && grep -r x src"
	call := shell(many)
	request := bridge.PermissionRequest{Kind: bridge.PermissionShell, Tool: "bash", CallID: "1", Command: many}
	for name, tool := range map[string]string{"shared": "bash", "anew": "mcp.shell.run"} {
		b.Run(name, func(b *testing.B) {
			r := request
			r.Tool = tool
			w.Before(b.Context(), call)
			for b.Loop() {
				w.Permit(b.Context(), r)
			}
			w.record = nil
		})
	}
}

// Without protected files in the way git may change the work tree, as long as
// that destroys nothing.
func TestWhatDestroysWork(t *testing.T) {
	root := newRepository(t)
	if err := os.Remove(filepath.Join(root, "AGENTS.md")); err != nil {
		t.Fatal(err)
	}
	w := newWalled(t, root, "", nil)
	for command, want := range map[string]string{
		"git switch other": "run", "git checkout other": "run", "git checkout -b new": "run", "git checkout -b new other": "run", "git stash": "run", "git stash pop": "run",
		"git merge other": "run", "git rebase other": "run", "git reset": "run", "git reset --soft HEAD~1": "run", "git restore --staged tracked.txt": "run", "git rm tracked.txt": "run",
		"git branch -d other": "run", "git clean -n": "run", "git worktree remove x": "run", "git cherry-pick other": "run",
		"git checkout -f other": "asked", "git checkout tracked.txt": "asked", "git checkout other -- modified.txt": "asked", "git checkout other modified.txt": "asked", "git switch --discard-changes other": "asked",
		"git reset --hard": "asked", "git -C src reset --hard": "asked", "git reset --har": "asked", "git restore .": "asked", "git rm -f modified.txt": "asked", "git clean -fdx": "asked",
		"git stash clear": "asked", "git branch -D other": "asked", "git worktree remove --force x": "asked", "git reflog expire --all": "asked", "git update-ref -d refs/heads/other": "asked",
		"rm src/a.go": "run", "rm src/new.go": "asked", "cd src && rm a.go": "run", "rm -r node_modules/m": "run", "rm -rf node_modules src": "asked", "rm .gitignore": "run", "/bin/rm untracked.txt": "asked",
		"command rm untracked.txt": "asked", "sh -c 'rm untracked.txt'": "asked", "find src -name x -exec rm {} +": "asked", "find src -delete": "asked", "rm $X": "asked", "X=1; $X untracked.txt": "run",
		"rsync -a --delete src/ copy/": "asked",
	} {
		got, d := w.verdict(t, command, true)
		if got != want || want == "asked" && !strings.Contains(w.asked[len(w.asked)-1].Detail, "it may destroy work that is not committed") {
			t.Errorf("%s: %s, want %s (%s)", command, got, want, d.Reason)
		}
	}
	// What the session has made itself it may remove.
	create := bridge.ToolCall{Name: "create", Args: map[string]any{"path": "src/made.go", "file_text": "x"}, Confined: true}
	if d := w.Before(t.Context(), create); d.Verdict != bridge.Allow {
		t.Fatal(d.Reason)
	}
	if err := os.WriteFile(filepath.Join(root, "src/made.go"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, d := w.verdict(t, "rm src/made.go", true); got != "run" {
		t.Errorf("%s %s", got, d.Reason)
	}
}

// Files that a command makes are taken away when it ends. One that runs on in the
// background is looked after at the end of later calls and of the session.
func TestBackgroundIsLookedAfter(t *testing.T) {
	taken := 0
	w := newWalled(t, newRepository(t), "", func(o *guard.Options) {
		o.Wall.Watch = func() func() (string, error) {
			return func() (string, error) { taken++; return "moved", nil }
		}
	})
	run := func(args map[string]any, text string) string {
		t.Helper()
		before := taken
		call := bridge.ToolCall{ID: text, Name: "bash", Args: args, Confined: true}
		if d := w.Before(t.Context(), call); d.Verdict != bridge.Allow {
			t.Fatal(d.Reason)
		}
		if _, err := w.After(t.Context(), call, map[string]any{"textResultForLlm": text}); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(taken - before)
	}
	got := []string{run(map[string]any{"command": "make"}, "ok"), run(map[string]any{"command": "make"}, "ok"), run(map[string]any{"command": "make", "mode": "async"}, "started"), run(map[string]any{"command": "make"}, "ok")}
	if want := []string{"1", "1", "1", "2"}; !slices.Equal(got, want) {
		t.Errorf("looked after %v times, want %v", got, want)
	}
	before := taken
	if err := w.End(t.Context()); err != nil || taken != before+1 {
		t.Errorf("at the end: %d, %v", taken-before, err)
	}
}
