package acp

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

var update = flag.Bool("update", false, "write what the door sends into testdata")

// TestTranscripts replays testdata/*.txtar: the events of a turn (or, for
// files called load-*, of a history), and the exact updates and answer.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		t.Run(name, func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil || len(archive.Files) == 0 {
				t.Fatal("no transcript", err)
			}
			events := decodeEvents(t, archive.Files[0].Data)
			// The messages hold the directory's name.
			dir := t.TempDir()
			s := &script{past: events, stored: []bridge.SessionInfo{{ID: "s1", WorkingDir: dir}}}
			s.turn = func(_ context.Context, _ *played, _ bridge.Prompt, yield func(bridge.Event, error) bool) {
				for _, ev := range events {
					if !yield(ev, nil) {
						return
					}
				}
			}
			c := connect(t, s, Options{})
			if !strings.HasPrefix(name, "plain-") {
				c.call("initialize", everything)
			}
			quoted, err := json.Marshal(dir)
			if err != nil {
				t.Fatal(err)
			}
			method, params := "session/load", `{"sessionId":"s1","cwd":`+string(quoted)+`,"mcpServers":[]}`
			if !strings.HasPrefix(name, "load-") {
				c.call("session/new", `{"cwd":`+string(quoted)+`,"mcpServers":[]}`)
				s.stored = nil
				method, params = "session/prompt", prompt("go")
			}
			from := len(strings.Split(c.transcript(), "\n")) - 1
			id := c.request(method, params)
			c.answer(id)
			sent := strings.Join(strings.Split(c.transcript(), "\n")[from:], "\n")
			sent = strings.ReplaceAll(sent, strings.Trim(string(quoted), `"`), "/w")
			got := []txtar.File{archive.Files[0], {Name: "sent", Data: []byte(simplify(sent))}}
			whole := txtar.Format(&txtar.Archive{Comment: archive.Comment, Files: got})
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Equal(whole, want) {
				return
			}
			if *update {
				if err := os.WriteFile(file, whole, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			t.Errorf("the transcript differs:\n%s", whole)
		})
	}
}

// simplify removes fields that are the same in every message or differ from run
// to run.
func simplify(sent string) string {
	var b strings.Builder
	for _, l := range strings.Split(strings.TrimSpace(sent), "\n") {
		if u, ok := strings.CutPrefix(l, `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":`); ok {
			l = strings.TrimSuffix(u, "}}")
		}
		if strings.Contains(l, "session_info_update") || strings.Contains(l, "available_commands_update") {
			continue
		}
		b.WriteString(l + "\n")
	}
	return b.String()
}

func decodeEvents(t *testing.T, data []byte) []bridge.Event {
	t.Helper()
	var out []bridge.Event
	for _, l := range bytes.Split(bytes.TrimSpace(data), []byte("\n")) {
		ev, err := bridge.DecodeEvent(l)
		if err != nil {
			t.Fatalf("%v: %s", err, l)
		}
		out = append(out, ev)
	}
	return out
}
