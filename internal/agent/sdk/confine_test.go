//go:build linux

package sdk_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/agent/agenttest"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/sdk"
	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
)

// site is a workspace and what must not be reached from it.
type site struct {
	ws, home, out string
	listener      net.Listener
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
	return fmt.Sprintf(`echo x > %s/from-%s; cat %s/secret.txt; ls %s; (exec 3<>/dev/tcp/127.0.0.1/%d) && echo connected; echo tried-%s`,
		x.out, name, x.home, x.home, x.listener.Addr().(*net.TCPAddr).Port, name)
}

func bash(command string) string {
	return agenttest.Tool("bash", map[string]any{"command": command, "description": "x"})
}

// attack has a session try everything that it has to get at what is outside,
// and returns what got there.
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
	if err := a.Rotate(ctx, bridge.ProfileAgent); err != nil {
		t.Fatal(err)
	}
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
