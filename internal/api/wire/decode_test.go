package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// The types stand for what doors have: unions that decode themselves, inside
// arrays, inside each other.
type request struct {
	Model    string            `json:"model"`
	N        int               `json:"n"`
	Seats    uint8             `json:"seats"`
	Stream   *bool             `json:"stream"`
	Heat     float64           `json:"heat"`
	Image    []byte            `json:"image"`
	Grid     [][]int           `json:"grid"`
	Labels   map[string]string `json:"labels"`
	Messages []message         `json:"messages"`
	Careless careless          `json:"careless"`
}

type message struct {
	Role    string  `json:"role"`
	Content content `json:"content"`
}

type content struct {
	Text  string
	Parts []part
}

func (c *content) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	return Forms{String: &c.Text, Array: &c.Parts}.Decode(dec)
}

type part struct {
	Type    string  `json:"type"`
	Size    int     `json:"size"`
	Content content `json:"content"`
}

// careless decodes itself from bytes.
type careless struct {
	Deep struct {
		Number int `json:"number"`
	} `json:"deep"`
}

func (c *careless) UnmarshalJSON(data []byte) error {
	type plain careless
	if KindOf(data) != Object {
		return Expected(data, "an object")
	}
	return Unmarshal(data, (*plain)(c))
}

func TestDecodePlaces(t *testing.T) {
	tests := []struct {
		body string
		path string
		want string
	}{
		{`{"model":7}`, "model", "model: expected a string, got a number"},
		{`{"n":"1"}`, "n", "n: expected an integer, got a string"},
		{`{"n":1.5}`, "n", "n: expected an integer, got 1.5"},
		{`{"n":1e400}`, "n", "n: expected an integer, got 1e400"},
		{`{"heat":1e400}`, "heat", "heat: expected a number, got 1e400"},
		{`{"n":` + strings.Repeat("9", 100) + `}`, "n", "n: expected an integer, got " + strings.Repeat("9", 32) + "…"},
		{`{"seats":-1}`, "seats", "seats: expected a non-negative integer, got -1"},
		{`{"stream":"yes"}`, "stream", "stream: expected a boolean, got a string"},
		{`{"heat":true}`, "heat", "heat: expected a number, got a boolean"},
		{`{"image":{}}`, "image", "image: expected a base64 string, got an object"},
		{`{"image":5}`, "image", "image: expected a base64 string, got a number"},
		{`{"labels":{"a":"x","b":[]}}`, "labels.b", "labels.b: expected a string, got an array"},
		{`{"labels":{"a b":1}}`, `labels["a b"]`, `labels["a b"]: expected a string, got a number`},
		{`{"labels":{"é\u0022":1}}`, `labels["é\""]`, `labels["é\""]: expected a string, got a number`},
		{`{"labels":[]}`, "labels", "labels: expected an object, got an array"},
		{`{"messages":{}}`, "messages", "messages: expected an array, got an object"},
		{`{"messages":[{},{},3]}`, "messages[2]", "messages[2]: expected an object, got a number"},
		{`{"messages":[{},[]]}`, "messages[1]", "messages[1]: expected an object, got an array"},
		{"{\"messages\" :\n [ {\"role\" : \"user\"} ,\n\t{ \"role\" :  false } ] }", "messages[1].role", "messages[1].role: expected a string, got a boolean"},
		{`{"x":"]}\\","messages":[{"role":"a\"}]"},{"role":{}}]}`, "messages[1].role", "messages[1].role: expected a string, got an object"},
		{`{"grid":[[1,2],[3,[4]]]}`, "grid[1][1]", "grid[1][1]: expected an integer, got an array"},
		{`{"grid":[[],[],"x"]}`, "grid[2]", "grid[2]: expected an array, got a string"},
		// Types that decode themselves.
		{`{"messages":[{},{},{"content":4}]}`, "messages[2].content", "messages[2].content: expected a string or an array, got a number"},
		{`{"messages":[{"content":{}}]}`, "messages[0].content", "messages[0].content: expected a string or an array, got an object"},
		{`{"messages":[{"content":[{"type":"text"},{"size":"big"}]}]}`, "messages[0].content[1].size", "messages[0].content[1].size: expected an integer, got a string"},
		{`{"messages":[{"content":[{"type":"text"},true]}]}`, "messages[0].content[1]", "messages[0].content[1]: expected an object, got a boolean"},
		{`{"messages":[{"content":[{},{"content":[{},{},{"content":false}]}]}]}`, "messages[0].content[1].content[2].content", "messages[0].content[1].content[2].content: expected a string or an array, got a boolean"},
		{"\xef\xbb\xbf" + `{"messages":[{"content":[ 1 ]}]}`, "messages[0].content[0]", "messages[0].content[0]: expected an object, got a number"},
		// One that does it by itself still gets the names.
		{`{"model":"m","n":1,"careless":{"deep":{"number":"x"}}}`, "careless.deep.number", "careless.deep.number: expected an integer, got a string"},
		// The body as a whole.
		{`[]`, "", "the body: expected an object, got an array"},
		{`"x"`, "", "the body: expected an object, got a string"},
		{` null `, "", "the body is null: expected a JSON value"},
		{"", "", "the body is empty: expected JSON"},
		{" \n\t", "", "the body is empty: expected JSON"},
		{"\xef\xbb\xbf", "", "the body is empty: expected JSON"},
		{`{"a":1,}`, "", "the body is not valid JSON: line 1, column 7: invalid character ',' at start of value"},
		{"{\n  \"é\": 1,\n  \"ü\" 2\n}", "", "the body is not valid JSON: line 3, column 7: invalid character '2' after object name (expecting ':')"},
		{`{"a":1} x`, "", "the body is not valid JSON: line 1, column 9: invalid character 'x' after top-level value"},
		{`{"a":`, "", "the body is not valid JSON: line 1, column 6: unexpected end of JSON input"},
		{`nope`, "", "the body is not valid JSON: line 1, column 2: invalid character 'o' in literal null (expecting 'u')"},
		{`{"image":"%%"}`, "image", "image: expected a base64 string, got a string"},
		{strings.Repeat(`[`, 200), "", "the body nests more than 128 levels deep"},
		{strings.Repeat(`{"a":`, 129) + "1" + strings.Repeat(`}`, 129), "", "the body nests more than 128 levels deep"},
	}
	for _, tt := range tests {
		t.Run(tt.body, func(t *testing.T) {
			var v request
			err := Decode(httptest.NewRecorder(), post(tt.body), 1<<20, &v)
			var e *bridge.Error
			if !errors.As(err, &e) {
				t.Fatalf("error %v, want a *bridge.Error", err)
			}
			if e.Code != bridge.CodeInvalid || Status(e) != http.StatusBadRequest {
				t.Errorf("code %s, status %d", e.Code, Status(e))
			}
			if e.Message != tt.want {
				t.Errorf("message %q\n   want %q", e.Message, tt.want)
			}
			if got := Path(err); got != tt.path {
				t.Errorf("path %q, want %q", got, tt.path)
			}
		})
	}
}

