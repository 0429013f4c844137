//go:build linux

package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/sdk"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
)

// site is a workspace and what must not be reached from it.
type site struct {
	ws, home, out string
	listener      net.Listener
	port          string
	mu            sync.Mutex
	reached       int
}

const canary = "CANARY-7f3a91"

func newSite(t *testing.T) *site {
	t.Helper()
	if _, err := program.Find("bwrap", os.Environ()); err != nil {
		t.Skip("bubblewrap is not installed: the sandbox is not tested (apt install bubblewrap)")
	}
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	x := &site{ws: filepath.Join(base, "ws"), home: filepath.Join(base, "home"), out: filepath.Join(base, "out")}
	for path, text := range map[string]string{
		"home/secret.txt": canary + "\n", "out/there": "outside\n", "ws/file.txt": "needle\n", "ws/.git/config": "[core]\n", "ws/.git/hooks/pre-commit.sample": "\n",
	} {
		path = filepath.Join(base, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if x.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	if _, x.port, err = net.SplitHostPort(x.listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	accepting := make(chan struct{})
	go func() {
		defer close(accepting)
		for {
			c, err := x.listener.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
			x.mu.Lock()
			x.reached++
			x.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		_ = x.listener.Close()
		<-accepting
	})
	return x
}

// confinement has the workspace, with what a plan protects in it, and the test
// binary, which is the MCP server.
func (x *site) confinement(t *testing.T) *bridge.Confinement {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	git := filepath.Join(x.ws, ".git")
	return &bridge.Confinement{Write: []string{x.ws, git}, Read: []string{filepath.Join(git, "config"), filepath.Join(git, "hooks"), filepath.Dir(self)},
		Env: []string{"GREETING=it's $HOME", "GOCACHE=" + filepath.Join(x.ws, "cache")}}
}

func (x *site) options(o *sdk.Options) { o.Env = append(slices.Clone(o.Env), "HOME="+x.home) }

func (x *site) spec(t *testing.T, g bridge.Gate) bridge.SessionSpec {
	servers := mcpServer(t)
	helper := servers["helper"]
	helper.Env["SDK_TEST_REACH"] = x.goals()
	servers["helper"] = helper
	return bridge.SessionSpec{Profile: bridge.ProfileAgent, Gate: g, WorkingDir: x.ws, Confinement: x.confinement(t), MCPServers: servers}
}

// goals are what reach is after.
func (x *site) goals() string {
	return strings.Join([]string{filepath.Join(x.out, "from-mcp"), filepath.Join(x.home, "secret.txt"), x.home, x.listener.Addr().String()}, "|")
}

// script is reach for a shell.
func (x *site) script(name string) string {
	return fmt.Sprintf(`echo x > %s/from-%s; cat %s/secret.txt; ls %s; (exec 3<>/dev/tcp/127.0.0.1/%s) && echo connected; echo tried-%s`,
		x.out, name, x.home, x.home, x.port, name)
}

func bash(command string) string {
	return agenttest.Tool("bash", map[string]any{"command": command, "description": "x"})
}

// attack has a session try all of its tools on files outside the sandbox, and
// returns the attempts that succeeded.
func (x *site) attack(t *testing.T, ctx context.Context, s bridge.Session, when string) (breaches []string) {
	t.Helper()
	tool := agenttest.Tool
	below := agenttest.Script(bash(x.script("sub")), tool("view", map[string]any{"path": filepath.Join(x.home, "secret.txt")}), "next", "text below").Text
	o := agenttest.Collect(ctx, s, agenttest.Script(
		bash(x.script("bash")),
		tool("bash", map[string]any{"command": x.script("detached"), "description": "x", "mode": "async", "detach": true}),
		tool("bash", map[string]any{"command": x.script("async") + "; sleep 0.2; echo end-of-async", "description": "x", "mode": "async", "shellId": "a1"}),
		tool("grep", map[string]any{"pattern": "CANARY", "paths": x.home, "output_mode": "content"}),
		tool("glob", map[string]any{"pattern": "*secret*", "paths": x.home}),
		tool("view", map[string]any{"path": filepath.Join(x.home, "secret.txt")}),
		tool("create", map[string]any{"path": filepath.Join(x.out, "from-create"), "file_text": "x"}),
		tool("edit", map[string]any{"path": filepath.Join(x.out, "there"), "old_str": "outside", "new_str": "changed"}),
		tool("helper-reach", map[string]any{}),
		"next", tool("read_bash", map[string]any{"shellId": "a1", "delay": 2}),
		tool("task", map[string]any{"description": "look", "name": "looker", "agent_type": "general-purpose", "mode": "sync", "prompt": below}),
		"next", "text done"))
	if o.Err != nil {
		t.Fatalf("%s: %v", when, o.Err)
	}
	text := ""
	for _, f := range agenttest.Find[bridge.ToolFinished](o) {
		text += fmt.Sprintf("[%s %v] %s %s\n", f.Name, f.OK, f.Result, f.Error)
	}
	for _, p := range agenttest.Find[bridge.ToolProgress](o) {
		text += p.Text
	}
	for _, must := range []string{"tried-bash", "tried-sub", "reached: "} {
		if !strings.Contains(text, must) {
			t.Errorf("%s: %q is missing in\n%s", when, must, text)
		}
	}
	for _, sign := range []string{canary, "secret.txt\n", "wrote", "listed", "connected"} {
		if strings.Contains(text, sign) {
			breaches = append(breaches, "seen "+sign)
		}
	}
	for _, name := range []string{"bash", "detached", "async", "sub", "create", "mcp"} {
		if os.Remove(filepath.Join(x.out, "from-"+name)) == nil {
			breaches = append(breaches, "written by "+name)
		}
	}
	if b, err := os.ReadFile(filepath.Join(x.out, "there")); err != nil || string(b) != "outside\n" {
		breaches = append(breaches, "edited")
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.reached > 0 {
		breaches = append(breaches, "reached the listener")
	}
	return breaches
}

// holds attacks and fails if anything was reached.
func (x *site) holds(t *testing.T, ctx context.Context, s bridge.Session, when string) {
	t.Helper()
	if got := x.attack(t, ctx, s, when); len(got) > 0 {
		t.Errorf("%s: %q", when, got)
	}
}

// With a gate that allows everything the wall alone keeps a session's programs
// in, on every way by which a session comes to a runtime.
func TestTheWallHolds(t *testing.T) {
	x := newSite(t)
	ctx, a, _ := start(t, x.options)
	spec := x.spec(t, agenttest.AllowAll())
	s := openSession(t, ctx, a, spec)
	x.holds(t, ctx, s, "new")
	if err := s.SetModel(ctx, "rehearsal-1", ""); err != nil {
		t.Fatal(err)
	}
	x.holds(t, ctx, s, "with another model")
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	again := func(when string) bridge.Session {
		r, err := a.Resume(ctx, s.ID(), spec)
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		x.holds(t, ctx, r, when)
		return r
	}
	r := again("resumed")
	if err := r.Close(ctx); err != nil {
		t.Fatal(err)
	}
	a.Recycle(bridge.ProfileAgent, 0, 0)
	r = again("resumed in the next runtime")
	if err := syscall.Kill(a.ProgramPID(bridge.ProfileAgent), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if o := agenttest.Collect(ctx, r, agenttest.Say("x")); o.Err == nil {
		t.Error("a turn in a dead runtime went well")
	}
	again("resumed after the runtime was killed")
}

// The same attack does reach everything where there is no wall.
func TestTheAttackIsOne(t *testing.T) {
	x := newSite(t)
	ctx, a, _ := start(t, x.options)
	spec := x.spec(t, agenttest.AllowAll())
	spec.Confinement = nil
	got := x.attack(t, ctx, openSession(t, ctx, a, spec), "without a wall")
	if len(got) != 13 {
		t.Errorf("%d: %q", len(got), got)
	}
}

// run is what one command of a session prints.
func run(t *testing.T, ctx context.Context, s bridge.Session, command string) string {
	t.Helper()
	o := agenttest.Collect(ctx, s, agenttest.Script(bash(command), "next", "text done"))
	ended := agenttest.Find[bridge.ToolFinished](o)
	if o.Err != nil || len(ended) != 1 {
		t.Fatalf("%+v, %v", ended, o.Err)
	}
	return ended[0].Result + ended[0].Error
}

func contains(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%s: %q is missing in\n%s", what, p, text)
		}
	}
}

// Inside, programs find their workspace, their variables and a temporary
// directory that stays; protected files cannot be changed, replaced, or uncovered
// by unmounting.
func TestInsideTheWall(t *testing.T) {
	x := newSite(t)
	ctx, a, _ := start(t, x.options)
	g := agenttest.AllowAll()
	s := openSession(t, ctx, a, x.spec(t, g))
	other := openSession(t, ctx, a, x.spec(t, g))
	contains(t, "variables", run(t, ctx, s, `echo "[$GREETING] [$GOCACHE]"; echo kept > $TMPDIR/mine; echo made > new.txt`),
		"[it's $HOME] ["+filepath.Join(x.ws, "cache")+"]")
	contains(t, "the next command", run(t, ctx, s, `cat $TMPDIR/mine new.txt`), "kept", "made")
	contains(t, "another session", run(t, ctx, other, `ls $TMPDIR $TMPDIR/..; ls $TMPDIR/../../*; find / -name mine 2>/dev/null; echo end`), "env.sh", "end")
	if got := run(t, ctx, other, `find / -name mine 2>/dev/null; find / -path '*/bin/bwrap' -newer /etc/hostname 2>/dev/null; true`); strings.Contains(got, "mine") || strings.Contains(got, "copilot-bridge-") {
		t.Errorf("another session sees %s", got)
	}
	hidden := filepath.Join(x.ws, "file.txt")
	for _, command := range []string{`echo bad >> .git/config`, `rm -f .git/config`, `mv .git away && mkdir .git && touch .git/config`, `touch .git/hooks/post-commit`,
		`umount .git/config; mount -o remount,bind,rw .git/config; echo bad >> .git/config`, `umount -l .git; echo bad >> .git/config`,
		`unshare -Urm sh -c 'umount .git/config; echo bad >> .git/config'`} {
		contains(t, command, run(t, ctx, s, command+" || echo refused"), "refused")
	}
	if b, err := os.ReadFile(filepath.Join(x.ws, ".git", "config")); err != nil || string(b) != "[core]\n" {
		t.Errorf(".git/config holds %q, %v", b, err)
	}
	if list, err := os.ReadDir(filepath.Join(x.ws, ".git", "hooks")); err != nil || len(list) != 1 {
		t.Errorf(".git/hooks holds %v, %v", list, err)
	}
	if b, err := os.ReadFile(hidden); err != nil || string(b) != "needle\n" {
		t.Errorf("%q, %v", b, err)
	}
	o := agenttest.Collect(ctx, s, agenttest.Script(agenttest.Tool("grep", map[string]any{"pattern": "needle", "output_mode": "content"}), bash("seq 20000"), "next", "text done"))
	ended := agenttest.Find[bridge.ToolFinished](o)
	if o.Err != nil || len(ended) != 2 || !strings.Contains(ended[0].Result+ended[1].Result, "file.txt") {
		t.Fatalf("%+v, %v", ended, o.Err)
	}
	// A result that is too long for the model is in a file that it can read.
	long := regexp.MustCompile(`/\S+copilot-tool-output\S+`).FindString(ended[0].Result + ended[1].Result)
	contains(t, "a long result", run(t, ctx, s, "tail -n 1 "+long), "20000")
}

// A workspace that may only be read is read-only, and its hidden files cannot be
// read.
func TestReadOnlyBehindTheWall(t *testing.T) {
	x := newSite(t)
	ctx, a, _ := start(t, x.options)
	spec := x.spec(t, agenttest.AllowAll())
	spec.Confinement = &bridge.Confinement{Read: []string{x.ws}, Hide: []string{filepath.Join(x.ws, "file.txt")}}
	spec.MCPServers = nil
	s := openSession(t, ctx, a, spec)
	contains(t, "bash", run(t, ctx, s, `touch new || echo refused; cat file.txt || echo hidden; umount file.txt; cat file.txt`), "refused", "hidden")
	if got := run(t, ctx, s, `umount file.txt; cat file.txt`); strings.Contains(got, "needle") {
		t.Errorf("unmounted: %s", got)
	}
	o := agenttest.Collect(ctx, s, agenttest.Script(agenttest.Tool("create", map[string]any{"path": filepath.Join(x.ws, "made"), "file_text": "x"}),
		agenttest.Tool("view", map[string]any{"path": filepath.Join(x.ws, "file.txt")}), agenttest.Tool("grep", map[string]any{"pattern": "needle", "output_mode": "content"}), "next", "text done"))
	for _, f := range agenttest.Find[bridge.ToolFinished](o) {
		if f.Name != "grep" && f.OK || strings.Contains(f.Result, "file.txt:") {
			t.Errorf("%+v", f)
		}
	}
	if list, err := os.ReadDir(x.ws); err != nil || len(list) != 2 {
		t.Errorf("%v, %v", list, err)
	}
}

// A sandbox that fails in the middle fails the call, with the reason.
func TestABrokenWallIsAFailure(t *testing.T) {
	x := newSite(t)
	bwrap, err := program.Find("bwrap", os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(t.TempDir(), "bwrap")
	install := func(script string) {
		if err := os.WriteFile(bin+".new", []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(bin+".new", bin); err != nil {
			t.Fatal(err)
		}
	}
	install(`exec ` + bwrap + ` "$@"`)
	ctx, a, _ := start(t, func(o *sdk.Options) {
		x.options(o)
		o.Env = append(o.Env, "PATH="+filepath.Dir(bin)+":"+os.Getenv("PATH"))
	})
	s := openSession(t, ctx, a, x.spec(t, agenttest.AllowAll()))
	shell := func(mode string) string {
		return agenttest.Tool("bash", map[string]any{"command": "echo ran; exit 1", "description": "x", "mode": mode, "shellId": mode})
	}
	turn := func() map[string]bridge.ToolFinished {
		o := agenttest.Collect(ctx, s, agenttest.Script(shell("sync"), shell("async"), agenttest.Tool("grep", map[string]any{"pattern": "needle"}), agenttest.Tool("glob", map[string]any{"pattern": "*.txt"}),
			"next", agenttest.Tool("read_bash", map[string]any{"shellId": "async", "delay": 1}), "next", "text done"))
		out := map[string]bridge.ToolFinished{}
		for _, f := range agenttest.Find[bridge.ToolFinished](o) {
			if !strings.Contains(f.Result, "in background") {
				out[f.Name] = f
			}
		}
		if o.Err != nil || len(out) != 4 {
			t.Fatalf("%+v, %v", out, o.Err)
		}
		return out
	}
	for name, f := range turn() {
		if !f.OK {
			t.Errorf("%s: %+v", name, f)
		}
	}
	install(`[ "$1" = --version ] && exec ` + bwrap + ` --version; echo "bwrap: No permissions to create new namespace" >&2; exit 1`)
	for name, f := range turn() {
		if f.OK || !strings.Contains(f.Error, "No permissions") || !strings.Contains(f.Error, "the sandbox failed") {
			t.Errorf("%s: %+v", name, f)
		}
	}
	if err := os.Remove(bin); err != nil {
		t.Fatal(err)
	}
	for name, f := range turn() {
		if f.OK || !strings.Contains(f.Error, "not found") {
			t.Errorf("%s: %+v", name, f)
		}
	}
	if _, err := a.Open(ctx, bridge.SessionSpec{Profile: bridge.ProfileAgent, WorkingDir: x.ws, Confinement: x.confinement(t)}); err != nil {
		t.Errorf("another bubblewrap on the PATH is not used: %v", err)
	}
}

// A session whose confinement cannot be had is refused, and leaves nothing.
func TestNoSessionWithoutItsWall(t *testing.T) {
	x := newSite(t)
	spec := x.spec(t, nil)
	for name, c := range map[string]struct {
		change func(*sdk.Options)
		spec   func(*bridge.SessionSpec)
		says   string
	}{
		"no bubblewrap":   {func(o *sdk.Options) { o.Env = append(o.Env, "PATH="+x.out) }, func(*bridge.SessionSpec) {}, "apt install bubblewrap"},
		"a relative path": {nil, func(s *bridge.SessionSpec) { s.Confinement = &bridge.Confinement{Write: []string{x.ws, "rel"}} }, "not absolute"},
		"elsewhere":       {nil, func(s *bridge.SessionSpec) { s.Confinement = &bridge.Confinement{Write: []string{x.out}} }, "not visible"},
		"an odd variable": {nil, func(s *bridge.SessionSpec) {
			s.Confinement = &bridge.Confinement{Write: []string{x.ws}, Env: []string{"A;B=c"}}
		}, "variable"},
		"a gate that has none":  {nil, func(s *bridge.SessionSpec) { s.Gate = &confiner{err: errors.New("no plan")} }, "no plan"},
		"a gate that says what": {nil, func(s *bridge.SessionSpec) { s.Gate = &confiner{c: &bridge.Confinement{Write: []string{x.out}}} }, "not visible"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, a, _ := start(t, c.change)
			spec := spec
			c.spec(&spec)
			for _, open := range []func() (bridge.Session, error){
				func() (bridge.Session, error) { return a.Open(ctx, spec) },
				func() (bridge.Session, error) { return a.Resume(ctx, "11111111-2222-3333-4444-555555555555", spec) },
			} {
				_, err := open()
				if err == nil || !strings.Contains(fmt.Sprint(err, bridge.AsError(err).Remedy), c.says) {
					t.Errorf("%v", err)
				}
			}
			if list, err := a.List(ctx); err != nil || len(list) > 0 {
				t.Errorf("%v, %v", list, err)
			}
		})
	}
}

// confiner is a gate that names the confinement.
type confiner struct {
	agenttest.Gate
	mu  sync.Mutex
	c   *bridge.Confinement
	err error
}

func (g *confiner) Confinement(context.Context) (*bridge.Confinement, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.c, g.err
}

func (g *confiner) set(c *bridge.Confinement, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.c, g.err = c, err
}

// A gate is asked before every turn; what it says then holds.
func TestTheWallFollowsItsGate(t *testing.T) {
	x := newSite(t)
	ctx, a, _ := start(t, x.options)
	narrow, wide := x.confinement(t), x.confinement(t)
	wide.Write = append(wide.Write, x.out)
	wide.Env = []string{"GREETING=wide"}
	g := &confiner{c: narrow}
	spec := x.spec(t, g)
	spec.Confinement, spec.MCPServers = nil, nil
	s := openSession(t, ctx, a, spec)
	try := func(want string) {
		t.Helper()
		contains(t, "bash", run(t, ctx, s, "echo x > "+x.out+"/new && echo written $GREETING || echo refused"), want)
	}
	try("refused")
	g.set(wide, nil)
	try("written wide")
	g.set(narrow, nil)
	try("refused")
	g.set(nil, nil)
	try("refused") // a wall that stands stays
	g.set(nil, errors.New("no plan"))
	if o := agenttest.Collect(ctx, s, agenttest.Say("x")); o.Err == nil || !strings.Contains(o.Err.Error(), "no plan") {
		t.Errorf("%v", o.Err)
	}
}

// granter is a gate that gives a grant to each command that names the folder
// outside together with the word GRANT.
func granter(x *site) *agenttest.Gate {
	return &agenttest.Gate{BeforeFunc: func(c bridge.ToolCall) bridge.Decision {
		d := bridge.Decision{Verdict: bridge.Allow}
		if strings.Contains(fmt.Sprint(c.Args), "GRANT") && c.Name != "task" {
			d.Grant = &bridge.Confinement{Write: []string{x.out}}
		}
		if !c.Confined {
			d = bridge.Decision{Reason: "not confined"}
		}
		return d
	}, PermitFunc: func(r bridge.PermissionRequest) bridge.Decision {
		if strings.Contains(r.Command, "REJECT") || !r.Confined {
			return bridge.Decision{Reason: "rejected"}
		}
		return bridge.Decision{Verdict: bridge.Allow}
	}}
}

// A grant holds for one call and for no other: not for calls before, beside and
// after it, however it ends.
func TestAGrantIsForOneCall(t *testing.T) {
	x := newSite(t)
	ctx, a, _ := start(t, x.options)
	g := granter(x)
	spec := x.spec(t, g)
	spec.MCPServers = nil
	s := openSession(t, ctx, a, spec)
	write := func(name, more string) string { return bash("echo x > " + filepath.Join(x.out, name) + " " + more) }
	written := func() (names []string) {
		list, err := os.ReadDir(x.out)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			if e.Name() != "there" {
				names = append(names, e.Name())
				_ = os.Remove(filepath.Join(x.out, e.Name()))
			}
		}
		return names
	}
	below := func(lines ...string) string {
		return agenttest.Tool("task", map[string]any{"description": "x", "name": "sub", "agent_type": "general-purpose", "mode": "sync", "prompt": agenttest.Script(append(lines, "next", "text below")...).Text})
	}
	for _, c := range []struct {
		name  string
		lines []string
		want  []string
		says  string
	}{
		{"before and after", []string{write("a", ""), "next", write("b", "# GRANT"), "next", write("c", ""), "next", "text ok"}, []string{"b"}, "Read-only\x00No such file"},
		{"one after another", []string{write("a", "# GRANT"), "next", write("b", "# GRANT"), "next", write("c", ""), "next", "text ok"}, []string{"a", "b"}, ""},
		{"before others of its answer", []string{write("a", "# GRANT"), write("b", ""), "next", "text ok"}, []string{"a"}, "make this call again after it"},
		{"after others of its answer", []string{write("a", ""), write("b", "# GRANT"), "next", "text ok"}, nil, "without others beside it"},
		{"rejected on request", []string{write("a", "# GRANT REJECT"), "next", write("b", ""), "next", "text ok"}, nil, "rejected"},
		{"failed", []string{agenttest.Tool("view", map[string]any{"path": filepath.Join(x.out, "none-GRANT")}), "next", write("b", ""), "next", "text ok"}, nil, "does not exist"},
		{"a file", []string{agenttest.Tool("create", map[string]any{"path": filepath.Join(x.out, "f"), "file_text": "GRANT"}), "next",
			agenttest.Tool("create", map[string]any{"path": filepath.Join(x.out, "g"), "file_text": "x"}), "next", "text ok"}, []string{"f"}, "Outside the sandbox"},
		{"of a sub-agent", []string{below(write("a", ""), "next", write("b", "# GRANT"), "next", write("c", "")), "next", write("d", ""), "next", "text ok"}, nil, "a sub-agent cannot"},
		{"beside a sub-agent", []string{below(write("a", "")), write("b", "# GRANT"), "next", "text ok"}, nil, "without others beside it"},
		{"before a sub-agent", []string{write("b", "# GRANT"), below(write("a", "")), "next", "text ok"}, []string{"b"}, "make this call again after it"},
		{"in the background", []string{agenttest.Tool("bash", map[string]any{"command": "echo x > " + x.out + "/a # GRANT", "description": "x", "mode": "async"}), "next", "text ok"}, nil, "in the foreground"},
		{"beside the background", []string{agenttest.Tool("bash", map[string]any{"command": "sleep 60", "description": "x", "mode": "async", "shellId": "bg"}), "next", write("a", "# GRANT"), "next",
			agenttest.Tool("stop_bash", map[string]any{"shellId": "bg"}), "next", write("b", "# GRANT"), "next", "text ok"}, []string{"b"}, "run in the background"},
	} {
		o := agenttest.Collect(ctx, s, agenttest.Script(c.lines...))
		if o.Err != nil {
			t.Fatalf("%s: %v", c.name, o.Err)
		}
		said := ""
		for _, f := range agenttest.Find[bridge.ToolFinished](o) {
			said += f.Result + f.Error + "\n"
		}
		if got := written(); !slices.Equal(got, c.want) {
			t.Errorf("%s: written %q, want %q\n%s", c.name, got, c.want, said)
		}
		if !slices.ContainsFunc(strings.Split(c.says, "\x00"), func(w string) bool { return strings.Contains(said, w) }) {
			t.Errorf("%s: %q is missing in\n%s", c.name, c.says, said)
		}
	}
	// The gate knows beforehand: four calls of sub-agents, two in the background.
	if n := len(slices.DeleteFunc(g.Befores(), func(c bridge.ToolCall) bool { return !c.NoGrant })); n != 6 {
		t.Errorf("%d calls could be granted nothing", n)
	}
	// A turn that is aborted takes its grant with it.
	turn, cancel := context.WithCancel(ctx)
	defer cancel()
	for ev := range s.Send(turn, agenttest.Script(bash("echo x > "+x.out+"/begun; sleep 60 # GRANT"), "next", "text ok")) {
		if _, ok := ev.(bridge.ToolStarted); ok {
			for _, err := os.Stat(filepath.Join(x.out, "begun")); err != nil; _, err = os.Stat(filepath.Join(x.out, "begun")) {
				<-time.After(5 * time.Millisecond)
			}
			cancel()
		}
	}
	if got := written(); !slices.Equal(got, []string{"begun"}) {
		t.Errorf("aborted: written %q", got)
	}
	run(t, ctx, s, "echo x > "+x.out+"/after")
	if got := written(); len(got) > 0 {
		t.Errorf("after an abort: written %q", got)
	}
}

// processes are the pids of those whose command line has a text in it.
func processes(t *testing.T, text string) (pids []string) {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		if b, err := os.ReadFile(l); err == nil && strings.Contains(string(b), text) {
			pids = append(pids, filepath.Base(filepath.Dir(l)))
		}
	}
	return pids
}

// await waits for something that other processes bring about.
func await(t *testing.T, ctx context.Context, what string, done func() bool) {
	t.Helper()
	for !done() {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal(what)
		}
	}
}

// Behind a wall everything ends with its session, and with its runtime, also
// one that is killed: processes, directories and mounts.
func TestNothingIsLeftOfAWall(t *testing.T) {
	x := newSite(t)
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	ctx, a, _ := start(t, x.options)
	left := func() []string {
		list, err := filepath.Glob(filepath.Join(temp, "copilot-bridge-*", "session-*"))
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	mark := fmt.Sprintf("6%d.%s", os.Getpid(), x.port)
	busy := func() bridge.Session {
		s := openSession(t, ctx, a, x.spec(t, agenttest.AllowAll()))
		o := agenttest.Collect(ctx, s, agenttest.Script(agenttest.Tool("bash", map[string]any{"command": "setsid sleep " + mark + " & sleep " + mark, "description": "x", "mode": "async"}),
			agenttest.Tool("helper-pid", map[string]any{}), "next", "text ok"))
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		await(t, ctx, "the command did not start", func() bool { return len(processes(t, "sleep\x00"+mark)) == 2 })
		if len(left()) != 1 {
			t.Errorf("the session has %q", left())
		}
		return s
	}
	gone := func() bool { return len(processes(t, mark)) == 0 && len(processes(t, x.ws)) == 0 }
	s := busy()
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	await(t, ctx, "programs outlive their session", gone)
	if len(left()) > 0 {
		t.Errorf("left behind: %q", left())
	}
	s = busy()
	if err := syscall.Kill(a.ProgramPID(bridge.ProfileAgent), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await(t, ctx, "programs outlive their runtime", gone)
	await(t, ctx, "directories outlive their runtime", func() bool {
		list, err := os.ReadDir(temp)
		return err == nil && len(list) == 0
	})
	if b, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(b), filepath.Dir(x.ws)) {
		t.Errorf("mounts are left: %v", err)
	}
	if o := agenttest.Collect(ctx, s, agenttest.Say("x")); o.Err == nil {
		t.Error("a turn in a dead runtime went well")
	}
}

// No secret is in the environment of what a session starts, nor on a command
// line, which every user of the machine can read.
func TestSecretsStayOffCommandLines(t *testing.T) {
	x := newSite(t)
	for name, change := range map[string]func(*sdk.Options){
		"a token": func(o *sdk.Options) { o.Token = canary },
		"a login": func(o *sdk.Options) {
			o.UseLogin, o.Env = true, append(o.Env, "GH_TOKEN="+canary, "GITHUB_TOKEN="+canary)
		},
		"others": func(o *sdk.Options) {
			o.Env = append(o.Env, "COPILOT_BYOK_API_KEY="+canary, "COPILOT_BRIDGE_TOKEN="+canary, "GH_TOKEN="+canary, "OPENCLAW_GATEWAY_TOKEN="+canary)
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, a, m := start(t, func(o *sdk.Options) {
				x.options(o)
				// GitHub cannot be reached, which is found out at once.
				o.Env = append(o.Env, "HTTPS_PROXY=http://127.0.0.1:1", "https_proxy=http://127.0.0.1:1", "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1")
				change(o)
			})
			spec := x.spec(t, agenttest.AllowAll())
			spec.Provider = &bridge.Provider{Kind: "openai", BaseURL: m.URL(), APIKey: m.Key()}
			spec.Model = m.Model()
			s := openSession(t, ctx, a, spec)
			var lines []string
			for ev, err := range s.Send(ctx, agenttest.Script(bash("env; echo up; touch up; while [ ! -e go ]; do sleep 0.01; done; rm go up"), agenttest.Tool("helper-pid", map[string]any{}), "next", "text ok")) {
				if err != nil {
					t.Fatal(err)
				}
				if e, ok := ev.(bridge.ToolStarted); ok && e.Call.Name == "helper-pid" {
					await(t, ctx, "the command did not start", func() bool { _, err := os.Stat(filepath.Join(x.ws, "up")); return err == nil })
					lines = append(processes(t, canary), processes(t, x.goals())...) // the latter is the MCP server's alone
					if err := os.WriteFile(filepath.Join(x.ws, "go"), nil, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				if e, ok := ev.(bridge.ToolFinished); ok && (strings.Contains(e.Result, canary) || !e.OK || e.Name == "bash" && !strings.Contains(e.Result, "GREETING=")) {
					t.Errorf("%+v", e)
				}
			}
			if len(lines) > 0 {
				t.Errorf("on the command lines of %q", lines)
			}
		})
	}
}

// With hosts, a program reaches those and no others, by the runtime's proxy and
// not past it.
func TestTheWallHoldsHosts(t *testing.T) {
	for _, name := range []string{"slirp4netns", "iptables", "curl"} {
		if _, err := program.Find(name, os.Environ()); err != nil {
			t.Skip(name + " is not installed: hosts are not tested")
		}
	}
	x := newSite(t)
	ctx, a, _ := start(t, x.options)
	for host, want := range map[string]string{"127.0.0.1": "reached", "packages.example": "not reached"} {
		spec := bridge.SessionSpec{Profile: bridge.ProfileAgent, Gate: agenttest.AllowAll(), WorkingDir: x.ws, Confinement: x.confinement(t)}
		spec.Confinement.Network, spec.Confinement.Hosts = true, []string{host}
		s := openSession(t, ctx, a, spec)
		x.mu.Lock()
		x.reached = 0
		x.mu.Unlock()
		out := run(t, ctx, s, fmt.Sprintf("curl -s -m 20 http://127.0.0.1:%s/; curl -s -m 3 --noproxy '*' http://10.0.2.2:%s/; echo tried", x.port, x.port))
		contains(t, host, out, "tried")
		x.mu.Lock()
		got := map[bool]string{true: "reached", false: "not reached"}[x.reached > 0]
		if x.mu.Unlock(); got != want {
			t.Errorf("%s: %s, want %s\n%s", host, got, want, out)
		}
	}
}
