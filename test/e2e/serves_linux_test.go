package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// listedServer is a server as ps shows it.
type listedServer struct {
	PID       int       `json:"pid"`
	URL       string    `json:"url"`
	RPC       string    `json:"rpc"`
	Workspace string    `json:"workspace"`
	ReadOnly  bool      `json:"read_only"`
	Token     bool      `json:"token"`
	Since     time.Time `json:"since"`
	Version   string    `json:"version"`
	Log       string    `json:"log"`
}

func (k *testHome) ps() (list []listedServer) {
	k.t.Helper()
	if err := json.Unmarshal(k.run("ps", "--json"), &list); err != nil {
		k.t.Fatal(err)
	}
	return list
}

// Two servers of one workspace answer both; ps shows them, and the second names
// the first. One that is killed is no longer shown.
func TestServersKnowEachOther(t *testing.T) {
	t.Parallel()
	k := newTestHome(t)
	if list := k.ps(); len(list) != 0 {
		t.Fatalf("before any: %v", list)
	}
	first, url := k.serve()
	second := k.command("serve", "--demo", "--port", "0", "--workspace", k.dir, "--read-write")
	stderr, err := second.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Start(); err != nil {
		t.Fatal(err)
	}
	var told bytes.Buffer
	for line := make([]byte, 4096); !strings.Contains(told.String(), "dashboard"); {
		n, err := stderr.Read(line)
		if err != nil {
			t.Fatalf("%v: %s", err, told.String())
		}
		told.Write(line[:n])
	}
	if want := k.dir + " is served at " + url + " too, by process "; !strings.Contains(told.String(), want) {
		t.Errorf("%q is not in:\n%s", want, told.String())
	}
	dir, err := filepath.EvalSymlinks(k.dir)
	if err != nil {
		t.Fatal(err)
	}
	list := k.ps()
	if len(list) != 2 || list[0].PID != first.Process.Pid || list[0].URL != url || list[0].Workspace != dir || !list[0].ReadOnly || list[0].Version == "" ||
		list[1].PID != second.Process.Pid || list[1].ReadOnly || list[1].Token || time.Since(list[1].Since) > time.Minute {
		t.Fatalf("got %+v", list)
	}
	if table := string(k.run("ps")); strings.Count(table, "\n") != 3 || !strings.Contains(table, url) || !strings.Contains(table, "WORKSPACE") {
		t.Errorf("the table is\n%s", table)
	}
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait() // killed
	if list := k.ps(); len(list) != 1 || list[0].PID != second.Process.Pid {
		t.Errorf("after the first was killed: %+v", list)
	}
	if err := second.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := second.Wait(); err != nil {
		t.Errorf("the second ended with %v: %s", err, told.String())
	}
	if list := k.ps(); len(list) != 0 {
		t.Errorf("after both have ended: %+v", list)
	}
}

