package e2e

import (
	"bytes"
	"encoding/json"
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
	for line := make([]byte, 4096); !strings.Contains(told.String(), "examples"); {
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
