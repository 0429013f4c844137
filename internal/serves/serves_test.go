package serves

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/durable"
	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
)

func list(t *testing.T, home string) []Serve {
	t.Helper()
	out, err := List(home)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func put(t *testing.T, home string, s Serve) string {
	t.Helper()
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(Dir(home), strconv.Itoa(s.PID)+".json")
	if err := durable.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestRegistered(t *testing.T) {
	home := t.TempDir()
	if got := list(t, home); len(got) != 0 {
		t.Fatalf("before any: %v", got)
	}
	want := Serve{URL: "http://127.0.0.1:8788", RPC: "ws://127.0.0.1:8788/rpc", Workspace: "/w", Token: true, Since: time.Now().UTC().Round(time.Second), Version: "1"}
	leave, err := Register(home, want)
	if err != nil {
		t.Fatal(err)
	}
	want.Process = supervise.Self()
	if got := list(t, home); len(got) != 1 || got[0] != want || got[0].Port() != 8788 {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	if got := In(list(t, home), "/other"); len(got) != 0 {
		t.Errorf("in another workspace: %v", got)
	}
	if info, err := os.Stat(filepath.Join(Dir(home), strconv.Itoa(os.Getpid())+".json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}
	for range 2 { // a second time does no harm
		if err := leave(); err != nil {
			t.Fatal(err)
		}
	}
	if got := list(t, home); len(got) != 0 {
		t.Errorf("after it has left: %v", got)
	}
}

// Killed processes, processes with the id of a killed one, and files that nobody can read are no servers.
func TestStale(t *testing.T) {
	home := t.TempDir()
	ended := exec.Command("go", "version")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	later := supervise.Self()
	later.Start--
	broken := put(t, home, Serve{Process: supervise.Process{PID: 1 << 22}})
	if err := os.WriteFile(broken, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	files := []string{put(t, home, Serve{Process: supervise.Process{PID: ended.Process.Pid, Start: 1}}), put(t, home, Serve{Process: later}), broken}
	other := filepath.Join(Dir(home), "serve-1.log")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := list(t, home); len(got) != 0 {
		t.Fatalf("got %v", got)
	}
	for _, f := range files {
		if _, err := os.Stat(f); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", f, err)
		}
	}
	if _, err := os.Stat(other); err != nil {
		t.Errorf("the log is gone: %v", err)
	}
}
