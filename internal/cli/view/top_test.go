package view

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/live"
	"github.com/copilot-bridge/copilot-bridge/internal/timeline"
	"github.com/copilot-bridge/copilot-bridge/internal/usagelog"
)

var update = flag.Bool("update", false, "write what the tests got into their golden files")

// noon is when the tests look.
var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// hostile is text that a model might choose to lead a person astray.
const hostile = "ok\x1b[2J\x1b]0;x\x07\r\n\u202egnp.exe\u200f"

func testBoard() Board {
	ago := func(d time.Duration) time.Time { return noon.Add(-d) }
	return Board{
		At: noon,
		Approvals: []live.Question{{ID: "Q1", Process: "7-a", Session: "s1", Door: "cli", Client: "copilot-bridge", Dir: "/home/me/src/app",
			Lead: "Copilot wants to run: touch made", Body: "in /home/me/src/app\nalways: writes into your policy file always.shell: touch made",
			Reason: "commands are asked about", Rule: "shell.ask", Answers: []string{live.Once, live.Session, live.Always, live.Deny},
			Always: []string{"always.shell: touch made"}, Asked: ago(12 * time.Second), Until: noon.Add(5 * time.Minute)}},
		Sessions: []timeline.Summary{
			{ID: "s1", Process: "7-a", Door: "cli", Client: "copilot-bridge", Profile: bridge.ProfileAgent, Model: "gpt-5", Dir: "/home/me/src/app", Title: "Fix the failing test",
				State: timeline.Waiting, Started: ago(3 * time.Minute), Changed: ago(12 * time.Second), Turns: 1, Usage: bridge.Usage{InputTokens: 41_234, OutputTokens: 812, Premium: 1}},
			{ID: "s2", Process: "8-b", Door: "openai", Client: "aider", Profile: bridge.ProfileChat, Model: "claude-sonnet-4.5", Title: hostile,
				State: timeline.Running, Started: ago(70 * time.Second), Usage: bridge.Usage{InputTokens: 1_200_000, OutputTokens: 45, Credits: 1.234}},
			{ID: "s3", Process: "9-c", Door: "acp", Client: "zed", Profile: bridge.ProfileAgent, Dir: "/home/me/a/very/long/way/down/to/the/project", Title: "数据库迁移脚本",
				State: timeline.Interrupted, Started: ago(50 * time.Hour), Changed: ago(49 * time.Hour)},
		},
		Runs:  []TopRun{{ID: "20260504-1", Task: "Rewrite the parser", Dir: "/home/me/src/app", State: "running", Started: ago(time.Hour), Done: 3, Failed: 1, Total: 7}},
		Today: usagelog.Record{Turns: 12, InputTokens: 1_241_234, OutputTokens: 857, Premium: 1, Credits: 1.234},
	}
}

// testEvents are one of every kind.
func testEvents() []timeline.Event {
	yes, no := true, false
	return []timeline.Event{
		{Type: timeline.TypeTurn, N: 1},
		{Type: timeline.TypePrompt, Text: "Fix the failing test, and say what was wrong with it in a sentence or two."},
		{Type: timeline.TypeReasoning, Text: "The test compares "},
		{Type: timeline.TypeReasoning, Text: "times."},
		{Type: timeline.TypeText, Message: "m1", Text: "I will **look** at"},
		{Type: timeline.TypeText, Message: "m1", Text: " the test.\n- first\n"},
		{Type: timeline.TypeTool, Call: "c1", Name: "bash", Args: json.RawMessage(`{"command":"go test ./..."}`)},
		{Type: timeline.TypeVerdict, Call: "c1", Tool: "bash", Verdict: "allow", By: "person"},
		{Type: timeline.TypeProgress, Call: "c1", Text: "ok  app\x1b[31m\nFAIL app/clock\n"},
		{Type: timeline.TypeResult, Call: "c1", Name: "bash", OK: &yes, Text: "ok\n<exited with exit code 1>", MS: 1500},
		{Type: timeline.TypeTool, Call: "c2", Name: "edit", Args: json.RawMessage(`{"path":"/home/me/src/app/clock.go"}`), Agent: "fixer"},
		{Type: timeline.TypeQuestion, Question: "Q1", Lead: "Copilot wants to edit clock.go"},
		{Type: timeline.TypeAnswered, Question: "Q1", Answer: "deny", By: "dashboard", Reason: "not that file"},
		{Type: timeline.TypeVerdict, Call: "c2", Tool: "edit", Verdict: "deny", Reason: "not that file", By: "person"},
		{Type: timeline.TypeResult, Call: "c2", Name: "edit", OK: &no, Error: "not that file", Code: "denied"},
		{Type: timeline.TypeDiff, Path: "/home/me/src/app/clock.go", Change: "edit", Diff: "@@ -1 +1 @@\n-old\n+new " + hostile + "\n"},
		{Type: timeline.TypePlan, Entries: []bridge.PlanEntry{{Text: "look", Status: "completed"}}},
		{Type: timeline.TypeMode, Mode: "plan"},
		{Type: timeline.TypeNotice, Level: "info", Text: hostile},
		{Type: timeline.TypeError, Code: "unavailable", Message: "the provider cannot be reached", Remedy: "Check the network."},
		{Type: timeline.TypeGap, Count: 3},
		{Type: timeline.TypeText, Message: "m2", Text: "The **clock** was wrong " + hostile},
		{Type: timeline.TypeEnd, Reason: "completed", MS: 65_000},
	}
}

