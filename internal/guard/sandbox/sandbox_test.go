package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
)

// wall is the real sandbox. Where it is not installed the test is left out;
// where it is installed it has to work.
func wall(t *testing.T) *Wall {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the sandbox is tested on Linux only")
	}
	if _, err := findBwrap(os.Environ()); err != nil {
		t.Skip("bubblewrap is not installed: run `make test-sandbox`, or apt install bubblewrap")
	}
	w, err := Find(t.Context(), os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// machine is a user with a home, a workspace in it and things that are not for
// programs.
type machine struct {
	home, root, kept string
	env              []string
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{home: home, root: filepath.Join(home, "work", "project")}
	bridgeHome := filepath.Join(home, ".copilot-bridge")
	m.kept = Kept(bridgeHome, m.root)
	for _, file := range []string{".ssh/id_canary", ".aws/credentials", ".netrc", ".copilot-bridge/audit/log", "work/other/file", "secret"} {
		put(t, filepath.Join(home, file), "canary")
	}
	put(t, filepath.Join(m.root, "file"), "text")
	m.env = append(slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "HOME=") || strings.HasPrefix(kv, "GIT_") }), "HOME="+home)
	put(t, filepath.Join(home, ".gitconfig"), "[user]\n\tname = A \\\"B\\\" C\n\temail = a@example.com\n[alias]\n\tst = !touch /tmp/alias\n[credential]\n\thelper = store\n")
	return m
}

func put(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (m *machine) scope() Scope { return Scope{Root: m.root} }

func (m *machine) watch() Watch {
	return Watch{Root: m.root, Holders: []string{".github", ".vscode"}, Protects: func(rel string) bool {
		return slices.Contains([]string{"AGENTS.md", ".github/hooks", ".agent-policy.yaml", ".env"}, rel)
	}}
}

func (m *machine) plan(t *testing.T, s Scope) bridge.Confinement {
	t.Helper()
	conf, err := Plan(s, m.env, m.kept)
	if err != nil {
		t.Fatal(err)
	}
	return conf
}

// line runs a line of bash behind the wall.
func line(t *testing.T, w *Wall, conf bridge.Confinement, m *machine, script string) (string, program.Exit) {
	t.Helper()
	c, err := program.Shell(program.Place{Root: m.root, Env: m.env}, script)
	if err == nil {
		c, err = w.Wrap(c, conf)
	}
	if err != nil {
		t.Fatal(err)
	}
	out := &program.Tail{Limit: 1 << 16}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	exit, err := c.Run(ctx, program.RunOptions{Stdout: out, Stderr: out})
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return out.String(), exit
}

func TestNothingOutsideIsSeen(t *testing.T) {
	w, m := wall(t), newMachine(t)
	conf := m.plan(t, Scope{Root: m.root, Hidden: w.Private()})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	for _, script := range []string{
		"cat ~/secret", "cat ~/.ssh/id_canary", "ls ~/.ssh", "cat ~/.aws/credentials", "cat ~/.netrc", "ls ~/.copilot-bridge/audit", "cat ../other/file", "ls ../other",
		"echo x > ../other/file", "ls " + filepath.Join(os.TempDir(), filepath.Base(m.home), "secret"), "cat /proc/1/root" + m.home + "/secret",
		"cat /var/log/dpkg.log", ": < /dev/tcp/127.0.0.1/" + port, "echo x > /usr/x", "echo x > /etc/x", "unshare -m true", "mount -t tmpfs none /mnt", ": >> /proc/sys/kernel/core_pattern",
		"[ -s /etc/shadow ] && [ -r /etc/shadow ]", "kill -0 " + fmt.Sprint(os.Getpid()), "ls -d /proc/" + fmt.Sprint(os.Getpid()) + "/cwd/..",
	} {
		if out, exit := line(t, w, conf, m, script); exit.Code == 0 {
			t.Errorf("%s: %s", script, out)
		}
	}
	out, _ := line(t, w, conf, m, "ls -A ~; ls -A ~/work; ls -A ~/.copilot-bridge 2>/dev/null; env")
	for _, word := range []string{"secret", ".ssh", ".aws", ".netrc", "other", "audit"} {
		if slices.Contains(strings.Fields(out), word) {
			t.Errorf("%s is seen: %s", word, out)
		}
	}
	out, exit := line(t, w, conf, m, `set -e; cat file; echo new > file; echo x > "$XDG_CACHE_HOME.x"; echo y > /tmp/y; echo z > ~/z; id -u; cat ~/z`)
	if text, _ := os.ReadFile(filepath.Join(m.root, "file")); exit.Code != 0 || string(text) != "new\n" {
		t.Errorf("%d %s", exit.Code, out)
	}
	if _, err := os.Stat(filepath.Join(m.home, "z")); err == nil {
		t.Error("the home was written")
	}
}

func TestReadOnlyWorkspace(t *testing.T) {
	w, m := wall(t), newMachine(t)
	s := m.scope()
	s.ReadOnly = true
	conf := m.plan(t, s)
	if out, exit := line(t, w, conf, m, "cat file && echo > file"); exit.Code == 0 || !strings.Contains(out, "Read-only") {
		t.Error(out)
	}
}

// repository makes the workspace one.
func (m *machine) repository(t *testing.T) {
	t.Helper()
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "."}, {"commit", "-q", "-m", "first"}} {
		if out, exit, err := output(t.Context(), append(m.env, "GIT_CONFIG_NOSYSTEM=1"), "git", slices.Concat([]string{"-C", m.root}, args)...); err != nil || exit.Code != 0 {
			t.Fatal(out, exit, err)
		}
	}
}

