package toolbus

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/jsonrpc"
)

type two struct {
	Minuend    int `json:"minuend"`
	Subtrahend int `json:"subtrahend"`
}

type three struct {
	A int `json:"a"`
	B int `json:"b"`
	C int `json:"c"`
}

type globbed struct {
	Glob Patterns `json:"glob,omitempty"`
}

// specDoor has the methods of the specification's examples, and some that go
// wrong.
func specDoor() *door {
	d := newDoor(&fake{}, Options{MaxBatch: 8})
	d.methods = map[string]*method{}
	type anything = map[string]any
	for _, m := range []method{
		define("subtract", "", func(_ context.Context, _ *call, p two) (int, error) { return p.Minuend - p.Subtrahend, nil }, two{}, 0),
		define("sum", "", func(_ context.Context, _ *call, p three) (int, error) { return p.A + p.B + p.C, nil }, three{}, 0),
		define("notify_sum", "", func(_ context.Context, _ *call, p three) (int, error) { return p.A + p.B + p.C, nil }, three{}, 0),
		define("update", "", func(context.Context, *call, none) (int, error) { return 0, nil }, none{}, 0),
		define("notify_hello", "", func(context.Context, *call, globbed) (int, error) { return 0, nil }, globbed{}, 0),
		define("get_data", "", func(context.Context, *call, none) ([]any, error) { return []any{"hello", 5}, nil }, none{}, nil),
		define("find", "", func(_ context.Context, _ *call, p globbed) (Patterns, error) { return p.Glob, nil }, globbed{}, nil),
		define("nothing", "", func(context.Context, *call, none) (anything, error) { return nil, nil }, none{}, nil),
		define("fail", "", func(context.Context, *call, none) (int, error) {
			return 0, &bridge.Error{Code: bridge.CodeDenied, Message: "no", Remedy: "ask"}
		}, none{}, 0),
		define("panic", "", func(context.Context, *call, none) (int, error) { panic("oh") }, none{}, 0),
		define("unspeakable", "", func(context.Context, *call, none) (float64, error) { return math.NaN(), nil }, none{}, 0),
		define("secret", "", func(context.Context, *call, none) (int, error) { return 0, errors.New("hunter2") }, none{}, 0),
	} {
		d.methods[m.name] = &m
	}
	return d
}

// response is one as tests see it.
type response struct {
	JSONRPC string           `json:"jsonrpc"`
	ID      json.RawMessage  `json:"id"`
	Result  *json.RawMessage `json:"result"`
	Error   *fault           `json:"error"`
}

// normal is a message in a form that can be compared: batches sorted, results
// compact, messages up to their colon.
func normal(t *testing.T, message string) (all []response, batch bool) {
	t.Helper()
	if batch = strings.HasPrefix(strings.TrimSpace(message), "["); !batch {
		message = "[" + message + "]"
	}
	dec := json.NewDecoder(strings.NewReader(message))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&all); err != nil {
		t.Fatalf("%s: %v", message, err)
	}
	var members []map[string]json.RawMessage
	if err := json.Unmarshal([]byte(message), &members); err != nil {
		t.Fatal(err)
	}
	for i := range all {
		_, result := members[i]["result"]
		if _, failed := members[i]["error"]; result == failed || len(members[i]) != 3 {
			t.Fatalf("not an answer: %s", message)
		}
		if r := all[i].Result; r != nil {
			var b bytes.Buffer
			if err := json.Compact(&b, *r); err != nil {
				t.Fatal(err)
			}
			*r = b.Bytes()
		}
		if f := all[i].Error; f != nil {
			f.Message, _, _ = strings.Cut(f.Message, ":")
		}
	}
	slices.SortStableFunc(all, func(a, b response) int { return cmp.Compare(string(a.ID), string(b.ID)) })
	return all, batch
}

func TestConformance(t *testing.T) {
	data, err := os.ReadFile("testdata/conformance.txt")
	if err != nil {
		t.Fatal(err)
	}
	d := specDoor()
	lines := strings.Split(string(data), "\n")
	cases := 0
	for i, line := range lines {
		sent, ok := strings.CutPrefix(line, "--> ")
		if !ok {
			continue
		}
		cases++
		got := exchange(t, d, sent)
		want, answered := strings.CutPrefix(lines[i+1], "<-- ")
		if !answered {
			if len(got) > 0 {
				t.Errorf("line %d: %s\n got  %s\n want nothing", i+1, sent, got)
			}
			continue
		}
		if len(got) != 1 {
			t.Errorf("line %d: %s\n got  %d answers: %s", i+1, sent, len(got), got)
			continue
		}
		have, haveBatch := normal(t, got[0])
		should, shouldBatch := normal(t, want)
		for k := range min(len(have), len(should)) {
			// Data are only compared as far as the case gives them.
			if h, s := have[k].Error, should[k].Error; h != nil && s != nil && h.Data != nil {
				if s.Data == nil {
					h.Data = nil
				} else if s.Data.Code == "" {
					h.Data.Code = ""
				}
			}
		}
		if haveBatch != shouldBatch || !reflect.DeepEqual(have, should) {
			t.Errorf("line %d: %s\n got  %s\n want %s", i+1, sent, got[0], want)
		}
	}
	if cases < 60 {
		t.Errorf("only %d cases were read", cases)
	}
}

