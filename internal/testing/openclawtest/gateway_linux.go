package openclawtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/programtest"
)

// readyIn is how long a gateway may take to start. On an idle machine it is
// half a minute.
const readyIn = 4 * time.Minute

// User is an OpenClaw user with a separate home directory.
type User struct {
	Program
	Home string
	// Env is added to the environment of every program ("NAME=value").
	Env []string
}

// NewUser returns a user with an empty home. When the test ends nothing that
// was started there may be left.
func NewUser(tb testing.TB) *User {
	tb.Helper()
	u := &User{Program: Install(tb), Home: tb.TempDir()}
	tb.Cleanup(func() { programtest.NoneLeft(tb, u.Home) })
	return u
}

// ConfigPath is where the user's configuration of OpenClaw is.
func (u *User) ConfigPath() string { return filepath.Join(u.Home, ".openclaw", "openclaw.json") }

// Configure writes the user's configuration: a text, or a value that is
// written as JSON.
func (u *User) Configure(tb testing.TB, config any) {
	tb.Helper()
	text, ok := config.(string)
	if !ok {
		b, err := json.MarshalIndent(config, "", "  ")
		if err != nil {
			tb.Fatal(err)
		}
		text = string(b) + "\n"
	}
	if err := os.MkdirAll(filepath.Dir(u.ConfigPath()), 0o700); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(u.ConfigPath(), []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
}

// Environ is the environment of what the user starts.
func (u *User) Environ() []string {
	return append([]string{"HOME=" + u.Home, "USERPROFILE=" + u.Home, "PATH=" + u.Bin + string(filepath.ListSeparator) + os.Getenv("PATH"),
		"TMPDIR=" + os.TempDir(), "NO_COLOR=1", "TERM=dumb", "SHELL=/bin/sh"}, u.Env...)
}

// Command is `openclaw ARGS…`, not started.
func (u *User) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, u.Node, append([]string{u.Entry}, args...)...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = u.Home, u.Environ(), 10*time.Second
	return cmd
}

// Run runs `openclaw ARGS…`, which has to succeed, and returns what it wrote
// to standard output.
func (u *User) Run(tb testing.TB, args ...string) string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 5*time.Minute)
	defer cancel()
	cmd := u.Command(ctx, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		tb.Fatalf("openclaw %q: %v\nstdout:\n%s\nstderr:\n%s", args, err, &stdout, &stderr)
	}
	return stdout.String()
}

// Gateway is a gateway that runs.
type Gateway struct {
	User  *User
	Port  int
	Token string
	URL   string // http://127.0.0.1:PORT

	cmd  *exec.Cmd
	log  *programtest.Output
	done chan struct{} // closed when the process has ended
	once sync.Once
}

// Start starts the user's gateway on a free port and waits until it is ready.
// The user's later commands talk to it. It is stopped when the test ends.
func (u *User) Start(tb testing.TB) *Gateway {
	tb.Helper()
	return u.StartAt(tb, freePort(tb), rand.Text())
}

// StartAt is Start on this port with this token, for a gateway that comes back.
func (u *User) StartAt(tb testing.TB, port int, token string) *Gateway {
	tb.Helper()
	for attempt := 1; ; attempt++ {
		g := u.Launch(tb, port, token)
		err := g.ready(tb.Context())
		if err == nil {
			return g
		}
		// On a busy machine OpenClaw's own migrations run out of time, or a
		// thread that it gives five seconds does. It then ends, with this code
		// or these words, and wants to be started again.
		const again, late = 78, "state lease heartbeat did not become ready"
		if g.cmd.ProcessState == nil || g.cmd.ProcessState.ExitCode() != again && !strings.Contains(g.Log(), late) || attempt == 5 {
			tb.Fatal(err)
		}
		tb.Logf("the gateway is started again: it ran out of time")
	}
}

