package browser

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/live"
	"github.com/copilot-bridge/copilot-bridge/internal/timeline"
)

// TestForeignPage lets pages of others try to use the login of the browser that visits
// them. One has the bridge's address with another port: browsers send it the cookie.
func TestForeignPage(t *testing.T) {
	b, p := newAskingBed(t, "approvals")
	answer := b.ask("agent/rehearsal-1", script("Make a file", command("touch made"), "next", "text over"))
	p.click(".approval button", "Link for a phone")
	p.waitForText("dialog pre", "/approve/")
	link := p.text("dialog pre")
	p.click("dialog button", "Close")
	questions, err := live.Questions(b.dir())
	if err != nil || len(questions) != 1 {
		t.Fatal(questions, err)
	}
	approval := b.url + "/api/v1/approvals/" + questions[0].ID

	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		switch target := r.URL.Query().Get("to"); r.URL.Path {
		case "/frame":
			_, _ = fmt.Fprintf(w, `<iframe src="%s"></iframe>`, html.EscapeString(target))
		case "/copy":
			page, err := http.NewRequestWithContext(r.Context(), http.MethodGet, r.URL.Query().Get("of"), http.NoBody)
			if err != nil {
				return
			}
			page.Header.Set("Accept", "text/html")
			copied, err := http.DefaultClient.Do(page)
			if err != nil {
				return
			}
			defer func() { _ = copied.Body.Close() }()
			maps.Copy(w.Header(), copied.Header)
			_, _ = io.Copy(w, copied.Body)
		case "/form":
			_, _ = fmt.Fprintf(w, `<form method="post" enctype="%s" action="%s"><input name="%s" value="%s"><button>Win a prize</button></form>`, html.EscapeString(r.URL.Query().Get("as")), html.EscapeString(target),
				html.EscapeString(r.URL.Query().Get("name")), html.EscapeString(r.URL.Query().Get("value")))
		}
	}))
	defer server.Close()
	for n, foreign := range []string{server.URL, strings.Replace(server.URL, "127.0.0.1", "localhost", 1)} {
		tab := b.tab(chromedp.NewContext(p.ctx))
		for _, complaint := range []string{"frame-ancestors", "X-Frame-Options", "CORS", "Failed to load resource", "chrome-error"} {
			tab.expect(complaint)
		}
		visit := func(path string, query ...any) {
			t.Helper()
			tab.do(chromedp.Navigate(foreign + path + tab.js(fmt.Sprintf(`"?" + new URLSearchParams(%s)`, mustJSON(query)))))
		}
		if n == 0 { // frames of other sites have consoles of their own
			for i, target := range []string{b.url + "/", link} {
				visit("/frame", []string{"to", target})
				b.until("the server's refusal", func() bool { return tab.complaints("403") > i })
				visit("/frame", []string{"to", "/copy?of=" + url.QueryEscape(target)}) // a server that refuses nothing
				b.until("the browser's refusal", func() bool { return tab.complaints("frame-ancestors") > i })
			}
		}
		for name, request := range map[string]string{
			"reading":        fmt.Sprintf(`fetch(%q, {credentials: "include"})`, b.url+"/api/v1/approvals"),
			"JSON":           fmt.Sprintf(`fetch(%q, {method: "POST", credentials: "include", headers: {"Content-Type": "application/json"}, body: '{"answer":"once"}'})`, approval),
			"the link":       fmt.Sprintf(`fetch(%q, {method: "POST", credentials: "include", body: new URLSearchParams({answer: "once"})})`, link),
			"a login":        fmt.Sprintf(`fetch(%q, {method: "POST", credentials: "include", body: "{}"})`, b.url+"/login"),
			"the page":       fmt.Sprintf(`fetch(%q, {credentials: "include"})`, b.url+"/"),
			"an EventSource": fmt.Sprintf(`new Promise((done, fail) => { const s = new EventSource(%q, {withCredentials: true}); s.onerror = () => { s.close(); fail(new TypeError()); }; s.onopen = done; })`, b.url+"/api/v1/stream"),
		} {
			if got := tab.js(request + `.then((r) => "answered " + r?.status, (e) => e.constructor.name)`); got != "TypeError" {
				t.Errorf("%s from %s: %s", name, foreign, got)
			}
		}
		// Such a request arrives, and has to be refused there.
		tab.js(fmt.Sprintf(`fetch(%q, {method: "POST", mode: "no-cors", credentials: "include", body: '{"answer":"once"}'}).catch(() => 0)`, approval))
		for _, form := range [][]string{{approval, "text/plain", `{"answer":"once","x":"`, `"}`}, {link, "application/x-www-form-urlencoded", "answer", "once"}, {b.url + "/logout", "text/plain", "a", "b"}} {
			visit("/form", []string{"to", form[0]}, []string{"as", form[1]}, []string{"name", form[2]}, []string{"value", form[3]})
			tab.click("button", "Win a prize")
			tab.waitFor(fmt.Sprintf(`location.href.startsWith(%q) && document.readyState === "complete"`, b.url))
			if got := tab.text("body"); !strings.Contains(got, "error") && !strings.Contains(got, "refused") {
				t.Errorf("a form of %s to %s is answered %q", foreign, form[0], got)
			}
		}
		if left, err := live.Questions(b.dir()); err != nil || len(left) != 1 || b.made("made") {
			t.Fatalf("from %s the question was answered: %v, %v", foreign, left, err)
		}
	}
	p.click(".approval button", "Allow once") // the person still can
	<-answer
	if !b.made("made") {
		t.Error("what was allowed has not been done")
	}
}

func mustJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// complaints counts what the console has said of something.
func (p page) complaints(part string) (n int) {
	p.console.mu.Lock()
	defer p.console.mu.Unlock()
	for _, line := range p.console.said {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}

// TestHostileQuestion shows questions, names and files with markup as the text they are,
// on the page and behind a link.
func TestHostileQuestion(t *testing.T) {
	b, p := newAskingBed(t, "approvals")
	const markup = `<img src=x onerror="document.title='hacked'"><script>document.title='hacked'</script>[x](javascript:alert(1))`
	const evil = markup + "\u202Edecnartsed \u2066\x1b[8m\x07"
	quoted := mustJSON(evil)
	below := mustJSON(script("Do it", command("touch one # "+markup), "next", "text below"))
	answer := b.ask("agent/rehearsal-1", script("Ask", `tool ask_user {"question":`+quoted+`,"choices":[`+quoted+`,"green"]}`, "next",
		`tool create {"path":`+mustJSON(b.workspace+`/<img src=x onerror="alert(1)">.html`)+`,"file_text":`+quoted+`}`, "next",
		`tool task {"description":`+quoted+`,"name":"tester","agent_type":"general-purpose","mode":"sync","prompt":`+below+`}`, "next", "text over"))
	check := func(p page, where string) {
		t.Helper()
		for expression, want := range map[string]string{
			`document.querySelectorAll("main img, main script, main iframe, [href^=javascript], [onerror]").length`: "0",
			`document.title.startsWith("hacked")`: "false",
			`/[\u202a-\u202e\u2066-\u2069\u0007\u001b]/.test(document.body.textContent + document.title)`: "false",
		} {
			if got := p.js(expression); got != want {
				t.Errorf("%s: %s is %s:\n%s", where, expression, got, p.text("main"))
			}
		}
	}
	p.waitForText(".approval h2", "<img src=x")
	check(p, "the agent's question")
	p.look("hostile-question", nil)
	p.click(".approval .answers button", "green")
	p.waitForText(".approval .command", "<script>")
	check(p, "a command")
	p.look("hostile-command", nil)
	p.click(".approval button", "Link for a phone")
	p.waitForText("dialog pre", "/approve/")
	link := p.text("dialog pre")
	p.click("dialog button", "Close")
	phone := p.other()
	phone.size(390, 800)
	phone.do(chromedp.Navigate(link))
	phone.waitForText("main", "<script>")
	check(phone, "the link")
	if phone.js(`document.documentElement.scrollWidth > 390`) == "true" {
		t.Error("the page of the link is wider than a telephone")
	}
	p.click(".approval .who a", "")
	p.waitForText(".timeline .k-diff", "<img src=x")
	check(p, "the timeline")
	p.click(".timeline .approval button", "Allow once")
	<-answer
	p.waitForText(".timeline", "Turn done")
	check(p, "the timeline at its end")
}

// TestHugeLine shows a message and a thought of three megabytes each without the end of a
// line, and what a tool says likewise. The page still answers.
func TestHugeLine(t *testing.T) {
	b := newBed(t, nil)
	writer, now := timeline.NewWriter(nil), time.Now()
	r := writer.Record(timeline.Open(timeline.Dir(b.dir())), timeline.Summary{ID: "huge", Door: "cli", Profile: bridge.ProfileAgent, Title: "Huge \u202Eeguh \x1b[31m", State: timeline.Ended, Started: now, Changed: now})
	name := "ba\x1b[8msh\u202E<b>"
	for range 3 << 20 / timeline.Most { // more at once would be left out
		for _, e := range []timeline.Event{{Type: timeline.TypeText, Message: "1"}, {Type: timeline.TypeReasoning}} {
			e.Text = strings.Repeat("**[<", timeline.Most/4)
			r.Add(e)
		}
	}
	r.Add(timeline.Event{Type: timeline.TypeTool, Call: "1", Name: name, Args: json.RawMessage(mustJSON(map[string]string{"path": "\u202Etxt.exe\x07", "content": strings.Repeat("<i>", 20000)}))})
	for range 2 {
		r.Add(timeline.Event{Type: timeline.TypeProgress, Call: "1", Text: strings.Repeat("<b>", timeline.Most/3)})
	}
	r.Add(timeline.Event{Type: timeline.TypeDiff, Path: "\u202Etxt.exe<img src=x>", Change: "add", Diff: "+++ b/x\n+" + strings.Repeat("<", 60000)})
	r.Add(timeline.Event{Type: timeline.TypeEnd, Reason: "done"})
	if err := writer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := b.open()
	p.logIn("sessions/huge")
	p.waitForText(".timeline", "Turn done")
	p.js(`document.querySelectorAll("details").forEach((d) => { d.open = true; })`)
	p.click("button", "Colours") // the page still answers to who clicks
	p.waitForText("header", "Colours: light")
	for expression, want := range map[string]string{
		`document.querySelectorAll("main img, main b, main i").length`:                                                     "0",
		`document.querySelector("main").textContent.length < 200000`:                                                       "true",
		`/[\u202a-\u202e\u0007\u001b]/.test(document.body.textContent + document.title)`:                                   "false",
		`document.documentElement.scrollWidth > document.documentElement.clientWidth`:                                      "false",
		`document.querySelector(".tool-name").textContent`:                                                                 `baESC[8msh\u{202e}<b>`,
		`new Promise((done) => { const t = performance.now(); setTimeout(() => done(performance.now() - t < 5000), 0); })`: "true",
	} {
		if got := p.js(expression); got != want {
			t.Errorf("%s is %s, not %s", expression, got, want)
		}
	}
}