func TestProtectedStaysAsItIs(t *testing.T) {
	w, m := wall(t), newMachine(t)
	put(t, filepath.Join(m.root, "AGENTS.md"), "be good")
	put(t, filepath.Join(m.root, ".github", "hooks", "a.json"), "{}")
	put(t, filepath.Join(m.root, ".github", "workflows", "a.yml"), "x")
	put(t, filepath.Join(m.root, "deep", "er", "hidden.key"), "canary")
	put(t, filepath.Join(m.root, "vendor", "a"), "x")
	m.repository(t)
	if err := os.RemoveAll(filepath.Join(m.root, ".git", "hooks")); err != nil {
		t.Fatal(err)
	}
	s := m.scope()
	for _, rel := range []string{"AGENTS.md", ".github/hooks", "vendor"} {
		s.Protected = append(s.Protected, filepath.Join(m.root, rel))
	}
	s.Hidden = []string{filepath.Join(m.root, "deep", "er", "hidden.key")}
	conf := m.plan(t, s)
	for _, script := range []string{
		"echo x >> AGENTS.md", "rm AGENTS.md", "mv AGENTS.md x", "rm -r .github/hooks", "mv .github x", "echo x > .github/hooks/b.json",
		"git config core.fsmonitor ./x", "echo x > .git/hooks/pre-commit", "mv .git x", "rm -rf .git && ! test -e .git", "rmdir .git/hooks",
		"cat deep/er/hidden.key", "mv deep x", "mv deep/er x", "rm -f deep/er/hidden.key", "echo x > vendor/b", "mv vendor x",
	} {
		if out, exit := line(t, w, conf, m, script); exit.Code == 0 {
			t.Errorf("%s: %s", script, out)
		}
	}
}

