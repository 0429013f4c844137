package soak

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/programtest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

const (
	modelName = "soak-model"
	// actionBound is the time limit of an action, whatever faults happen.
	actionBound = 4 * time.Minute
)

// world is the state that all actors share.
type world struct {
	t              *testing.T
	home, dir, tmp string // the user's home, the workspace, $TMPDIR
	runtime        string
	mounted        bool // home and workspace are small separate disks
	model          *model
	until          time.Time
	first          *usage       // resource usage at the first check
	faultCount     atomic.Int64 // incremented at the start and end of each fault
	faultsNow      atomic.Int64 // faults in progress
	checking       sync.RWMutex // read-locked by each action, locked during checks

	mu     sync.Mutex
	serve  *process
	url    string
	done   map[string]int // number of actions and faults, by name
	failed int
}

// process is a started program.
type process struct {
	cmd    *exec.Cmd
	errors *output
	ended  chan struct{}
}

// output keeps the last part of a program's output.
type output struct {
	mu  sync.Mutex
	buf []byte
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buf = append(o.buf, p...)
	if extra := len(o.buf) - 64<<10; extra > 0 {
		o.buf = o.buf[extra:]
	}
	return len(p), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.buf)
}

func newWorld(t *testing.T, lasts time.Duration) *world {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, home: filepath.Join(base, "home"), dir: filepath.Join(base, "work"), tmp: filepath.Join(base, "tmp"),
		runtime: runtimetest.Path(t), until: time.Now().Add(lasts), done: map[string]int{}}
	for _, dir := range []string{w.home, w.dir, w.tmp} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	w.mountDisks()
	w.model = startModel(t)
	w.write(filepath.Join(w.dir, "README.md"), "hello\n")
	w.write(filepath.Join(w.dir, "made", "keep"), "") // agents create files here
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"config", "user.email", "a@example.com"}, {"config", "user.name", "a"}, {"config", "gc.auto", "0"},
		{"add", "-A"}, {"commit", "-q", "-m", "first"}} {
		if _, err := w.git(args...); err != nil {
			t.Fatal(err)
		}
	}
	w.write(filepath.Join(w.dir, ".git", "info", "exclude"), filled+"\n") // otherwise git reads the file for seconds
	return w
}

// mountDisks mounts small disks for the home and the workspace, so that they
// can be filled and made read-only.
func (w *world) mountDisks() {
	for _, dir := range []string{w.home, w.dir} {
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=512m"); err != nil {
			w.t.Logf("no full or read-only disks: %v", err)
			return
		}
		w.t.Cleanup(func() {
			if err := syscall.Unmount(dir, 0); err != nil {
				w.t.Errorf("%s is still used: %v", dir, err)
				_ = syscall.Unmount(dir, syscall.MNT_DETACH)
			}
		})
	}
	w.mounted = true
}

func (w *world) write(path, text string) {
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) environ() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + w.tmp, "HOME=" + w.home, "COPILOT_CLI_PATH=" + w.runtime, "COPILOT_BYOK_PROVIDER=openai",
		"COPILOT_BYOK_BASE_URL=" + w.model.URL, "COPILOT_BYOK_API_KEY=" + w.model.Key, "COPILOT_BYOK_MODEL=" + modelName}
}

// command prepares a run of the program in the workspace.
func (w *world) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = w.dir, w.environ(), time.Minute
	return cmd
}

// git runs git in the workspace. It retries when another git process holds a
// lock, as can happen to any user.
func (w *world) git(args ...string) (string, error) {
	for try := 0; ; try++ {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = w.dir, append(os.Environ(), "HOME="+w.home)
		out, err := cmd.CombinedOutput()
		if err == nil || try == 50 || !strings.Contains(string(out), ".lock") {
			if err != nil {
				err = fmt.Errorf("git %s: %w: %s", args[0], err, out)
			}
			return string(out), err
		}
		pause()
	}
}

func pause() { <-time.After(100 * time.Millisecond) }

