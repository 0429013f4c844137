package acpwire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/jsonrpc"
)

// params and results say which message belongs to a method.
var params = map[string]func() any{
	MethodInitialize: func() any { return &InitializeRequest{} }, MethodSessionNew: func() any { return &NewSessionRequest{} },
	MethodSessionLoad: func() any { return &NewSessionRequest{} }, MethodSessionResume: func() any { return &NewSessionRequest{} },
	MethodSessionList: func() any { return &ListSessionsRequest{} }, MethodSessionDelete: func() any { return &SessionRef{} },
	MethodSessionClose: func() any { return &SessionRef{} }, MethodSessionPrompt: func() any { return &PromptRequest{} },
	MethodSetMode: func() any { return &SetModeRequest{} }, MethodSetModel: func() any { return &SetModelRequest{} },
	MethodSetConfigOption: func() any { return &SetConfigOptionRequest{} }, MethodRequestPermission: func() any { return &PermissionRequest{} },
	MethodReadTextFile: func() any { return &ReadTextFileRequest{} }, MethodWriteTextFile: func() any { return &WriteTextFileRequest{} },
	MethodTerminalCreate: func() any { return &CreateTerminalRequest{} }, MethodTerminalOutput: func() any { return &TerminalRef{} },
	MethodTerminalWait: func() any { return &TerminalRef{} }, MethodElicit: func() any { return &ElicitRequest{} },
	NotifyCancel: func() any { return &SessionRef{} }, NotifyUpdate: func() any { return &SessionNotification{} },
}

var results = map[string]func() any{
	MethodInitialize: func() any { return &InitializeResponse{} }, MethodSessionNew: func() any { return &NewSessionResponse{} },
	MethodSessionLoad: func() any { return &NewSessionResponse{} }, MethodSessionList: func() any { return &ListSessionsResponse{} },
	MethodSessionPrompt: func() any { return &PromptResponse{} }, MethodSetConfigOption: func() any { return &SetConfigOptionResponse{} },
	MethodRequestPermission: func() any { return &PermissionResponse{} }, MethodReadTextFile: func() any { return &ReadTextFileResponse{} },
	MethodTerminalCreate: func() any { return &TerminalRef{} }, MethodTerminalOutput: func() any { return &TerminalOutputResponse{} },
	MethodTerminalWait: func() any { return &TerminalExitStatus{} }, MethodElicit: func() any { return &ElicitResponse{} },
}

// unnamed are the fields of recorded messages that have no name here: of later
// versions, and of clients that were tried with answers of another shape.
var unnamed = []string{"_meta", "auth", "future", "new", "later", "additionalDirectories", "decision", "approved", "approval", "action", "reason", "selected", "optionId"}

// TestRecordedMessages reads and writes recorded messages. Only fields without
// a name get lost, and of updates nothing.
func TestRecordedMessages(t *testing.T) {
	files := []string{filepath.Join("testdata", "messages.jsonl")}
	recorded, err := filepath.Glob(filepath.Join("..", "..", "..", "shared", "data", "acp", "copilot-transcripts", "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, recorded...) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			asked := map[string]string{}
			seen := 0
			for _, line := range readLines(t, file) {
				var rec struct {
					Dir string          `json:"dir"`
					Msg json.RawMessage `json:"msg"`
				}
				if err := json.Unmarshal(line, &rec); err != nil {
					t.Fatal(err)
				}
				m, err := jsonrpc.Decode(rec.Msg, false)
				if err != nil {
					t.Fatalf("%v: %s", err, rec.Msg)
				}
				from, to := "agent", "client"
				if rec.Dir == "client->agent" {
					from, to = to, from
				}
				raw, mk := m.Params, params[m.Method]
				if m.Method != "" {
					asked[from+string(m.ID)] = m.Method
				} else {
					raw, mk = m.Result, results[asked[to+string(m.ID)]]
				}
				if mk == nil || m.Error != nil {
					continue
				}
				v := mk()
				seen++
				if err := json.Unmarshal(raw, v); err != nil {
					t.Errorf("%s: %v", raw, err)
					continue
				}
				if n, ok := v.(*SessionNotification); ok {
					var whole struct {
						Update json.RawMessage `json:"update"`
					}
					if err := json.Unmarshal(m.Params, &whole); err != nil || !bytes.Equal(n.Raw, whole.Update) {
						t.Errorf("the update %s was kept as %s", whole.Update, n.Raw)
					}
					continue
				}
				again, err := json.Marshal(v)
				if err != nil {
					t.Fatal(err)
				}
				if !holds(plainly(t, again), plainly(t, raw)) {
					t.Errorf("went in  %s\ncame out %s", raw, again)
				}
			}
			if seen < 5 {
				t.Errorf("only %d messages were looked at", seen)
			}
		})
	}
}

