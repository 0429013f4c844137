package cli

import (
	"strings"
	"testing"
)

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
		p.console.Warn("x")
		p.progress().Begin("y")()
		stop()
		if got := w.err.String(); strings.Contains(got, "\x1b[33m") != tt.colour || strings.Contains(got, "y") != tt.region {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
}
