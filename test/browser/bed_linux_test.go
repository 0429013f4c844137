package browser

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

const (
	// gate is the variable that turns these tests on.
	gate = "COPILOT_BRIDGE_TEST_BROWSER"
	// pictures is a variable with a directory for pictures of the page.
	pictures = "COPILOT_BRIDGE_TEST_PICTURES"

	patience = time.Minute // test machines are busy
)

// built is the program, built once.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "copilot-bridge-browser-")
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "copilot-bridge")
	if out, err := exec.Command("go", "build", "-o", binary, "../../cmd/copilot-bridge").CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the program: %w\n%s", err, out)
	}
	return binary, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if os.Getenv(gate) != "" {
		if binary, err := built(); err == nil {
			_ = os.RemoveAll(filepath.Dir(binary))
		}
	}
	os.Exit(code)
}

// bed is a home of the bridge, a workspace, and a server that runs there.
type bed struct {
	*testing.T
	binary, home, workspace, url string
	args, env                    []string
	stop, kill                   func() // the server; it may be started again
}

// newBed starts a server with the demo model, and more arguments and variables.
func newBed(t *testing.T, env []string, args ...string) *bed {
	t.Helper()
	if os.Getenv(gate) == "" {
		t.Skip("needs Chromium, which `make test` does not install: run `make test-browser`")
	}
	binary, err := built()
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{T: t, binary: binary, home: t.TempDir(), workspace: t.TempDir(), args: args}
	b.env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.home, "COPILOT_CLI_PATH=" + runtimetest.Path(t)}, env...)
	b.start("0")
	t.Cleanup(func() { b.stop() })
	return b
}

// start starts the server on a port; "0" is any.
func (b *bed) start(port string) {
	b.Helper()
	args := append([]string{"serve", "--demo", "--port", port, "--json", "--workspace", b.workspace}, b.args...)
	cmd := exec.Command(b.binary, args...)
	var stderr bytes.Buffer
	cmd.Env, cmd.Stderr, cmd.WaitDelay = b.env, &stderr, patience
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	end := func(by syscall.Signal) error {
		_ = cmd.Process.Signal(by)
		_, _ = io.Copy(io.Discard, stdout)
		return cmd.Wait()
	}
	b.stop = sync.OnceFunc(func() {
		if err := end(syscall.SIGTERM); err != nil {
			b.Errorf("serve: %v\n%s", err, &stderr)
		}
	})
	b.kill = func() {
		_ = end(syscall.SIGKILL)
		b.stop = func() {}
	}
	var ready struct{ URL string }
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &ready)
	}
	if err != nil {
		b.stop()
		b.Fatalf("serve has not started: %v\n%s", err, &stderr)
	}
	b.url = ready.URL
}

// run runs another command of the program in the same home.
func (b *bed) run(args ...string) string {
	b.Helper()
	ctx, end := context.WithTimeout(b.Context(), patience)
	defer end()
	cmd := exec.CommandContext(ctx, b.binary, args...)
	cmd.Env, cmd.Dir = b.env, b.workspace
	out, err := cmd.Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			err = fmt.Errorf("%w\n%s", err, failed.Stderr)
		}
		b.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out))
}

// dir is the bridge's own home.
func (b *bed) dir() string { return filepath.Join(b.home, ".copilot-bridge") }

// until waits until something is so.
func (b *bed) until(what string, so func() bool) {
	b.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !so(); <-tick.C {
		if time.Now().After(deadline) {
			b.Fatalf("it never came: %s", what)
		}
	}
}

// made says whether a file of the workspace is there.
func (b *bed) made(name string) bool {
	_, err := os.Stat(filepath.Join(b.workspace, name))
	return err == nil
}

// ask sends a prompt to a model of the server, as a client would. The answer comes
// later.
func (b *bed) ask(model, prompt string) <-chan string {
	b.Helper()
	body, err := json.Marshal(map[string]any{"model": model, "messages": []map[string]string{{"role": "user", "content": prompt}}})
	if err != nil {
		b.Fatal(err)
	}
	answer := make(chan string, 1)
	ctx, end := context.WithTimeout(b.Context(), 2*patience)
	go func() {
		defer end()
		answer <- post(ctx, b.url+"/v1/chat/completions", body)
	}()
	return answer
}

func post(ctx context.Context, url string, body []byte) string {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err.Error()
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// page is what a person sees, and what JavaScript can do in it.
type page struct {
	*testing.T
	ctx     context.Context
	bed     *bed
	console *console
}

// console collects what the page complained of.
type console struct {
	mu   sync.Mutex
	said []string
	fine []string // parts of complaints that the test expects
}

// open starts the browser. The test fails if its console has a warning or an error at
// the end: that is also where violations of the content security policy are told.
func (b *bed) open() page {
	b.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		b.Fatal("install Debian's package chromium: ", err)
	}
	opts := []chromedp.ExecAllocatorOption{chromedp.ExecPath(path), chromedp.UserDataDir(b.TempDir()), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true)}
	ctx, end := context.WithTimeout(b.Context(), 5*time.Minute)
	b.Cleanup(end)
	ctx, stop := chromedp.NewExecAllocator(ctx, opts...)
	b.Cleanup(stop)
	p := b.tab(chromedp.NewContext(ctx))
	p.size(1280, 900)
	return p
}

