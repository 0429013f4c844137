package vscode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
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

	"github.com/chromedp/chromedp"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/programtest"
)

// token is the token of the test's bridges.
const token = "the-token-of-the-tests"

// testbed is a VS Code server, a browser that shows its windows, and the
// extension that provides the models. Tests that restore its state share one
// testbed.
type testbed struct {
	root    string // directory with all files
	home    string
	url     string
	vendor  *vendor
	browser context.Context
	window  *window // shared by the tests, once it is open
	closes  []func() error
	log     *programtest.Output
}

// shared is the testbed of most tests.
var shared struct {
	once    sync.Once
	testbed *testbed
	err     error
}

func sharedTestbed(t *testing.T) *testbed {
	t.Helper()
	requireGate(t)
	shared.once.Do(func() {
		if shared.testbed, shared.err = newTestbed(map[string]any{"bridge.enabled": true, "bridge.readOnly": true}); shared.err == nil {
			atEnd = append(atEnd, shared.testbed.close)
		}
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	shared.testbed.vendor.setScript(nil)
	t.Cleanup(func() {
		if t.Failed() {
			shared.testbed.logFailure(t)
		}
	})
	return shared.testbed
}

// ownTestbed is a testbed for a single test, without any consent given.
func ownTestbed(t *testing.T, settings map[string]any) *testbed {
	t.Helper()
	requireGate(t)
	d, err := newTestbed(settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			d.logFailure(t)
		}
		if err := d.close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// newTestbed starts everything. settings are the machine settings of VS Code.
func newTestbed(settings map[string]any) (_ *testbed, err error) {
	p, err := install()
	if err != nil {
		return nil, err
	}
	root, err := os.MkdirTemp("", "bridge-vscode-")
	if err != nil {
		return nil, err
	}
	d := &testbed{root: root, home: filepath.Join(root, "home"), log: &programtest.Output{}}
	d.closes = append(d.closes, func() error { return os.RemoveAll(root) })
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	if d.vendor, err = newVendor(); err != nil {
		return nil, err
	}
	d.closes = append(d.closes, d.vendor.close)
	if err := d.extensions(); err != nil {
		return nil, err
	}
	if err := d.configure(settings); err != nil {
		return nil, err
	}
	if err := d.serve(p); err != nil {
		return nil, err
	}
	return d, d.browse(p)
}

// installed is an extension directory into which VS Code has installed our
// packaged extension. It is created once and copied for each testbed.
var installed = sync.OnceValues(func() (_ string, err error) {
	p, err := install()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "bridge-vsix-")
	if err != nil {
		return "", err
	}
	atEnd = append(atEnd, func() error { return os.RemoveAll(dir) })
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	file := os.Getenv("COPILOT_BRIDGE_TEST_VSIX") // tests this package instead
	if file == "" {
		if file, err = p.vsix(ctx, dir); err != nil {
			return "", err
		}
	}
	extensions := filepath.Join(dir, "extensions")
	return extensions, run(ctx, "", []string{"HOME=" + dir, "XDG_CONFIG_HOME=" + dir}, p.node, p.server,
		"--user-data-dir", filepath.Join(dir, "data"), "--extensions-dir", extensions, "--install-extension", file)
})

// extensions installs our extension, and the vendor's as a folder.
func (d *testbed) extensions() error {
	ours, err := installed()
	if err != nil {
		return err
	}
	dir := filepath.Join(d.root, "extensions")
	if err := os.CopyFS(dir, os.DirFS(ours)); err != nil {
		return err
	}
	// The list of installed extensions lacks the vendor's. Without the list VS
	// Code uses the folders.
	if err := os.Remove(filepath.Join(dir, "extensions.json")); err != nil {
		return err
	}
	return os.CopyFS(filepath.Join(dir, "bridge-test.copilot-vendor-0.0.1"), os.DirFS(filepath.Join("testdata", "vendor")))
}

// settingsFile is the file with the machine settings of VS Code.
func (d *testbed) settingsFile() string {
	return filepath.Join(d.root, "data", "Machine", "settings.json")
}

func (d *testbed) configure(settings map[string]any) error {
	user := map[string]any{
		"security.workspace.trust.enabled": false, "workbench.startupEditor": "none", "telemetry.telemetryLevel": "off", "files.autoSave": "off",
		"editor.formatOnSave": false, "workbench.tips.enabled": false, "chat.commandCenter.enabled": false, "workbench.secondarySideBar.defaultVisibility": "hidden",
		"git.enabled": false, "extensions.ignoreRecommendations": true,
	}
	if err := writeJSON(filepath.Join(d.root, "data", "User", "settings.json"), user); err != nil {
		return err
	}
	all := map[string]any{"bridge.token": token}
	maps.Copy(all, settings)
	return writeJSON(d.settingsFile(), all)
}

// set changes machine settings while windows are open.
func (d *testbed) set(t *testing.T, settings map[string]any) {
	t.Helper()
	data, err := os.ReadFile(d.settingsFile())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]any{}
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	before := maps.Clone(all)
	maps.Copy(all, settings)
	if maps.Equal(all, before) {
		return
	}
	if err := writeJSON(d.settingsFile(), all); err != nil {
		t.Fatal(err)
	}
}

func writeJSON(file string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o600)
}

