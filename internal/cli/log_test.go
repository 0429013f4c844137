package cli

import (
	"log/slog"
	"regexp"
	"strings"
	"testing"
)

// At a terminal the event comes first, in the colour of its status; elsewhere a
// line is as machines want it.
func TestLogLines(t *testing.T) {
	const plain = `^time=\S+ level=INFO msg=request path="a\\x1bb" status=404 group.x=1\n$`
	for name, tt := range map[string]struct {
		env  string
		tty  bool
		want string
	}{
		"terminal": {"", true, `^\x1b\[33mrequest\x1b\[0m \x1b\[2m\d\d:\d\d:\d\d\x1b\[0m path="a\\x1bb" \x1b\[33mstatus=404\x1b\[0m group.x=1\n$`},
		"NO_COLOR": {"NO_COLOR=1", true, `^request \d\d:\d\d:\d\d path="a\\x1bb" status=404 group.x=1\n$`},
		"dumb":     {"TERM=dumb", true, plain},
		"pipe":     {"", false, plain},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if tt.tty {
				w.terminals(w.err)
			}
			w.Environ = append(w.Environ, tt.env, "COPILOT_LOG_LEVEL=info")
			p, stop := newProgram(w.Env, func(error) {})
			defer stop()
			if _, err := p.load(nil); err != nil {
				t.Fatal(err)
			}
			p.log.Debug("request")
			p.log.With("path", "a\x1bb").Info("request", "status", 404, slog.Group("group", "x", 1))
			if got := w.err.String(); !regexp.MustCompile(tt.want).MatchString(got) {
				t.Errorf("got %q, want %s", got, tt.want)
			}
		})
	}
	w := newWorld(t)
	w.terminals(w.err)
	p, stop := newProgram(w.Env, func(error) {})
	defer stop()
	if _, err := p.load(nil); err != nil {
		t.Fatal(err)
	}
	p.log.Info("request", "status", 200)
	p.log.Warn("slow.client")
	p.log.WithGroup("g").Error("request", "status", 500)
	if got := w.err.String(); !strings.HasPrefix(got, "\x1b[33mslow.client\x1b[0m ") || !strings.Contains(got, "\n\x1b[31mrequest\x1b[0m ") || strings.Contains(got, "200") {
		t.Errorf("%q", got)
	}
}
