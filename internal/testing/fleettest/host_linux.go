package fleettest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/programtest"
)

// tempPrefix begins the names of TempDir. The number of the process that made it
// follows.
const tempPrefix = "copilot-bridge-fleet-"

// TempDir makes a directory that the next network removes if this process is
// killed.
func TempDir() (string, error) {
	return os.MkdirTemp("", fmt.Sprintf("%s%d-", tempPrefix, os.Getpid()))
}

// Host is a machine: its programs see its name, its network and its home only.
type Host struct {
	Name, Address string
	Home, Tmp     string // directories; Tmp is TMPDIR there
	Env           []string

	index  int
	device *os.File // its side of the network
	queue  chan packet
	read   chan struct{} // closed when nothing more comes from device
	calls  chan func()
	gone   chan struct{}

	mu      sync.Mutex
	started []*Process
}

func (w *Network) newHost(index int) (*Host, error) {
	name := fmt.Sprintf("host%d", index+1)
	dir := filepath.Join(w.root, name)
	h := &Host{Name: name, Address: fmt.Sprintf("10.77.0.%d", index+1), Home: filepath.Join(dir, "home"), Tmp: filepath.Join(dir, "tmp"),
		index: index, queue: make(chan packet, maxQueued), read: make(chan struct{}), calls: make(chan func()), gone: make(chan struct{})}
	for _, d := range []string{h.Home, h.Tmp} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, err
		}
	}
	ready := make(chan error, 1)
	go h.serveCalls(ready)
	return h, <-ready
}

// Local is a host with a home of its own, on the computer's own network. What runs
// there is killed when the test ends.
func Local(tb testing.TB, name string) *Host {
	tb.Helper()
	dir := tb.TempDir()
	h := &Host{Name: name, Address: "127.0.0.1", Home: filepath.Join(dir, "home"), Tmp: filepath.Join(dir, "tmp")}
	for _, d := range []string{h.Home, h.Tmp} {
		if err := os.Mkdir(d, 0o700); err != nil {
			tb.Fatal(err)
		}
	}
	tb.Cleanup(func() {
		h.killAll()
		for _, p := range h.processes() {
			<-p.Ended
		}
	})
	return h
}

// Process is a program on a host.
type Process struct {
	Name  string
	Out   *programtest.Output // standard output
	Err   *programtest.Output // standard error
	Ended chan struct{}       // closed when it has ended; then Code may be called
	cmd   *exec.Cmd
}

// Start starts a program on the host, in a directory there.
func (h *Host) Start(dir, program string, args ...string) (*Process, error) {
	p := &Process{Name: h.Name + ": " + filepath.Base(program) + " " + strings.Join(args, " "), Out: &programtest.Output{}, Err: &programtest.Output{}, Ended: make(chan struct{})}
	p.cmd = exec.CommandContext(context.Background(), program, args...) // Kill and Stop end it
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, p.Out, p.Err
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + h.Home, "TMPDIR=" + h.Tmp}, h.Env...)
	p.cmd.WaitDelay = 10 * time.Second // a program that it started may hold the pipes
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if h.calls != nil { // the thread lives as long as the host
		p.cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	var err error
	h.In(func() { err = p.cmd.Start() })
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Name, err)
	}
	h.mu.Lock()
	h.started = append(h.started, p)
	h.mu.Unlock()
	go func() {
		defer close(p.Ended)
		_ = p.cmd.Wait() // told by Code
	}()
	return p, nil
}

// Run runs a program to its end and returns its standard output.
func (h *Host) Run(ctx context.Context, dir, program string, args ...string) (string, error) {
	p, err := h.Start(dir, program, args...)
	if err != nil {
		return "", err
	}
	select {
	case <-p.Ended:
	case <-ctx.Done():
		p.Kill()
		<-p.Ended
		return p.Out.String(), fmt.Errorf("%s: %w\n%s", p.Name, ctx.Err(), p.Err)
	}
	if code := p.Code(); code != 0 {
		return p.Out.String(), fmt.Errorf("%s ended with %d:\n%s%s", p.Name, code, p.Out, p.Err)
	}
	return p.Out.String(), nil
}

// Signal signals the program, not those that it started.
func (p *Process) Signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) } // it may have ended