// other opens a page in another browser, as it were: it knows nothing of this one's
// login.
func (p page) other() page {
	p.Helper()
	return p.bed.tab(chromedp.NewContext(p.ctx, chromedp.WithNewBrowserContext()))
}

// tab opens a page and listens to its console until the test ends.
func (b *bed) tab(ctx context.Context, leave context.CancelFunc) page {
	b.Helper()
	p := page{b.T, ctx, b, &console{}}
	messages, listened := chromedp.Console(ctx), make(chan struct{})
	go func() {
		defer close(listened)
		for m, err := range messages {
			if err != nil {
				return
			}
			if m.Type == chromedp.ConsoleLog || m.Type == chromedp.ConsoleDebug || m.Type == chromedp.ConsoleInfo {
				continue
			}
			p.console.mu.Lock()
			p.console.said = append(p.console.said, string(m.Type)+" "+m.Text+" "+m.URL)
			p.console.mu.Unlock()
		}
	}()
	b.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // waits for its end
		leave()
		<-listened
		for _, line := range p.console.said {
			if !slices.ContainsFunc(p.console.fine, func(part string) bool { return strings.Contains(line, part) }) {
				b.Errorf("the page's console says: %s", line)
			}
		}
	})
	return p
}

// logIn opens the dashboard as `copilot-bridge dashboard` does, at a view.
func (p page) logIn(view string) {
	p.Helper()
	p.do(chromedp.Navigate(p.bed.run("dashboard", "--no-open")))
	p.waitFor(`document.querySelector(".bar") !== null`)
	p.show(view)
}

// show goes to a view, such as "sessions".
func (p page) show(view string) {
	p.Helper()
	p.js(fmt.Sprintf(`location.hash = %q`, "#/"+view))
	p.waitFor(`document.querySelector("main h1") !== null && !document.querySelector("main [aria-busy=true]")`)
}

func (p page) do(steps ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	if err := chromedp.Do(p.ctx, steps...); err != nil {
		p.Fatal(err)
	}
}

// js returns the value of an expression, which may be a promise, as text.
func (p page) js(expression string) string {
	p.Helper()
	out, err := p.eval(expression)
	if err != nil {
		p.Fatalf("%s: %v", expression, err)
	}
	return out
}

func (p page) eval(expression string) (string, error) {
	return chromedp.Run(p.ctx, chromedp.Evaluate[string]("(async () => String(await ("+expression+")))()", chromedp.EvalAwaitPromise))
}

// text is what an element says.
func (p page) text(selector string) string {
	p.Helper()
	return p.js(fmt.Sprintf(`document.querySelector(%q)?.innerText`, selector))
}

// waitFor waits until an expression is true.
func (p page) waitFor(expression string) {
	p.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; <-tick.C {
		got, err := p.eval(expression)
		if err != nil && !strings.Contains(err.Error(), "target navigated") { // the page is on its way to another
			p.Fatalf("%s: %v", expression, err)
		}
		if got == "true" {
			return
		}
		if time.Now().After(deadline) {
			p.Fatalf("not true: %s\n%s", expression, p.js("document.body.innerText"))
		}
	}
}

// waitForText waits until an element says something.
func (p page) waitForText(selector, part string) {
	p.Helper()
	p.waitFor(fmt.Sprintf(`(document.querySelector(%q)?.innerText ?? "").includes(%q)`, selector, part))
}

// click clicks the first element whose text begins like this.
func (p page) click(selector, text string) {
	p.Helper()
	p.waitFor(fmt.Sprintf(`[...document.querySelectorAll(%q)].some((e) => e.innerText.trim().startsWith(%q) && !e.disabled)`, selector, text))
	p.js(fmt.Sprintf(`[...document.querySelectorAll(%q)].find((e) => e.innerText.trim().startsWith(%q) && !e.disabled).click()`, selector, text))
}

// size makes the window as wide and high as this.
func (p page) size(width, height int64) { p.Helper(); p.do(chromedp.EmulateViewport(width, height)) }

// colours chooses light or dark.
func (p page) colours(scheme string) {
	p.Helper()
	p.do(chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		_, err := cdp.Call(ctx, tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		return err
	}))
}

// look calls a function with the window as small as a telephone's and as large as a
// desk's, light and dark. It checks that nothing is wider than the window, and takes
// pictures if they are wanted.
func (p page) look(name string, check func(where string)) {
	p.Helper()
	for _, width := range []int64{390, 1280} {
		for _, scheme := range []string{"light", "dark"} {
			p.size(width, 900)
			p.colours(scheme)
			where := fmt.Sprintf("%s-%d-%s", strings.ReplaceAll(name, "/", "-"), width, scheme)
			if p.js(`document.documentElement.scrollWidth > document.documentElement.clientWidth`) == "true" {
				p.Errorf("%s is wider than the window", where)
			}
			if check != nil {
				check(where)
			}
			p.picture(where)
		}
	}
	p.size(1280, 900)
}

// picture takes one, if pictures are wanted.
func (p page) picture(name string) {
	p.Helper()
	dir := os.Getenv(pictures)
	if dir == "" {
		return
	}
	picture, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o600)
	}
	if err != nil {
		p.Fatal(err)
	}
}

// expect says which complaints of the console are part of the test.
func (p page) expect(part string) {
	p.console.mu.Lock()
	defer p.console.mu.Unlock()
	p.console.fine = append(p.console.fine, part)
}
