package chat

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

func TestReplay(t *testing.T) {
	called := bridge.Message{Role: bridge.RoleAssistant, Text: "look", Calls: []bridge.ToolCall{{ID: "c1", Name: "see", Args: map[string]any{"x": 1}}, {ID: "c2", Name: "hear"}}}
	failed := result("c2", "deaf")
	failed.Failed = true
	picture := bridge.Message{Role: bridge.RoleUser, Text: "this", Attachments: []bridge.Attachment{{Name: "a.png", MIME: "image/png", Data: []byte("x")}}}
	long := user(strings.Repeat("long ", 100))
	system := bridge.Message{Role: bridge.RoleSystem, Text: "be kind"}
	for name, tc := range map[string]struct {
		messages []bridge.Message
		bytes    int
		turns    int
		want     string
	}{
		"one message":        {[]bridge.Message{user(" as it is ")}, 0, 0, " as it is "},
		"two messages":       {[]bridge.Message{user("a"), user("b")}, 0, 0, "a\n\nb"},
		"words as they came": {[]bridge.Message{user(" a\n"), assistant("b "), result("c1", "\n\tx \r\n")}, 999, 0, "[DIALOG]\nuser:  a\n\nassistant: b \ntool  (c1): \n\tx \r\n\n"},
		"no bound":           {[]bridge.Message{long, assistant("b"), user("c")}, 0, 0, "[DIALOG]\nuser: " + long.Text + "\nassistant: b\nuser: c\n"},
		"a dialogue":         {[]bridge.Message{user("a"), assistant("b"), user("c")}, 999, 0, "[DIALOG]\nuser: a\nassistant: b\nuser: c\n"},
		"with a system text": {[]bridge.Message{user("a"), assistant("b"), system, user("c")}, 999, 0, "[SYSTEM]\nbe kind\n[DIALOG]\nuser: a\nassistant: b\nuser: c\n"},
		"system first":       {[]bridge.Message{system, user("c")}, 999, 0, "[SYSTEM]\nbe kind\n[DIALOG]\nuser: c\n"},
		"tools": {[]bridge.Message{user("a"), called, result("c1", "a cat"), failed}, 999, 0,
			"[DIALOG]\nuser: a\nassistant: look\nassistant called see (c1): {\"x\":1}\nassistant called hear (c2): {}\ntool see (c1): a cat\ntool hear (c2) failed: deaf\n"},
		"an attachment":              {[]bridge.Message{user("a"), assistant("b"), picture}, 999, 0, "[DIALOG]\nuser: a\nassistant: b\nuser: this\n[attachment 1: a.png]\n"},
		"too long":                   {[]bridge.Message{long, assistant("b"), user("c")}, 100, 0, "[DIALOG]\n" + omitted + "assistant: b\nuser: c\n"},
		"the last is whole":          {[]bridge.Message{user("a"), assistant("b"), long}, 100, 0, "[DIALOG]\n" + omitted + "user: " + long.Text + "\n"},
		"a call keeps its result":    {[]bridge.Message{user("a"), called, result("c1", strings.Repeat("x", 100)), failed, user("c")}, 150, 0, "[DIALOG]\n" + omitted + "user: c\n"},
		"the question stays":         {[]bridge.Message{user("a"), called, result("c1", strings.Repeat("x", 100)), called, result("c1", "y")}, 200, 0, "[DIALOG]\nuser: a\n" + omitted + "assistant: look\nassistant called see (c1): {\"x\":1}\nassistant called hear (c2): {}\ntool see (c1): y\n"},
		"turns":                      {[]bridge.Message{user("a"), assistant("b"), user("c"), assistant("d"), user("e")}, 999, 1, "[DIALOG]\n" + omitted + "user: c\nassistant: d\nuser: e\n"},
		"fresh words are all whole":  {[]bridge.Message{user("a"), assistant("b"), long, user("c")}, 100, 0, "[DIALOG]\n" + omitted + "user: " + long.Text + "\nuser: c\n"},
		"a result without its call":  {[]bridge.Message{result("c9", "x"), user("c")}, 100, 0, "[DIALOG]\ntool  (c9): x\nuser: c\n"},
		"an assistant without words": {[]bridge.Message{user("a"), assistant(""), user("c")}, 100, 0, "[DIALOG]\nuser: a\nuser: c\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := new(tools).replay(tc.messages, tc.bytes, tc.turns); got.Text != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got.Text, tc.want)
			}
		})
	}
	if p := new(tools).replay([]bridge.Message{user("a"), assistant("b"), picture}, 999, 0); len(p.Attachments) != 1 {
		t.Errorf("attachments %+v", p.Attachments)
	}
}

func key(messages ...bridge.Message) digest {
	c := newChain(digest{})
	c.add(messages...)
	_, exact := c.key()
	return exact
}

// Clients change the arguments that they send back; only the called tool counts.
func TestArgumentsDoNotTellConversationsApart(t *testing.T) {
	sum := func(m bridge.Message) digest {
		c := newChain(digest{})
		c.add(user("go"), m)
		s, _ := c.key()
		return s
	}
	if sum(call(`{"a":1}`)) != sum(call(`{"a":1,"unit":"C"}`)) {
		t.Error("filled-in defaults make another conversation")
	}
	other := call(nil)
	other.Calls[0].ID = "d"
	if sum(call(nil)) == sum(other) {
		t.Error("another call is the same")
	}
}

func call(args any) bridge.Message {
	return bridge.Message{Role: bridge.RoleAssistant, Calls: []bridge.ToolCall{{ID: "c", Name: "n", Args: args}}}
}

func TestDigestOfCalls(t *testing.T) {
	value := map[string]any{"b": []any{1.0, nil, true}, "a": "x"}
	for _, same := range []any{`{"a":"x","b":[1,null,true]}`, ` {"b":[1.0,null,true], "a":"x"}`, json.RawMessage(`{"a":"x","b":[1e0,null,true]}`),
		map[string]any{"a": "x", "b": []any{json.Number("1"), nil, true}}, map[string]any{"a": "x", "b": []any{int64(1), nil, true}}} {
		if key(call(same)) != key(call(value)) {
			t.Errorf("%v is not the same", same)
		}
	}
	for _, other := range []any{`{"a":"x","b":[1,null,false]}`, `{"a":"x"}`, `not json`, "", nil} {
		if key(call(other)) == key(call(value)) {
			t.Errorf("%v is the same", other)
		}
	}
	for _, empty := range []any{"", " ", "{}", map[string]any{}, json.RawMessage("")} {
		if key(call(empty)) != key(call(nil)) {
			t.Errorf("%q is not empty", empty)
		}
	}
	if key(user("ab"), user("c")) == key(user("a"), user("bc")) || key(user("a")) == key(assistant("a")) {
		t.Error("different conversations look the same")
	}
}

func FuzzArguments(f *testing.F) {
	for _, s := range []string{`{"a":1}`, `[]`, `"x"`, ``, `{`, `null`, `1e999`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var v any
		if json.Unmarshal([]byte(text), &v) != nil || v == nil {
			_ = key(call(text)) // must not panic
			return
		}
		again, err := json.Marshal(v)
		if err != nil {
			return
		}
		if key(call(text)) != key(call(json.RawMessage(again))) {
			t.Errorf("%q and %q are not the same", text, again)
		}
	})
}
