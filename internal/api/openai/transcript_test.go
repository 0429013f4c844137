package openai

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "write what the door answers into testdata")

// TestChatTranscripts replays testdata/chat-*.txtar: a request, the events of
// its turn, what the service was asked and the exact answer.
func TestChatTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/chat-*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			part := func(name string) string {
				for _, f := range archive.Files {
					if f.Name == name {
						return string(f.Data)
					}
				}
				return ""
			}
			events, failure := linesOf(t, part("events"))
			svc := plays(failure, events...)
			w := post(t, fixed(svc), "/v1/chat/completions", part("request"))

			got := []txtar.File{{Name: "request", Data: []byte(part("request"))}}
			if len(svc.asked) > 0 {
				got = append(got, txtar.File{Name: "chat", Data: indent(t, asJSON(t, brief(svc.asked[0])))},
					txtar.File{Name: "events", Data: []byte(part("events"))})
			}
			answer := fmt.Appendf(nil, "%d %s\n", w.Code, w.Header().Get("Content-Type"))
			if strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
				answer = append(answer, indent(t, w.Body.Bytes())...)
			} else {
				answer = append(answer, w.Body.Bytes()...)
			}
			got = append(got, txtar.File{Name: "response", Data: answer})
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

// brief is a chat without the fields that are empty.
func brief(c bridge.Chat) map[string]any {
	var all map[string]any
	data, err := json.Marshal(c)
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	if err != nil {
		return map[string]any{"error": err.Error()}
	}
	prune(all)
	return all
}

func prune(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if k != "Schema" && k != "args" && prune(e) {
				delete(v, k)
			}
		}
		return len(v) == 0
	case []any:
		for _, e := range v {
			prune(e)
		}
		return len(v) == 0
	case string:
		return v == ""
	case bool:
		return !v
	default:
		return v == nil
	}
}

func asJSON(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func indent(t *testing.T, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := json.Indent(&out, data, "", "  "); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	out.WriteByte('\n')
	return out.Bytes()
}
