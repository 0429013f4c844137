package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/live"
)

// openQuestion waits for the one open question of a bridge's home.
func openQuestion(t *testing.T, home string) live.Question {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for {
		list, err := live.Questions(home)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 1 {
			return list[0]
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%d questions are open", len(list))
		}
	}
}

// What a terminal asks is answered elsewhere: the prompt vanishes, the agent goes
// on, and who comes later is told who was first.
func TestAQuestionAtTheTerminalIsAnsweredElsewhere(t *testing.T) {
	for answer, tt := range map[string]struct {
		reply live.Reply
		said  string
		code  int
	}{
		"once": {live.Reply{Answer: live.Once, By: "dashboard"}, "answered in the dashboard: allowed once", 0},
		"deny": {live.Reply{Answer: live.Deny, By: "dashboard", Reason: "use make instead"}, "answered in the dashboard: denied", 4},
	} {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			home, dir := t.TempDir(), t.TempDir()
			x := atTerminalOf(t, home, dir, "run", "run the command: touch made")
			x.waitFor(menu)
			bridge := filepath.Join(home, ".copilot-bridge")
			q := openQuestion(t, bridge)
			if q.Command != "touch made" || q.Dir != dir || q.Door != "cli" || q.Session == "" || q.Reason == "" || !slices.Contains(q.Answers, live.Always) || len(q.Always) == 0 || time.Until(q.Until) <= 0 {
				t.Errorf("shown: %+v", q)
			}
			if err := live.Answer(bridge, q.ID, tt.reply); err != nil {
				t.Fatal(err)
			}
			x.waitFor(tt.said)
			if err := live.Answer(bridge, q.ID, live.Reply{Answer: live.Once, By: "top"}); !errors.Is(err, live.ErrAnswered) && !errors.Is(err, live.ErrGone) {
				t.Errorf("answered again: %v", err)
			}
			x.checkExit(tt.code)
			x.checkFile("made", tt.code == 0)
			if shown := x.screen.String(); !strings.Contains(shown, tt.reply.Reason) || strings.Contains(shown, menu+"\r\n") {
				t.Errorf("the reason did not reach the agent, or the prompt is still there:\n%s", shown)
			}
		})
	}
}

func TestASubagentsQuestionHasItsName(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), t.TempDir()
	below := `rehearsal: tool bash {"command":"touch made","description":"write"}` + "\nrehearsal: next\nrehearsal: text below"
	x := atTerminalOf(t, home, dir, "run", "rehearsal: tool task "+toJSON(map[string]any{"description": "do it", "name": "tester", "agent_type": "general-purpose", "prompt": below})+
		"\nrehearsal: next\nrehearsal: text over")
	x.waitFor("Copilot (sub-agent tester) wants to run: touch made")
	x.waitFor(menu)
	bridge := filepath.Join(home, ".copilot-bridge")
	q := openQuestion(t, bridge)
	if !slices.Equal(q.Agents, []string{"tester"}) {
		t.Errorf("shown: %+v", q)
	}
	if err := live.Answer(bridge, q.ID, live.Reply{Answer: live.Once, By: "phone link"}); err != nil {
		t.Fatal(err)
	}
	x.waitFor("answered in the phone link: allowed once")
	x.checkExit(0)
	x.checkFile("made", true)
}

func TestAnAgentsQuestionIsAnsweredElsewhere(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), t.TempDir()
	x := atTerminalOf(t, home, dir, "run", `rehearsal: tool ask_user {"question":"Which colour?","choices":["red","green"]}`)
	x.waitFor("? Which colour?")
	bridge := filepath.Join(home, ".copilot-bridge")
	q := openQuestion(t, bridge)
	if q.Form == nil || !slices.Equal(q.Form.Choices, []string{"red", "green"}) || q.Lead != "Which colour?" {
		t.Errorf("shown: %+v", q)
	}
	if err := live.Answer(bridge, q.ID, live.Reply{Answer: live.Text, Text: "green", By: "dashboard"}); err != nil {
		t.Fatal(err)
	}
	x.waitFor("answered in the dashboard: answered")
	x.checkExit(0)
	if !strings.Contains(x.screen.String(), "green") {
		t.Errorf("the answer did not reach the model:\n%s", x.screen)
	}
}

// With nobody to ask, a question is denied at once, unless somebody watches: then
// it waits for the dashboard's answer, which nobody gives without its key.
func TestTheDashboardAnswersWhereNobodyElseIsThere(t *testing.T) {
	t.Parallel()
	s := serveFiles(t, nil, []string{"COPILOT_BRIDGE_SANDBOX=off"}, "--read-write")
	home := filepath.Join(s.home, ".copilot-bridge")
	post := func(path, key, body string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if key != "" {
			req.Header.Set("Authorization", "Bearer "+key)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		text, err := io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			t.Error(err)
		}
		return resp.StatusCode, string(text)
	}
	prompt := `rehearsal: tool bash {"command":"touch made","description":"write"}` + "\nrehearsal: next\nrehearsal: text over"
	chat := func() (int, string) {
		return post("/v1/chat/completions", "", `{"model":"agent/rehearsal-1","messages":[{"role":"user","content":`+toJSON(prompt)+`}]}`)
	}
	made := func() bool {
		_, err := os.Stat(filepath.Join(s.dir, "made"))
		return err == nil
	}
	if status, text := chat(); status != http.StatusOK || made() {
		t.Fatalf("with nobody there: %d, %s", status, text)
	}
	if denied := approvalsOnRecord(t, s); len(denied) != 1 || !strings.Contains(denied[0], "copilot-bridge dashboard") {
		t.Errorf("denied: %q", denied)
	}

	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { live.Watch(ctx, home, 100*time.Millisecond, func() {}) })
	waitUntil(t, "the home is marked", func() bool { return live.Watched(home) })
	done := make(chan int, 1)
	running.Go(func() {
		status, _ := chat()
		done <- status
	})
	q := openQuestion(t, home)
	if q.Door != "http" || q.Client == "" || q.Dir != s.dir || q.Command != "touch made" {
		t.Errorf("shown: %+v", q)
	}
	answer := "/api/v1/approvals/" + q.ID
	for _, key := range []string{"", "wrong"} {
		if status, text := post(answer, key, `{"answer":"once"}`); status != http.StatusUnauthorized {
			t.Errorf("the key %q answers: %d, %s", key, status, text)
		}
	}
	if made() {
		t.Fatal("allowed without a key")
	}
	key, err := os.ReadFile(filepath.Join(home, "dashboard.key"))
	if err != nil {
		t.Fatal(err)
	}
	if status, text := post(answer, strings.TrimSpace(string(key)), `{"answer":"once"}`); status >= 300 {
		t.Fatalf("%d, %s", status, text)
	}
	if status := <-done; status != http.StatusOK || !made() {
		t.Errorf("after the answer: %d, made %t", status, made())
	}
}

// approvalsOnRecord are the reasons of the answers to questions in the audit log.
func approvalsOnRecord(t *testing.T, s *served) (out []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.home, ".copilot-bridge", "audit", "audit-*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			var e struct{ Hook, Reason string }
			if json.Unmarshal([]byte(line), &e) == nil && e.Hook == "approval" {
				out = append(out, e.Reason)
			}
		}
	}
	return out
}
