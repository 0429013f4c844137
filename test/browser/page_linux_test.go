package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/timeline"
)

const token = "browser-test-token"

// TestLogin logs in with the token, and with the address of `copilot-bridge dashboard`,
// which is good once.
func TestLogin(t *testing.T) {
	b := newBed(t, []string{"COPILOT_BRIDGE_TOKEN=" + token})
	p := b.open()
	p.expect("401") // the browser tells of each
	p.do(chromedp.Navigate(b.url + "/"))
	p.waitForText("main", "copilot-bridge dashboard")
	p.look("login", nil)
	give := func(token string) {
		t.Helper()
		p.js(`document.querySelector("#token").value = ""`)
		p.do(chromedp.SendKeys(chromedp.CSS("#token"), token+"\r"))
	}
	give("wrong")
	p.waitForText("#wrong", "That is not the token of this bridge.")
	give(token)
	p.waitForText("h1", "Sessions")
	if got := p.js(`document.cookie + location.href`); got != b.url+"/" {
		t.Errorf("after the login: %q", got)
	}
	p.click("button", "Log out")
	p.waitForText("main", "copilot-bridge dashboard")

	address := b.run("dashboard", "--no-open")
	p.do(chromedp.Navigate("about:blank"), chromedp.Navigate(address))
	p.waitForText("h1", "Sessions")
	if got := p.js(`location.href`); strings.Contains(got, "login") {
		t.Errorf("the code stays in the address: %q", got)
	}
	p.click("button", "Log out")
	p.waitForText("main", "copilot-bridge dashboard")
	p.do(chromedp.Navigate("about:blank"), chromedp.Navigate(address))
	p.waitForText("#wrong", "has been used already")
}

// TestTurn sees a turn of an agent while it happens, and tries the form of the connect
// view.
func TestTurn(t *testing.T) {
	b := newBed(t, nil)
	p := b.open()
	p.logIn("sessions")
	p.waitForText("main", "There are no sessions yet")
	if err := os.WriteFile(filepath.Join(b.workspace, "notes.txt"), []byte("first line\nsecond line\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	answer := b.ask("agent/rehearsal-1", strings.Join([]string{"Read my notes", "rehearsal: reason They want their notes read.", "rehearsal: text I look into **them**.",
		`rehearsal: tool bash {"command": "cat notes.txt", "description": "read"}`, "rehearsal: next", `rehearsal: tool bash {"command": "rm notes.txt"}`,
		"rehearsal: next", "rehearsal: chunks Half |", "rehearsal: silence"}, "\n"))
	p.click(".sessions a", "Read my notes")
	p.waitForText(".k-text strong", "them")
	p.waitForText(".tool > .folded", "second line")
	p.waitForText(".tool.denied .verdict", "Denied by the policy")
	p.waitForText(".timeline .block:last-child", "Half")
	select {
	case <-answer:
		t.Error("the answer came before the page was looked at: nothing was seen as it happened")
	default:
	}
	if got := p.text(".page .state"); got != "running" {
		t.Errorf("the state is %q", got)
	}
	p.look("session", nil)
	p.click("button", "Stop")
	p.waitForText(".timeline", "Turn stopped")
	<-answer

	p.show("connect")
	p.click(".try button", "Send")
	p.waitForText(".try", "Answered by rehearsal-1.")
	p.waitForText(".try .answer", "You said: Say hello")
	p.do(chromedp.Click(chromedp.CSS(".copy")))
	p.waitFor(`[...document.querySelectorAll(".copy")].some((e) => e.textContent === "Copied")`)
}

