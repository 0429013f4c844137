package browser

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/live"
	"github.com/copilot-bridge/copilot-bridge/internal/timeline"
)

var update = flag.Bool("update", false, "write the pictures in docs/images")

// pictureTime is when the pictures are taken, as far as the page knows.
const pictureTime = "2026-03-02T10:04:00Z"

// TestPictures takes the pictures of docs/images, of sessions that are always the same.
func TestPictures(t *testing.T) {
	b := newBed(t, nil)
	base := time.Now()
	local, writer := tellStory(t, b.dir(), base)
	defer func() {
		if err := writer.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		if err := local.Close(); err != nil {
			t.Error(err)
		}
	}()
	p := b.open()
	p.do(chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		// All times are shifted, and the clock stands still.
		_, err := cdp.Call(ctx, tab, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: fmt.Sprintf(`{
			const now = Date.parse(%q), shift = now - %d, Real = Date;
			Date = class extends Real { constructor(...a) { super(...(a.length === 0 ? [now] : typeof a[0] === "string" ? [Date.parse(a[0])] : a)); } };
			Date.now = () => now; Date.parse = (s) => Real.parse(s) + shift;
		}`, pictureTime, base.UnixMilli())})
		if err == nil {
			_, err = cdp.Call(ctx, tab, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "UTC"})
		}
		return err
	}))
	p.logIn("approvals")
	p.waitFor(`document.querySelectorAll(".approval").length === 2`)
	for _, picture := range []struct {
		name, view, scheme string
		width, height      int64
	}{{"light", "sessions/story", "light", 1280, 900}, {"dark", "approvals", "dark", 1280, 620}, {"narrow", "sessions/story", "light", 390, 844}} {
		p.size(picture.width, picture.height)
		p.colours(picture.scheme)
		p.show(picture.view)
		p.waitFor(`document.querySelector(".approval") !== null && document.querySelector(".lost") === null`)
		data, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
		if err != nil {
			t.Fatal(err)
		}
		if len(data) > 150<<10 {
			t.Errorf("the picture %s has %d bytes", picture.name, len(data))
		}
		if *update {
			if err := os.WriteFile(filepath.Join("..", "..", "docs", "images", "dashboard-"+picture.name+".png"), data, 0o644); err != nil { //nolint:gosec // everybody may see it
				t.Fatal(err)
			}
		}
	}
}