func TestDecodeAccepts(t *testing.T) {
	deepest := strings.Repeat(`{"a":`, 128) + `"]}{["` + strings.Repeat(`}`, 128)
	tests := []struct{ name, body string }{
		{"unknown fields", `{"model":"m","never_heard_of":{"x":[1]},"messages":[]}`},
		{"union of both kinds", `{"model":"m","messages":[{"content":"t"},{"content":[{"type":"text"}]},{"content":null}]}`},
		{"white space around", " \r\n{\"model\":\"m\"}\n"},
		{"byte order mark", "\xef\xbb\xbf{\"model\":\"m\"}"},
		{"brackets in strings", `{"model":"m","x":"` + strings.Repeat("[", 500) + `"}`},
		{"as deep as may be", deepest[:1] + `"model":"m",` + deepest[1:]},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var v request
			if err := Decode(httptest.NewRecorder(), post(tt.body), 1<<20, &v); err != nil {
				t.Fatal(err)
			}
			if v.Model != "m" {
				t.Errorf("decoded %+v", v)
			}
		})
	}
}

func TestDecodeSize(t *testing.T) {
	body := `{"model":"` + strings.Repeat("m", 100) + `"}`
	tests := []struct {
		name    string
		limit   int64
		chunked bool
		status  int
		want    string
	}{
		{"exactly", int64(len(body)), false, 0, ""},
		{"exactly, length unsaid", int64(len(body)), true, 0, ""},
		{"one over", int64(len(body)) - 1, false, 413, fmt.Sprintf("the body is larger than %d bytes", len(body)-1)},
		{"one over, length unsaid", int64(len(body)) - 1, true, 413, fmt.Sprintf("the body is larger than %d bytes", len(body)-1)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := post(body)
			if tt.chunked {
				r.ContentLength = -1
			}
			var v request
			w := httptest.NewRecorder()
			err := Decode(w, r, tt.limit, &v)
			if closing := w.Header().Get("Connection") == "close"; closing != (tt.status != 0) {
				t.Errorf("closes the connection: %t", closing)
			}
			if tt.status == 0 {
				if err != nil || len(v.Model) != 100 {
					t.Fatalf("error %v, model %q", err, v.Model)
				}
				return
			}
			e := bridge.AsError(err)
			if e == nil || Status(e) != tt.status || e.Message != tt.want || e.Remedy == "" {
				t.Errorf("error %#v", e)
			}
		})
	}
	if got := tooLarge(32 << 20).Error(); got != "the body is larger than 32 MiB" {
		t.Error(got)
	}
}

