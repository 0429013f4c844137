package redact

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestValue(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"plain", `{"a":"b","n":1,"t":true,"z":null}`, `{"a":"b","n":1,"t":true,"z":null}`},
		{"by form, at any depth", `{"a":[{"b":"x ` + ghToken + `"}]}`, `{"a":[{"b":"x [REDACTED]"}]}`},
		{"every string of a tool result", `{"textResultForLlm":"password=hunter2","sessionLog":"password=hunter2","contents":[{"outputPreview":"password=hunter2"}],"detailedContent":"password=hunter2"}`,
			`{"contents":[{"outputPreview":"password=[REDACTED]"}],"detailedContent":"password=[REDACTED]","sessionLog":"password=[REDACTED]","textResultForLlm":"password=[REDACTED]"}`},
		{"by key", `{"password":"hunter2","dbPassword":["hunter2"]}`, `{"dbPassword":["[REDACTED]"],"password":"[REDACTED]"}`},
		{"numbers stay", `{"password":12345678,"token":1e9}`, `{"password":12345678,"token":1e9}`},
		{"placeholders stay", `{"password":"your_password","token":"${TOKEN}"}`, `{"password":"your_password","token":"${TOKEN}"}`},
		{"name and value", `{"env":[{"name":"DB_PASSWORD","value":"hunter2"},{"name":"HOME","value":"/root"}]}`,
			`{"env":[{"name":"DB_PASSWORD","value":"[REDACTED]"},{"name":"HOME","value":"/root"}]}`},
		{"authorization", `{"Authorization":"token a1b2c3d4"}`, `{"Authorization":"token [REDACTED]"}`},
		{"short authorization", `{"Authorization":"Bearer abcdefghijkl"}`, `{"Authorization":"Bearer [REDACTED]"}`},
		{"empty authorization", `{"Authorization":" "}`, `{"Authorization":" "}`},
		{"words by key", `{"api_key":"letmeinplease","token":"horsebattery","pwd":"moth"}`, `{"api_key":"[REDACTED]","token":"[REDACTED]","pwd":"[REDACTED]"}`},
		{"words that name something stay", `{"token":"keyword","password":"Password","secret":"db-credentials","auth":"required"}`, `{"token":"keyword","password":"Password","secret":"db-credentials","auth":"required"}`},
		{"in a key", `{"` + ghToken + `":1}`, `{"[REDACTED]":1}`},
		{"keys that become the same", `{"` + ghToken + `":1,"` + strings.Replace(ghToken, "16C7", "26D8", 1) + `":2}`, `{"[REDACTED]":1,"[REDACTED] (2)":2}`},
		{"json in a string", `{"out":"{\"password\":\"hunter2\",\"b\": 1}"}`, `{"out":"{\"password\":\"[REDACTED]\",\"b\": 1}"}`},
		{"json that hides its names", `{"out":"{\"passw\\u006frd\":\"hunter2\"}"}`, `{"out":"{\"password\":\"[REDACTED]\"}"}`},
		{"a string alone", `"password=hunter2"`, `"password=[REDACTED]"`},
	}
	r := New(Options{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var in any
			if err := json.Unmarshal([]byte(tt.in), &in); err != nil {
				t.Fatal(err)
			}
			before := fmt.Sprintf("%#v", in)
			out, hits := r.Value(in)
			if after := fmt.Sprintf("%#v", in); after != before {
				t.Errorf("the input was changed to %s", after)
			}
			got, err := json.Marshal(out)
			if err != nil {
				t.Fatal(err)
			}
			var want any
			if err := json.Unmarshal([]byte(tt.want), &want); err != nil {
				t.Fatal(err)
			}
			wanted, err := json.Marshal(want)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != string(wanted) {
				t.Errorf("got %s\nwant %s", got, wanted)
			}
			if (hits > 0) != (string(got) != mustJSON(t, in)) {
				t.Errorf("%d hits", hits)
			}
		})
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestValueOfOtherTypes(t *testing.T) {
	type result struct {
		Text     string            `json:"text"`
		Env      map[string]string `json:"env"`
		Raw      json.RawMessage   `json:"raw"`
		Password []string          `json:"password"`
	}
	r := New(Options{})
	out, hits := r.Value([]result{{"x " + ghToken, map[string]string{"TOKEN": "a1b2c3d4e5"}, json.RawMessage(`{"secret":"a1b2c3d4e5"}`), []string{"hunter2"}}})
	want := []any{map[string]any{"text": "x [REDACTED]", "env": map[string]any{"TOKEN": Marker}, "raw": map[string]any{"secret": Marker}, "password": []any{Marker}}}
	if !reflect.DeepEqual(out, want) || hits != 4 {
		t.Errorf("%d hits in %v", hits, out)
	}
	// What cannot be looked at must not get through.
	for _, v := range []any{[]float64{math.Inf(1)}, func() {}, map[string]any{"a": make(chan int)}} {
		if out, hits := r.Value(v); hits != 1 || !strings.Contains(fmt.Sprint(out), Marker) {
			t.Errorf("%T became %v", v, out)
		}
	}
	var deep any = ghToken
	for range 100 {
		deep = []any{deep}
	}
	if out, hits := r.Value(deep); hits == 0 || strings.Contains(fmt.Sprint(out), "ghp_") {
		t.Errorf("%d hits in a deep value", hits)
	}
}

func TestTruncate(t *testing.T) {
	long := strings.Repeat("a", 20000) + strings.Repeat("z", 12345)
	got, cut := Truncate(long, 10240)
	if !cut || len(got) > 10240 || !strings.HasPrefix(got, "aaa") || !strings.HasSuffix(got, "zzz") {
		t.Errorf("%v, %d bytes", cut, len(got))
	}
	if !strings.Contains(got, "\n[… 22,") || !strings.Contains(got, " bytes left out by copilot-bridge …]\n") {
		t.Errorf("no note in %q", got[6700:6900])
	}
	head, rest, _ := strings.Cut(got, "\n[… ")
	number, tail, _ := strings.Cut(rest, " bytes left out by copilot-bridge …]\n")
	if want := grouped(len(long) - len(head) - len(tail)); number != want {
		t.Errorf("the note says %s, but %s bytes are missing", number, want)
	}
	for _, s := range []string{"", "abc"} {
		if got, cut := Truncate(s, 3); got != s || cut {
			t.Errorf("%q became %q", s, got)
		}
	}
	// Every limit, on text of characters of every length.
	text := strings.Repeat("aé€😀", 60)
	for limit := -1; limit < len(text); limit++ {
		got, cut := Truncate(text, limit)
		if !cut || !utf8.ValidString(got) || len(got) > max(limit, 0) {
			t.Fatalf("limit %d: %q", limit, got)
		}
	}
	if got, _ := Truncate(strings.Repeat("\x80", 500), 100); len(got) > 100 {
		t.Errorf("%d bytes of what is not UTF-8", len(got))
	}
}

func TestGrouped(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 12345: "12,345", 1234567: "1,234,567"} {
		if got := grouped(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
