package lsp

import (
	"context"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// rewriter is Format, Organize or Tidy.
type rewriter func(*Manager, context.Context, string, string) (string, bool, error)

func TestRewrite(t *testing.T) {
	upper := func(behaviour string, more ...string) func(*Options, *Server) {
		return func(_ *Options, s *Server) {
			s.Formatter = append([]string{s.Command[0], "fake-formatter", behaviour}, more...)
		}
	}
	none := func(o *Options, s *Server) {
		upper("upper")(o, s)
		s.Command = []string{"no-such-server"}
	}
	first := func(o *Options, s *Server) {
		upper("upper")(o, s)
		s.FormatterFirst = true
	}
	tests := []struct {
		name, behaviour string
		change          func(*Options, *Server)
		do              rewriter
		before, after   string
		code            bridge.Code
	}{
		{"format", "any", nil, (*Manager).Format, "a😀ä b\nc", "a😀ä b formatted\nc", ""},
		{"format in UTF-16", "units utf-16", nil, (*Manager).Format, "a😀ä b\nc", "a😀ä b formatted\nc", ""},
		{"format keeps a byte order mark", "any", nil, (*Manager).Format, "\uFEFFa", "\uFEFFa formatted", ""},
		{"format keeps CRLF", "any", nil, (*Manager).Format, "a\r\nb\r\n", "a formatted\r\nb\r\n", ""},
		{"overlapping edits", "overlap", nil, (*Manager).Format, "abcdef", "", bridge.CodeInternal},
		{"organise", "any", nil, (*Manager).Organize, "x", "organized x", ""},
		{"organise, resolved", "resolves", nil, (*Manager).Organize, "x", "resolved x", ""},
		{"organise by command", "commands", nil, (*Manager).Organize, "x", "commanded x", ""},
		{"organise by bare command", "bare command", nil, (*Manager).Organize, "x", "commanded x", ""},
		{"organise elsewhere", "elsewhere", nil, (*Manager).Organize, "x", "", bridge.CodeUnsupported},
		{"organise, nothing fits", "other kinds", nil, (*Manager).Organize, "x", "x", ""},
		{"tidy", "any", nil, (*Manager).Tidy, "x", "organized x formatted", ""},
		{"tidy, formatter", "formats not", upper("upper"), (*Manager).Tidy, "x", "ORGANIZED X", ""},
		{"tidy, formatter first", "any", first, (*Manager).Tidy, "x", "ORGANIZED X", ""},
		{"formatter, server cannot", "formats not", upper("upper"), (*Manager).Format, "x", "X", ""},
		{"formatter, no server", "any", none, (*Manager).Format, "x", "X", ""},
		{"formatter, server broken", "exits", upper("upper"), (*Manager).Format, "x", "X", ""},
		{"formatter first", "any", first, (*Manager).Format, "x", "X", ""},
		{"formatter not needed", "any", upper("upper"), (*Manager).Format, "x", "x formatted", ""},
		{"formatter gets the name", "formats not", upper("file", "{file}"), (*Manager).Format, "x", "a.fake: x", ""},
		{"formatter fails", "formats not", upper("fails"), (*Manager).Format, "x", "", bridge.CodeInvalid},
		{"formatter empties", "formats not", upper("empty"), (*Manager).Format, "x", "", bridge.CodeInternal},
		{"nobody formats", "formats not", nil, (*Manager).Format, "x", "", bridge.CodeUnsupported},
		{"not UTF-8", "any", nil, (*Manager).Format, "\xff", "", bridge.CodeInvalid},
		{"too long", "any", nil, (*Manager).Format, strings.Repeat("x", maxContent+1), "", bridge.CodeInvalid},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m, _ := fake(t, tt.behaviour, tt.change)
			got, changed, err := tt.do(m, t.Context(), "a.fake", tt.before)
			if bridge.CodeOf(err) != tt.code || got != tt.after || (err == nil && changed != (tt.before != tt.after)) {
				t.Errorf("got %q, %v, %v", got, changed, err)
			}
		})
	}
}

func TestTidyChangesTheOpenDocument(t *testing.T) {
	m, state := fake(t, "any", nil)
	if _, _, err := m.Tidy(t.Context(), "not/there.fake", "x"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is closed", func() bool { return recorded(t, state, "log") == "open\nchange v2\nclose\n" })
}
