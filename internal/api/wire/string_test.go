package wire

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// FuzzAppendString holds the encoder made by hand to the library's.
func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "plain", `"quoted" \ back`, "tab\tline\nreturn\rbell\a\b\f\x7f\x00", "<&>", "é 世界 😀", "\u2028\u2029", "\xff bad \xe4\xb8", "\ufffd"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(s); err != nil {
			t.Fatal(err)
		}
		if got := string(AppendString(nil, s)) + "\n"; got != want.String() {
			t.Errorf("got %s, want %s", got, want.String())
		}
	})
}

func TestActivityIsOneShortLine(t *testing.T) {
	long := strings.Repeat("é", 500)
	for _, ev := range []bridge.Event{
		bridge.ToolStarted{Call: bridge.ToolCall{Name: "bash", Args: map[string]any{"command": long}}},
		bridge.ToolStarted{Call: bridge.ToolCall{Name: "odd", Args: "text"}},
		bridge.ToolStarted{Call: bridge.ToolCall{Name: "odd", Args: map[string]any{"n": 1}}},
		bridge.ToolFinished{Error: "a\r\nb" + long},
		bridge.ToolFinished{},
		bridge.PermissionAsked{Request: bridge.PermissionRequest{Kind: bridge.PermissionMCP}},
		bridge.PermissionDecided{},
	} {
		got := Activity(ev)
		if len(got) > maxActivity+40 || !utf8.ValidString(got) || strings.Count(got, "\n") != 1 || !strings.HasSuffix(got, "\n") {
			t.Errorf("%+v: %q", ev, got)
		}
	}
}
