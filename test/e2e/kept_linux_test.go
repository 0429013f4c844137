package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// testHome is a home directory in which the tests run and kill commands.
type testHome struct {
	t         *testing.T
	home, dir string
	env       []string // further variables
}

func newTestHome(t *testing.T) *testHome {
	t.Helper()
	return &testHome{t: t, home: homeDir(t), dir: t.TempDir()}
}

// homeDir is a home that is removed when its last process has ended: a runtime
// whose bridge was killed or stopped may still write.
func homeDir(t *testing.T) string {
	t.Helper()
	home := t.TempDir()
	t.Cleanup(func() {
		waitUntil(t, "the end of all processes", func() bool { return len(processes(t, home, "")) == 0 })
	})
	return home
}

func (k *testHome) command(args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	cmd.Dir, cmd.Env = k.dir, []string{"HOME=" + k.home, "PATH=" + os.Getenv("PATH"), "COPILOT_CLI_PATH=" + runtimetest.Path(k.t), "COPILOT_BRIDGE_SANDBOX=off"}
	cmd.Env = append(cmd.Env, k.env...)
	return cmd
}

// run runs a command to its end and returns its standard output.
func (k *testHome) run(args ...string) []byte {
	k.t.Helper()
	cmd := k.command(args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		k.t.Fatalf("%q: %v\n%s%s", args, err, out, stderr.String())
	}
	return out
}

// start starts a long-running command and returns its standard output.
func (k *testHome) start(args ...string) (*exec.Cmd, *bufio.Reader) {
	k.t.Helper()
	cmd := k.command(args...)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // may already be killed
		_ = cmd.Wait()
	})
	return cmd, bufio.NewReader(out)
}

func (k *testHome) serve(flags ...string) (*exec.Cmd, string) {
	k.t.Helper()
	return k.listen(append([]string{"--demo"}, flags...)...)
}

// listen is serve without the demo model.
func (k *testHome) listen(flags ...string) (*exec.Cmd, string) {
	k.t.Helper()
	cmd, out := k.start(append([]string{"serve", "--json", "--port", "0"}, flags...)...)
	line, err := out.ReadBytes('\n')
	var address struct{ URL string }
	if err := errors.Join(err, json.Unmarshal(line, &address)); err != nil {
		k.t.Fatal(err)
	}
	return cmd, address.URL
}

// ask sends a conversation to the agent of a server.
func (k *testHome) ask(url, messages string) {
	k.t.Helper()
	res, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"agent/rehearsal-1","messages":[`+messages+`]}`))
	if err != nil {
		k.t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusOK {
		k.t.Fatal(res.Status, err)
	}
}

// stored returns the IDs of the conversations on disk.
func (k *testHome) stored() []string {
	k.t.Helper()
	dirs, err := filepath.Glob(filepath.Join(k.home, ".copilot-bridge", "copilot", "session-state", "*"))
	if err != nil {
		k.t.Fatal(err)
	}
	for i, dir := range dirs {
		dirs[i] = filepath.Base(dir)
	}
	return dirs
}

// listed returns the IDs of the sessions in the session list.
func (k *testHome) listed() []string {
	k.t.Helper()
	var entries []struct{ ID string }
	if err := json.Unmarshal(k.run("sessions", "list", "--json"), &entries); err != nil {
		k.t.Fatal(err)
	}
	var ids []string
	for _, e := range entries {
		ids = append(ids, e.ID)
	}
	slices.Sort(ids)
	return ids
}

// Conversations that a killed server has left on disk are removed by the next
// command. Conversations of a running server stay, and so do resumable
// sessions: those of run, mcp, acp and abp are in the session list.
func TestConversationsOfTheKilled(t *testing.T) {
	t.Parallel()
	k := newTestHome(t)
	const first = `{"role":"user","content":"rehearsal: text one"}`
	_, alive := k.serve()
	k.ask(alive, first)
	own := k.stored()
	if len(own) == 0 {
		t.Fatal("the server does not store its conversation")
	}

	running, out := k.start("run", "--demo", "--json", "rehearsal: delay 10m\nrehearsal: text never")
	if _, err := out.ReadBytes('\n'); err != nil { // the answer to session/new
		t.Fatal(err)
	}
	waitUntil(t, "the session of run is stored", func() bool { return len(k.stored()) > len(own) })
	victims := []*exec.Cmd{running}
	for range 3 {
		cmd, url := k.serve()
		k.ask(url, first)
		victims = append(victims, cmd)
	}
	const never = `rehearsal: delay 10m\nrehearsal: text never`
	for name, input := range map[string]string{
		"mcp copilot": `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"copilot_code_task","arguments":{"prompt":"` + never + `"}}}
