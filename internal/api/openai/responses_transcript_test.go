package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// TestResponsesTranscripts replays testdata/responses-*.txtar: a request, the
// events of its turn, what the service was asked and the exact answer.
func TestResponsesTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/responses-*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			archive := txtar.Parse(want)
			parts := map[string]string{}
			for _, f := range archive.Files {
				parts[f.Name] = string(f.Data)
			}
			events, failure := linesOf(t, parts["events"])
			svc := plays(failure, events...)
			w := post(t, fixed(svc), "/v1/responses", parts["request"])
			if len(svc.asked) != 1 {
				t.Fatalf("the service was asked %d times: %s", len(svc.asked), w.Body)
			}
			answer := fmt.Appendf(nil, "%d %s\n", w.Code, w.Header().Get("Content-Type"))
			if w.Header().Get("Content-Type") == "application/json" {
				answer = append(answer, indent(t, w.Body.Bytes())...)
			} else {
				checkStream(t, w.Body.String())
				answer = append(answer, w.Body.Bytes()...)
			}
			got := txtar.Format(&txtar.Archive{Comment: archive.Comment, Files: []txtar.File{
				{Name: "request", Data: []byte(parts["request"])},
				{Name: "chat", Data: indent(t, asJSON(t, brief(svc.asked[0])))},
				{Name: "events", Data: []byte(parts["events"])},
				{Name: "response", Data: answer},
			}})
			if bytes.Equal(got, want) {
				return
			}
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			t.Errorf("the transcript differs:\n%s", got)
		})
	}
}

// streamEvent is what checkStream looks at.
type streamEvent struct {
	Type         string `json:"type"`
	Sequence     *int   `json:"sequence_number"`
	OutputIndex  int    `json:"output_index"`
	ContentIndex int    `json:"content_index"`
	SummaryIndex int    `json:"summary_index"`
	ItemID       string `json:"item_id"`
	Delta        string `json:"delta"`
	Text         string `json:"text"`
	Arguments    string `json:"arguments"`
	Input        string `json:"input"`
	Item         struct {
		ID string `json:"id"`
	} `json:"item"`
	Response struct {
		Status string            `json:"status"`
		Output []json.RawMessage `json:"output"`
	} `json:"response"`
}

// checkStream holds a stream against the rules that all streams obey: numbers
// without gaps, items that are opened before they are written to and named
// the same throughout, pieces that add up to the whole, items that are done as
// the final response has them.
func checkStream(t *testing.T, body string) {
	t.Helper()
	ids := map[int]string{}       // by output index
	pieces := map[string]string{} // by item and part
	done := map[int]json.RawMessage{}
	n, last := 0, streamEvent{}
	for block := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		name, data, ok := strings.Cut(strings.TrimPrefix(block, "event: "), "\ndata: ")
		var ev streamEvent
		if err := json.Unmarshal([]byte(data), &ev); err != nil || !ok {
			t.Fatalf("%v in %q", err, block)
		}
		if ev.Type != name || ev.Sequence == nil || *ev.Sequence != n {
			t.Errorf("event %d is called %q and says %s", n, name, data)
		}
		part := fmt.Sprintf("%s %d %d", ev.ItemID, ev.ContentIndex, ev.SummaryIndex)
		switch {
		case ev.Type == "response.output_item.added":
			if ev.OutputIndex != len(ids) {
				t.Errorf("item %d is added after %d others", ev.OutputIndex, len(ids))
			}
			ids[ev.OutputIndex] = ev.Item.ID
		case ev.Type == "response.output_item.done":
			if ids[ev.OutputIndex] != ev.Item.ID {
				t.Errorf("item %d was %s, now %s", ev.OutputIndex, ids[ev.OutputIndex], ev.Item.ID)
			}
			var raw struct {
				Item json.RawMessage `json:"item"`
			}
			if err := json.Unmarshal([]byte(data), &raw); err != nil {
				t.Fatal(err)
			}
			done[ev.OutputIndex] = raw.Item
		case strings.HasSuffix(ev.Type, ".delta"):
			pieces[part] += ev.Delta
		case strings.HasSuffix(ev.Type, "_text.done"), strings.HasSuffix(ev.Type, "arguments.done"), strings.HasSuffix(ev.Type, "input.done"):
			if whole := ev.Text + ev.Arguments + ev.Input; pieces[part] != whole {
				t.Errorf("the pieces of %s are %q, the whole is %q", part, pieces[part], whole)
			}
		}
		if ev.ItemID != "" && ids[ev.OutputIndex] != ev.ItemID {
			t.Errorf("%s is about %s, but item %d is %s", ev.Type, ev.ItemID, ev.OutputIndex, ids[ev.OutputIndex])
		}
		if n == 0 && ev.Type != "response.created" || n == 1 && ev.Type != "response.in_progress" {
			t.Errorf("event %d is %s", n, ev.Type)
		}
		n, last = n+1, ev
	}
	if last.Type != "response."+last.Response.Status {
		t.Errorf("the last event is %s of a response that is %s", last.Type, last.Response.Status)
	}
	if len(last.Response.Output) != len(ids) {
		t.Errorf("%d items were added, the response has %d", len(ids), len(last.Response.Output))
	}
	for i, item := range done {
		if !bytes.Equal(item, last.Response.Output[i]) {
			t.Errorf("item %d was %s, the response has %s", i, item, last.Response.Output[i])
		}
	}
}
