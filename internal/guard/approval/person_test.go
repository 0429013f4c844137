package approval

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

func TestPersonAsk(t *testing.T) {
	colours := []string{"red", "green"}
	for _, tt := range []struct {
		name, typed string
		q           bridge.Question
		want        bridge.Answer
		code        bridge.Code
	}{
		{"free", "blue\n", bridge.Question{Text: "?", Freeform: true}, bridge.Answer{Text: "blue", Freeform: true}, ""},
		{"number", "2\n", bridge.Question{Choices: colours}, bridge.Answer{Text: "green"}, ""},
		{"text of a choice", "GREEN\n", bridge.Question{Choices: colours, Freeform: true}, bridge.Answer{Text: "green"}, ""},
		{"own answer", "blue\n", bridge.Question{Choices: colours, Freeform: true}, bridge.Answer{Text: "blue", Freeform: true}, ""},
		{"asked again", "3\nblue\n\n1\n", bridge.Question{Choices: colours}, bridge.Answer{Text: "red"}, ""},
		{"nothing to choose from", "blue\n", bridge.Question{}, bridge.Answer{Text: "blue", Freeform: true}, ""},
		{"cancel", "/cancel\n", bridge.Question{Freeform: true}, bridge.Answer{}, bridge.CodeDenied},
		{"end of input", "", bridge.Question{Freeform: true}, bridge.Answer{}, bridge.CodeDenied},
	} {
		t.Run(tt.name, func(t *testing.T) {
			term, _ := typed(t, tt.typed)
			got, err := term.Person().Ask(t.Context(), tt.q)
			if got != tt.want || bridge.CodeOf(err) != tt.code {
				t.Errorf("got %+v, %v; want %+v, code %q", got, err, tt.want, tt.code)
			}
		})
	}
}

func TestPersonAskShowsChoices(t *testing.T) {
	term, s := typed(t, "x\n1\n")
	if _, err := term.Person().Ask(t.Context(), bridge.Question{Text: "Which\x1b[2J one?\nChoose.", Choices: []string{"red", "gr\ree"}}); err != nil {
		t.Fatal(err)
	}
	want := "? Which\\x1b[2J one?\n  Choose.\n  1) red\n  2) gr\\ree\n  Type a number, or /cancel.\n> " +
		"  Please type a number.\n> "
	if got := s.String(); got != want {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}

const form = `{"type":"object","required":["name","age","ok","size"],"properties":{
	"name":{"type":"string","title":"Your name","minLength":2,"maxLength":5},
	"age":{"type":"integer","minimum":18,"maximum":99},
	"ok":{"type":"boolean"},
	"size":{"type":"string","enum":["s","l"],"enumNames":["small","large"]},
	"ratio":{"type":"number","default":0.5},
	"nick":{"type":"string","description":"if you have one"},
	"tags":{"type":"array"}}}`

func TestElicit(t *testing.T) {
	for _, tt := range []struct {
		name, typed, schema string
		want                bridge.ElicitationAnswer
	}{
		{"all right", "Ada\n36\ny\n2\n\n\n", form, bridge.ElicitationAnswer{Action: "accept",
			Content: map[string]any{"name": "Ada", "age": int64(36), "ok": true, "size": "l", "ratio": 0.5}}},
		{"asked again", "A\n\nAdalovelace\nAda\nten\n1.5\n17\n100\n18\nmaybe\nno\nhuge\nsmall\nNaN\n2\nCountess\n", form,
			bridge.ElicitationAnswer{Action: "accept", Content: map[string]any{
				"name": "Ada", "age": int64(18), "ok": false, "size": "s", "ratio": 2.0, "nick": "Countess"}}},
		{"declined", "Ada\n/decline\n", form, bridge.ElicitationAnswer{Action: "decline"}},
		{"cancelled", "/cancel\n", form, bridge.ElicitationAnswer{Action: "cancel"}},
		{"no fields", "", `{"type":"object"}`, bridge.ElicitationAnswer{Action: "accept", Content: map[string]any{}}},
		{"titled choices", "Two\n", `{"properties":{"n":{"type":"integer","oneOf":[{"const":1,"title":"One"},{"const":2,"title":"Two"}]}},"required":["n"]}`,
			bridge.ElicitationAnswer{Action: "accept", Content: map[string]any{"n": 2.0}}},
		{"cannot be asked", "", `{"properties":{"n":{"type":"array"}},"required":["n"]}`, bridge.ElicitationAnswer{Action: "decline"}},
		{"no schema at all", "", `[]`, bridge.ElicitationAnswer{Action: "decline"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			term, s := typed(t, tt.typed)
			got, err := term.Person().Elicit(t.Context(), bridge.Elicitation{Message: "Please", Source: "srv", Schema: json.RawMessage(tt.schema)})
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v, %v\nwant %+v\n%s", got, err, tt.want, s)
			}
		})
	}
}

func TestElicitShowsTheForm(t *testing.T) {
	term, s := typed(t, "Ada\n36\ny\n2\n\n\n")
	if _, err := term.Person().Elicit(t.Context(), bridge.Elicitation{Message: "Please", Source: "srv", Schema: json.RawMessage(form)}); err != nil {
		t.Fatal(err)
	}
	want := "? srv asks: Please\n  /decline refuses, /cancel gives no answer.\n" +
		"  Your name\n  name: " + "  age\n  age: " + "  ok\n  ok (y/n): " +
		"  size\n    1) small\n    2) large\n  size: " + "  ratio\n  ratio [0.5]: " + "  nick: if you have one\n  nick (optional): "
	if got := s.String(); got != want {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}

func TestElicitInTheBrowser(t *testing.T) {
	for typedText, action := range map[string]string{"\n": "accept", "/decline\n": "decline", "/cancel\n": "cancel"} {
		term, s := typed(t, typedText)
		got, err := term.Person().Elicit(t.Context(), bridge.Elicitation{Message: "Log in", URL: "https://example.test/\x1b[31m"})
		if err != nil || got.Action != action || len(got.Content) != 0 {
			t.Errorf("%q: got %+v, %v", typedText, got, err)
		}
		if !strings.Contains(s.String(), `https://example.test/\x1b[31m`) {
			t.Errorf("the address is not shown: %q", s)
		}
	}
}

func TestElicitEndsWithItsContext(t *testing.T) {
	term, s, _ := live(t)
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan error, 1)
	go func() {
		_, err := term.Person().Elicit(ctx, bridge.Elicitation{Message: "Please", Schema: json.RawMessage(form)})
		got <- err
	}()
	s.waitFor(t, "name: ", 1)
	cancel()
	if err := <-got; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func FuzzDecodeForm(f *testing.F) {
	f.Add([]byte(form), "36")
	f.Add([]byte(`{"properties":{"a":{"enum":[1,true,"x",null]}}}`), "1")
	f.Add([]byte(`{"properties":[],"required":null}`), "")
	f.Add([]byte(`{"properties":{"a":{"type":"integer","minimum":1e400}}}`), "y")
	f.Fuzz(func(t *testing.T, schema []byte, answer string) {
		fields, err := decodeForm(schema)
		if err != nil {
			return
		}
		if len(fields) > maxFields {
			t.Fatalf("%d fields", len(fields))
		}
		for _, fd := range fields {
			if strings.Contains(fd.heading()+fd.prompt(), "\x1b") {
				t.Fatal("an escape sequence is shown")
			}
			v, err := fd.parse(answer)
			if err == nil && v != nil {
				if _, err := json.Marshal(v); err != nil {
					t.Fatalf("%q gave a value that is not JSON: %v", answer, err)
				}
			}
		}
	})
}
