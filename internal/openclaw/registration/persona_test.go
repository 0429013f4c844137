package registration

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

func TestPersona(t *testing.T) {
	for name, before := range map[string]string{"none": "(none)", "empty": "", "text": "# Mine\n\nBe kind.\n", "no end": "# Mine", "windows": "# Mine\r\nx\r\n", "blank": "\n\n"} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, "{}")
			const file = ".openclaw/workspace/AGENTS.md"
			if before != "(none)" {
				h.write(t, file, before)
			}
			for _, target := range []Target{Plugin, Server} {
				h.register(t, Request{Target: target, Workspace: "/w", Persona: true}, Registered)
				h.register(t, Request{Target: target, Workspace: "/w", Persona: true}, Already)
				text := h.read(t, file)
				if before != "(none)" && !strings.HasPrefix(text, before) || strings.Count(text, string(target)+": begin") != 1 {
					t.Errorf("%q", text)
				}
			}
			both := h.read(t, file)
			// An older text is replaced where it stands.
			h.write(t, file, strings.Replace(both, "Coding with Copilot", "An older text", 1))
			h.register(t, Request{Target: Plugin, Workspace: "/w", Persona: true}, Updated)
			if h.read(t, file) != both {
				t.Errorf("%q", h.read(t, file))
			}
			if s, err := h.registrar().State(); err != nil || !slices.Equal(s.Persona, []Target{Plugin, Server}) {
				t.Errorf("%+v, %v", s, err)
			}
			h.unregister(t, Request{Target: Server}, Unregistered)
			h.unregister(t, Request{Target: Plugin}, Unregistered)
			if got := h.read(t, file); got != before {
				t.Errorf("%q became %q", before, got)
			}
		})
	}
	t.Run("others have written", func(t *testing.T) {
		h := newHouse(t, "{}")
		h.register(t, Request{Target: Plugin, Persona: true}, Registered)
		h.write(t, ".openclaw/workspace/AGENTS.md", h.read(t, ".openclaw/workspace/AGENTS.md")+"\nmine\n")
		h.unregister(t, Request{Target: Plugin}, Unregistered)
		if got := h.read(t, ".openclaw/workspace/AGENTS.md"); got != "\nmine\n" {
			t.Errorf("%q", got)
		}
	})
	t.Run("no workspace", func(t *testing.T) {
		h := newHouse(t, "{}")
		if err := os.Remove(filepath.Join(h.home, ".openclaw", "workspace")); err != nil {
			t.Fatal(err)
		}
		for _, dry := range []bool{true, false} {
			_, err := h.registrar().Register(t.Context(), Request{Target: Plugin, Persona: true, DryRun: dry})
			want := "OpenClaw's workspace " + filepath.Join(h.home, ".openclaw", "workspace") + " is not there yet"
			if bridge.CodeOf(err) != bridge.CodeNotFound || err.Error() != want || !strings.Contains(bridge.AsError(err).Remedy, "openclaw setup") {
				t.Errorf("%v", err)
			}
		}
		// Nothing was begun.
		h.unregister(t, Request{Target: Plugin}, Absent)
		if h.config(t) != "{}" {
			t.Errorf("%s", h.config(t))
		}
	})
	t.Run("marks that do not fit", func(t *testing.T) {
		h := newHouse(t, "{}")
		h.write(t, ".openclaw/workspace/AGENTS.md", "<!-- copilot-bridge openclaw: begin -->\nmine")
		if _, err := h.registrar().Register(t.Context(), Request{Target: Plugin, Persona: true}); bridge.CodeOf(err) != bridge.CodeConflict {
			t.Errorf("%v", err)
		}
	})
}