// start starts serve and waits until it is ready.
func (w *world) start() error {
	stdout, in, err := os.Pipe()
	if err != nil {
		return err
	}
	defer stdout.Close()
	p := &process{cmd: w.command(context.Background(), "serve", "--json", "--port", "0", "--read-write"), errors: &output{}, ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = in, p.errors
	if err := errors.Join(p.cmd.Start(), in.Close()); err != nil {
		return err
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // checked by the process state
	}()
	line := make(chan []byte, 1)
	go func() {
		defer close(line)
		var all bytes.Buffer
		buf := make([]byte, 4096)
		for !bytes.Contains(all.Bytes(), []byte("\n")) {
			n, err := stdout.Read(buf)
			all.Write(buf[:n])
			if err != nil {
				break
			}
		}
		line <- all.Bytes()
	}()
	var address struct{ URL string }
	select {
	case first := <-line:
		err = json.Unmarshal(first, &address)
	case <-time.After(time.Minute):
		err = errors.New("it took longer than a minute")
	}
	if err != nil || address.URL == "" {
		_ = p.cmd.Process.Kill()
		<-p.ended
		return fmt.Errorf("serve did not start: %w\n%s", err, p.errors)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.serve, w.url = p, address.URL
	return nil
}

// stop stops serve with a signal and returns how it ended.
func (w *world) stop(sig syscall.Signal) error {
	w.mu.Lock()
	p := w.serve
	w.mu.Unlock()
	if err := p.cmd.Process.Signal(sig); err != nil {
		return err
	}
	select {
	case <-p.ended:
	case <-time.After(2 * time.Minute):
		_ = p.cmd.Process.Kill()
		<-p.ended
		return fmt.Errorf("serve did not exit on %s\n%s", sig, p.errors)
	}
	text := p.errors.String()
	if sig == syscall.SIGTERM && p.cmd.ProcessState.ExitCode() != 0 || strings.Contains(text, "panic:") || strings.Contains(text, "DATA RACE") {
		return fmt.Errorf("serve exited with %s\n%s", p.cmd.ProcessState, text)
	}
	return nil
}

func (w *world) address() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.url
}

func (w *world) count(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done[name]++
}

// fail reports a broken invariant. Only the first few are printed.
func (w *world) fail(format string, args ...any) {
	w.mu.Lock()
	w.failed++
	n := w.failed
	w.mu.Unlock()
	if n <= 20 {
		w.t.Errorf("%s %s", time.Now().Format("15:04:05.000"), fmt.Sprintf(format, args...))
	}
}

// errBroken marks errors that no fault can excuse.
var errBroken = errors.New("broken")

// loop repeats an actor's action until the end. An action may fail during a
// fault, but not with errBroken, and it must end in time.
func (w *world) loop(name string, seed uint64, act func(context.Context, *rand.Rand) error) {
	rng := rand.New(rand.NewPCG(seed, uint64(len(name))<<32+uint64(name[0])<<8+uint64(name[len(name)-1])))
	for time.Now().Before(w.until) {
		w.checking.RLock()
		before, now := w.faultCount.Load(), w.faultsNow.Load()
		ctx, cancel := context.WithTimeout(context.Background(), actionBound)
		err := act(ctx, rng)
		late := ctx.Err() != nil
		cancel()
		undisturbed := w.faultCount.Load() == before && now == 0
		w.checking.RUnlock()
		switch {
		case late:
			w.fail("%s did not end within %s: %v", name, actionBound, err)
		case errors.Is(err, errBroken), err != nil && undisturbed:
			w.fail("%s: %v", name, err)
		case err != nil:
			w.count(name + " disturbed")
			<-time.After(2 * time.Second)
		default:
			w.count(name)
		}
		<-time.After(time.Duration(rng.IntN(500)) * time.Millisecond)
	}
}

// processes returns the processes with this world's home, by command line.
func (w *world) processes() map[int]string { return programtest.Processes(w.home) }

// metrics returns the metrics of serve.
func (w *world) metrics() (map[string]float64, error) {
	res, err := http.Get(w.address() + "/metrics")
	if err != nil {
		return nil, err
	}
	page, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return nil, err
	}
	values := map[string]float64{}
	for line := range strings.Lines(string(page)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if f, err := strconv.ParseFloat(value, 64); err == nil {
			values[name] = f
		}
	}
	return values, nil
}