func TestGit(t *testing.T) {
	w, m := wall(t), newMachine(t)
	m.repository(t)
	conf := m.plan(t, m.scope())
	out, exit := line(t, w, conf, m, `set -e
echo a > a; git add a; git commit -q -m second; git log -1 --format='%an <%ae>'
echo b >> a; git stash -q; git stash pop -q; git commit -qam third; git checkout -q -b other HEAD~1; echo c > c; git add c; git commit -qm fourth
git rebase -q main; git status --short; git diff HEAD~1 --stat; git branch -d main 2>/dev/null || true; git gc -q; git tag v1`)
	if exit.Code != 0 || !strings.Contains(out, `A "B" C <a@example.com>`) {
		t.Errorf("%d: %s", exit.Code, out)
	}
	if out, exit := line(t, w, conf, m, "git st"); exit.Code == 0 {
		t.Errorf("an alias of the user's was run: %s", out)
	}
}

// git that the bridge runs may work in a repository outside of its
// directory. What it starts there cannot change what git runs.
func TestGitOfTheBridge(t *testing.T) {
	w, m := wall(t), newMachine(t)
	m.repository(t)
	tree, scratch := filepath.Join(m.home, "tree"), filepath.Join(m.home, "scratch")
	if out, exit, err := output(t.Context(), m.env, "git", "-C", m.root, "worktree", "add", "-q", "-b", "one", tree); err != nil || exit.Code != 0 {
		t.Fatal(out, exit, err)
	}
	put(t, filepath.Join(scratch, "x"), "")
	for _, dir := range []string{m.root, tree} {
		conf := m.plan(t, Scope{Root: scratch, Write: []string{dir}})
		in := *m
		in.root = dir
		if out, exit := line(t, w, conf, &in, "echo a > a && git add a && git commit -qm a"); exit.Code != 0 {
			t.Errorf("%s: %s", dir, out)
		}
		git := filepath.Join(m.root, ".git")
		for _, script := range []string{"git config a.b c", "echo x >> " + git + "/config", "echo x > " + git + "/hooks/pre-commit", "mv " + git + " " + git + "2", "mv .git x", "rm .git"} {
			if out, exit := line(t, w, conf, &in, script); exit.Code == 0 {
				t.Errorf("%s: %s: %s", dir, script, out)
			}
		}
	}
}

func TestWithhold(t *testing.T) {
	m := newMachine(t)
	put(t, filepath.Join(m.root, ".github", "workflows", "a.yml"), "x")
	s := m.watch()
	before := s.Now()
	put(t, filepath.Join(m.root, "AGENTS.md"), "be bad")
	put(t, filepath.Join(m.root, ".github", "hooks", "a.json"), "{}")
	put(t, filepath.Join(m.root, ".github", "other"), "{}")
	m.repository(t)
	if err := os.Symlink(m.home, filepath.Join(m.root, ".vscode")); err != nil {
		t.Fatal(err)
	}
	into := filepath.Join(m.home, ".copilot-bridge", "withheld")
	moved, err := s.Withhold(before, into)
	if want := []string{".git", ".github/hooks", ".vscode", "AGENTS.md"}; err != nil || !slices.Equal(moved, want) {
		t.Fatal(moved, err)
	}
	kept, _ := filepath.Glob(into + "/*/AGENTS.md")
	if len(kept) != 1 {
		t.Error("it was not kept")
	}
	if _, err := os.Stat(filepath.Join(m.root, ".github", "other")); err != nil {
		t.Error(err)
	}
	s.Plain = func() bool { return true }
	m.repository(t)
	if moved, err := s.Withhold(before, into); err != nil || len(moved) > 0 {
		t.Error(moved, err)
	}
	before = s.Now()
	put(t, filepath.Join(m.root, ".git", "commondir"), "../evil")
	if moved, err := s.Withhold(before, into); err != nil || !slices.Equal(moved, []string{".git/commondir"}) {
		t.Error(moved, err)
	}
}

