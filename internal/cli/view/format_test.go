package view

import (
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime"
)

func TestForPeople(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{Duration(0), "0 ms"}, {Duration(999 * time.Millisecond), "999 ms"}, {Duration(1999 * time.Millisecond), "1.9 s"},
		{Duration(59 * time.Second), "59 s"}, {Duration(125 * time.Second), "2 min 05 s"}, {Duration(3*time.Hour + 7*time.Minute), "3 h 07 min"},
		{Count(0), "0"}, {Count(999), "999"}, {Count(17742), "17 742"}, {Count(1234567), "1 234 567"}, {Count(-123), "-123"},
		{Fit("hello", 5), "hello"}, {Fit("hello!", 5), "hell…"}, {Fit("日本語", 5), "日本…"}, {Fit("x", 0), ""},
		{Shorten("/w/a/b", "/w", "/h"), "a/b"}, {Shorten("/h/x", "/w", "/h"), "~/x"}, {Shorten("/wx", "/w", "/h"), "/wx"}, {Shorten("/w", "/w", ""), "."},
		{Age(-time.Second), "0s"}, {Age(59 * time.Minute), "59m"}, {Age(47 * time.Hour), "47h"}, {Age(50 * time.Hour), "2d"},
		{toolText(bridge.ToolCall{Name: "task"}, ""), "task"},
		{toolText(bridge.ToolCall{Name: "x", Args: []any{1}}, ""), "x"},
		{toolText(bridge.ToolCall{Name: "grep", Args: map[string]any{"pattern": "a\x1bb", "path": ""}}, "/w"), `grep a\x1bb`},
		{style{}.red("x"), "x"}, {style{on: true}.red("x"), "\x1b[31mx\x1b[0m"},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}

func TestInstall(t *testing.T) {
	steps := []copilotruntime.Step{
		{Text: "fetching", Total: 100e6}, {Text: "fetching", Done: 5e6, Total: 100e6}, {Text: "fetching", Done: 12e6, Total: 100e6},
		{Text: "fetching", Done: 15e6, Total: 100e6}, {Text: "fetching", Done: 100e6, Total: 100e6}, {Text: "checking"},
	}
	var pipe buffer
	b := NewActivity(testConsole(&pipe, &pipe, false, false), Options{})
	for _, s := range steps {
		b.Step(s)
	}
	if want := "fetching\n  10 % (12 of 100 MB)\n  100 % (100 of 100 MB)\nchecking\n"; pipe.String() != want {
		t.Errorf("got %q, want %q", pipe.String(), want)
	}
	screen := newVT(t)
	b = NewActivity(testConsole(screen, screen, true, true), Options{})
	stop := b.Begin("starting")
	b.now = func() time.Time { return b.since.Add(7 * time.Second) }
	for _, s := range steps[:3] {
		b.Step(s)
	}
	if want := "… fetching  ██░░░░░░░░░░░░░░░░░░  12 %  12 of 100 MB  7 s"; screen.String() != want {
		t.Errorf("got %q, want %q", screen.String(), want)
	}
	stop()
	if screen.String() != "" {
		t.Errorf("left %q", screen.String())
	}
}
