package view

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// event sequences as the real runtime sends them, shortened.
var (
	created = []bridge.Event{
		bridge.SessionOpened{Session: "s-1"},
		bridge.Other{Name: "session.tools_updated"},
		bridge.ModelCalled{Model: "m"},
		bridge.MessageDone{Message: "m1", Calls: []bridge.ToolCall{{ID: "c1", Name: "create"}}},
		bridge.ToolStarted{Call: bridge.ToolCall{ID: "c1", Name: "create", Args: map[string]any{"path": "/w/hello.txt", "file_text": "hi"}}},
		bridge.PermissionAsked{Request: bridge.PermissionRequest{Kind: bridge.PermissionWrite}},
		bridge.PermissionDecided{},
		bridge.Notice{Level: "info", Text: "/w/hello.txt"},
		bridge.ToolFinished{CallID: "c1", Name: "create", OK: true, Result: "Created", Duration: 12 * time.Millisecond},
		bridge.ModelCalled{Model: "m"},
		bridge.TextDelta{Message: "m2", Text: "I "}, bridge.TextDelta{Message: "m2", Text: "created "}, bridge.TextDelta{Message: "m2", Text: "hello.txt."},
		bridge.MessageDone{Message: "m2", Text: "I created hello.txt."},
		bridge.TurnEnded{Reason: bridge.EndDone},
	}
	troubled = []bridge.Event{
		bridge.ModelCalled{},
		bridge.ReasoningDelta{Text: "hmm"},
		bridge.TextDelta{Message: "m1", Text: "Half an ans"},
		bridge.MessageRetracted{Message: "m1"},
		bridge.ModelFailed{Attempt: 1, Error: &bridge.Error{Code: bridge.CodeProvider, Status: 500, Message: "boom"}},
		bridge.ModelCalled{},
		bridge.TextDelta{Message: "m2", Text: "Half an answer is\nenough"},
		bridge.MessageDone{Message: "m2", Text: "Half an answer is\nenough"},
		bridge.Notice{Level: "warning", Text: "low \x1b[31mquota"},
		bridge.TurnEnded{},
	}
	commands = []bridge.Event{
		bridge.ToolStarted{Call: bridge.ToolCall{ID: "a", Name: "bash", Args: map[string]any{"command": "npm test\nnpm run x"}}},
		bridge.ToolStarted{Call: bridge.ToolCall{ID: "b", Name: "bash", Args: map[string]any{"command": "rm -rf /"}}},
		bridge.ToolProgress{CallID: "a", Text: "1\n2\n3\n4\n"}, bridge.ToolProgress{CallID: "a", Text: "\x1b[32m5\x1b[0m\n6\r66\n"},
		bridge.ToolFinished{CallID: "b", Name: "bash", Code: "denied", Error: "The user rejected this tool call. User feedback: it is outside"},
		bridge.ToolFinished{CallID: "a", Name: "bash", OK: true, Duration: 3400 * time.Millisecond,
			Result: "1\n2\n3\n4\n5\n6\r66\n<shellId: 0 completed with exit code 3>"},
		bridge.ToolStarted{Call: bridge.ToolCall{ID: "d", Name: "github-search", Server: "github", Args: map[string]any{"query": "x"}}},
		bridge.ToolFinished{CallID: "d", Code: "failure", Error: "Path does not exist\nat line 1"},
		bridge.TurnEnded{},
	}
)

func TestPeopleInAPipe(t *testing.T) {
	for _, tt := range []struct {
		name     string
		events   []bridge.Event
		verbose  bool
		out, err string
	}{
		{"created", created, false, "I created hello.txt.\n", "● create hello.txt\n✓ create hello.txt (12 ms)\n"},
		{"created, verbose", created, true, "I created hello.txt.\n",
			"· session s-1\n● create hello.txt\n· /w/hello.txt\n✓ create hello.txt (12 ms)\n"},
		{"troubled", troubled, false, "Half an answer is\nenough\n",
			"! the model's answer was cut off and is asked for again\n! the model's provider failed (500 boom), retrying\n! low \\x1b[31mquota\n"},
		{"commands", commands, false, "", "● bash npm test…\n● bash rm -rf /\n✗ bash rm -rf / (denied: it is outside)\n" +
			"! bash npm test… (exit code 3, 3.4 s)\n    2\n    3\n    4\n    5\n    66\n" +
			"● github/search x\n✗ github/search x (failed: Path does not exist)\n"},
		{"broken off", []bridge.Event{
			bridge.TextDelta{Message: "m", Text: "I am"},
			bridge.ToolStarted{Call: bridge.ToolCall{ID: "a", Name: "view"}},
			bridge.TurnEnded{Reason: bridge.EndAborted},
		}, false, "I am\n", "● view\n! view (ended)\n"},
		{"sub-agents", []bridge.Event{
			bridge.TextDelta{Message: "m", Text: "inner", AgentID: "x"},
			bridge.MessageDone{Message: "m", Text: "inner\nvoice", AgentID: "x"},
			bridge.MessageDone{Message: "n", Text: "outer", Reasoning: "because"},
			bridge.TurnEnded{},
		}, true, "outer\n", "  inner\n  voice\n  because\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out, err buffer
			v := NewActivity(testConsole(&out, &err, false, false), Options{Dir: "/w", Verbose: tt.verbose})
			for _, ev := range tt.events {
				v.Event(ev)
			}
			if out.String() != tt.out || err.String() != tt.err {
				t.Errorf("stdout %q, want %q\nstderr\n%s\nwant\n%s", out.String(), tt.out, err.String(), tt.err)
			}
		})
	}
}

