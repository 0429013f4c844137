package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// A client of the tool bus answers what an agent of serve asks, consents to what
// it does, sees it at work, adds to its turn, and stops it.
func TestAgentsAreWatched(t *testing.T) {
	t.Parallel()
	s := serveFiles(t, map[string]string{"~/policy.yaml": "tools: { ask: [create] }\n"}, []string{"COPILOT_BRIDGE_TOKEN=secret-of-test"}, "--read-write")
	w, _ := s.dial(t, http.Header{"Authorization": {"Bearer secret-of-test"}})
	w.send(`{"jsonrpc":"2.0","id":1,"method":"bridge.approvals.subscribe","params":{"agents":true}}`)
	w.waitForMessage(`"id":1,"result":{"open":\[\]`)
	ask := func(prompt string) chan string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/chat/completions",
			strings.NewReader(`{"model":"agent/rehearsal-1","messages":[{"role":"user","content":`+toJSON(prompt)+`}]}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer secret-of-test")
		answer := make(chan string, 1)
		go func() {
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				answer <- err.Error()
				return
			}
			body, _ := io.ReadAll(resp.Body) // what came is compared
			_ = resp.Body.Close()
			answer <- string(body)
		}()
		return answer
	}

	answer := ask(`rehearsal: tool ask_user {"question":"Which colour?","choices":["red","green"]}`)
	var m struct {
		Params struct{ ID, Message string }
	}
	if got := w.waitForMessage(`"bridge.question.requested"`); json.Unmarshal([]byte(got), &m) != nil || m.Params.Message != "Which colour?" {
		t.Fatal(got)
	}
	w.send(`{"jsonrpc":"2.0","id":2,"method":"bridge.question.answer","params":{"id":"` + m.Params.ID + `","action":"accept","content":{"answer":"green"}}}`)
	if got := <-answer; !strings.Contains(got, "User selected: green") {
		t.Error(got)
	}

	answer = ask("rehearsal: tool create " + toJSON(map[string]any{"path": s.dir + "/new.txt", "file_text": "x"}) + "\nrehearsal: next\nrehearsal: text done")
	if got := w.waitForMessage(`"bridge.approval.requested"`); json.Unmarshal([]byte(got), &m) != nil || !strings.Contains(got, "new.txt") {
		t.Fatal(got)
	}
	// The turn waits for the answer, so it can be added to.
	w.send(`{"jsonrpc":"2.0","id":3,"method":"bridge.sessions.list"}`)
	var list struct {
		Result struct {
			Sessions []struct {
				ID, API, Directory string
				Running            bool
			}
		}
	}
	if got := w.waitForMessage(`"id":3`); json.Unmarshal([]byte(got), &list) != nil {
		t.Fatal(got)
	}
	running := ""
	for _, one := range list.Result.Sessions {
		if one.Running && one.API == "openai" && one.Directory == s.dir {
			running = one.ID
		}
	}
	w.send(`{"jsonrpc":"2.0","id":4,"method":"bridge.session.send","params":{"session":"` + running + `","text":"rehearsal: text and more","when":"after"}}`)
	w.waitForMessage(`"id":4,"result"`)
	w.send(`{"jsonrpc":"2.0","id":5,"method":"bridge.approval.answer","params":{"id":"` + m.Params.ID + `","answer":"once"}}`)
	if got := <-answer; !strings.Contains(got, "and more") {
		t.Errorf("%s; sessions: %+v", got, list)
	}

	answer = ask("rehearsal: silence")
	// The turn before may still be listed, so whatever runs is stopped until this
	// one has ended.
	for stopped, ended := false, false; !ended; {
		select {
		case got := <-answer:
			if ended = true; !stopped {
				t.Fatalf("the turn ended by itself: %s", got)
			}
			continue
		default:
		}
		w.send(`{"jsonrpc":"2.0","id":6,"method":"bridge.sessions.list"}`)
		if got := w.waitForMessage(`"id":6`); json.Unmarshal([]byte(got), &list) != nil {
			t.Fatal(got)
		}
		for _, one := range list.Result.Sessions {
			if stopped = stopped || one.Running; one.Running {
				w.send(`{"jsonrpc":"2.0","id":7,"method":"bridge.session.stop","params":{"session":"` + one.ID + `"}}`)
				w.waitForMessage(`"id":7`)
			}
		}
	}
	for _, params := range []string{`{"session":"none","text":"x"}`, `{"session":"none","text":""}`, `{"session":"none","text":"x","when":"soon"}`} {
		w.send(`{"jsonrpc":"2.0","id":8,"method":"bridge.session.send","params":` + params + `}`)
		w.waitForMessage(`"id":8,"error"`)
	}
}