// env is an isolated environment.
func (d *testbed) env() []string {
	return []string{"HOME=" + d.home, "XDG_CONFIG_HOME=" + filepath.Join(d.home, ".config"), "XDG_DATA_HOME=" + filepath.Join(d.home, ".local"),
		"XDG_CACHE_HOME=" + filepath.Join(d.home, ".cache"), "COPILOT_BRIDGE_HOME=" + filepath.Join(d.home, "bridge"),
		"BRIDGE_TEST_MODEL=" + d.vendor.url, "VSCODE_SKIP_BUILTIN_EXTENSIONS=GitHub.copilot-chat", "COPILOT_BRIDGE_TOKEN="}
}

// serve starts code-server.
func (d *testbed) serve(p *programs) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	d.url = "http://127.0.0.1:" + strconv.Itoa(port)
	cmd := exec.Command(p.node, p.server, "--bind-addr", "127.0.0.1:"+strconv.Itoa(port), "--auth", "none", "--disable-telemetry", "--disable-update-check",
		"--disable-getting-started-override", "--user-data-dir", filepath.Join(d.root, "data"), "--extensions-dir", filepath.Join(d.root, "extensions"))
	cmd.Env = append(os.Environ(), d.env()...)
	cmd.Stdout, cmd.Stderr = d.log, d.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }() // always killed
	d.closes = append(d.closes, func() error {
		_ = cmd.Process.Signal(syscall.SIGTERM) // may have ended
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			<-ended
		}
		return d.waitNoProcesses(30 * time.Second)
	})
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; <-tick.C {
		resp, err := http.Get(d.url + "/healthz")
		if err == nil {
			return resp.Body.Close()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("code-server does not answer: %w\n%s", err, d.log)
		}
	}
}

// waitNoProcesses waits until no process of this testbed is left.
func (d *testbed) waitNoProcesses(within time.Duration) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(within); ; <-tick.C {
		left := d.processes("")
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			for _, p := range left {
				_ = syscall.Kill(p.pid, syscall.SIGKILL) // found by its home, so it is ours
			}
			return fmt.Errorf("processes are left: %v", left)
		}
	}
}

type process struct {
	pid  int
	line string
}

// bridges returns the running bridges of this testbed's windows.
func (d *testbed) bridges() []process { return d.processes(" serve --host vscode") }

// processes returns the processes of this testbed whose command line contains
// the text.
func (d *testbed) processes(text string) (found []process) {
	for pid, line := range programtest.Processes(d.home) {
		if strings.Contains(line, text) {
			found = append(found, process{pid, line})
		}
	}
	return found
}

// browse starts the browser.
func (d *testbed) browse(p *programs) error {
	dir := filepath.Join(d.root, "browser")
	opts := []chromedp.ExecAllocatorOption{chromedp.ExecPath(p.browser), chromedp.UserDataDir(dir), chromedp.NoSandbox, chromedp.NoFirstRun, chromedp.DisableGPU,
		chromedp.Flag("headless", "new"), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true), chromedp.Flag("disable-background-timer-throttling", true),
		chromedp.Flag("disable-renderer-backgrounding", true), chromedp.Flag("disable-backgrounding-occluded-windows", true),
		chromedp.WindowSize(1280, 760), chromedp.WSURLReadTimeout(patience), chromedp.Env("HOME=" + d.home)}
	alloc, stopAlloc := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, stop := chromedp.NewContext(alloc)
	d.browser = ctx
	d.closes = append(d.closes, func() error {
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		err := chromedp.Cancel(ctx)
		stop()
		stopAlloc()
		return err
	})
	return chromedp.Do(ctx) // starts the browser
}

// close stops everything in reverse order and reports leftover processes.
func (d *testbed) close() error {
	var err error
	for i := len(d.closes) - 1; i >= 0; i-- {
		err = errors.Join(err, d.closes[i]())
	}
	d.closes = nil
	return err
}

// logFailure writes the logs that may explain a failure to the test's log.
func (d *testbed) logFailure(t *testing.T) {
	t.Helper()
	logs, _ := filepath.Glob(filepath.Join(d.root, "data", "logs", "*", "exthost*", "copilot-bridge.copilot-bridge", "*.log"))
	for _, f := range logs {
		data, err := os.ReadFile(f)
		if err == nil && len(data) > 0 {
			t.Logf("%s:\n%s", filepath.Base(filepath.Dir(filepath.Dir(f))), data[max(0, len(data)-6000):])
		}
	}
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	_, text, err := net.SplitHostPort(l.Addr().String())
	if err := errors.Join(err, l.Close()); err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}