func TestPeopleOnATerminal(t *testing.T) {
	for _, tt := range []struct {
		name   string
		events []bridge.Event
		want   string // what is left on the screen
	}{
		{"created", created, "✓ create hello.txt (12 ms)\nI created hello.txt.\n"},
		{"troubled", troubled, "Half an ans\n! the answer above was cut off; it is repeated\n" +
			"! the model's provider failed (500 boom), retrying\nHalf an answer is\nenough\n! low \\x1b[31mquota\n"},
		{"commands", commands, "✗ bash rm -rf / (denied: it is outside)\n" +
			"! bash npm test… (exit code 3, 3.4 s)\n    2\n    3\n    4\n    5\n    66\n" +
			"✗ github/search x (failed: Path does not exist)\n"},
		{"escapes", []bridge.Event{bridge.TextDelta{Message: "m", Text: "a\x1b[2Jb\tc\r\n\u202ed"}, bridge.TurnEnded{}}, "a\\x1b[2Jb c\n\\u202ed\n"},
		{"not streamed", []bridge.Event{bridge.MessageDone{Message: "m", Text: "whole"}, bridge.TurnEnded{}}, "whole\n"},
		{"streamed in part", []bridge.Event{
			bridge.TextDelta{Message: "m", Text: "wh"}, bridge.MessageDone{Message: "m", Text: "whole\n"}, bridge.TurnEnded{}}, "whole\n"},
		{"streamed otherwise", []bridge.Event{
			bridge.TextDelta{Message: "m", Text: "part"}, bridge.MessageDone{Message: "m", Text: "whole"}, bridge.TurnEnded{}}, "part\nwhole\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			screen := newVT(t)
			c := testConsole(tabs{screen}, screen, true, true)
			c.Colour = true
			v := NewActivity(c, Options{Dir: "/w"})
			for _, ev := range tt.events {
				v.Event(ev)
			}
			if got := screen.String(); got != tt.want {
				t.Errorf("the screen shows\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

// tabs makes tabs one column wide; their width is not tested.
type tabs struct{ w *vt }

func (s tabs) Write(p []byte) (int, error) {
	_, err := s.w.Write([]byte(strings.ReplaceAll(string(p), "\t", " ")))
	return len(p), err
}

func TestPeopleSayWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		screen := newVT(t)
		v := NewActivity(testConsole(screen, screen, true, true), Options{Dir: "/w"})
		stop := v.Begin("waiting for Copilot")
		step := func(want string, after time.Duration, events ...bridge.Event) {
			t.Helper()
			for _, ev := range events {
				v.Event(ev)
			}
			time.Sleep(after) // of the bubble's clock
			synctest.Wait()
			if got := screen.String(); got != want {
				t.Errorf("the screen shows\n%s\nwant\n%s", got, want)
			}
		}
		step("… waiting for Copilot", 0)
		step("… waiting for Copilot  2 s", 2*time.Second)
		step("… waiting for the model", 0, bridge.ModelCalled{})
		step("… thinking  3 s", 3*time.Second, bridge.ReasoningDelta{Text: "x"})
		step("So,", 0, bridge.TextDelta{Message: "m", Text: "So, "})
		step("So, I run it:\n", 0, bridge.TextDelta{Message: "m", Text: "I run it:"}, bridge.MessageDone{Message: "m", Text: "So, I run it:"})
		running := "So, I run it:\n● bash make\n    b\n    c\n    dddddddddddddddddddddddddddddddddddddddddddddddddddddd…"
		step(running, 0,
			bridge.ToolStarted{Call: bridge.ToolCall{ID: "1", Name: "bash", Args: map[string]any{"command": "make"}}},
			bridge.ToolProgress{CallID: "1", Text: "a\nb\nc\n" + strings.Repeat("d", 100)})
		step(strings.Replace(running, "make", "make  1 min 01 s", 1), 61*time.Second)
		step("So, I run it:\n● bash make  1 min 01 s\n    b\n    c\n    dddddddddddddddddddddddddddddddddddddddddddddddddddddd…\n● view x", 0,
			bridge.ToolStarted{Call: bridge.ToolCall{ID: "2", Name: "view", Args: map[string]any{"path": "/w/x"}}})
		stop()
		if got := screen.String(); got != "So, I run it:\n" {
			t.Errorf("stop left\n%s", got)
		}
	})
}

func TestPeopleWithTheAnswerElsewhere(t *testing.T) {
	screen := newVT(t)
	var out buffer
	v := NewActivity(testConsole(&out, screen, false, true), Options{Dir: "/w"})
	for _, ev := range created[:len(created)-2] {
		v.Event(ev)
	}
	if out.String() != "" {
		t.Errorf("an unfinished message was written: %q", out.String())
	}
	for _, ev := range created[len(created)-2:] {
		v.Event(ev)
	}
	if want := "I created hello.txt.\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	if want := "✓ create hello.txt (12 ms)\n"; screen.String() != want {
		t.Errorf("the screen shows %q, want %q", screen.String(), want)
	}
}

func TestConsoleLeavesQuestionsAlone(t *testing.T) {
	screen := newVT(t)
	c := testConsole(screen, screen, true, true)
	c.show([]liveLine{{"… waiting", style{}.dim}})
	c.pause()
	c.pause()
	if _, err := screen.Write([]byte("? really: ")); err != nil {
		t.Fatal(err)
	}
	c.Line("✓ done")
	c.Answer("words")
	c.show([]liveLine{{"… later", style{}.dim}})
	c.resume()
	if got := screen.String(); got != "? really: " && got != "? really:" {
		t.Errorf("the question was disturbed: %q", got)
	}
	if _, err := screen.Write([]byte("y\n")); err != nil {
		t.Fatal(err)
	}
	c.resume()
	if want := "? really: y\n✓ done\nwords"; screen.String() != want {
		t.Errorf("got\n%s\nwant\n%s", screen.String(), want)
	}
	c.Answer("\n")
	if want := "? really: y\n✓ done\nwords\n… later"; screen.String() != want {
		t.Errorf("got\n%s\nwant\n%s", screen.String(), want)
	}
}

func FuzzLastLines(f *testing.F) {
	f.Add("a\nb\r\nc\rd", 3)
	f.Add("\x1b[31mred\x1b[0m\t\x1b]0;t\x07x\x9b", 1)
	f.Fuzz(func(t *testing.T, text string, n int) {
		n = max(1, min(n, 10))
		lines := lastLines(text, n)
		if len(lines) > n {
			t.Fatalf("%d lines", len(lines))
		}
		for _, l := range lines {
			if strings.ContainsFunc(l, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 }) {
				t.Fatalf("control characters in %q", l)
			}
		}
	})
}

