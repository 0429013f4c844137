package load

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime/runtimetest"
)

// server is a running "serve".
type server struct {
	t       *testing.T
	cmd     *exec.Cmd
	url     string
	home    string
	runtime string // path of the runtime
	said    *output
	errors  *output
	done    chan struct{} // closed when it has ended
}

// output can be read while it grows.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// serve starts the program with a home of its own, a model's provider and
// further variables, and waits until it answers. The test's end stops it.
func serve(t *testing.T, provider, key string, vars ...string) *server {
	t.Helper()
	s := &server{t: t, home: t.TempDir(), runtime: runtimetest.Path(t), said: &output{}, errors: &output{}, done: make(chan struct{})}
	workspace := filepath.Join(s.home, "w")
	if err := os.Mkdir(workspace, 0o755); err != nil {
		t.Fatal(err)
	}
	s.cmd = exec.Command(binary, "serve", "--json", "--port", "0")
	s.cmd.Dir = workspace
	s.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), "HOME=" + s.home, "COPILOT_BRIDGE_HOME=" + filepath.Join(s.home, "bridge"),
		"COPILOT_CLI_PATH=" + s.runtime, "COPILOT_LOG_LEVEL=warning", "COPILOT_BYOK_PROVIDER=openai", "COPILOT_BYOK_BASE_URL=" + provider,
		"COPILOT_BYOK_API_KEY=" + key, "COPILOT_BYOK_MODEL=" + modelName}, vars...)
	s.cmd.Stdout, s.cmd.Stderr = s.said, s.errors
	s.cmd.WaitDelay = patience // a survivor may hold the pipes
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.done)
		_ = s.cmd.Wait() // the exit code says it
	}()
	t.Cleanup(s.end)
	var line string
	eventually(t, "it is ready", func() bool {
		var whole bool
		line, _, whole = strings.Cut(s.said.String(), "\n")
		select {
		case <-s.done:
			t.Fatalf("it ended\n%s", s.errors)
		default:
		}
		return whole
	})
	var told struct {
		URL string `json:"url"`
	}
	if err := json.Unmarshal([]byte(line), &told); err != nil || told.URL == "" {
		t.Fatalf("it said %q when it was ready (%v)", line, err)
	}
	s.url = told.URL
	return s
}

func (s *server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// ended waits until the program has, and returns its exit code; -1 is that of
// one that was killed.
func (s *server) ended(within time.Duration) int {
	s.t.Helper()
	select {
	case <-s.done:
		return s.cmd.ProcessState.ExitCode()
	case <-time.After(within):
		s.t.Fatalf("it did not end within %s\n%s", within, s.errors)
		return 0
	}
}

// end stops the program as a service manager does. Whatever the test did, it
// must end well and leave nothing.
func (s *server) end() {
	select {
	case <-s.done:
	default:
		s.signal(syscall.SIGTERM)
		select {
		case <-s.done:
		case <-time.After(patience):
			_ = s.cmd.Process.Kill()
			<-s.done
			s.t.Errorf("it did not end when it was told to")
		}
		if code := s.cmd.ProcessState.ExitCode(); code != 0 {
			s.t.Errorf("it ended with %d", code)
		}
	}
	s.alone()
	s.forgotten()
	if lines := strings.Count(s.said.String(), "\n"); lines != 1 {
		s.t.Errorf("it said %q", s.said)
	}
	if text := s.errors.String(); strings.Contains(text, "level=ERROR") || strings.Contains(text, "panic") || strings.Contains(text, "DATA RACE") || s.t.Failed() {
		s.t.Errorf("it wrote:\n%s", text)
	}
}

// forgotten checks that nothing of what callers said is left on the disk, not
// even if the server was killed.
func (s *server) forgotten() {
	for _, place := range []string{"session-state", "chats"} {
		left, err := filepath.Glob(filepath.Join(s.home, "bridge", "copilot", place, "*"))
		if err != nil || len(left) > 0 {
			s.t.Errorf("%d sessions are left on the disk (%v): %v", len(left), err, left)
		}
	}
}

// alone waits until no process of the program is left.
func (s *server) alone() {
	deadline := time.Now().Add(patience)
	for len(s.tree()) > 0 {
		if time.Now().After(deadline) {
			s.t.Errorf("processes are left: %v", s.tree())
			return
		}
		pause()
	}
}

// pause is the length of one round of polling.
func pause() { <-time.After(5 * time.Millisecond) }

// eventually polls until ok.
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

// tree lists the processes below a bridge with this home, by their command
// lines.
func (s *server) tree() map[int]string {
	found := map[int]string{}
	home := []byte("HOME=" + s.home)
	entries, err := os.ReadDir("/proc")
	if err != nil {
		s.t.Error(err)
		return nil
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == s.cmd.Process.Pid {
			continue
		}
		env, err := os.ReadFile("/proc/" + e.Name() + "/environ")
		if err != nil || !bytes.Contains(env, []byte("COPILOT_BRIDGE_TREE=")) {
			continue
		}
		mine := false
		for kv := range bytes.SplitSeq(env, []byte{0}) {
			mine = mine || bytes.Equal(kv, home)
		}
		cmdline, err := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if mine && err == nil && len(cmdline) > 0 { // a zombie has none
			found[pid] = strings.TrimSpace(strings.ReplaceAll(string(cmdline), "\x00", " "))
		}
	}
	return found
}

// runtimes are the pids of the runtime itself, without its supervisor.
func (s *server) runtimes() (pids []int) {
	for pid, cmdline := range s.tree() {
		if strings.HasPrefix(cmdline, s.runtime) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// get reads a page, on a connection that does not outlive it.
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
