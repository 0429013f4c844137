package load

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/programtest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// server is a running "serve".
type server struct {
	t       *testing.T
	cmd     *exec.Cmd
	url     string
	home    string
	runtime string // path of the runtime
	stdout  *programtest.Output
	errors  *programtest.Output
	done    chan struct{} // closed when the process has ended
}

// serve starts the program with its own home directory, a model provider and
// more environment variables. It waits until the server is ready. The test
// stops it at its end.
func serve(t *testing.T, provider, key string, vars ...string) *server {
	t.Helper()
	s := &server{t: t, home: t.TempDir(), runtime: runtimetest.Path(t), stdout: &programtest.Output{}, errors: &programtest.Output{}, done: make(chan struct{})}
	workspace := filepath.Join(s.home, "w")
	if err := os.Mkdir(workspace, 0o755); err != nil {
		t.Fatal(err)
	}
	s.cmd = exec.Command(binary, "serve", "--json")
	s.cmd.Dir = workspace
	s.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), "HOME=" + s.home, "COPILOT_BRIDGE_HOME=" + filepath.Join(s.home, "bridge"),
		"COPILOT_CLI_PATH=" + s.runtime, "COPILOT_LOG_LEVEL=warning", "COPILOT_BRIDGE_PORT=0", "COPILOT_BYOK_PROVIDER=openai", "COPILOT_BYOK_BASE_URL=" + provider,
		"COPILOT_BYOK_API_KEY=" + key, "COPILOT_BYOK_MODEL=" + modelName}, vars...)
	s.cmd.Stdout, s.cmd.Stderr = s.stdout, s.errors
	s.cmd.WaitDelay = patience // a surviving child may hold the pipes
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.done)
		_ = s.cmd.Wait() // checked by the exit code
	}()
	t.Cleanup(s.stop)
	var line string
	eventually(t, "it is ready", func() bool {
		var whole bool
		line, _, whole = strings.Cut(s.stdout.String(), "\n")
		select {
		case <-s.done:
			t.Fatalf("it exited\n%s", s.errors)
		default:
		}
		return whole
	})
	var address struct {
		URL string `json:"url"`
	}
	if err := json.Unmarshal([]byte(line), &address); err != nil || address.URL == "" {
		t.Fatalf("it printed %q when it was ready (%v)", line, err)
	}
	s.url = address.URL
	return s
}

func (s *server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// waitExit waits until the program has ended and returns its exit code, -1 if it
// was killed.
func (s *server) waitExit(within time.Duration) int {
	s.t.Helper()
	select {
	case <-s.done:
		return s.cmd.ProcessState.ExitCode()
	case <-time.After(within):
		s.t.Fatalf("it did not exit within %s\n%s", within, s.errors)
		return 0
	}
}

// stop stops the program as a service manager does. It must exit cleanly and
// leave nothing behind.
func (s *server) stop() {
	select {
	case <-s.done:
	default:
		s.signal(syscall.SIGTERM)
		select {
		case <-s.done:
		case <-time.After(patience):
			_ = s.cmd.Process.Kill()
			<-s.done
			s.t.Errorf("it did not exit after SIGTERM")
		}
		if code := s.cmd.ProcessState.ExitCode(); code != 0 {
			s.t.Errorf("it exited with %d", code)
		}
	}
	s.waitNoProcesses()
	s.checkNoSessionsLeft()
	if lines := strings.Count(s.stdout.String(), "\n"); lines != 1 {
		s.t.Errorf("stdout is %q", s.stdout)
	}
	if text := s.errors.String(); strings.Contains(text, "level=ERROR") || strings.Contains(text, "panic") || strings.Contains(text, "DATA RACE") || s.t.Failed() {
		s.t.Errorf("stderr is:\n%s", text)
	}
}

// checkNoSessionsLeft checks that no session is left on disk, not even after
// the server was killed.
func (s *server) checkNoSessionsLeft() {
	for _, place := range []string{"session-state", "chats"} {
		left, err := filepath.Glob(filepath.Join(s.home, "bridge", "copilot", place, "*"))
		if err != nil || len(left) > 0 {
			s.t.Errorf("%d sessions are left on the disk (%v): %v", len(left), err, left)
		}
	}
}

// waitNoProcesses waits until no process of the program is left.
func (s *server) waitNoProcesses() {
	deadline := time.Now().Add(patience)
	for len(s.tree()) > 0 {
		if time.Now().After(deadline) {
			s.t.Errorf("processes are left: %v", s.tree())
			return
		}
		pause()
	}
}

// pause waits between two rounds of polling.
func pause() { <-time.After(5 * time.Millisecond) }

// eventually polls until ok returns true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	within(t, patience, what, ok)
}

func within(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", limit, what)
		}
		pause()
	}
}

// tree lists the processes below the bridge with this home, by command line.
func (s *server) tree() map[int]string {
	found := programtest.Processes(s.home, "COPILOT_BRIDGE_TREE")
	delete(found, s.cmd.Process.Pid)
	return found
}

// runtimes are the process IDs of the runtime, without its supervisor.
func (s *server) runtimes() (pids []int) {
	for pid, cmdline := range s.tree() {
		if strings.HasPrefix(cmdline, s.runtime) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// get reads a page on a new connection.
func (s *server) get(path string) (int, string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	body, err := io.ReadAll(res.Body)
	if err2 := res.Body.Close(); err == nil {
		err = err2
	}
	return res.StatusCode, string(body), err
}