func readLines(t *testing.T, file string) [][]byte {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out [][]byte
	sc := bufio.NewScanner(bytes.NewReader(b))
	sc.Buffer(nil, 8<<20)
	for sc.Scan() {
		out = append(out, bytes.Clone(sc.Bytes()))
	}
	return out
}

// plainly decodes JSON with exact numbers. A field that is false means the
// same as a missing one.
func plainly(t *testing.T, b []byte) any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return strip(v)
}

// holds says whether all of want that has a name here is in got, which may have
// required fields that the sender had left out.
func holds(got, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		m, ok := got.(map[string]any)
		for k, v := range want {
			ok = ok && (slices.Contains(unnamed, k) || holds(m[k], v))
		}
		return ok
	case []any:
		l, ok := got.([]any)
		ok = ok && len(l) == len(want)
		for i := range want {
			ok = ok && holds(l[i], want[i])
		}
		return ok
	}
	return reflect.DeepEqual(got, want)
}

func strip(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if e == false {
				delete(v, k)
				continue
			}
			v[k] = strip(e)
		}
	case []any:
		for i := range v {
			v[i] = strip(v[i])
		}
	}
	return v
}

func TestRequiredFieldsAreWritten(t *testing.T) {
	for name, tc := range map[string]struct {
		v    any
		want string
	}{
		"empty text":   {Text(""), `{"type":"text","text":""}`},
		"stdio server": {MCPServer{Name: "s", Command: "c"}, `{"name":"s","command":"c","args":[],"env":[]}`},
		"http server":  {MCPServer{Type: "http", Name: "s", URL: "u"}, `{"type":"http","name":"s","url":"u","headers":[]}`},
		"empty plan":   {&Plan{Type: UpdatePlan}, `{"sessionUpdate":"plan","entries":[]}`},
		"new session":  {NewSessionRequest{Cwd: "/w"}, `{"cwd":"/w","mcpServers":[]}`},
		"diff":         {ToolContent{Type: ToolContentDiff, Path: "p"}, `{"type":"diff","path":"p","newText":""}`},
		"tool call":    {&ToolCall{Type: UpdateToolCall, ToolCallID: "c"}, `{"sessionUpdate":"tool_call","toolCallId":"c","title":""}`},
		"cancelled":    {Cancelled(), `{"outcome":{"outcome":"cancelled"}}`},
		"selected":     {Selected("x"), `{"outcome":{"outcome":"selected","optionId":"x"}}`},
	} {
		if got, err := json.Marshal(tc.v); err != nil || string(got) != tc.want {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}

// FuzzUpdate: whatever is understood is written so that it is understood in
// the same way.
func FuzzUpdate(f *testing.F) {
	lines, err := os.ReadFile(filepath.Join("testdata", "messages.jsonl"))
	if err != nil {
		f.Fatal(err)
	}
	for line := range bytes.Lines(lines) {
		var rec struct {
			Msg struct {
				Params json.RawMessage `json:"params"`
			} `json:"msg"`
		}
		if json.Unmarshal(line, &rec) == nil {
			f.Add([]byte(rec.Msg.Params))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var first, second SessionNotification
		if json.Unmarshal(b, &first) != nil {
			return
		}
		once, err := json.Marshal(first)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(once, &second); err != nil {
			t.Fatalf("%v: %s", err, once)
		}
		twice, err := json.Marshal(second)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%s\n%s\n%v", once, twice, err)
		}
	})
}