// fails runs a command that must fail, and returns what it writes to standard error.
func (k *testHome) fails(code int, args ...string) string {
	k.t.Helper()
	cmd := k.command(args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != code {
		k.t.Errorf("%q ended with %v, want exit code %d\n%s", args, err, code, &stderr)
	}
	return stderr.String()
}

// A server in the background: started, found, logged, in the way of another one, stopped.
func TestDetachedServer(t *testing.T) {
	t.Parallel()
	k := newTestHome(t)
	stop := k.command("stop", "--all")
	t.Cleanup(func() { _ = stop.Run() }) // if the test has failed before
	const token = "correct-horse-battery-staple"
	if got, want := k.fails(1, "stop"), "copilot-bridge: no server is running\n  → start one with `copilot-bridge serve --detach`\n"; got != want {
		t.Errorf("stop without a server says %q", got)
	}
	if got, want := k.fails(1, "logs"), "copilot-bridge: no server has left a log\n  → start one with `copilot-bridge serve --detach`\n"; got != want {
		t.Errorf("logs without a server says %q", got)
	}
	var ready struct {
		URL   string
		Token bool
		PID   int
	}
	if err := json.Unmarshal(k.run("serve", "--demo", "--detach", "--json", "--port", "0", "--token", token), &ready); err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, ready.URL+"/v1/models", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(r)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("it does not answer: %v, %v", res, err)
	}
	_ = res.Body.Close() // nothing of it is wanted
	list := k.ps()
	if len(list) != 1 || list[0].PID != ready.PID || list[0].URL != ready.URL || !list[0].Token || !ready.Token {
		t.Fatalf("%+v is not %+v", list, ready)
	}
	show := k.command("launch", "claude", "--print")
	show.Env = append(show.Env, "COPILOT_BRIDGE_TOKEN="+token)
	if got, err := show.CombinedOutput(); err != nil || !bytes.Contains(got, []byte("ANTHROPIC_BASE_URL="+ready.URL+"\n")) || bytes.Contains(got, []byte(token)) {
		t.Errorf("launch --print: %s, %v", got, err)
	}
	s := list[0]
	if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", s.PID)); err != nil || bytes.Contains(line, []byte(token)) || !bytes.Contains(line, []byte("--workspace="+k.dir)) {
		t.Errorf("its command line is %q, %v", line, err)
	}
	files, err := filepath.Glob(filepath.Join(k.home, ".copilot-bridge", "serves", "*"))
	if err != nil || len(files) != 2 {
		t.Errorf("its files are %q, %v", files, err)
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info, err)
		}
		if text, err := os.ReadFile(file); err != nil || bytes.Contains(text, []byte(token)) {
			t.Errorf("%s: %s, %v", file, text, err)
		}
	}
	if log := string(k.run("logs")); !strings.Contains(log, "path=/v1/models status=200") {
		t.Errorf("the log is %q", log)
	}
	port := ready.URL[strings.LastIndex(ready.URL, ":")+1:]
	want := fmt.Sprintf("copilot-bridge: port %s is in use by another copilot-bridge, process %d, which serves %s\n"+
		"  → use it at %s, stop it with `copilot-bridge stop %d`, or choose another port with --port; --port 0 picks a free one\n", port, s.PID, k.dir, s.URL, s.PID)
	if got := k.fails(1, "serve", "--demo", "--port", port); !strings.HasSuffix(got, want) {
		t.Errorf("a taken port says\n%s, want\n%s", got, want)
	}
	follow, out := k.start("logs", port, "--follow")
	if line, err := out.ReadString('\n'); err != nil || line == "" {
		t.Errorf("logs --follow: %q, %v", line, err)
	}
	if got, want := string(k.run("stop", k.dir)), fmt.Sprintf("stopped %s (process %d, %s)\n", s.URL, s.PID, k.dir); got != want {
		t.Errorf("stop says %q, want %q", got, want)
	}
	for { // it ends with the server
		if _, err := out.ReadString('\n'); err != nil {
			break
		}
	}
	if err := follow.Wait(); err != nil {
		t.Errorf("logs --follow ends with %v", err)
	}
	if list := k.ps(); len(list) != 0 {
		t.Errorf("after stop: %+v", list)
	}
	if log := string(k.run("logs", "-n", "1000")); !strings.Contains(log, "path=/v1/models") {
		t.Errorf("the log of the stopped server is %q", log)
	}
}

// Another program's port is said to be that program's, also by a server in the background.
func TestDetachedServerFails(t *testing.T) {
	t.Parallel()
	k := newTestHome(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // nobody has connected
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("port %s on 127.0.0.1 is in use by e2e.test (process %d)", port, os.Getpid())
	got := k.fails(1, "serve", "--demo", "--detach", "--port", port)
	for _, line := range []string{"the server has ended before it was ready:\n", want, "→ stop the program that listens on port " + port, "its log is ~/.copilot-bridge/serves/serve-"} {
		if !strings.Contains(got, line) {
			t.Errorf("%q is not in\n%s", line, got)
		}
	}
	if list := k.ps(); len(list) != 0 {
		t.Errorf("it runs: %+v", list)
	}
	for args, want := range map[string]string{
		"stop 4711":       "copilot-bridge: no server is running\n  → start one with `copilot-bridge serve --detach`\n",
		"logs a b":        "copilot-bridge: `copilot-bridge logs` accepts one server at most; got 2 arguments\n  → see `copilot-bridge logs --help`\n",
		"logs --lines=-1": "copilot-bridge: --lines=-1: must be 0 or more\n  → see `copilot-bridge logs --help`\n",
	} {
		code := 2
		if strings.HasPrefix(args, "stop") {
			code = 1
		}
		if got := k.fails(code, strings.Fields(args)...); got != want {
			t.Errorf("%s says %q", args, got)
		}
	}
}