func testTop(colour bool) *top {
	t := newTop(TopOptions{
		Board: func() (Board, error) { return testBoard(), nil },
		Events: func(_ timeline.Summary, from int64) ([]timeline.Event, int64, error) {
			if from < 0 {
				return testEvents(), 100, nil
			}
			return nil, from, nil
		},
		Answer: func(live.Question, live.Reply) error { return nil },
		Order:  func(context.Context, timeline.Summary, live.Order) error { return nil },
		Home:   "/home/me",
	}, style{colour})
	t.now = func() time.Time { return noon }
	t.ctx = context.Background()
	t.refresh()
	return t
}

// press types keys: letters, and words in angle brackets for others.
func press(t *top, keys ...string) {
	named := map[string]keyCode{"enter": keyEnter, "esc": keyEscape, "up": keyUp, "down": keyDown, "end": keyEnd, "tab": keyTab, "pagedown": keyPageDown}
	for _, k := range keys {
		t.frame(80, 24)
		if code, ok := named[k]; ok {
			t.press(key{code: code})
		} else {
			t.press(key{code: keyText, text: k})
		}
	}
}

// golden compares a screen with a file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is another; run the test with -update and look at the difference\n%s", file, got)
	}
}

// screenText is a frame without its colours, with its size checked.
func screenText(t *testing.T, f frame, columns, rows int) string {
	t.Helper()
	if len(f.rows) > rows {
		t.Errorf("%d rows of %d", len(f.rows), rows)
	}
	out := ""
	for _, row := range f.rows {
		bare := escape.ReplaceAllString(row, "")
		if n := cells(bare); n > columns {
			t.Errorf("%d columns of %d: %q", n, columns, bare)
		}
		if strings.ContainsFunc(bare, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0x202e || r == 0x200f }) {
			t.Errorf("a character that is not visible: %q", bare)
		}
		out += strings.TrimRight(bare, " ") + "\n"
	}
	return out
}

func TestTopScreens(t *testing.T) {
	for _, columns := range []int{60, 80, 120} {
		for _, colour := range []bool{false, true} {
			for name, keys := range map[string][]string{"list": nil, "question": {"enter"}, "always": {"enter", "a"}, "session": {"down", "enter"}, "message": {"down", "enter", "m", "and the docs"}} {
				x := testTop(colour)
				press(x, keys...)
				golden(t, fmt.Sprintf("top-%s-%d", name, columns), screenText(t, x.frame(columns, 40), columns, 40))
			}
		}
	}
}

// However small or odd the terminal is, nothing leaves it.
func TestTopFitsEverywhere(t *testing.T) {
	for columns := 20; columns < 130; columns += 7 {
		for rows := 4; rows < 50; rows += 5 {
			x := testTop(true)
			for _, k := range []string{"down", "up", "enter", "pagedown", "d", "esc", "q", "down", "enter", "up", "m", "x", "esc"} {
				press(x, k)
				screenText(t, x.frame(columns, rows), columns, rows)
			}
		}
	}
}

func TestTopWithoutATerminal(t *testing.T) {
	golden(t, "top-text", testBoard().Text(80, "/home/me"))
}

func TestTopAnswers(t *testing.T) {
	for _, tt := range []struct {
		keys []string
		want live.Reply
	}{
		{[]string{"o"}, live.Reply{Answer: live.Once}},
		{[]string{"s"}, live.Reply{Answer: live.Session}},
		{[]string{"a", "y", "enter"}, live.Reply{Answer: live.Always}},
		{[]string{"a", "enter"}, live.Reply{}},
		{[]string{"a", "esc"}, live.Reply{}},
		{[]string{"d", "use the other file", "enter"}, live.Reply{Answer: live.Deny, Reason: "use the other file"}},
		{[]string{"d", "enter"}, live.Reply{Answer: live.Deny}},
		{[]string{"d", "esc"}, live.Reply{}},
		{[]string{"t", "enter"}, live.Reply{}},
		{[]string{"oo"}, live.Reply{}},
	} {
		var got live.Reply
		x := testTop(false)
		x.o.Answer = func(_ live.Question, r live.Reply) error { got = r; return nil }
		press(x, "enter")
		press(x, tt.keys...)
		if tt.want.Answer != "" {
			tt.want.By = byTop
		}
		if fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("%q gave %+v, want %+v", tt.keys, got, tt.want)
		}
	}
}

