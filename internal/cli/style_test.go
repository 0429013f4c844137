package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime"
)

func TestForPeople(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{duration(0), "0 ms"}, {duration(999 * time.Millisecond), "999 ms"}, {duration(1999 * time.Millisecond), "1.9 s"},
		{duration(59 * time.Second), "59 s"}, {duration(125 * time.Second), "2 min 05 s"}, {duration(3*time.Hour + 7*time.Minute), "3 h 07 min"},
		{count(0), "0"}, {count(999), "999"}, {count(17742), "17 742"}, {count(1234567), "1 234 567"}, {count(-123), "-123"},
		{plural(1, "file"), "1 file"}, {plural(0, "file"), "0 files"},
		{fit("hello", 5), "hello"}, {fit("hello!", 5), "hell…"}, {fit("日本語", 5), "日本…"}, {fit("x", 0), ""},
		{shorten("/w/a/b", "/w", "/h"), "a/b"}, {shorten("/h/x", "/w", "/h"), "~/x"}, {shorten("/wx", "/w", "/h"), "/wx"}, {shorten("/w", "/w", ""), "."},
		{age(-time.Second), "0s"}, {age(59 * time.Minute), "59m"}, {age(47 * time.Hour), "47h"}, {age(50 * time.Hour), "2d"},
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

func TestColours(t *testing.T) {
	for _, tt := range []struct {
		name, env string
		out, err  bool
		region    bool
		colour    bool
	}{
		{"terminal", "", true, true, true, true},
		{"NO_COLOR", "NO_COLOR=1", true, true, true, false},
		{"dumb", "TERM=dumb", true, true, false, false},
		{"pipe", "", false, false, false, false},
		{"answer in a file", "", false, true, true, true},
	} {
		w := newWorld(t)
		var tty []any
		if tt.out {
			tty = append(tty, w.out)
		}
		if tt.err {
			tty = append(tty, w.err)
		}
		w.terminals(tty...)
		w.Environ = append(w.Environ, tt.env)
		p, stop := newProgram(w.Env, func(error) {})
		p.console.line(p.console.style.red("x"))
		p.console.show([]liveLine{{"y", nil}})
		stop()
		if got := w.err.String(); strings.Contains(got, "\x1b[31m") != tt.colour || strings.Contains(got, "y") != tt.region {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
}

func TestBar(t *testing.T) {
	steps := []copilotruntime.Step{
		{Text: "fetching", Total: 100e6}, {Text: "fetching", Done: 5e6, Total: 100e6}, {Text: "fetching", Done: 12e6, Total: 100e6},
		{Text: "fetching", Done: 15e6, Total: 100e6}, {Text: "fetching", Done: 100e6, Total: 100e6}, {Text: "checking"},
	}
	var pipe buffer
	b := newBar(testConsole(t, &pipe, &pipe, false, false))
	for _, s := range steps {
		b.step(s)
	}
	b.done()
	if want := "fetching\n  10 % (12 of 100 MB)\n  100 % (100 of 100 MB)\nchecking\n"; pipe.String() != want {
		t.Errorf("got %q, want %q", pipe.String(), want)
	}
	screen := newVT(t)
	b = newBar(testConsole(t, screen, screen, true, true))
	b.now = func() time.Time { return b.began.Add(7 * time.Second) }
	for _, s := range steps[:3] {
		b.step(s)
	}
	if want := "fetching  ██░░░░░░░░░░░░░░░░░░  12 %  12 of 100 MB  7 s"; screen.String() != want {
		t.Errorf("got %q, want %q", screen.String(), want)
	}
	b.done()
	if screen.String() != "" {
		t.Errorf("left %q", screen.String())
	}
}
