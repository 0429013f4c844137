package attempts

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/acpwire"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/guardtest"
)

// allowAllMarker appear only in a binary whose guard allows everything.
const allowAllMarker = "allowed: this program allows everything"

// allowAllBinary builds the program with a guard that allows every call. The
// rest of the program, including the sandbox setup, is unchanged. A shipped
// program has no such switch: the file comes from testdata.
var allowAllBinary = sync.OnceValues(func() (string, error) {
	verdict, err := filepath.Abs("../../internal/guard/verdict.go")
	if err != nil {
		return "", err
	}
	wrong, err := filepath.Abs("testdata/verdict.go")
	if err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{verdict: wrong}})
	if err != nil {
		return "", err
	}
	file, out := filepath.Join(filepath.Dir(binary), "overlay.json"), filepath.Join(filepath.Dir(binary), "forced")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		return "", err
	}
	if text, err := exec.Command("go", "build", "-overlay", file, "-o", out, "../../cmd/copilot-bridge").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, text)
	}
	return out, nil
})

// needsSandbox skips the test if bubblewrap is not installed.
func needsSandbox(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("bwrap"); err != nil {
		if os.Getenv("COPILOT_BRIDGE_TEST_SANDBOX") != "" {
			t.Fatal("bubblewrap is not installed")
		}
		t.Skip("bubblewrap is not installed: run `make test-sandbox`, or apt install bubblewrap")
	}
}

// The normal build has a guard that denies.
func TestShippedProgramIsNotForced(t *testing.T) {
	forced, err := allowAllBinary()
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]bool{binary: false, forced: true} {
		text, err := os.ReadFile(file)
		if err != nil || bytes.Contains(text, []byte(allowAllMarker)) != want {
			t.Errorf("%s: %v, has the forced verdict: %v", file, err, !want)
		}
	}
}

// attackSite is a test environment with a hostile program and the targets of its attacks.
type attackSite struct {
	*testEnv
	victims map[string]*exec.Cmd

	mu      sync.Mutex
	reached map[string]bool // names of the attacks that connected
}

// newAttackSite prepares attack.sh for the named attacks.
func newAttackSite(t *testing.T, names []string) *attackSite {
	t.Helper()
	s := &attackSite{testEnv: newTestEnv(t), victims: map[string]*exec.Cmd{}, reached: map[string]bool{}}
	var err error
	if s.binary, err = allowAllBinary(); err != nil {
		t.Fatal(err)
	}
	// Programs must not inherit the bridge's open files, with or without a
	// sandbox.
	dir, err := os.Open(s.Outside)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() }) // only inherited by the program
	s.inherits = []*os.File{dir}
	port := s.listen(t)
	var victims strings.Builder
	for _, name := range names {
		cmd := exec.Command("sleep", "3600")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		s.victims[name] = cmd
		fmt.Fprintf(&victims, "%s) victim=%d ;;\n", name, cmd.Process.Pid)
	}
	t.Cleanup(func() {
		for _, cmd := range s.victims {
			_ = cmd.Process.Kill() // it may already be killed
			_ = cmd.Wait()         // returns an error for a killed process
		}
	})
	text, err := os.ReadFile("testdata/attack.sh")
	if err != nil {
		t.Fatal(err)
	}
	s.Write(t, "work/attack.sh", strings.NewReplacer("OUTSIDE", s.Outside, "USER", s.userHome(), "BRIDGE", s.Home, "WORKSPACE", s.Workspace,
		"PORT", port, "SOCKET", s.socket(), "VICTIMS\n", victims.String()).Replace(string(text)))
	for _, file := range []string{"user/.netrc", "user/.ssh/id_ed25519", "user/.config/gh/hosts.yml"} {
		s.Write(t, file, guardtest.Canary+"\n")
	}
	for name, text := range map[string]string{"viewed.txt": guardtest.Canary + "-viewed\n", "found.txt": guardtest.Canary + "-found\n", guardtest.Canary + "-listed": "", "edited.txt": "old\n"} {
		s.Write(t, filepath.Join("outside", name), text)
	}
	rules, err := os.ReadFile(policyFile)
	if err != nil {
		t.Fatal(err)
	}
	s.Write(t, "home/policy.yaml", string(rules)+"# "+guardtest.Canary+"\n")
	// git would fail on links whose targets it cannot see.
	if err := os.RemoveAll(filepath.Join(s.Workspace, "borrowed")); err != nil {
		t.Fatal(err)
	}
	s.Git(t, "", "add", "attack.sh")
	s.Git(t, "", "commit", "-q", "-m", "attack")
	return s
}