// What a person has not seen to its end they cannot allow.
func TestTopAllowsOnlyWhatWasSeen(t *testing.T) {
	var got []live.Reply
	x := testTop(false)
	x.o.Board = func() (Board, error) {
		b := testBoard()
		b.Approvals[0].Body = strings.Repeat("a line that differs\nand another\n", 50) + "rm -rf ~"
		return b, nil
	}
	x.o.Answer = func(_ live.Question, r live.Reply) error { got = append(got, r); return nil }
	x.refresh()
	press(x, "enter", "o", "s", "a", "y", "enter")
	if len(got) > 0 || strings.Contains(screenText(t, x.frame(80, 24), 80, 24), "o once") {
		t.Fatalf("allowed before it was seen: %+v", got)
	}
	press(x, "end")
	if text := screenText(t, x.frame(80, 24), 80, 24); !strings.Contains(text, "rm -rf ~") || !strings.Contains(text, "o once") {
		t.Fatal(text)
	}
	if press(x, "o"); len(got) != 1 {
		t.Errorf("%+v", got)
	}
}

// A question that somebody else answers is not answered again.
func TestTopQuestionAnsweredElsewhere(t *testing.T) {
	x := testTop(false)
	x.o.Gone = func(live.Question) error { return errors.New("it was answered (allowed once) at the terminal") }
	x.o.Answer = func(live.Question, live.Reply) error { t.Error("answered"); return nil }
	press(x, "enter", "d", "because")
	x.o.Board = func() (Board, error) { return Board{At: noon}, nil }
	x.refresh()
	press(x, "enter", "o")
	if text := screenText(t, x.frame(80, 24), 80, 24); !strings.Contains(text, "at the terminal") {
		t.Error(text)
	}
}