`,
		"acp": `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}
{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"` + k.dir + `","mcpServers":[]}}
`,
		"abp": `{"t":"run","id":"r","work_order":{"id":"11111111-2222-4333-8444-555555555555","task":"` + never + `","workspace":{"root":"."}}}
`,
	} {
		before := len(k.stored())
		cmd := k.command(append(strings.Fields(name), "--demo", "--log-level", "error")...)
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err == nil {
			_, err = io.WriteString(in, input)
		}
		if err != nil {
			t.Fatal(err)
		}
		waitUntil(t, "the session of "+name+" is stored", func() bool { return len(k.stored()) > before })
		victims = append(victims, cmd)
	}
	if n := len(k.stored()); n < len(own)+7 {
		t.Fatalf("%d conversations are stored", n)
	}
	// A running server has nothing to remove.
	k.run("run", "--demo", "rehearsal: text two")
	if n := len(k.stored()); n < len(own)+8 {
		t.Fatalf("%d conversations are stored: one of a running server was removed", n)
	}
	for _, cmd := range victims {
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // returns an error because the process was killed
	}

	k.run("run", "--demo", "rehearsal: text three")
	want := append(k.listed(), own...)
	slices.Sort(want)
	if len(want) != len(own)+6 {
		t.Errorf("listed and alive are %q, not those of three runs, three other commands and %q", want, own)
	}
	if got := k.stored(); !slices.Equal(got, want) {
		t.Errorf("stored are %q\nlisted and alive %q", got, want)
	}
	k.ask(alive, first+`,{"role":"assistant","content":"one"},{"role":"user","content":"rehearsal: text four"}`)
	k.run("sessions", "delete", "--all", "--yes")
	if got := k.stored(); !slices.Equal(got, own) {
		t.Errorf("after the deletion of all sessions %q are stored, not %q", got, own)
	}
	waitUntil(t, "no note of a dead process is left", func() bool {
		notes, err := filepath.Glob(filepath.Join(k.home, ".copilot-bridge", "run", "conversations", "*", "*"))
		return err == nil && len(notes) == len(own)
	})
}

// Sessions beyond a maximum number or age are removed with their conversations,
// both on request and automatically. Pinned sessions and those in use stay.
func TestSessionsArePruned(t *testing.T) {
	t.Parallel()
	k := newTestHome(t)
	var ids []string // oldest first
	for range 5 {
		var last struct{ Session string }
		lines := strings.Split(strings.TrimSpace(string(k.run("run", "--demo", "--json", "rehearsal: text hello"))), "\n")
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Session == "" {
			t.Fatal(lines, err)
		}
		ids = append(ids, last.Session)
	}
	k.run("sessions", "pin", ids[0][:8])
	busy, out := k.start("run", "--demo", "--json", "--resume", ids[1], "rehearsal: delay 10m\nrehearsal: text never")
	if _, err := out.ReadBytes('\n'); err != nil {
		t.Fatal(err)
	}
	check := func(what string, want ...string) {
		t.Helper()
		want = slices.Sorted(slices.Values(want))
		if listed, stored := k.listed(), k.stored(); !slices.Equal(listed, want) || !slices.Equal(stored, want) {
			t.Errorf("%s: listed %q, stored %q; want %q", what, listed, stored, want)
		}
	}
	prune := func(args ...string) (p struct {
		DryRun  bool `json:"dry_run"`
		Deleted []string
	}) {
		t.Helper()
		if err := json.Unmarshal(k.run(append([]string{"sessions", "prune", "--json"}, args...)...), &p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	if p := prune("--keep", "2", "--dry-run"); !p.DryRun || !slices.Equal(p.Deleted, ids[2:3]) {
		t.Errorf("%+v", p)
	}
	check("a trial", ids...)
	if p := prune("--keep", "2"); p.DryRun || !slices.Equal(p.Deleted, ids[2:3]) {
		t.Errorf("%+v", p)
	}
	check("by number", ids[0], ids[1], ids[3], ids[4])
	if p := prune("--older-than", "1d"); len(p.Deleted) != 0 {
		t.Errorf("%+v", p)
	}
	if p := prune(); len(p.Deleted) != 0 {
		t.Errorf("by the settings: %+v", p)
	}

	if err := busy.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = busy.Wait() // returns an error because the process was interrupted

	// Automatic pruning happens while another command works.
	if err := os.RemoveAll(filepath.Join(k.home, ".copilot-bridge", "sessions", "pruned")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(k.home, ".copilot-bridge", "config.yaml"), []byte("sessions: {keep: 1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	k.start("serve", "--json", "--port", "0", "--demo")
	waitUntil(t, "the older sessions are pruned", func() bool { return len(k.listed()) == 2 })
	check("by itself", ids[0], ids[1])
}
