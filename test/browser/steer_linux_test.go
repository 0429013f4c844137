package browser

import (
	"fmt"
	"net/url"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/copilot-bridge/copilot-bridge/internal/timeline"
)

// send writes a message to the session that the page shows, in a mode of the form if
// it has any.
func (p page) send(mode, text string) {
	p.Helper()
	if mode != "" {
		p.click(".modes label", mode)
	}
	p.waitFor(`document.querySelector("#message").value === ""`)
	p.js(`document.querySelector("#message").focus()`)
	p.do(chromedp.KeyEvent(text), chromedp.KeyEvent("\r", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	p.waitFor(`document.querySelector("#message").value === ""`)
}

// TestSteer says something into a turn and after it, which the model hears, and stops a
// turn.
func TestSteer(t *testing.T) {
	b, p := newAskingBed(t, "sessions")
	answer := b.ask("agent/rehearsal-1", script("Work for a while", command("touch one"), "next", "text nobody steered me"))
	p.click(".sessions a", "Work for a while")
	p.waitForText(".timeline .approval", "touch one")
	p.send("Steer now", script("Go left", "text I went left"))
	p.send("After this turn", script("Then right", "text I turned right"))
	p.click(".timeline .approval button", "Allow once")
	if got := <-answer; !strings.Contains(got, "I went left") {
		t.Errorf("the client's answer is %s", got)
	}
	p.waitForText(".timeline", "I turned right")
	p.waitForText(".timeline", "Turn done")
	const texts = `[...document.querySelectorAll(".k-text .md")].map((e) => e.textContent).join("|")`
	if got := p.js(texts); got != "I went left|I turned right" {
		t.Errorf("the model says %q", got)
	}

	p.waitForText(".page .state", "idle")
	p.send("", script("Now take your time", "chunks Half a |", "silence"))
	p.waitForText(".timeline .k-text:nth-last-child(1 of .k-text)", "Half a")
	p.click("button", "Stop")
	p.waitForText(".timeline", "Turn stopped")
	events := b.events(p.session())
	ends := slices.DeleteFunc(slices.Clone(events), func(e timeline.Event) bool { return e.Type != timeline.TypeEnd })
	if len(ends) != 2 || ends[1].Reason != "aborted" { // what was queued belonged to the first turn
		t.Errorf("the turns ended: %+v", ends)
	}
	for _, e := range events {
		if e.Type == timeline.TypePrompt && e.By != "dashboard" && !strings.HasPrefix(e.Text, "Work for a while") {
			t.Errorf("a prompt of the page is by %q: %q", e.By, e.Text)
		}
	}
}

// TestResume goes on with a session of a process that has ended.
func TestResume(t *testing.T) {
	b := newBed(t, nil)
	b.run("run", "--demo", script("An old task", "text Once upon a time"))
	p := b.open()
	p.logIn("sessions")
	p.click(".sessions a", "An old task")
	p.waitForText(".timeline", "Once upon a time")
	session := p.session()
	p.send("", script("Tell more", "text and they lived"))
	p.waitForText(".timeline .k-text:nth-last-child(1 of .k-text)", "and they lived")
	p.waitFor(`document.querySelectorAll(".k-end").length === 2`)
	if got := p.session(); got != session {
		t.Errorf("the session %s became %s", session, got)
	}
}

// step finds the numbered words of TestRestart.
var step = regexp.MustCompile(`(word|step)-\d+`)

// TestRestart kills the server while the page shows a session of another process, and
// starts it again. The page finds back by itself, and shows every event once.
func TestRestart(t *testing.T) {
	b := newBed(t, nil)
	p := b.open()
	p.expect("net::ERR_") // while there is no server
	p.logIn("sessions")
	const rounds = 30
	var lines []string
	for i := range rounds {
		lines = append(lines, fmt.Sprintf("chunks word-%d |", i), "delay 200ms", command(fmt.Sprintf("true step-%d", i)), "next")
	}
	running := exec.Command(b.binary, "run", "--demo", "--yes", script("A long way", append(lines, "text arrived")...))
	running.Env, running.Dir = b.env, b.workspace
	if err := running.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- running.Wait() }()
	t.Cleanup(func() { _ = running.Process.Kill() }) // nothing is left to kill, as a rule

	p.click(".sessions a", "A long way")
	p.waitForText(".timeline", "word-3")
	p.js(`window.sameDocument = true`)
	session := p.session()
	at, err := url.Parse(b.url)
	if err != nil {
		t.Fatal(err)
	}
	b.kill()
	p.waitForText("body", "Reconnecting…")
	before := len(b.events(session))
	b.until("events without a server", func() bool { return len(b.events(session)) > before+8 })
	select {
	case err := <-ended:
		t.Fatalf("the other process ended before the server was back: %v", err)
	default:
	}
	b.start(at.Port())
	p.waitForText(".timeline .block:nth-last-child(2)", "Turn done")
	if err := <-ended; err != nil {
		t.Error(err)
	}
	p.waitFor(`document.querySelector(".lost") === null`)
	p.waitForText(".page .state", "ended")

	var want strings.Builder
	for _, e := range b.events(session) {
		switch e.Type {
		case timeline.TypeText:
			want.WriteString(e.Text)
		case timeline.TypeTool:
			want.Write(e.Args)
		}
	}
	in := step.FindAllString(want.String(), -1)
	shown := step.FindAllString(p.js(`[...document.querySelectorAll(".timeline .k-text, .timeline .command")].map((e) => e.textContent).join(" ")`), -1)
	if len(in) != 2*rounds || !slices.Equal(in, shown) {
		t.Errorf("the file has\n%q,\nthe page shows\n%q", in, shown)
	}
	if got := p.js(`window.sameDocument`); got != "true" {
		t.Error("the page was loaded anew")
	}
	p.send("", script("Are you still there?", "text I am")) // its login is good for changes, too
	p.waitForText(".timeline .k-text:nth-last-child(1 of .k-text)", "I am")
}