func TestDecodeContentType(t *testing.T) {
	tests := []struct {
		header, value string
		refused       bool
	}{
		{"Content-Type", "", false},
		{"Content-Type", "application/json", false},
		{"Content-Type", "Application/JSON; charset=utf-8", false},
		{"Content-Type", "application/vnd.api+json", false},
		{"Content-Type", "text/json", false},
		{"Content-Type", "text/plain", true},
		{"Content-Type", "application/x-www-form-urlencoded", true},
		{"Content-Type", "multipart/form-data; boundary=x", true},
		{"Content-Type", "json", true},
		{"Content-Type", ";;", true},
		{"Content-Encoding", "identity", false},
		{"Content-Encoding", "gzip", true},
		{"Content-Encoding", "zstd", true},
	}
	for _, tt := range tests {
		t.Run(tt.header+" "+tt.value, func(t *testing.T) {
			r := post(`{"model":"m"}`)
			r.Header.Set(tt.header, tt.value)
			err := Decode(httptest.NewRecorder(), r, 1<<20, &request{})
			if !tt.refused {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if e := bridge.AsError(err); e == nil || e.Code != bridge.CodeInvalid || Status(e) != http.StatusUnsupportedMediaType || e.Remedy == "" {
				t.Errorf("error %#v", e)
			}
		})
	}
}

func TestDecodeBrokenBody(t *testing.T) {
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	ended, end := context.WithCancelCause(t.Context())
	end(&bridge.Error{Code: bridge.CodeUnavailable, Message: "closing"})
	tests := []struct {
		name   string
		ctx    context.Context
		err    error
		code   bridge.Code
		status int
	}{
		{"too slow", t.Context(), fmt.Errorf("read: %w", os.ErrDeadlineExceeded), bridge.CodeInvalid, 408},
		{"cut", t.Context(), io.ErrUnexpectedEOF, bridge.CodeInvalid, 400},
		{"client gone", gone, io.ErrUnexpectedEOF, bridge.CodeCanceled, 499},
		{"shutdown", ended, io.ErrUnexpectedEOF, bridge.CodeUnavailable, 503},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequestWithContext(tt.ctx, http.MethodPost, "/", io.MultiReader(strings.NewReader(`{"mo`), broken{tt.err}))
			e := bridge.AsError(Decode(httptest.NewRecorder(), r, 1<<20, &request{}))
			if e == nil || e.Code != tt.code || Status(e) != tt.status {
				t.Errorf("error %#v", e)
			}
		})
	}
}