func TestWorktree(t *testing.T) {
	w, m := wall(t), newMachine(t)
	m.repository(t)
	tree := filepath.Join(m.home, ".copilot-bridge", "worktrees", "one")
	if out, exit, err := output(t.Context(), m.env, "git", "-C", m.root, "worktree", "add", "-q", "-b", "one", tree); err != nil || exit.Code != 0 {
		t.Fatal(out, exit, err)
	}
	main := m.root
	m.root = tree
	s := m.scope()
	conf := m.plan(t, s)
	out, exit := line(t, w, conf, m, "set -e; echo a > a; git add a; git commit -qm a; git status; ls "+main+"; ! git config a.b c; ! echo x > "+main+"/.git/hooks/x; ! echo x > "+main+"/.git/worktrees/one/commondir")
	if exit.Code != 0 || strings.Contains(out, "\nfile") {
		t.Errorf("%d: %s", exit.Code, out)
	}
	readOnly := s
	readOnly.ReadOnly = true
	out, exit = line(t, w, m.plan(t, readOnly), m, "set -e; git status; git log; ! git commit -q --allow-empty -m x; ! echo x > "+main+"/.git/refs/heads/x")
	if exit.Code != 0 {
		t.Errorf("read-only: %d: %s", exit.Code, out)
	}
	// A .git file that names something else opens nothing.
	put(t, filepath.Join(m.root, ".git"), "gitdir: "+m.home)
	for _, s := range []Scope{s, readOnly} {
		if conf := m.plan(t, s); slices.Contains(conf.Write, m.home) || slices.Contains(conf.Read, m.home) {
			t.Error("the home is shown")
		}
	}
}

func TestCannotBeConfined(t *testing.T) {
	m := newMachine(t)
	for _, root := range []string{"/", "/usr/share", m.home, filepath.Dir(m.home), filepath.Join(m.home, "none")} {
		if _, err := Plan(Scope{Root: root}, m.env, m.kept); err == nil {
			t.Errorf("%s was planned", root)
		}
	}
	w := &Wall{path: "/usr/bin/bwrap"}
	c, err := program.New(program.Place{Dir: m.root, Env: m.env}, "true")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Wrap(c, bridge.Confinement{Write: []string{m.kept}}); bridge.CodeOf(err) != bridge.CodeDenied {
		t.Error(err)
	}
	if _, err := w.Wrap(c, bridge.Confinement{Write: []string{"relative"}}); err == nil {
		t.Error("a relative path was taken")
	}
}

// A sandbox that fails runs nothing.
func TestFailsClosed(t *testing.T) {
	m := newMachine(t)
	_ = wall(t)
	conf := m.plan(t, m.scope())
	for path, words := range map[string]string{"/no/such/bwrap": "no such file", "/usr/bin/bwrap": "bwrap: "} {
		c, err := program.Shell(program.Place{Root: m.root, Env: m.env}, "echo ran > ran")
		if err != nil {
			t.Fatal(err)
		}
		c, err = (&Wall{path: path}).Wrap(c, conf)
		if err != nil {
			t.Fatal(err)
		}
		if path == "/usr/bin/bwrap" {
			c.Path = "/usr/bin/not-there"
		}
		_, err = c.Run(t.Context(), program.RunOptions{})
		if bridge.CodeOf(err) != bridge.CodeUnavailable || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", path, err)
		}
		if _, err := os.Stat(filepath.Join(m.root, "ran")); err == nil {
			t.Error("it ran unconfined")
		}
	}
}

// The profile for macOS is made here and tried nowhere.
func TestSeatbelt(t *testing.T) {
	got := seatbelt(true, sorted(bridge.Confinement{Write: []string{"/Users/a/p", "/Users/a/p/.git"}, Read: []string{"/Users/a/go", "/Users/a/p/.git/config"}, Hide: []string{`/Users/a/p/"x"`}}))
	want, err := os.ReadFile(filepath.Join("testdata", "profile.sb"))
	if err != nil || got != string(want) {
		t.Errorf("%v; the profile is now:\n%s", err, got)
	}
}

