package runtimecall

import (
	"strings"
	"testing"
)

func TestOf(t *testing.T) {
	for method, want := range map[string]Kind{
		"session.name.get": Read, "session.name.set": Change, "session.workspaces.createFile": Ask, "session.shell.exec": Command,
		"session.permissions.setApproveAll": Refuse, "session.permissions.getMode": Read, "session.permissions.new": Refuse,
		"session.nosuch": Refuse, "nosuch": Refuse, "": Refuse, "*": Refuse, "session.name.getMore": Refuse, "SESSION.NAME.GET": Refuse,
	} {
		if got := Of(method); got.Kind != want || want == Refuse && got.Note == "" {
			t.Errorf("%s: %+v, want %s", method, got, want)
		}
	}
}

// Only a refusal may stand for several methods: nothing is allowed for being new.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, l := range lines() {
		switch l.Kind {
		case Read, Change, Ask:
			if l.Note != "" {
				t.Errorf("%s has a note", l.match)
			}
		case Command, Refuse:
			if l.Note == "" {
				t.Errorf("%s has no note", l.match)
			}
		default:
			t.Errorf("%s is of the kind %q", l.match, l.Kind)
		}
		if strings.Contains(l.match, "*") && (l.Kind != Refuse || !strings.HasSuffix(l.match, ".*")) {
			t.Errorf("%s %s stands for several methods", l.Kind, l.match)
		}
		if seen[l.match] {
			t.Errorf("%s is there twice", l.match)
		}
		seen[l.match] = true
	}
}

func TestCommandOf(t *testing.T) {
	if c, ok := Of("session.shell.exec").CommandOf(map[string]any{"command": "ls"}); !ok || c != "ls" {
		t.Errorf("%q, %v", c, ok)
	}
	if c, ok := Of("session.shell.exec").CommandOf(map[string]any{"command": 7}); ok {
		t.Errorf("%q", c)
	}
	if c, ok := Of("session.workspaces.diff").CommandOf(nil); !ok || c != "git diff" {
		t.Errorf("%q, %v", c, ok)
	}
}