// net/http ends the context of a request whose body is late.
func TestLateBodyIsNoClientThatLeft(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	r := httptest.NewRequestWithContext(ended, http.MethodPost, "/", broken{os.ErrDeadlineExceeded})
	e := bridge.AsError(EndedBy(ended, Decode(httptest.NewRecorder(), r, 1<<20, &request{})))
	if e == nil || Status(e) != http.StatusRequestTimeout || e.Message != "the body did not arrive in time" {
		t.Errorf("%#v", e)
	}
}

type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

func TestOwnChecks(t *testing.T) {
	e := At("messages[1].role", "%q is not a role", "x")
	if e.Message != `messages[1].role: "x" is not a role` || Path(e) != "messages[1].role" || e.Code != bridge.CodeInvalid {
		t.Errorf("%#v", e)
	}
	if e := At("", "nothing to answer"); e.Message != "nothing to answer" || Path(e) != "" {
		t.Errorf("%#v", e)
	}
	if Path(errors.New("other")) != "" || Path(nil) != "" {
		t.Error("a path from nowhere")
	}
}

func TestWithin(t *testing.T) {
	raw := json.RawMessage(`{"content":[{},{"size":[]}]}`)
	tests := []struct {
		path string
		err  error
		want string
	}{
		{"input[3]", Unmarshal(raw, &message{}), "input[3].content[1].size: expected an integer, got an array"},
		{"", Unmarshal(raw, &message{}), "content[1].size: expected an integer, got an array"},
		{"input", Unmarshal(json.RawMessage(`[[{}],[7]]`), &[][]message{}), "input[1][0]: expected an object, got a number"},
		{"arguments", Unmarshal([]byte(`{`), &message{}), "arguments: is not valid JSON: unexpected end of JSON input"},
		{"a", Within("b", Expected([]byte("1"), "a string")), "b: expected a string, got a number"},
	}
	for _, tt := range tests {
		if got := Within(tt.path, tt.err).Message; got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

func TestPositionsOutside(t *testing.T) {
	if line, column := position([]byte("ab"), -1); line != 1 || column != 1 {
		t.Error(line, column)
	}
	if line, column := position([]byte("a\nb"), 99); line != 2 || column != 2 {
		t.Error(line, column)
	}
}

func post(body string) *http.Request {
	return httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
}

// FuzzDecode holds that any body is either decoded or refused with a sound
// *bridge.Error.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"model":"m","messages":[{"role":"user","content":[{"type":"text"}]}]}`,
		`{"messages":[{},{"content":4}]}`, `{"labels":{"a b":[1]}}`, `{"n":1.5}`, `[`, `{"a":"\"]`, "null", "\xef\xbb\xbf{}",
		`{"careless":{"deep":{"number":"x"}}}`, `{"messages":[{"content":[{"content":[{"size":"x"}]}]}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var v request
		err := Decode(httptest.NewRecorder(), post(string(body)), 1<<16, &v)
		if err == nil {
			if !json.Valid(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))) {
				t.Error("accepted what is not JSON")
			}
			return
		}
		var e *bridge.Error
		if !errors.As(err, &e) || e.Message == "" {
			t.Fatalf("error %#v", err)
		}
		if s := Status(e); s != 400 && s != 413 {
			t.Errorf("status %d", s)
		}
		if len(e.Message) > 64<<10 {
			t.Errorf("a message of %d bytes", len(e.Message))
		}
	})
}
