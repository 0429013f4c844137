package sessionstore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// everyMember is a document with each known member, and unknown ones at both
// levels that are easy to lose or to change.
const everyMember = `{
  "version": 1,
  "future": {"b": [1, 2.50, 1e400, 12345678901234567890], "a": "<&>\u2028"},
  "sessions": [
    {"id": "s-1", "agent": "sdk", "profile": "chat", "state": "idle", "workingDirectory": "/w", "model": "gpt-5",
     "title": "A <title> & more", "turns": 3, "inputTokens": 10, "outputTokens": 20,
     "created": "2025-01-02T03:04:05Z", "updated": "2025-01-02T05:04:05.1239+02:00",
     "ID": "not ours", "starred": true, "tags": [ ], "nothing": null},
    {"id": "s-2", "state": "archived"}
  ],
  "Version": "not ours"
}`

func TestDecode(t *testing.T) {
	doc, err := decode("f", []byte(everyMember))
	if err != nil {
		t.Fatal(err)
	}
	if len(doc.records) != 2 {
		t.Fatalf("%d records", len(doc.records))
	}
	want := Entry{
		ID: "s-1", Agent: "sdk", Profile: ProfileChat, State: StateIdle, WorkingDirectory: "/w", Model: "gpt-5",
		Title: "A <title> & more", Turns: 3, InputTokens: 10, OutputTokens: 20,
		Created: time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC), Updated: time.Date(2025, 1, 2, 3, 4, 5, 123e6, time.UTC),
	}
	if got := doc.records[0].entry; got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := doc.records[1].entry; got != (Entry{ID: "s-2", State: "archived"}) {
		t.Errorf("got %+v", got)
	}
}