// What root may do here an ordinary user may too. The test runs itself as one.
func TestOrdinaryUser(t *testing.T) {
	_ = wall(t)
	setpriv, err := program.Find("setpriv", os.Environ())
	if os.Getuid() != 0 || err != nil {
		t.Skip("only root can become another user, by setpriv")
	}
	dir, err := os.MkdirTemp("", "sandbox-user-")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // best effort: it is in the temporary directory
	self, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = errors.Join(os.WriteFile(filepath.Join(dir, "test"), self, 0o755), os.Chmod(dir, 0o755), os.Mkdir(filepath.Join(dir, "tmp"), 0o755), os.Chown(filepath.Join(dir, "tmp"), 65534, 65534))
	}
	if err != nil {
		t.Fatal(err)
	}
	c, err := program.New(program.Place{Dir: filepath.Join(dir, "tmp"), Env: []string{"PATH=/usr/bin:/bin", "HOME=" + filepath.Join(dir, "tmp"), "TMPDIR=" + filepath.Join(dir, "tmp")}},
		setpriv, "--reuid=65534", "--regid=65534", "--clear-groups", filepath.Join(dir, "test"), "-test.v", "-test.run", "^(TestNothingOutsideIsSeen|TestProtectedStaysAsItIs|TestGit|TestWorktree|TestReadOnlyWorkspace)$")
	if err != nil {
		t.Fatal(err)
	}
	out := &program.Tail{Limit: 1 << 14}
	exit, err := c.Run(t.Context(), program.RunOptions{Stdout: out, Stderr: out})
	if err != nil || exit.Code != 0 || strings.Count(out.String(), "--- PASS") != 5 {
		t.Errorf("%v %v %s", exit, err, out)
	}
}

// A hundred commands leave nothing behind: no process, mount, directory or
// namespace.
func TestNothingIsLeft(t *testing.T) {
	w, m := wall(t), newMachine(t)
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	conf := m.plan(t, m.scope())
	spaces := map[string]bool{}
	for range 100 {
		out, exit := line(t, w, conf, m, "readlink /proc/self/ns/net /proc/self/ns/mnt /proc/self/ns/pid; setsid sleep 3604 & true")
		for _, name := range strings.Fields(out) {
			spaces[name] = true
		}
		if exit.Code != 0 || len(strings.Fields(out)) != 3 {
			t.Fatal(out)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), m.home) {
		t.Errorf("%v %s", err, mounts)
	}
	if list, err := os.ReadDir(temp); err != nil || len(list) > 0 {
		t.Errorf("left: %v, %v", list, err)
	}
	left := func() (out []string) {
		processes, err := filepath.Glob("/proc/[0-9]*")
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range processes {
			if text, err := os.ReadFile(at + "/cmdline"); err == nil && strings.Contains(string(text), "sleep\x003604") {
				out = append(out, at)
			}
			for _, kind := range []string{"net", "mnt", "pid"} {
				if name, err := os.Readlink(filepath.Join(at, "ns", kind)); err == nil && spaces[name] {
					out = append(out, at+" keeps "+name)
				}
			}
		}
		return out
	}
	// An ended process disappears when the system's first process has waited for it.
	for deadline := time.Now().Add(30 * time.Second); len(left()) > 0; <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("left: %q", left())
		}
	}
	for name := range spaces {
		if strings.Contains(string(mounts), name) {
			t.Errorf("%s is mounted", name)
		}
	}
}

// A reader cannot make anything in the workspace, and has its build elsewhere.
func TestStill(t *testing.T) {
	w, m := wall(t), newMachine(t)
	conf := Still(m.plan(t, m.scope()), m.root)
	if out, exit := line(t, w, conf, m, "echo x > AGENTS.md || mkdir .github"); exit.Code == 0 {
		t.Errorf("the workspace was written: %s", out)
	}
	if out, exit := line(t, w, conf, m, `ls > /dev/null && mkdir -p "$CARGO_TARGET_DIR" && echo x > "$CARGO_TARGET_DIR/x"`); exit.Code != 0 {
		t.Error(out)
	}
}
