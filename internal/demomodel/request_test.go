package demomodel

import (
	"reflect"
	"strings"
	"testing"
)

func TestDecodeRequest(t *testing.T) {
	raw := `{"model":"m","stream":true,"stream_options":{"include_usage":true},"temperature":0,
	"messages":[
		{"role":"system","content":"be good"},
		{"role":"user","content":[{"type":"text","text":"look: "},{"type":"image_url","image_url":{"url":"data:"}},{"type":"text","text":"nice"},7]},
		{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"b","function":{"name":"g","arguments":{"x":1}}}]},
		{"role":"tool","tool_call_id":"b","content":"B"},
		{"role":"tool","tool_call_id":"a","content":"A"}],
	"tools":[{"type":"function","function":{"name":"f","description":"does f","parameters":{"type":"object"}}},{"type":"web_search"},{"type":"namespace","function":"odd"}],
	"tool_choice":{"type":"function","function":{"name":"f"}},
	"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}}}`
	r, err := decodeRequest([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	if r.Model != "m" || !r.Stream || !r.IncludeUsage || r.ToolChoice != "f" || r.Format.Type != "json_schema" || string(r.Format.Schema) != `{"type":"object"}` {
		t.Errorf("%+v", r)
	}
	if m := r.Messages[1]; m.Content != "look: nice" || m.Images != 1 {
		t.Errorf("%+v", m)
	}
	if got := r.Messages[2].ToolCalls; !reflect.DeepEqual(got, []Call{{"a", "f", "{}"}, {"b", "g", `{"x":1}`}}) {
		t.Errorf("%+v", got)
	}
	if got := r.ToolNames(); !reflect.DeepEqual(got, []string{"f"}) || len(r.Tools) != 3 {
		t.Errorf("%v of %d", got, len(r.Tools))
	}
	if got := r.ToolResults(); !reflect.DeepEqual(got, []string{"A", "B"}) {
		t.Errorf("%q", got)
	}
	if r.System() != "be good" || r.LastUser() != "look: nice" {
		t.Errorf("%q %q", r.System(), r.LastUser())
	}
}

func TestDecodeTolerates(t *testing.T) {
	for _, raw := range []string{
		`{"messages":[{"role":"user","content":5}]}`,
		`{"messages":[{"role":"user","content":"x","tool_calls":7}],"tools":"none","stream_options":[]}`,
		`{"messages":[{"role":"user"}],"tool_choice":3,"response_format":"text","model":null}`,
	} {
		r, err := decodeRequest([]byte(raw))
		if err != nil || r.Model != ModelID {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

func TestTurn(t *testing.T) {
	tests := []struct {
		name     string
		messages []chatMessage
		user     string
		rounds   int
		results  []string
	}{
		{"plain", []chatMessage{{Role: "user", Content: "hi"}}, "hi", 0, nil},
		{"stamped", []chatMessage{{Role: "user", Content: stamp + "hi\nyou"}}, "hi\nyou", 0, nil},
		{"reminder after", []chatMessage{{Role: "user", Content: stamp + "hi\n\n<system_reminder>\nbe brief\n</system_reminder>"}}, "hi", 0, nil},
		{"Claude Code", []chatMessage{{Role: "user", Content: stamp + "<system-reminder>\na\n</system-reminder>\n\nhi\n\n<system-reminder>\nb\n</system-reminder>"}}, "hi", 0, nil},
		{"Codex", []chatMessage{{Role: "user", Content: "<environment_context>\n  <cwd>/w</cwd>\n</environment_context>\n\nhi\n\nCall at most one tool at a time."}}, "hi", 0, nil},
		{"earlier turns do not count", []chatMessage{{Role: "user", Content: "a"}, {Role: "assistant", Content: "b"}, {Role: "user", Content: "c"}}, "c", 0, nil},
		{"answers count", []chatMessage{{Role: "user", Content: "a"}, {Role: "assistant", Content: "b"}, {Role: "assistant", Content: "c"}}, "a", 2, nil},
		{"notices are not the user", []chatMessage{{Role: "user", Content: "a"}, {Role: "assistant", Content: "b"}, {Role: "user", Content: "<system_notification>x</system_notification>"}}, "a", 1, nil},
		{"nobody", []chatMessage{{Role: "system", Content: "x"}, {Role: "tool", Content: "y"}}, "", 0, nil},
		{"dialog", []chatMessage{{Role: "user", Content: "[SYSTEM]\nbe good\n[DIALOG]\nuser: a\nassistant: b\nuser: c\nrehearsal: text d"}}, "c\nrehearsal: text d", 0, nil},
		{"dialog with tools", []chatMessage{{Role: "user", Content: "[DIALOG]\nuser: a\nassistant: calls f\ntool: one\ntwo\nassistant: calls g\ntool: three"}}, "a", 2, []string{"three"}},
		{"dialog of nobody", []chatMessage{{Role: "user", Content: "[DIALOG]\nassistant: b"}}, "[DIALOG]\nassistant: b", 0, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := (&chat{Messages: tt.messages}).request(t)
			got := r.turn()
			if got.user != tt.user || len(got.rounds) != tt.rounds {
				t.Errorf("%q, %d rounds", got.user, len(got.rounds))
			}
			if tt.results != nil && !reflect.DeepEqual(r.ToolResults(), tt.results) {
				t.Errorf("%q", r.ToolResults())
			}
		})
	}
}

func TestRequestsAreKept(t *testing.T) {
	s := start(t, WithJournal(2))
	for _, user := range []string{"a", "b", "c"} {
		post(t, s, newChat(user).json(t))
	}
	rs := s.Requests()
	if len(rs) != 2 || rs[0].LastUser() != "b" || rs[1].LastUser() != "c" {
		t.Fatalf("%d requests", len(rs))
	}
	if string(rs[1].Raw) != string(newChat("c").json(t)) || rs[1].Path != "/v1/chat/completions" {
		t.Errorf("%s %s", rs[1].Path, rs[1].Raw)
	}
	if rs[1].Header.Get("Authorization") != "" || rs[1].Header.Get("User-Agent") == "" {
		t.Errorf("%v", rs[1].Header)
	}
	off := start(t, WithJournal(0))
	post(t, off, newChat("a").json(t))
	if len(off.Requests()) != 0 {
		t.Error("kept although switched off")
	}
}

func TestJournalIsBoundedByBytes(t *testing.T) {
	j := journal{limit: 1000}
	big := make([]byte, journalBytes/2+1)
	for range 5 {
		j.add(&Request{Raw: big})
	}
	if len(j.all()) != 1 || j.bytes != len(big) {
		t.Errorf("%d requests, %d bytes", len(j.all()), j.bytes)
	}
}

func FuzzDecodeRequest(f *testing.F) {
	f.Add([]byte(`{"messages":[{"role":"user","content":"create a.txt saying hi"}],"tools":[{"type":"function","function":{"name":"bash","parameters":{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}}}]}`))
	f.Add([]byte(`{"messages":[{"role":"user","content":"run ls"},{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"bash","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"<exited with exit code 1>"}],"tools":[{"function":{"name":"bash"}}]}`))
	f.Add([]byte(`{"messages":[{"role":"user","content":[{"text":"hi"}]}],"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"array","minItems":2}}},"tool_choice":"required","tools":[{"function":{"name":"x"}}]}`))
	f.Add([]byte(`{"messages":[{"role":"user","content":"[DIALOG]\nuser: hi\nassistant: x\ntool: y"}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := decodeRequest(raw)
		if err != nil {
			return
		}
		s := New()
		reply := s.choose(r)
		if len(reply) == 0 && !strings.Contains(r.LastUser(), directivePrefix) {
			t.Error("no reply")
		}
		if len(reply) > max(maxTasks, maxDirectives) {
			t.Errorf("%d steps", len(reply))
		}
	})
}