func TestTopForm(t *testing.T) {
	for name, tt := range map[string]struct {
		form live.Form
		keys []string
		want string
	}{
		"choice":    {live.Form{Choices: []string{"red", "green"}}, []string{"t", "2", "enter"}, "{text  green map[] terminal dashboard 0001-01-01 00:00:00 +0000 UTC}"},
		"no choice": {live.Form{Choices: []string{"red", "green"}}, []string{"t", "blue", "enter"}, ""},
		"free":      {live.Form{Choices: []string{"red"}, Freeform: true}, []string{"enter", "blue", "enter"}, "{text  blue map[] terminal dashboard 0001-01-01 00:00:00 +0000 UTC}"},
		"fields": {live.Form{Fields: []approval.Field{{Name: "name", Required: true}, {Name: "size", Default: "5"}}}, []string{"t", "x", "enter", "enter"},
			"{text   map[name:x size:5] terminal dashboard 0001-01-01 00:00:00 +0000 UTC}"},
		"decline": {live.Form{Freeform: true}, []string{"d"}, "{decline   map[] terminal dashboard 0001-01-01 00:00:00 +0000 UTC}"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			x := testTop(false)
			x.o.Board = func() (Board, error) {
				b := testBoard()
				b.Approvals[0].Form, b.Approvals[0].Answers = &tt.form, []string{live.Text, live.Decline, live.Cancel}
				return b, nil
			}
			x.o.Answer = func(_ live.Question, r live.Reply) error { got = fmt.Sprint(r); return nil }
			x.refresh()
			press(x, "enter")
			press(x, tt.keys...)
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestTopOrders(t *testing.T) {
	for _, tt := range []struct {
		keys []string
		want live.Order
	}{
		{[]string{"x", "x"}, live.Order{Kind: live.OrderStop}},
		{[]string{"m", "also the docs", "enter"}, live.Order{Kind: live.OrderSend, Text: "also the docs", Mode: live.ModeSteer}},
		{[]string{"m", "tab", "later", "enter"}, live.Order{Kind: live.OrderSend, Text: "later", Mode: live.ModeQueue}},
	} {
		orders := make(chan live.Order, 2)
		x := testTop(false)
		x.o.Order = func(_ context.Context, s timeline.Summary, o live.Order) error {
			orders <- o
			return &bridge.Error{Code: bridge.CodeConflict, Message: "no turn is running"}
		}
		press(x, "down", "enter")
		press(x, tt.keys...)
		(<-x.posts)()
		x.orders.Wait()
		tt.want.Session, tt.want.By = "s1", byTop
		if got := <-orders; got != tt.want {
			t.Errorf("%q gave %+v", tt.keys, got)
		}
		if text := screenText(t, x.frame(80, 24), 80, 24); !strings.Contains(text, "no turn is running") {
			t.Error(text)
		}
	}
}

// A session that has ended is resumed, and takes no orders.
func TestTopResumes(t *testing.T) {
	x := testTop(false)
	press(x, "end", "up", "enter", "x", "x", "m", "r")
	if x.resume != "s3" || !x.left || x.typing != nil {
		t.Errorf("%q %v %v", x.resume, x.left, x.typing)
	}
}

// A chat hears its client alone, and can be stopped.
func TestTopStopsChats(t *testing.T) {
	x := testTop(false)
	press(x, "down", "down", "enter", "m")
	if text := screenText(t, x.frame(80, 24), 80, 24); x.typing != nil || !strings.Contains(text, "x stop  ↑↓") {
		t.Error(text)
	}
}

// The terminal is given back before a panic is shown.
func TestTopCrashes(t *testing.T) {
	left := false
	s := &screen{leave: func() { left = true }}
	defer func() {
		if p := recover(); p != "broken" || !left {
			t.Errorf("%v %v", p, left)
		}
	}()
	defer s.crashed()
	panic("broken")
}

// Who may only look gives neither answers nor orders.
func TestTopOnlyLooks(t *testing.T) {
	x := testTop(false)
	x.o.Answer, x.o.Order, x.o.Why = nil, nil, "only looking"
	press(x, "enter")
	text := screenText(t, x.frame(80, 24), 80, 24)
	press(x, "o", "a", "d", "q", "down", "enter", "x", "x", "m")
	if text += screenText(t, x.frame(80, 24), 80, 24); strings.Count(text, "only looking") != 2 || x.typing != nil {
		t.Error(text)
	}
}

// A session is followed as it happens, unless the person has scrolled up; what
// was cut off comes in the next piece.
func TestTopFollows(t *testing.T) {
	next := []timeline.Event{}
	x := testTop(false)
	x.o.Events = func(_ timeline.Summary, from int64) ([]timeline.Event, int64, error) {
		events := next
		next = nil
		return events, from + 1, nil
	}
	add := func(text string) {
		next = []timeline.Event{{Type: timeline.TypeText, Message: "m", Text: text}}
		x.tick()
	}
	press(x, "down", "enter")
	for i := range 50 {
		add(fmt.Sprintf("line %d\n", i))
	}
	add("the be")
	if text := screenText(t, x.frame(80, 24), 80, 24); !strings.Contains(text, "the be\n") {
		t.Fatal(text)
	}
	add("ginning")
	press(x, "up")
	before := screenText(t, x.frame(80, 24), 80, 24)
	add("\nmore\nand more\n")
	if after := screenText(t, x.frame(80, 24), 80, 24); after != before {
		t.Errorf("it moved:\n%s\n%s", before, after)
	}
	press(x, "end")
	if text := screenText(t, x.frame(80, 24), 80, 24); !strings.Contains(text, "the beginning\n") || !strings.Contains(text, "and more\n") {
		t.Error(text)
	}
}

func TestRowsOf(t *testing.T) {
	for text, want := range map[string]string{
		"":                      "",
		"one two three":         "one two |three",
		"abcdefghijklmnop":      "abcdefgh|ijklmnop",
		"a  bcdefghijkl":        "a  |bcdefghi|jkl",
		"数据库迁移":                 "数据库迁|移",
		"a\n\nb":                "a||b",
		"12345678 9":            "12345678| 9",
		"rm -rf          /home": "rm -rf  |        |/home",
	} {
		if got := strings.Join(rowsOf(text, 8), "|"); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		if got := strings.Join(rowsOf(text, 8), ""); got != strings.ReplaceAll(text, "\n", "") {
			t.Errorf("%q lost something: %q", text, got)
		}
	}
}

// A lone escape is the key; one with more behind it is another key.
func TestEscapeKey(t *testing.T) {
	var d decoder
	if keys := d.add([]byte("\x1b")); len(keys) != 0 {
		t.Errorf("%v", keys)
	}
	if keys := d.flush(); len(keys) != 1 || keys[0].code != keyEscape || len(d.rest) != 0 {
		t.Errorf("%v", keys)
	}
	d.add([]byte("\x1b["))
	if keys := append(d.flush(), d.add([]byte("5~"))...); len(keys) != 1 || keys[0].code != keyPageUp {
		t.Errorf("%v", keys)
	}
}
