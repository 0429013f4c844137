package view

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
)

// lineWriter fails if a write is not exactly one line.
type lineWriter struct {
	t     *testing.T
	lines []string
}

func (w *lineWriter) Write(p []byte) (int, error) {
	s := string(p)
	if strings.Count(s, "\n") != 1 || !strings.HasSuffix(s, "\n") {
		w.t.Errorf("not one line: %q", s)
	}
	w.lines = append(w.lines, strings.TrimSuffix(s, "\n"))
	return len(p), nil
}

func TestEventsAsJSON(t *testing.T) {
	for _, verbose := range []bool{false, true} {
		w := &lineWriter{t: t}
		m := NewActivity(&Console{}, Options{JSON: w, Verbose: verbose})
		var want []bridge.Event
		for _, ev := range append(created[1:len(created):len(created)], troubled...) {
			m.Event(ev)
			if _, other := ev.(bridge.Other); !other || verbose {
				want = append(want, ev)
			}
		}
		if len(w.lines) != len(want) {
			t.Fatalf("%d lines for %d events", len(w.lines), len(want))
		}
		for i, line := range w.lines {
			if got, err := bridge.DecodeEvent([]byte(line)); err != nil || bridge.TypeOf(got) != bridge.TypeOf(want[i]) {
				t.Errorf("line %s: %v", line, err)
			}
		}
	}
}

func TestEventThatIsNotJSON(t *testing.T) {
	w := &lineWriter{t: t}
	NewActivity(&Console{}, Options{JSON: w, Verbose: true}).Event(bridge.Other{Name: "x", Data: func() {}})
	if len(w.lines) != 1 || !json.Valid([]byte(w.lines[0])) {
		t.Errorf("got %q", w.lines)
	}
}

func TestResultAsJSON(t *testing.T) {
	r := engine.Result{Session: "s", Text: "hi", Reason: bridge.EndDone, Tools: []engine.ToolUse{}, Files: []string{"a"}, Duration: time.Second}
	boom := &bridge.Error{Code: bridge.CodeCrashed, Message: "gone", Remedy: "again", Cause: errors.New("boom")}
	for _, tt := range []struct {
		name  string
		err   error
		prior []bridge.Event
		types []string
		code  int
	}{
		{"done", nil, nil, []string{"result"}, 0},
		{"failed in the turn", boom, []bridge.Event{bridge.Failed{Error: boom}}, []string{"error", "result"}, 3},
		{"failed before", boom, nil, []string{"error", "result"}, 3},
		{"partly", fmt.Errorf("%w", boom), nil, []string{"error", "result"}, 5},
	} {
		w := &lineWriter{t: t}
		m := NewActivity(&Console{}, Options{JSON: w})
		for _, ev := range tt.prior {
			m.Event(ev)
		}
		if err := m.TurnEnded(r, tt.err, tt.code, 0); err != nil {
			t.Fatal(err)
		}
		var types []string
		var last map[string]any
		for _, line := range w.lines {
			last = nil
			if err := json.Unmarshal([]byte(line), &last); err != nil {
				t.Fatal(err)
			}
			types = append(types, fmt.Sprint(last["type"]))
		}
		if !reflect.DeepEqual(types, tt.types) {
			t.Errorf("%s: got %v, want %v", tt.name, types, tt.types)
		}
		if last["exit_code"] != float64(tt.code) || last["text"] != "hi" || last["session"] != "s" || last["duration_ns"] != 1e9 {
			t.Errorf("%s: result %v", tt.name, last)
		}
		if tt.err == nil && last["error"] != nil {
			t.Errorf("%s: error %v", tt.name, last["error"])
		}
		if tt.err != nil && !reflect.DeepEqual(last["error"], map[string]any{"code": "runtime_exited", "message": "gone: boom", "remedy": "again"}) {
			t.Errorf("%s: error %v", tt.name, last["error"])
		}
	}
}
