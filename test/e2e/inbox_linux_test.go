package e2e

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
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