// Launch is StartAt that does not wait.
func (u *User) Launch(tb testing.TB, port int, token string) *Gateway {
	tb.Helper()
	g := &Gateway{User: u, Port: port, Token: token, URL: "http://127.0.0.1:" + strconv.Itoa(port), log: &programtest.Output{}, done: make(chan struct{})}
	if _, err := os.Stat(u.ConfigPath()); errors.Is(err, os.ErrNotExist) {
		u.Configure(tb, map[string]any{"logging": map[string]any{"file": filepath.Join(u.Home, "openclaw.log")}})
	}
	u.Env = append(u.Env, "OPENCLAW_GATEWAY_TOKEN="+token, "OPENCLAW_GATEWAY_PORT="+strconv.Itoa(port))
	// Not tied to a context: a gateway is asked to stop, and killed if it does not.
	g.cmd = u.Command(context.Background(), "gateway", "run", "--port", strconv.Itoa(port), "--bind", "loopback", "--auth", "token",
		"--allow-unconfigured", "--tailscale", "off")
	g.cmd.Stdout, g.cmd.Stderr = g.log, g.log
	// A separate process group, so that a signal for the tests does not reach it; but
	// it ends with them. That follows the thread which has started it, so that
	// thread is kept.
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	started := make(chan error)
	go func() {
		defer close(g.done)
		runtime.LockOSThread()
		err := g.cmd.Start()
		started <- err
		if err == nil {
			_ = g.cmd.Wait() // how it ended is in its state
		}
	}()
	if err := <-started; err != nil {
		tb.Fatalf("start the gateway: %v", err)
	}
	tb.Cleanup(func() {
		g.Stop(tb)
		if tb.Failed() {
			tb.Logf("the gateway wrote:\n%s", g.log)
		}
	})
	return g
}

func freePort(tb testing.TB) int {
	tb.Helper()
	l, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	a, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		tb.Fatalf("%v", l.Addr())
	}
	return a.Port
}

// Ready waits until the gateway says that it is.
func (g *Gateway) Ready(tb testing.TB) {
	tb.Helper()
	if err := g.ready(tb.Context()); err != nil {
		tb.Fatal(err)
	}
}

func (g *Gateway) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyIn)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		if code, _, err := g.Do(ctx, http.MethodGet, "/readyz", nil); err == nil && code == http.StatusOK {
			return nil
		}
		select {
		case <-tick.C:
		case <-g.done:
			return fmt.Errorf("the gateway ended with %v:\n%s", g.cmd.ProcessState, g.log)
		case <-ctx.Done():
			return fmt.Errorf("the gateway was not ready in %s:\n%s", readyIn, g.log)
		}
	}
}

// PID is the id of the gateway's process.
func (g *Gateway) PID() int { return g.cmd.Process.Pid }

// Log is what the gateway has written so far.
func (g *Gateway) Log() string { return g.log.String() }

// Do makes a request with the gateway's token and returns status and body.
func (g *Gateway) Do(ctx context.Context, method, path string, body any) (int, []byte, error) {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return 0, nil, err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, g.URL+path, bytes.NewReader(data))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Authorization", "Bearer "+g.Token)
	r.Header.Set("Content-Type", "application/json")
	r.Close = true // no connection is kept: a gateway that stops waits for none
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil, err
	}
	answer, err := io.ReadAll(resp.Body)
	return resp.StatusCode, answer, errors.Join(err, resp.Body.Close())
}

// Invoke calls a tool by POST /tools/invoke and returns what it came to.
func (g *Gateway) Invoke(ctx context.Context, tool string, args any) (json.RawMessage, error) {
	code, body, err := g.Do(ctx, http.MethodPost, "/tools/invoke", map[string]any{"tool": tool, "args": args})
	if err != nil {
		return nil, err
	}
	var answer struct {
		OK     bool
		Result json.RawMessage
	}
	if err := json.Unmarshal(body, &answer); err != nil || code != http.StatusOK || !answer.OK {
		return nil, fmt.Errorf("%s: status %d: %s", tool, code, body)
	}
	return answer.Result, nil
}

// Stop asks the gateway to end, and waits until it has. It may be called more
// than once.
func (g *Gateway) Stop(tb testing.TB) {
	tb.Helper()
	g.once.Do(func() { _ = g.cmd.Process.Signal(syscall.SIGTERM) })
	select {
	case <-g.done:
	case <-time.After(time.Minute):
		tb.Errorf("the gateway did not stop in a minute:\n%s", g.log)
		_ = syscall.Kill(-g.PID(), syscall.SIGKILL) // the group is its own
		<-g.done
	}
}