// listen records the names of attacks that connect: over TCP, a Unix socket and
// an abstract Unix socket.
func (s *attackSite) listen(t *testing.T) (port string) {
	t.Helper()
	var all sync.WaitGroup
	for _, at := range [][2]string{{"tcp", "127.0.0.1:0"}, {"unix", "@" + s.socket()}, {"unix", filepath.Join(s.Outside, "socket")}} {
		l, err := net.Listen(at[0], at[1])
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				all.Go(func() { s.recordConnection(c) })
			}
		})
		defer t.Cleanup(func() { _ = l.Close() }) // runs before the wait for the goroutines
		if at[0] == "tcp" {
			_, port, _ = net.SplitHostPort(l.Addr().String()) // cannot fail
		}
	}
	t.Cleanup(all.Wait)
	return port
}

// socket is the name of the abstract Unix socket.
func (s *attackSite) socket() string { return strings.ReplaceAll(s.Root, "/", "-") }

// recordConnection records the name of an attack that connected. An attack
// without a name counts, too.
func (s *attackSite) recordConnection(c net.Conn) {
	defer func() { _ = c.Close() }() // nothing was written
	_ = c.SetDeadline(time.Now().Add(patience))
	name, _ := bufio.NewReader(c).ReadString('\n')
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reached[strings.TrimSpace(name)] = true
}