// TestHostile shows what models and tools say as text, whatever they say.
func TestHostile(t *testing.T) {
	b := newBed(t, nil)
	const evil = `<img src=x onerror="document.title='hacked'"><script>document.title='hacked'</script> [here](javascript:alert(1)) [there](https://example.com/a) ` + "\u202Ereversed\u202C \u2066hidden\u2069 \u200Bend"
	if err := os.WriteFile(filepath.Join(b.workspace, "evil.txt"), []byte(evil+"\x1b[8mconcealed\x07\n"+strings.Repeat("x", 5<<20)), 0o600); err != nil {
		t.Fatal(err)
	}
	<-b.ask("agent/rehearsal-1", "Show "+evil+"\nrehearsal: chunks "+evil+"\n"+`rehearsal: tool bash {"command": "cat evil.txt | head -c 60000 # \u202E"}`+"\nrehearsal: next\n"+
		`rehearsal: tool bash {"command": "cat evil.txt"}`+"\nrehearsal: next\nrehearsal: text done")
	p := b.open()
	p.logIn("sessions")
	p.click(".sessions a", "Show <img")
	p.waitForText(".timeline", "Turn done")
	for _, w := range []struct{ expression, want string }{
		{`document.title.includes("hacked'") && !document.title.startsWith("hacked")`, "true"}, // the session's title, as it is
		{`document.querySelectorAll("main img, main script, main iframe, [style*=url]").length`, "0"},
		{`[...document.querySelectorAll("main .timeline a")].map((a) => a.href + a.textContent).join()`, "https://example.com/ahttps://example.com/a"},
		{`document.querySelectorAll(".k-text .hidden-char").length`, "5"},
		{`document.querySelector(".tool .command .hidden-char").textContent`, `\u{202e}`},
		{`document.querySelectorAll(".tool > .folded .hidden-char").length > 5`, "true"},
		{`document.querySelector("main").textContent.length < 100000`, "true"},
		{`/[\u202a-\u202e\u2066-\u2069\u200b\u0007\u001b]/.test(document.querySelector("main").textContent)`, "false"},
		{`getComputedStyle(document.querySelector(".tool pre.t")).unicodeBidi`, "isolate"},
	} {
		if got := p.js(w.expression); got != w.want {
			t.Errorf("%s is %s, not %s", w.expression, got, w.want)
		}
	}
	p.look("hostile", nil)
}

// TestLong shows a timeline of ten thousand events: little of it at a time, and all of
// it to who scrolls.
func TestLong(t *testing.T) {
	b := newBed(t, nil)
	const turns = 2500
	writer := timeline.NewWriter(nil)
	now := time.Now()
	r := writer.Record(timeline.Open(timeline.Dir(filepath.Join(b.home, ".copilot-bridge"))), timeline.Summary{ID: "long", Door: "run", Profile: bridge.ProfileAgent, Title: "Long", State: timeline.Ended, Started: now, Changed: now})
	for i := range turns {
		call := fmt.Sprint("call-", i)
		ok := true
		r.Add(timeline.Event{Type: timeline.TypeTool, Call: call, Name: "bash", Args: json.RawMessage(fmt.Sprintf(`{"command": "make step-%d"}`, i))})
		r.Add(timeline.Event{Type: timeline.TypeVerdict, Call: call, Tool: "bash", Verdict: "allow", By: "policy", Rule: "bash: make *"})
		r.Add(timeline.Event{Type: timeline.TypeResult, Call: call, OK: &ok, Text: "one\ntwo\nthree", MS: 5})
		r.Add(timeline.Event{Type: timeline.TypeText, Message: call, Text: fmt.Sprintf("Step **%d** is done.", i)})
	}
	if err := writer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := b.open()
	p.logIn("sessions")
	p.waitForText(".sessions", "Long")
	took := p.js(`new Promise((done) => { const t = performance.now(); location.hash = "#/sessions/long"; const look = () => document.querySelector(".block") ? requestAnimationFrame(() => done(performance.now() - t)) : requestAnimationFrame(look); look(); })`)
	t.Logf("the first events were painted after %s ms", took)
	p.waitForText(".timeline .block:last-child", fmt.Sprintf("Step %d is done", turns-1))
	most := 0
	for deadline := time.Now().Add(2 * patience); !strings.Contains(p.text(".timeline .block"), "make step-0\n"); {
		if time.Now().After(deadline) {
			t.Fatalf("the first event does not come; the first one is %q", p.text(".timeline .block"))
		}
		p.js(`window.scrollBy(0, -5000)`)
		var blocks int
		if _, err := fmt.Sscan(p.js(`document.querySelectorAll(".block").length`), &blocks); err != nil {
			t.Fatal(err)
		}
		most = max(most, blocks)
	}
	if got := p.js(`[...document.querySelectorAll(".command")].every((e, i) => e.textContent === "make step-" + i)`); got != "true" {
		t.Errorf("the events are not in order: %s", p.js(`[...document.querySelectorAll(".command")].map((e) => e.textContent).join()`))
	}
	if most > 2000 {
		t.Errorf("the page held %d blocks at a time", most)
	}
	p.click("button", "Latest")
	p.waitForText(".timeline .block:last-child", fmt.Sprintf("Step %d is done", turns-1))
}