// Kill kills the program, not those that it started, as kill -9 does.
func (p *Process) Kill() { p.Signal(syscall.SIGKILL) }

// Code is the exit code of a program that has ended, -1 if a signal ended it.
func (p *Process) Code() int { return p.cmd.ProcessState.ExitCode() }

// Running says that the program has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.Ended:
		return false
	default:
		return true
	}
}

// Stop ends the program with SIGTERM, and reports one that does not end.
func (p *Process) Stop(within time.Duration) error {
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.Ended:
		return nil
	case <-time.After(within):
		p.Signal(syscall.SIGQUIT) // its goroutines go to Err
		select {
		case <-p.Ended:
		case <-time.After(10 * time.Second):
			p.Kill()
			<-p.Ended
		}
		return fmt.Errorf("%s did not end within %s:\n%s", p.Name, within, p.Err)
	}
}

func (h *Host) processes() []*Process {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.started)
}

// Freeze stops all programs of the host, as when a laptop is shut, and waits until
// they stand still.
func (h *Host) Freeze() {
	h.signalAll(syscall.SIGSTOP)
	for range 100 {
		moving := false
		for pid := range programtest.Processes(h.Home) {
			stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // it may have ended
			_, state, _ := strings.Cut(string(stat), ") ")
			moving = moving || state != "" && !strings.HasPrefix(state, "T")
		}
		if !moving {
			return
		}
		<-time.After(time.Millisecond)
	}
}

// Thaw undoes Freeze.
func (h *Host) Thaw() { h.signalAll(syscall.SIGCONT) }

// PowerOff kills all programs of the host.
func (h *Host) PowerOff() { h.killAll() }

func (h *Host) killAll() {
	for range 100 { // one may start another meanwhile
		if h.signalAll(syscall.SIGKILL) == 0 {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
}

func (h *Host) signalAll(s syscall.Signal) int {
	all := programtest.Processes(h.Home)
	for pid := range all {
		_ = syscall.Kill(pid, s) // it may have ended
	}
	return len(all)
}

// Dial connects from the host, for a client within the test.
func (h *Host) Dial(network, address string) (c net.Conn, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	h.In(func() { c, err = new(net.Dialer).DialContext(ctx, network, address) }) // of an IP address: by this thread
	return c, err
}

// Left lists what is left on a host after its programs have ended: processes,
// sockets and temporary files.
func (h *Host) Left() []string {
	var left []string
	for pid, line := range programtest.Processes(h.Home) {
		left = append(left, fmt.Sprintf("process %d: %s", pid, line))
	}
	h.In(func() {
		for _, name := range []string{"tcp", "tcp6", "udp", "udp6"} {
			data, _ := os.ReadFile("/proc/thread-self/net/" + name)
			for line := range strings.Lines(string(data)) {
				// A connection that closes (FIN_WAIT, TIME_WAIT …) belongs to the kernel.
				if f := strings.Fields(line); len(f) > 3 && (f[3] == "01" || f[3] == "0A" || f[3] == "02") {
					left = append(left, name+" socket "+f[1]+" to "+f[2])
				}
			}
		}
	})
	entries, err := os.ReadDir(h.Tmp)
	if err != nil {
		left = append(left, err.Error())
	}
	for _, e := range entries {
		left = append(left, "temporary file "+e.Name())
	}
	return left
}

// Files lists the files and directories below a directory of the host's home
// whose names match.
func (h *Host) Files(match func(path string) bool) (found []string) {
	_ = filepath.WalkDir(h.Home, func(path string, _ fs.DirEntry, err error) error {
		if rel, _ := filepath.Rel(h.Home, path); err == nil && match(rel) {
			found = append(found, rel)
		}
		return nil
	})
	return found
}

// removeLeftovers kills and removes what networks have left whose test was
// killed.
func removeLeftovers(tb testing.TB) {
	tb.Helper()
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), tempPrefix+"*"))
	if err != nil {
		tb.Fatal(err)
	}
	for _, dir := range dirs {
		number, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), tempPrefix), "-")
		pid, err := strconv.Atoi(number)
		if err != nil || !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			continue // it is still at work
		}
		for pid := range programtest.Processes(dir) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
		if err := os.RemoveAll(dir); err != nil {
			tb.Error(err)
		}
	}
}