// A rate limit is counted down where it is known how long it lasts, and else it
// is told how long it has been waited for.
func TestRateLimitIsCountedDown(t *testing.T) {
	for wait, want := range map[time.Duration]string{
		90 * time.Second: "… waiting for the rate limit to pass, 1 min 30 s left | … waiting for the rate limit to pass, 20 s left",
		0:                "… waiting for the rate limit to pass | … waiting for the rate limit to pass  1 min 10 s",
	} {
		var out strings.Builder
		a := NewActivity(&Console{Out: &out, Err: &out}, Options{})
		now := time.Unix(1e9, 0)
		a.now = func() time.Time { return now }
		a.Event(bridge.ModelCalled{})
		a.Event(bridge.ModelFailed{Attempt: 1, Error: &bridge.Error{Code: bridge.CodeRateLimited, Status: 429, Message: "slow down", RetryAfter: wait}})
		got := a.drawing()[0].text
		now = now.Add(70 * time.Second)
		if got += " | " + a.drawing()[0].text; got != want {
			t.Errorf("%s: %q", wait, got)
		}
		told := map[time.Duration]string{90 * time.Second: "! slow down; Copilot tries again in 1 min 30 s\n", 0: "! slow down; Copilot waits as long as it was asked to and tries again\n"}[wait]
		if out.String() != told {
			t.Errorf("%s: %q", wait, out.String())
		}
	}
}