// TestKeyboard uses nothing but keys.
func TestKeyboard(t *testing.T) {
	b := newBed(t, nil)
	<-b.ask("agent/rehearsal-1", "Hello\nrehearsal: text one")
	p := b.open()
	p.logIn("sessions")
	p.waitForText(".sessions", "Hello")
	press := func(key string) { t.Helper(); p.do(chromedp.KeyEvent(key)) }
	focused := func() string {
		t.Helper()
		return p.js(`document.activeElement === document.body ? "" : document.activeElement.innerText || document.activeElement.id`)
	}
	// reach presses Tab until the focus is on something, which must show that it is.
	reach := func(part string) {
		t.Helper()
		for range 60 {
			press("\t")
			if strings.HasPrefix(focused(), part) {
				if p.js(`getComputedStyle(document.activeElement).outlineStyle`) == "none" {
					t.Errorf("%q does not show that it has the focus", part)
				}
				return
			}
		}
		t.Fatalf("Tab does not reach %q; the focus is on %q", part, focused())
	}
	p.js(`document.activeElement.blur()`)
	reach("Skip to the content")
	press("\r")
	if got := p.js(`document.activeElement.id`); got != "main" {
		t.Errorf("the skip link leads to %q", got)
	}
	press("/")
	if got := p.js(`document.activeElement.type`); got != "search" {
		t.Errorf("/ leads to %q", got)
	}
	reach("Hello")
	press("\r")
	p.waitForText(".timeline", "Turn done")
	if got := focused(); !strings.HasPrefix(got, "Hello") {
		t.Errorf("in a view that has just come, the focus is on %q", got)
	}
	press("k")
	if got := p.js(`document.activeElement.className`); !strings.Contains(got, "block") {
		t.Errorf("k leads to %q", got)
	}
	reach("message")
	p.do(chromedp.KeyEvent("again\nrehearsal: text two"), chromedp.KeyEvent("\r", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	p.waitForText(".timeline .block:nth-last-child(3)", "two")
}

// views are all that need no name.
var views = []string{"sessions", "approvals", "runs", "usage", "policy", "audit", "health", "connect"}

// TestAccessible lets axe look at every view.
func TestAccessible(t *testing.T) {
	b := newBed(t, nil, "--read-write")
	<-b.ask("agent/rehearsal-1", "Hello\nrehearsal: reason thinking\nrehearsal: text # One\\n\\n```go\\ncode\\n```\n"+`rehearsal: tool bash {"command": "ls"}`+"\nrehearsal: next\nrehearsal: text done")
	p := b.open()
	axe, err := os.ReadFile(filepath.Join(axe(t), "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	p.logIn("sessions")
	p.waitForText(".sessions", "Hello")
	session := strings.TrimPrefix(p.js(`document.querySelector(".sessions a").hash`), "#/")
	answer := b.ask("agent/rehearsal-1", "Fetch\n"+`rehearsal: tool bash {"command": "curl https://example.com"}`+"\nrehearsal: next\nrehearsal: text done")
	p.waitForText(".asks", "1 question waits")
	p.js("(() => { " + string(axe) + "\n return 0; })()")
	for _, view := range append(views, session) {
		p.show(view)
		p.look(view, func(where string) {
			found := p.js(`axe.run(document, {resultTypes: ["violations"]}).then((r) => r.violations.filter((v) => v.impact === "serious" || v.impact === "critical").map((v) => v.id + ": " + v.help + "\n" + v.nodes.map((n) => n.html.slice(0, 200)).join("\n")).join("\n"))`)
			if found != "" {
				t.Errorf("%s: %s", where, found)
			}
		})
	}
	p.show("approvals")
	p.click("button", "Deny…")
	p.click(".deny button", "Deny")
	p.waitForText("main", "No question waits")
	<-answer
}

// axe returns the directory of axe-core, as package-lock.json pins it.
func axe(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"package.json", "package-lock.json"} {
		data, err := os.ReadFile(filepath.Join("axe", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, end := context.WithTimeout(t.Context(), 5*time.Minute)
	defer end()
	cmd := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--prefer-offline")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
	return filepath.Join(dir, "node_modules", "axe-core")
}