func TestEncode(t *testing.T) {
	doc, err := decode("f", []byte(everyMember))
	if err != nil {
		t.Fatal(err)
	}
	got, err := doc.encode()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"version":1,"sessions":[
{"id":"s-1","agent":"sdk","profile":"chat","state":"idle","workingDirectory":"/w","model":"gpt-5","title":"A <title> & more","turns":3,"inputTokens":10,"outputTokens":20,"created":"2025-01-02T03:04:05.000Z","updated":"2025-01-02T03:04:05.123Z","ID":"not ours","starred":true,"tags":[],"nothing":null},
{"id":"s-2","agent":"","profile":"","state":"archived","workingDirectory":"","model":"","title":"","turns":0,"inputTokens":0,"outputTokens":0,"created":"0001-01-01T00:00:00.000Z","updated":"0001-01-01T00:00:00.000Z"}
],"future":{"b":[1,2.50,1e400,12345678901234567890],"a":"<&>\u2028"},"Version":"not ours"}
`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestEncodeEmpty(t *testing.T) {
	got, err := (&document{}).encode()
	if err != nil {
		t.Fatal(err)
	}
	if want := "{\"version\":1,\"sessions\":[\n]}\n"; string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDecodeEmpty(t *testing.T) {
	for _, data := range []string{"", " \n\t", `{"version":1}`, `{"version":1,"sessions":[]}`} {
		doc, err := decode("f", []byte(data))
		if err != nil || len(doc.records) != 0 {
			t.Errorf("decode(%q): %v, %v", data, doc, err)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	tests := []struct {
		name   string
		data   string
		offset int
		reason string
	}{
		{"truncated", `{"version":1,"sessions":[{"id":"a"`, 34, "unexpected EOF"},
		{"no JSON", "hello", 0, "invalid character"},
		{"more than one value", `{"version":1} {}`, 14, "after top-level value"},
		{"zeros after a crash", "\x00\x00\x00\x00", 0, "invalid character"},
		{"not UTF-8", `{"version":1,"a":"` + "\xff" + `"}`, 18, "UTF-8"},
		{"not an object", ` [1]`, 1, "an object is expected"},
		{"a huge number", `1e1000`, 0, "an object is expected"},
		{"null", `null`, -1, "version is missing"},
		{"no version", `{"sessions":[]}`, -1, "version is missing"},
		{"version in words", `{"version": "1"}`, 12, "whole number"},
		{"version zero", `{"version":0}`, -1, "whole number"},
		{"version null", `{"version":null}`, -1, "version is missing"},
		{"version twice", `{"version":1,"version":1}`, 13, "twice"},
		{"version with a fraction", `{"version":1.5}`, 11, "whole number"},
		{"member twice", `{"version":1,"a":1,"a":2}`, 19, "twice"},
		{"sessions not a list", `{"version":1,"sessions":{}}`, 24, "a list is expected"},
		{"session not an object", `{"version":1,"sessions":["a"]}`, 25, "an object is expected"},
		{"session without id", `{"version":1,"sessions":[{"title":"a"}]}`, -1, "session 1 has no id"},
		{"session member twice", `{"version":1,"sessions":[{"id":"a","id":"b"}]}`, 35, "twice"},
		{"id twice", `{"version":1,"sessions":[{"id":"a"}, {"id":"a"}]}`, -1, `two sessions have the id "a"`},
		{"id a number", `{"version":1,"sessions":[{"id":7}]}`, 31, "id has a wrong value: text is expected"},
		{"turns a text", `{"version":1,"sessions":[{"id":"a","turns":"hunter2"}]}`, 43, "turns has a wrong value: a whole number is expected"},
		{"time a number", `{"version":1,"sessions":[{"id":"a","created":5}]}`, 45, "created has a wrong value: text is expected"},
		{"pinned a text", `{"version":1,"sessions":[{"id":"a","pinned":"hunter2"}]}`, 44, "pinned has a wrong value: true or false is expected"},
		{"no time", `{"version":1,"sessions":[{"id":"a","created":"hunter2"}]}`, 45, "RFC 3339"},
		{"year before 0", `{"version":1,"sessions":[{"id":"a","updated":"0000-01-01T00:00:00+01:00"}]}`, 45, "year"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := decode("/home/sessions.json", []byte(tt.data))
			var damage *bridge.Error
			if !errors.As(err, &damage) {
				t.Fatalf("error %v", err)
			}
			if damage.Code != bridge.CodeConflict || !strings.Contains(damage.Remedy, "/home/sessions.json") {
				t.Errorf("code %s, remedy %q", damage.Code, damage.Remedy)
			}
			where := fmt.Sprintf("byte offset %d ", tt.offset)
			if tt.offset < 0 {
				where = "is damaged: "
			}
			for _, part := range []string{"/home/sessions.json", where, tt.reason} {
				if !strings.Contains(damage.Message, part) {
					t.Errorf("message %q lacks %q", damage.Message, part)
				}
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("message %q repeats a value", err)
			}
		})
	}
}

func TestDamageNamesTheLine(t *testing.T) {
	_, err := decode("f", []byte("{\"version\":1,\n\"sessions\":[\n}"))
	if err == nil || !strings.Contains(err.Error(), "(line 3)") {
		t.Errorf("error %v, want line 3", err)
	}
}

func TestDecodeRefusesNewerVersion(t *testing.T) {
	for _, data := range []string{
		`{"version":2,"sessions":[]}`,
		`{"sessions":{"of":"another shape"},"version":3}`,
	} {
		_, err := decode("/home/sessions.json", []byte(data))
		var newerFile *bridge.Error
		if !errors.As(err, &newerFile) || newerFile.Code != bridge.CodeConflict {
			t.Fatalf("error %v, want code conflict", err)
		}
		if !strings.Contains(newerFile.Message, "/home/sessions.json") || strings.Contains(newerFile.Message, "damaged") {
			t.Errorf("message %q", newerFile.Message)
		}
		if !strings.Contains(newerFile.Remedy, "Upgrade copilot-bridge") || !strings.Contains(newerFile.Remedy, "move") {
			t.Errorf("remedy %q", newerFile.Remedy)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		"", everyMember,
		`{"version":2}`,
		`1e1000`,
		`{"version":1,"sessions":[{"id":"a","\ud800":1}],"x":{"y":{"y":1,"y":2}}}`,
		`{"version":1,"sessions":[{"id":"\u0000<","created":null,"turns":null,"updated":"9999-12-31T23:59:59.9999Z"}]}`,
		`{"version":1,"sessions":[{"id":"a","turns":9223372036854775808}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := decode("f", data)
		if err != nil {
			if bridge.CodeOf(err) != bridge.CodeConflict {
				t.Fatalf("refused with %v, which says nothing of the file", err)
			}
			return
		}
		encoded, err := first.encode()
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		second, err := decode("f", encoded)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, encoded)
		}
		if !reflect.DeepEqual(first, second) {
			t.Fatalf("read %+v\nthen %+v", first, second)
		}
		again, err := second.encode()
		if err != nil || !bytes.Equal(encoded, again) {
			t.Fatalf("written %s\nthen    %s, %v", encoded, again, err)
		}
		if before, after := strangers(t, data), strangers(t, encoded); !reflect.DeepEqual(before, after) {
			t.Fatalf("unknown members were %v\nand are %v", before, after)
		}
	})
}

// strangers returns the unknown members of the document and of each session,
// found without the code under test.
func strangers(t *testing.T, data []byte) []map[string]any {
	if len(bytes.TrimSpace(data)) == 0 {
		return []map[string]any{{}}
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var top map[string]any
	if err := dec.Decode(&top); err != nil {
		t.Fatal(err)
	}
	all := []map[string]any{top}
	sessions, _ := top["sessions"].([]any)
	delete(top, "version")
	delete(top, "sessions")
	for _, s := range sessions {
		session, ok := s.(map[string]any)
		if !ok {
			t.Fatalf("session %v is not an object", s)
		}
		for _, known := range []string{
			"id", "agent", "profile", "state", "workingDirectory", "model", "title",
			"turns", "inputTokens", "outputTokens", "created", "updated", "pinned", "mode",
		} {
			delete(session, known)
		}
		all = append(all, session)
	}
	return all
}