// tellStory shows sessions of a process, of which two wait for a person.
func tellStory(t *testing.T, home string, base time.Time) (*live.Local, *timeline.Writer) {
	t.Helper()
	local, err := live.Start(home, live.Process{Command: "run", Workspace: "/home/ada/clock", Version: "1.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	writer, store := timeline.NewWriter(nil), timeline.Open(timeline.Dir(home))
	at := func(before time.Duration) time.Time { return base.Add(-before) }
	session := func(id, title, door, client, dir string, began time.Duration, state timeline.State) *timeline.Recorder {
		return writer.Record(store, timeline.Summary{ID: id, Process: local.ID(), Door: door, Client: client, Profile: bridge.ProfileAgent, Agent: "sdk", Model: "gpt-5", Dir: dir, Title: title,
			State: state, Started: at(began), Changed: at(12 * time.Second), Turns: 1, Questions: 1, FirstWord: 640, Usage: bridge.Usage{InputTokens: 18240, OutputTokens: 1312, Cost: 1}})
	}
	r := session("story", "Make the clock show local time", "cli", "copilot-bridge", "/home/ada/clock", 95*time.Second, timeline.Waiting)
	ok := true
	second := 96 * time.Second
	add := func(e timeline.Event) {
		second -= 4 * time.Second
		e.At = at(second)
		r.Add(e)
	}
	add(timeline.Event{Type: timeline.TypeTurn, N: 1})
	add(timeline.Event{Type: timeline.TypePrompt, Text: "The clock shows UTC. Make it show local time, and check that the tests still pass."})
	add(timeline.Event{Type: timeline.TypeReasoning, Text: "First I look where the time is formatted."})
	add(timeline.Event{Type: timeline.TypeText, Message: "1", Text: "I look for the place where the time is **formatted**, then change it and run the tests."})
	add(timeline.Event{Type: timeline.TypeTool, Call: "1", Name: "grep", Args: json.RawMessage(`{"pattern":"UTC\\(\\)"}`)})
	add(timeline.Event{Type: timeline.TypeVerdict, Call: "1", Tool: "grep", Verdict: "allow", By: "policy", Rule: "read: **"})
	add(timeline.Event{Type: timeline.TypeResult, Call: "1", OK: &ok, MS: 23, Text: "face.go:17:\treturn t.UTC().Format(layout)"})
	add(timeline.Event{Type: timeline.TypeTool, Call: "2", Name: "edit", Args: json.RawMessage(`{"path":"face.go"}`)})
	add(timeline.Event{Type: timeline.TypeVerdict, Call: "2", Tool: "edit", Verdict: "allow", By: "policy", Rule: "write: **"})
	add(timeline.Event{Type: timeline.TypeResult, Call: "2", OK: &ok, MS: 8})
	add(timeline.Event{Type: timeline.TypeDiff, Path: "face.go", Change: "edit", Diff: "--- a/face.go\n+++ b/face.go\n@@ -14,5 +14,5 @@\n // face is what the clock shows.\n func face(t time.Time) string {\n-\treturn t.UTC().Format(layout)\n+\treturn t.Local().Format(layout)\n }\n"})
	add(timeline.Event{Type: timeline.TypeTool, Call: "3", Name: "bash", Args: json.RawMessage(`{"command":"go test ./..."}`)})
	add(timeline.Event{Type: timeline.TypeVerdict, Call: "3", Tool: "bash", Verdict: "allow", By: "policy", Rule: "shell: go test *", Confined: true})
	add(timeline.Event{Type: timeline.TypeResult, Call: "3", OK: &ok, MS: 2140, Text: "ok  \tclock\t0.412s\nok  \tclock/zones\t0.118s"})
	add(timeline.Event{Type: timeline.TypeText, Message: "2", Text: "The tests pass. I commit the change."})
	add(timeline.Event{Type: timeline.TypeTool, Call: "4", Name: "bash", Args: json.RawMessage(`{"command":"git commit -am 'Show local time'"}`)})
	add(timeline.Event{Type: timeline.TypeQuestion, Question: "commit", Lead: "Copilot wants to run: git commit -am 'Show local time'"})
	other := session("other", "Keep the dependencies fresh", "openai", "Continue", "/home/ada/shop", 40*time.Second, timeline.Waiting)
	other.Add(timeline.Event{Type: timeline.TypePrompt, At: at(40 * time.Second), Text: "Update what is old"})

	until := base.Add(4 * time.Minute)
	answers := []string{live.Once, live.Session, live.Always, live.Deny}
	for _, q := range []live.Question{
		{Session: "story", Request: "commit", Door: "cli", Client: "copilot-bridge", Dir: "/home/ada/clock", Lead: "Copilot wants to run: git commit -am 'Show local time'", Kind: "shell", Tool: "bash",
			Command: "git commit -am 'Show local time'", Says: "Commit the change", Reason: "commands that no rule allows are asked about", Answers: answers, Always: []string{"always.shell: \"/home/ada/clock: git commit -am 'Show local time'\""}, Until: until},
		{Session: "other", Request: "fetch", Door: "openai", Client: "Continue", Dir: "/home/ada/shop", Agents: []string{"researcher"}, Lead: "Copilot (sub-agent researcher) wants to fetch https://pkg.go.dev/golang.org/x/text", Kind: "url", Tool: "web_fetch",
			URLs: []string{"https://pkg.go.dev/golang.org/x/text"}, Reason: "the network is asked about", Answers: []string{live.Once, live.Session, live.Deny}, Until: until},
	} {
		open, err := local.Open(q)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(open.Close)
	}
	return local, writer
}