// effects lists what an attack achieved, seen from outside.
func (s *attackSite) effects(t *testing.T, name string) []string {
	t.Helper()
	loot := filepath.Join(s.Workspace, "loot-"+name)
	if kept, err := filepath.Glob(filepath.Join(s.Home, "cache", "*", "*", "loot-"+name)); err == nil && len(kept) == 1 {
		loot = kept[0]
	}
	text, err := os.ReadFile(loot)
	if err != nil || !strings.HasSuffix(string(text), "ended\n") {
		t.Errorf("%s did not run to its end: %v %q\n%s", name, err, text, s.output)
	}
	var out []string
	seen := func(what string, did bool) {
		if did && !slices.Contains(out, what) {
			out = append(out, what)
		}
	}
	for line := range strings.Lines(string(text)) {
		what, _, found := strings.Cut(line, ": ")
		seen(what, found)
	}
	for what, file := range map[string]string{"wrote outside": filepath.Join(s.Outside, "pwned-"+name), "wrote home": filepath.Join(s.userHome(), "pwned-"+name),
		"wrote bridge": filepath.Join(s.Home, "pwned-"+name), "wrote hook": filepath.Join(s.Workspace, ".git", "hooks", "pwned-"+name)} {
		_, err := os.Lstat(file)
		seen(what, err == nil)
	}
	config, err := os.ReadFile(filepath.Join(s.Workspace, ".git", "config"))
	if err != nil {
		t.Error(err)
	}
	seen("wrote git's configuration", strings.Contains(string(config), "pwned \""+name))
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.victims[name].Process.Pid))
	seen("killed", err != nil || strings.Contains(string(stat), ") Z "))
	s.mu.Lock()
	for what, sign := range map[string]string{"connected": name, "connected to a file": name + "-/", "connected without a file": name + `-\`} {
		seen(what, s.reached[sign])
	}
	s.mu.Unlock()
	slices.Sort(out)
	return out
}

// fileEffects lists what the runtime's own file tools achieved outside the
// workspace.
func (s *attackSite) fileEffects(t *testing.T) (out []string) {
	t.Helper()
	s.testEnv.mu.Lock()
	for _, name := range []string{"viewed", "found", "listed"} {
		if s.leaked[guardtest.Canary+"-"+name] != "" {
			out = append(out, name)
		}
	}
	s.testEnv.mu.Unlock()
	if _, err := os.Lstat(filepath.Join(s.Outside, "created.txt")); err == nil {
		out = append(out, "created")
	}
	if text, err := os.ReadFile(filepath.Join(s.Outside, "edited.txt")); err != nil || string(text) != "old\n" {
		out = append(out, "edited")
	}
	return out
}

// harmWithoutSandbox lists what attack.sh achieves without a sandbox.
func harmWithoutSandbox() []string {
	out := []string{"connected", "killed", "listed bridge", "listed home", "read bridge", "read denied", "read environment", "read gh", "read home", "read link",
		"read outside", "read ssh", "wrote bridge", "wrote git's configuration", "wrote home", "wrote hook", "wrote outside"}
	if info, err := os.Stat("/etc/shadow"); err == nil && info.Size() > 0 && os.Geteuid() == 0 {
		out = append(out, "may read shadow")
	}
	if _, err := exec.LookPath("perl"); err == nil {
		out = append(out, "connected to a file", "connected without a file")
	}
	if f, err := os.OpenFile("/proc/sys/kernel/core_pattern", os.O_WRONLY|os.O_APPEND, 0); err == nil {
		_ = f.Close() // nothing was written
		out = append(out, "may change the kernel")
	}
	slices.Sort(out)
	return out
}

// way is one of the ways in which the bridge runs a program.
type way struct {
	name    string
	attacks []string // names of the attacks
	run     func(t *testing.T, s *attackSite, env []string)
	// stillPossible lists what an attack can still do in the sandbox; see
	// docs/guides/sandbox.md.
	stillPossible []string
	mode          string // sandbox mode; "" for require
	files         bool   // also use the runtime's file tools, which run no program
}

var ways = func() []way {
	var out []way
	for _, d := range doors {
		if slices.Contains([]string{"run", "chat completions", "mcp", "mcp over HTTP", "acp", "abp", "plugin", "orchestrate"}, d.name) {
			out = append(out, way{name: d.name, attacks: []string{"bash", "background", "subagent"}, run: attackThroughAgent(d), files: true})
		}
	}
	lines, filter, mcp := []string{"shell", "task", "make", "server", "formatter"}, []string{"filter"}, []string{"mcp"}
	return append(out,
		way{name: "tool bus", attacks: lines, run: attackThroughBus(bus)},
		way{name: "tool bus in VS Code", attacks: lines, run: attackThroughBus(window)},
		way{name: "git of abp", attacks: filter, run: gitOfAnOrder, stillPossible: []string{"read denied"}},
		way{name: "git of orchestrate", attacks: filter, run: gitOfATask, stillPossible: []string{"read denied"}},
		way{name: "server of abp", attacks: mcp, run: serverOfAnOrder},
		way{name: "server of acp", attacks: mcp, run: serverOfAClient},
		way{name: "terminal of an ACP agent", attacks: []string{"terminal"}, run: attackThroughTerminal("acp"), mode: "auto"},
		way{name: "terminal after fallback", attacks: []string{"terminal"}, run: attackThroughTerminal("auto"), mode: "auto"},
	)
}()

// Even if the guard allows everything, the sandbox keeps programs from what is
// outside. Without the sandbox the same attacks succeed.
func TestForced(t *testing.T) {
	needsSandbox(t)
	if _, err := allowAllBinary(); err != nil { // takes a while
		t.Fatal(err)
	}
	for _, w := range ways {
		for _, mode := range []string{cmp.Or(w.mode, "require"), "off"} {
			t.Run(w.name+"/"+mode, func(t *testing.T) {
				t.Parallel()
				slots <- struct{}{}
				defer func() { <-slots }()
				s := newAttackSite(t, w.attacks)
				w.run(t, s, append(s.envWithModel(), "COPILOT_BRIDGE_SANDBOX="+mode))
				stays, all := w.stillPossible, harmWithoutSandbox()
				for _, name := range w.attacks {
					got := s.effects(t, name)
					if mode != "off" && !slices.Equal(got, stays) {
						t.Errorf("%s got through: %q", name, got)
					}
					if mode == "off" && !slices.Equal(got, all) {
						t.Errorf("%s has no effect: without a sandbox it got %q", name, got)
					}
				}
				if got := s.fileEffects(t); w.files && len(got) != map[string]int{"require": 0, "off": 5}[mode] {
					t.Errorf("tools that run no program: %q", got)
				}
				if t.Failed() {
					t.Logf("%.6000s", s.output)
				}
			})
		}
	}
}

// A bwrap in the workspace does not replace the system's bwrap, even if it
// comes first on the PATH.
func TestForcedFalseBubblewrap(t *testing.T) {
	needsSandbox(t)
	s := newAttackSite(t, []string{"bash", "background", "subagent"})
	s.Write(t, "work/bin/bwrap", `#!/bin/bash
[ "$1" = --version ] && { echo bubblewrap 0.8.0; exit; }
: > `+s.Pwned+`
while [ "$1" != -- ]; do shift; done
shift
exec "$@"
`)
	if err := os.Chmod(filepath.Join(s.Workspace, "bin", "bwrap"), 0o755); err != nil {
		t.Fatal(err)
	}
	attackThroughAgent(door{open: cli})(t, s, append(s.envWithModel(), "COPILOT_BRIDGE_SANDBOX=require", "PATH="+filepath.Join(s.Workspace, "bin")+":"+os.Getenv("PATH")))
	if got := s.effects(t, "bash"); len(got) > 0 {
		t.Errorf("it got through: %q\n%s", got, s.output)
	}
	if _, err := os.Lstat(s.Pwned); err == nil {
		t.Error("the workspace's bwrap was run outside of the sandbox")
	}
}

// Files that the bridge itself reads and writes stay in the workspace, whatever
// the guard says. No program is run, so no sandbox is needed.
func TestForcedFiles(t *testing.T) {
	for name, open := range map[string]func(*testing.T, *testEnv, []string) caller{"tool bus": bus, "mcp": files(mcpStdio("copilot"))} {
		t.Run(name, func(t *testing.T) {
			s := newAttackSite(t, nil)
			var cases []guardtest.Case
			for _, dir := range []string{"{{ws}}/link", "{{ws}}/../outside", "{{out}}"} {
				cases = append(cases, guardtest.Case{Name: "read " + dir, Tool: "view", Args: map[string]any{"path": dir + "/viewed.txt"}},
					guardtest.Case{Name: "list " + dir, Tool: "view", Args: map[string]any{"path": dir}},
					guardtest.Case{Name: "write " + dir, Tool: "create", Args: map[string]any{"path": dir + "/created.txt", "file_text": "x\n"}})
			}
			cases = append(cases, guardtest.Case{Name: "denied", Tool: "view", Args: map[string]any{"path": "{{ws}}/secrets/key.pem"}})
			_, outcomes := open(t, s.testEnv, append(s.envWithModel(), "COPILOT_BRIDGE_SANDBOX=off")).do(t, cases, 1)
			if len(outcomes) != len(cases) || !strings.Contains(outcomes[len(cases)-1].Text, guardtest.Canary) {
				t.Errorf("the guard denied a call: %+v", outcomes)
			}
			for _, sign := range []string{"viewed", "listed"} {
				if strings.Contains(s.output.String(), guardtest.Canary+"-"+sign) {
					t.Errorf("it was %s: %s", sign, s.output)
				}
			}
			if got := s.fileEffects(t); len(got) > 0 {
				t.Error(got)
			}
		})
	}
}

func shellCall(name string, more map[string]any) guardtest.Case {
	args := map[string]any{"command": "bash attack.sh " + name, "description": "x"}
	for k, v := range more {
		args[k] = v
	}
	return guardtest.Case{Name: name, Tool: "bash", Args: args}
}

// attackThroughAgent has Copilot's agent run the attack: directly, in the
// background and in a sub-agent.
func attackThroughAgent(d door) func(t *testing.T, s *attackSite, env []string) {
	return func(t *testing.T, s *attackSite, env []string) {
		t.Helper()
		c, ok := d.open(t, s.testEnv, env).(*session)
		if !ok {
			t.Fatalf("%s opens no sessions", d.name)
		}
		below := s.newScript(t, s.fillCases(t, []guardtest.Case{shellCall("subagent", nil)}, s.Workspace), 1, false)
		above := s.newScript(t, s.fillCases(t, []guardtest.Case{
			shellCall("bash", nil),
			shellCall("background", map[string]any{"mode": "async", "shellId": "b"}),
			{Name: "wait", Tool: "read_bash", Args: map[string]any{"shellId": "b", "delay": 5}},
			{Name: "view", Tool: "view", Args: map[string]any{"path": filepath.Join(s.Outside, "viewed.txt")}},
			{Name: "grep", Tool: "grep", Args: map[string]any{"pattern": "found", "paths": s.Outside, "output_mode": "content"}},
			{Name: "glob", Tool: "glob", Args: map[string]any{"pattern": "*CANARY*", "paths": s.Outside}},
			{Name: "create", Tool: "create", Args: map[string]any{"path": filepath.Join(s.Outside, "created.txt"), "file_text": "x"}},
			{Name: "edit", Tool: "edit", Args: map[string]any{"path": filepath.Join(s.Outside, "edited.txt"), "old_str": "old", "new_str": "new"}},
			{Name: "task", Tool: "task", Args: map[string]any{"description": "x", "name": "sub", "agent_type": "general-purpose", "mode": "sync", "prompt": below.prompt()}},
		}, s.Workspace), 1, false)
		c.say(t, above.prompt())
	}
}

// attackThroughBus has the tool bus run the attack: as a command, as tasks, as a
// language server and as a formatter.
func attackThroughBus(open func(t *testing.T, y *testEnv, env []string) caller) func(t *testing.T, s *attackSite, env []string) {
	return func(t *testing.T, s *attackSite, env []string) {
		t.Helper()
		attack := filepath.Join(s.Workspace, "attack.sh")
		languages, err := json.Marshal(map[string]any{"languages": map[string]any{
			"note": map[string]any{"extensions": []string{".note"}, "command": []string{"/bin/bash", attack, "server"}},
			"memo": map[string]any{"extensions": []string{".memo"}, "formatter": []string{"/bin/bash", attack, "formatter"}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		s.Write(t, "home/config.yaml", string(languages))
		s.Write(t, "work/.vscode/tasks.json", `{"version":"2.0.0","tasks":[{"label":"attack","type":"shell","command":"bash attack.sh task"}]}`)
		s.Write(t, "work/Makefile", "attack:\n\tbash attack.sh make\n")
		s.Write(t, "work/a.note", "x\n")
		s.Write(t, "work/a.memo", "x\n")
		open(t, s.testEnv, env).do(t, []guardtest.Case{
			{Name: "shell", Tool: "mcp.shell.run", Args: map[string]any{"cmd": "bash attack.sh shell"}},
			{Name: "task", Tool: "mcp.task.run", Args: map[string]any{"name": "vscode:attack"}},
			{Name: "make", Tool: "mcp.task.run", Args: map[string]any{"name": "make:attack"}},
			{Name: "server", Tool: "mcp.symbols.list", Args: map[string]any{"path": "a.note"}},
			{Name: "formatter", Tool: "mcp.format.apply", Args: map[string]any{"path": "a.memo"}},
		}, 1)
	}
}

// work is a work order for the workspace.
func (s *attackSite) work(task string, config map[string]any) map[string]any {
	return map[string]any{"id": "11111111-2222-4333-8444-555555555555", "task": task, "lane": "workspace_first",
		"workspace": map[string]any{"root": s.Workspace, "mode": "pass_through"}, "config": config}
}

// configureFilter configures a git filter of the user that runs a program of
// the work tree, for git commands of the bridge itself.
func configureFilter(t *testing.T, s *attackSite) {
	t.Helper()
	s.Write(t, "user/.gitconfig", "[filter \"project\"]\n\tclean = \"bash ./attack.sh filter; cat\"\n")
	s.Write(t, "work/.gitattributes", "*.md filter=project\n")
	s.Git(t, "", "add", ".gitattributes")
	s.Git(t, "", "commit", "-q", "-m", "filter")
	s.Write(t, "work/README.md", "changed\n")
}

func gitOfAnOrder(t *testing.T, s *attackSite, env []string) {
	t.Helper()
	configureFilter(t, s)
	order(t, s.testEnv, env, s.work("rehearsal: text done", nil))
}

func gitOfATask(t *testing.T, s *attackSite, env []string) {
	t.Helper()
	configureFilter(t, s)
	plan, err := json.Marshal(orchestrate.Single("rehearsal: text done"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := s.program(env, "orchestrate", "--json", "--plan", "-")
	cmd.Stdin, cmd.Stdout = bytes.NewReader(plan), s.output
	runToEnd(t, s.testEnv, cmd)
}

// serverOfAnOrder runs the attack as an MCP server of a work order.
func serverOfAnOrder(t *testing.T, s *attackSite, env []string) {
	t.Helper()
	order(t, s.testEnv, env, s.work("rehearsal: text done", map[string]any{"vendor": map[string]any{"copilot": map[string]any{"mcpServers": map[string]any{
		"evil": map[string]any{"command": "bash", "args": []string{filepath.Join(s.Workspace, "attack.sh"), "mcp"}}}}}}))
}

// serverOfAClient runs the attack as an MCP server of an ACP client.
func serverOfAClient(t *testing.T, s *attackSite, env []string) {
	t.Helper()
	c := acpSession(t, s.testEnv, env, acpwire.MCPServer{Name: "evil", Command: "/bin/bash", Args: []string{filepath.Join(s.Workspace, "attack.sh"), "mcp"}, Env: []acpwire.NameVal{}})
	c.say(t, "rehearsal: text done")
}

// attackThroughTerminal has another ACP agent, the test binary, ask the bridge
// for a terminal. No Copilot runtime is involved.
func attackThroughTerminal(transport string) func(t *testing.T, s *attackSite, env []string) {
	return func(t *testing.T, s *attackSite, env []string) {
		t.Helper()
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		// Agents that would load instruction files are not started if there are
		// any.
		if err := os.RemoveAll(filepath.Join(s.Workspace, "AGENTS.md")); err != nil {
			t.Fatal(err)
		}
		cmd := s.program(append(env, "ABP_COPILOT_TRANSPORT="+transport, "ABP_COPILOT_CMD="+self, "ABP_COPILOT_ACP_ARGS="+agentVerb, "COPILOT_CLI_PATH=/none"), "run", "--json", "work")
		cmd.Stdout = s.output
		runToEnd(t, s.testEnv, cmd)
	}
}
