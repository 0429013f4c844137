package anthropic

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

var update = flag.Bool("update", false, "write what the door does now into testdata")

// TestTranscripts replays testdata/*.txtar: a request, what the service is
// asked for it, the events that it answers with, and the exact response. The
// events are lines of JSON; one that begins with "!" is the error at the end.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d transcripts, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := replay(t, want)
			if bytes.Equal(got, want) {
				return
			}
			if !*update {
				t.Fatalf("the transcript is now\n%s", got)
			}
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func replay(t *testing.T, transcript []byte) []byte {
	t.Helper()
	archive := txtar.Parse(transcript)
	parts := map[string][]byte{}
	for _, f := range archive.Files {
		parts[f.Name] = f.Data
	}
	path := "/v1/messages?beta=true"
	if strings.HasPrefix(string(archive.Comment), "Count") {
		path = "/v1/messages/count_tokens?beta=true"
	}
	events, failure := script(t, string(parts["events"]))
	svc := plays(failure, events...)
	w := post(t, fixed(svc, Options{}), path, string(parts["request"]))

	files := []txtar.File{{Name: "request", Data: parts["request"]}}
	if len(svc.asked) == 1 {
		files = append(files, txtar.File{Name: "chat", Data: indented(t, sparse(t, svc.asked[0]))}, txtar.File{Name: "events", Data: parts["events"]})
	}
	var response bytes.Buffer
	fmt.Fprintf(&response, "%d %s\n", w.Code, w.Header().Get("Content-Type"))
	if strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
		response.Write(indented(t, w.Body.Bytes()))
	} else {
		response.Write(w.Body.Bytes())
	}
	files = append(files, txtar.File{Name: "response", Data: response.Bytes()})
	return txtar.Format(&txtar.Archive{Comment: archive.Comment, Files: files})
}

func script(t *testing.T, lines string) (events []bridge.Event, failure error) {
	t.Helper()
	for line := range strings.Lines(lines) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if text, ok := strings.CutPrefix(line, "!"); ok {
			var e bridge.Error
			if err := json.Unmarshal([]byte(text), &e); err != nil {
				t.Fatal(err)
			}
			return events, &e
		}
		ev, err := bridge.DecodeEvent([]byte(line))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		events = append(events, ev)
	}
	return events, nil
}

// sparse is a chat as JSON, without empty fields.
func sparse(t *testing.T, c bridge.Chat) []byte {
	t.Helper()
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	if data, err = json.Marshal(thin(v)); err != nil {
		t.Fatal(err)
	}
	return data
}

func thin(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, field := range v {
			if k == "Schema" || k == "args" {
				continue
			}
			switch field := thin(field).(type) {
			case nil:
				delete(v, k)
			default:
				v[k] = field
			}
		}
		if len(v) == 0 {
			return nil
		}
	case []any:
		for i := range v {
			v[i] = thin(v[i])
		}
		if len(v) == 0 {
			return nil
		}
	case string:
		if v == "" {
			return nil
		}
	case bool:
		if !v {
			return nil
		}
	}
	return v
}

func indented(t *testing.T, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := json.Indent(&out, data, "", "  "); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	out.WriteByte('\n')
	return out.Bytes()
}