// The error of a wrong parameter says what and where, for people.
func TestParameterErrors(t *testing.T) {
	d := newDoor(&fake{}, Options{Hub: &Hub{}})
	for _, tt := range []struct{ method, params, want string }{
		{"mcp.fs.read", `{"path":7}`, "params.path: expected a string, got a number"},
		{"mcp.fs.read", `{"path":"x","offset":-1}`, "params.offset: expected a non-negative integer, got -1"},
		{"mcp.fs.read", `{}`, "params.path: is missing; mcp.fs.read takes path, offset?, limit?"},
		{"mcp.fs.read", `["x",1,2,3]`, "params: too many; mcp.fs.read takes path, offset?, limit?"},
		{"mcp.edit.applyPatch", `{"unifiedDiff":"","dryrun":true}`, `params: there is no parameter "dryrun"; mcp.edit.applyPatch takes unifiedDiff, verify?, dryRun?, format?, organizeImports?`},
		{"mcp.edit.applyPatch", `{"unifiedDiff":"","verify":{"a b":1}}`, `params.verify["a b"]: expected a string, got a number`},
		{"mcp.task.list", `{"x":1}`, `params: there is no parameter "x"; mcp.task.list takes no parameters`},
		{"bridge.approval.answer", `{"id":"x","answer":"yes"}`, "params.answer: expected one of once, session, always, no"},
		{"$/cancelRequest", `{"id":[]}`, "params.id: expected a string or a number, got an array"},
	} {
		got := exchange(t, d, `{"jsonrpc":"2.0","id":1,"method":"`+tt.method+`","params":`+tt.params+`}`)
		var r response
		if len(got) != 1 || json.Unmarshal([]byte(got[0]), &r) != nil || r.Error == nil || r.Error.Code != jsonrpc.CodeInvalidParams || r.Error.Message != "Invalid params: "+tt.want {
			t.Errorf("%s%s:\n got  %s\n want %s", tt.method, tt.params, got, tt.want)
		}
	}
}

func TestCodes(t *testing.T) {
	seen := map[int]bridge.Code{}
	for _, c := range []bridge.Code{bridge.CodeInvalid, bridge.CodeNotFound, bridge.CodeUnauthenticated, bridge.CodeDenied, bridge.CodeUnavailable,
		bridge.CodeCrashed, bridge.CodeBusy, bridge.CodeTimeout, bridge.CodeCanceled, bridge.CodeRateLimited, bridge.CodeProvider,
		bridge.CodeBudget, bridge.CodeConflict, bridge.CodeUnsupported, bridge.CodeInternal} {
		n := codeOf(c)
		if other, taken := seen[n]; taken {
			t.Errorf("%s and %s are both %d", c, other, n)
		}
		seen[n] = c
		if !slices.ContainsFunc(meanings(), func(f fault) bool { return f.Code == n }) {
			t.Errorf("%d (%s) is not explained", n, c)
		}
		// There and back.
		f := faultOf(t.Context(), &bridge.Error{Code: c, Message: "x", Remedy: "y"})
		if e := f.asError(); e.Code != c || e.Remedy != "y" || !strings.HasSuffix(e.Message, "x") {
			t.Errorf("%s came back as %+v", c, e)
		}
	}
	if codeOf("of the future") != jsonrpc.CodeInternal {
		t.Error("a code that nobody knows is not internal")
	}
}

func FuzzEnvelope(f *testing.F) {
	data, err := os.ReadFile("testdata/conformance.txt")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if sent, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "--> "); ok {
			f.Add([]byte(sent))
		}
	}
	f.Add([]byte("\xff"))
	f.Add([]byte(strings.Repeat("[", 20000)))
	d := specDoor()
	f.Fuzz(func(t *testing.T, message []byte) {
		all := exchange(t, d, string(message))
		if len(all) > 1 {
			t.Fatalf("%d answers to one message", len(all))
		}
		for _, got := range all {
			if !json.Valid([]byte(got)) {
				t.Fatalf("no JSON: %q", got)
			}
			parts, batch := normal(t, got)
			if batch && !bytes.HasPrefix(bytes.TrimLeft(message, " \t\r\n"), []byte("[")) || len(parts) == 0 {
				t.Fatalf("a batch in answer to none, or an empty one: %s", got)
			}
			for _, r := range parts {
				if r.JSONRPC != "2.0" || !isID(r.ID) || r.Error != nil && r.Error.Message == "" {
					t.Fatalf("not an answer: %s", got)
				}
			}
		}
	})
}
