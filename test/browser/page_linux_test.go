package browser

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

	token    = "browser-test-token"
	patience = time.Minute // test machines are busy
)

// serve starts the binary with the demo model and returns its address.
func serve(t *testing.T) string {
	t.Helper()
	home, binary := t.TempDir(), filepath.Join(t.TempDir(), "copilot-bridge")
	if out, err := exec.Command("go", "build", "-o", binary, "../../cmd/copilot-bridge").CombinedOutput(); err != nil {
		t.Fatalf("building the program: %v\n%s", err, out)
	}
	cmd := exec.Command(binary, "serve", "--demo", "--port", "0", "--json", "--workspace", t.TempDir())
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "COPILOT_CLI_PATH=" + runtimetest.Path(t), "COPILOT_BRIDGE_TOKEN=" + token}
	var stderr bytes.Buffer
	cmd.Stderr, cmd.WaitDelay = &stderr, patience
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_, _ = io.Copy(io.Discard, stdout)
		if err := cmd.Wait(); err != nil {
			t.Errorf("serve: %v\n%s", err, &stderr)
		}
	})
	var ready struct{ URL string }
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &ready)
	}
	if err != nil {
		t.Fatal(err)
	}
	return ready.URL
}

// open starts the browser.
func open(t *testing.T) context.Context {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("install Debian's package chromium: ", err)
	}
	opts := []chromedp.ExecAllocatorOption{chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true)}
	ctx, end := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(end)
	ctx, stop := chromedp.NewExecAllocator(ctx, opts...)
	t.Cleanup(stop)
	ctx, leave := chromedp.NewContext(ctx)
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // waits for its end
		leave()
	})
	return ctx
}

// page is what a person sees, and what JavaScript can do in it.
type page struct {
	*testing.T
	ctx context.Context
}

func (p page) do(steps ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	if err := chromedp.Do(p.ctx, steps...); err != nil {
		p.Fatal(err)
	}
}

// js returns the value of an expression as text.
func (p page) js(expression string) string {
	p.Helper()
	out, err := chromedp.Run(p.ctx, chromedp.Evaluate[string]("String("+expression+")"))
	if err != nil {
		p.Fatalf("%s: %v", expression, err)
	}
	return out
}

// waitFor waits until an expression is true.
func (p page) waitFor(expression string) {
	p.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); p.js(expression) != "true"; <-tick.C {
		if time.Now().After(deadline) {
			p.Fatalf("not true: %s\n%s", expression, p.js("document.body.innerText"))
		}
	}
}

// say sends a message with the form.
func (p page) say(message string) {
	p.Helper()
	p.js(fmt.Sprintf(`document.querySelector("#message").value = %q`, message))
	p.do(chromedp.Click(chromedp.CSS("#send")))
}

// TestFirstPage logs in, sends messages and copies an example, as a person would.
func TestFirstPage(t *testing.T) {
	if os.Getenv(gate) == "" {
		t.Skip("needs Chromium, which `make test` does not install: run `make test-browser`")
	}
	url := serve(t)
	p := page{t, open(t)}
	logIn := func(token string) {
		t.Helper()
		p.do(chromedp.SendKeys(chromedp.CSS("#token"), token), chromedp.Click(chromedp.CSS("form button")))
	}
	p.do(chromedp.Navigate(url + "/"))
	logIn("wrong")
	p.waitFor(`document.querySelector("#wrong")?.textContent === "That is not the token of this bridge. It is what COPILOT_BRIDGE_TOKEN was when it was started."`)
	p.look("login")
	logIn(token)
	p.waitFor(`document.querySelector("#send")?.disabled === false`)
	if got := p.js(`document.cookie + location.href + " " + [...document.querySelectorAll("option")].map((o) => o.value)`); got != url+"/ rehearsal-1,agent/rehearsal-1" {
		t.Errorf("after the login: %q", got)
	}

	// The answer comes in parts, and is shown as the text that it is.
	const html = `<img src=x onerror="document.title='hacked'"><b>bold</b>`
	p.say("rehearsal: chunks one |" + html + "\nrehearsal: silence")
	p.waitFor(`document.querySelector("#answer").textContent.includes("</b>")`)
	if got := p.js(`document.querySelector("#answer").textContent + document.querySelectorAll("#answer *").length + document.title`); got != "one "+html+"0Copilot Bridge" {
		t.Errorf("the answer is shown as %q", got)
	}
	p.do(chromedp.Click(chromedp.CSS("#stop")))
	p.waitFor(`document.querySelector("#state").textContent === "Stopped."`)
	p.say("rehearsal: status 400 no such luck")
	p.waitFor(`/^It failed: .*no such luck/.test(document.querySelector("#state").textContent)`)
	p.say("Say hello")
	p.waitFor(`document.querySelector("#state").textContent === "Answered by rehearsal-1."`)
	if got := p.js(`document.querySelector("#answer").textContent`); !strings.HasPrefix(got, "You said: Say hello") {
		t.Errorf("the answer is %q", got)
	}
	p.look("page")

	p.do(chromedp.Click(chromedp.CSS(".copy")))
	p.waitFor(`document.querySelector(".copy").textContent === "Copied"`)
	p.do(chromedp.Click(chromedp.CSS("nav form button")))
	p.waitFor(`document.querySelector("#token") !== null`)
}

// look checks that nothing is wider than the window, as small as a telephone's and as
// large as a desk's, and takes pictures if they are wanted.
func (p page) look(name string) {
	p.Helper()
	for _, width := range []int64{390, 1280} {
		for _, scheme := range []string{"light", "dark"} {
			p.do(chromedp.EmulateViewport(width, 900), chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
				_, err := cdp.Call(ctx, tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
				return err
			}))
			if p.js(`document.documentElement.scrollWidth > document.documentElement.clientWidth`) == "true" {
				p.Errorf("%s is wider than %d pixels", name, width)
			}
			if dir := os.Getenv(pictures); dir != "" {
				p.do(chromedp.EmulateViewport(width, 2300))
				picture, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
				if err == nil {
					err = os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d-%s.png", name, width, scheme)), picture, 0o600)
				}
				if err != nil {
					p.Fatal(err)
				}
			}
		}
	}
}
