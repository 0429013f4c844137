package browser

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/copilot-bridge/copilot-bridge/internal/live"
	"github.com/copilot-bridge/copilot-bridge/internal/timeline"
)

// script is a prompt of directives for the demo model.
func script(title string, lines ...string) string {
	return title + "\nrehearsal: " + strings.Join(lines, "\nrehearsal: ")
}

// command is a directive that runs a command.
func command(line string) string {
	args, err := json.Marshal(map[string]string{"command": line, "description": "a step"})
	if err != nil {
		panic(err)
	}
	return "tool bash " + string(args)
}

// newAskingBed is a bed where commands have to be asked about, with a page that
// watches.
func newAskingBed(t *testing.T, view string) (*bed, page) {
	t.Helper()
	b := newBed(t, []string{"COPILOT_BRIDGE_SANDBOX=off"}, "--read-write")
	p := b.open()
	p.logIn(view)
	b.until("the page watches", func() bool { return live.Watched(b.dir()) })
	return b, p
}

// deny answers the first question with no.
func (p page) deny(reason string) {
	p.Helper()
	p.click(".approval button", "Deny…")
	p.waitFor(`document.activeElement.tagName === "INPUT"`)
	p.do(chromedp.KeyEvent(reason + "\r"))
}

// session is the id of the session that the page shows.
func (p page) session() string {
	p.Helper()
	return p.js(`location.hash.split("/")[2]`)
}

// events is a session's timeline, as its file has it.
func (b *bed) events(session string) (out []timeline.Event) {
	b.Helper()
	raw, _, err := timeline.OpenLibrary(b.dir()).Read(session, 0, 10000)
	if err != nil {
		b.Fatal(err)
	}
	for _, r := range raw {
		var e timeline.Event
		if err := json.Unmarshal(r, &e); err != nil {
			b.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

// heard says whether the result of a tool has a text: results go to the model.
func heard(events []timeline.Event, part string) bool {
	return slices.ContainsFunc(events, func(e timeline.Event) bool {
		return e.Type == timeline.TypeResult && strings.Contains(e.Text+e.Error, part)
	})
}

// TestAnswer allows one call of an agent and denies another. The agent obeys and
// hears why. What its sub-agent asks bears that one's name.
func TestAnswer(t *testing.T) {
	b, p := newAskingBed(t, "approvals")
	p.waitForText("main", "No question waits")
	below := script("Do it", command("touch below"), "next", "text done below")
	task, err := json.Marshal(map[string]string{"description": "do it", "name": "tester", "agent_type": "general-purpose", "mode": "sync", "prompt": below})
	if err != nil {
		t.Fatal(err)
	}
	answer := b.ask("agent/rehearsal-1", script("Make two files", command("touch allowed"), "next", command("touch forbidden"), "next", "tool task "+string(task)))
	p.waitForText(".approval", "touch allowed")
	p.waitForText("header .badge", "1")
	p.click(".approval button", "Allow once")
	p.waitForText(".approval", "touch forbidden")
	if !b.made("allowed") {
		t.Error("what was allowed has not been done")
	}
	p.deny("not on a Friday")
	p.waitForText(".approval", "touch below")
	if got := p.text(".approval .who"); !strings.Contains(got, "tester") {
		t.Errorf("a sub-agent's question is for %q", got)
	}
	if got := p.text(".approval h2"); !strings.Contains(got, "sub-agent tester") {
		t.Errorf("a sub-agent's question begins %q", got)
	}
	p.click(".approval .who a", "")
	p.waitForText(".timeline .approval", "touch below") // in its place, too
	p.click(".timeline .approval button", "Allow once")
	if got := <-answer; !strings.Contains(got, "done below") {
		t.Errorf("the answer is %s", got)
	}
	if b.made("forbidden") || !b.made("below") {
		t.Errorf("forbidden is there: %t, below: %t", b.made("forbidden"), b.made("below"))
	}
	p.waitForText(".timeline", "Turn done")
	p.waitForText(".tool.denied", "not on a Friday")
	for _, want := range []string{"allowed once (dashboard)", "denied (dashboard): the user said no: not on a Friday", "Sub-agent tester"} {
		p.waitForText(".timeline", want)
	}
	if got := b.events(p.session()); !heard(got, "not on a Friday") {
		t.Errorf("the reason is in no tool's result: %+v", got)
	}
	p.waitFor(`document.querySelector("header nav .badge:not(.calm)") === null`)
}

// TestTerminal answers a question that a terminal and the page show, at either: it
// vanishes at the other.
func TestTerminal(t *testing.T) {
	b, p := newAskingBed(t, "approvals")
	x := b.terminal(script("Make files", command("touch one"), "next", command("touch two"), "next", command("touch three"), "next", "text over and out"))
	x.waitFor(menu)
	p.waitForText(".approval .command", "touch one")
	p.click(".approval button", "Allow once")
	x.waitFor("answered in the dashboard: allowed once")

	x.waitFor(menu)
	p.waitForText(".approval .command", "touch two")
	x.press("y\n")
	p.waitForText(".notes", "Answered elsewhere")

	x.waitFor(menu)
	p.waitForText(".approval .command", "touch three")
	p.deny("two are enough")
	x.waitFor("answered in the dashboard: denied")
	p.waitForText("main", "No question waits")
	if said := x.end(); !strings.Contains(said, "two are enough") {
		t.Errorf("the reason did not reach the terminal:\n%s", said)
	}
	if !b.made("one") || !b.made("two") || b.made("three") {
		t.Error("one and two should be there, and not three")
	}
}

// TestPhone answers a question with a link, in a browser that has not logged in. The
// link is good once.
func TestPhone(t *testing.T) {
	b, p := newAskingBed(t, "approvals")
	answer := b.ask("agent/rehearsal-1", script("Make a file", command("touch made"), "next", "text over"))
	p.click(".approval button", "Link for a phone")
	p.waitForText("dialog pre", "/approve/")
	address := p.text("dialog pre")
	p.click("dialog button", "Close")

	phone := p.other()
	phone.expect("410") // a link that was used
	phone.expect("401") // the page before the login
	phone.size(390, 800)
	phone.do(chromedp.Navigate(b.url + "/"))
	phone.waitForText("main", "Log in")
	phone.do(chromedp.Navigate(address))
	phone.waitForText("h1", "touch made")
	second := phone.other() // which has the link too
	second.expect("410")
	second.do(chromedp.Navigate(address))
	second.waitForText("h1", "touch made")
	if phone.js(`document.documentElement.scrollWidth > 390`) == "true" {
		t.Error("the page of the link is wider than a telephone")
	}
	if phone.js(`Math.min(...[...document.querySelectorAll("button")].map((b) => b.getBoundingClientRect().height)) < 40`) == "true" {
		t.Error("its buttons are too small for a thumb")
	}
	phone.picture("link-390-light")
	phone.click("button", "Allow once")
	phone.waitForText("h1", "Allowed once.")
	<-answer
	if !b.made("made") {
		t.Error("what was allowed has not been done")
	}
	p.waitForText("main", "No question waits")
	phone.do(chromedp.Navigate(address))
	phone.waitForText("h1", "This link has been used.")
	second.click("button", "Allow once")
	second.waitForText("h1", "This link has been used.")
	p.show("audit")
	p.waitForText("main", "This link has been used")
}
