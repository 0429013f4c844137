package contract

import (
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
)

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A host may leave out whatever is empty.
func TestHostLinesAreReadLeniently(t *testing.T) {
	e, err := ParseHostLine([]byte(`{"t":"run","id":"r","work_order":{"id":"7c2b1d60-0f5c-4f62-8c47-0a9d7d1b2e33","task":"t","policy":{"deny_read":["x"]},"context":null,"config":{"vendor":null}}}`))
	if err != nil {
		t.Fatal(err)
	}
	r, ok := e.(*Run)
	if !ok || r.WorkOrder.Lane != WorkspaceFirst || r.WorkOrder.Workspace.Mode != PassThrough || len(r.WorkOrder.Policy.DenyRead) != 1 {
		t.Errorf("%+v", e)
	}
	for line, want := range map[string]string{
		`{"t":"run","id":"r","work_order":{"task":"t"}}`:                                                                                    "missing field `id` (in work_order)",
		`{"t":"run","id":"r","work_order":{"id":"x","task":"t"}}`:                                                                           "(in work_order.id)",
		`{"t":"run","id":"r","work_order":{"id":"7c2b1d60-0f5c-4f62-8c47-0a9d7d1b2e33","task":"t","policy":{"deny_read":"x"}}}`:             "expected a sequence (in work_order.policy.deny_read)",
		`{"t":"run","id":"r","work_order":{"id":"7c2b1d60-0f5c-4f62-8c47-0a9d7d1b2e33","task":"t","context":{"snippets":[{"name":1}]}}}`:    "(in work_order.context.snippets.[0].name)",
		`{"t":"run","id":"r","work_order":{"id":"7c2b1d60-0f5c-4f62-8c47-0a9d7d1b2e33","task":"t","workspace":{"root":".","mode":"copy"}}}`: "unknown variant `copy`",
		`{"t":"ping"}`:         "missing field `seq`",
		`{"t":"cancel"}`:       "missing field `ref_id`",
		`{"t":"pong","seq":1}`: "unknown variant `pong`",
	} {
		if _, err := ParseHostLine([]byte(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", line, err)
		}
	}
	for line, want := range map[string]Envelope{`{"t":"ping","seq":7}`: &Ping{7}, `{"t":"cancel","ref_id":"r","x":1}`: &Cancel{RefID: "r"}} {
		if e, err := ParseHostLine([]byte(line)); err != nil || string(AppendEnvelope(nil, e)) != string(AppendEnvelope(nil, want)) {
			t.Errorf("%s: %v %v", line, e, err)
		}
	}
}

func TestFromGo(t *testing.T) {
	v := FromGo(map[string]any{"whole": 5.0, "negative": -3.0, "part": 0.5, "list": []any{1.0, "x\xff", nil}, "int": 7,
		"struct": struct {
			A string `json:"a"`
		}{"<"}, "nan": math.NaN(), "large": 1e300})
	const want = `{"int":7,"large":1e+300,"list":[1,"x` + "\uFFFD" + `",null],"nan":null,"negative":-3,"part":0.5,"struct":{"a":"<"},"whole":5}`
	if got := string(AppendValue(nil, v)); got != want {
		t.Errorf("got %s", got)
	}
}

func TestSupportMeets(t *testing.T) {
	for _, tt := range []struct {
		level                      Level
		native, emulated, whatever bool
	}{{Native, true, true, true}, {Emulated, false, true, true}, {Restricted, false, false, true}, {Unsupported, false, false, true}, {"", false, false, true}} {
		s := Support{Level: tt.level}
		if s.Meets(MinNative) != tt.native || s.Meets(MinEmulated) != tt.emulated || s.Meets(MinAny) != tt.whatever || s.Meets("") {
			t.Errorf("%s", tt.level)
		}
	}
}

func TestNameUUID(t *testing.T) {
	a, b := NameUUID("run-1"), NameUUID("run-2")
	if id, err := ParseUUID(string(a)); err != nil || id != a || a == b || a != NameUUID("run-1") || a[14] != '5' {
		t.Error(a, b)
	}
}

// A sealed receipt verifies after it is written and read.
func TestSealTravels(t *testing.T) {
	r, err := ParseReceipt([]byte(`{"meta":{"run_id":"0b5f6a34-52a5-4f0c-9a1e-6d1d3a1c9f10","work_order_id":"7c2b1d60-0f5c-4f62-8c47-0a9d7d1b2e33","contract_version":"abp/v0.1",
		"started_at":"2031-01-01T00:00:00Z","finished_at":"2031-01-01T00:00:00Z","duration_ms":0},"backend":{"id":"x"},"capabilities":{},"usage_raw":{"<":[0.1,1e21]},
		"usage":{},"trace":[{"ts":"2031-01-01T00:00:00Z","type":"assistant_message","text":"\u2028 </script> é"}],"artifacts":[],"verification":{"harness_ok":true},"outcome":"complete"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Seal()
	back, err := ParseReceipt(r.Append(nil))
	if err != nil || *back.SHA256 != back.Hash() {
		t.Fatal(err)
	}
	back.Outcome = Partial
	if *back.SHA256 == back.Hash() {
		t.Error("a change was not noticed")
	}
}

// The canonical form of an event is the one that travels, with sorted keys.
func TestCanonicalEvents(t *testing.T) {
	some, code, exit := "some", CodeInternal, int32(-1)
	for _, k := range eventKinds {
		for _, ext := range []Object{nil, {}, {{"b", nil}, {"a", uint64(1)}}} {
			for _, e := range []Event{{Kind: Kind(k), Ext: ext}, {Kind: Kind(k), Ext: ext, Message: "m", Text: "t", Tool: "x", ToolUse: &some, Parent: &some,
				Input: Object{{"b", "c"}, {"a", true}}, Output: []any{"o"}, IsError: true, Path: "p", Summary: "s", Command: "c", ExitCode: &exit, Preview: &some, ErrorCode: &code}} {
				v, err := ParseValue(appendAny(nil, reflect.ValueOf(&e), false))
				if got, want := string(appendAny(nil, reflect.ValueOf(&e), true)), string(AppendValue(nil, v)); err != nil || got != want {
					t.Errorf("%s, not %s (%v)", got, want, err)
				}
			}
		}
	}
}

func BenchmarkHash(b *testing.B) {
	data := readFile(b, "testdata/receipt_hash_vectors.json")
	v, err := ParseValue(data)
	if err != nil {
		b.Fatal(err)
	}
	all, _ := v.([]any)
	first, _ := all[0].(Object)
	input, _ := first[1].Value.(string)
	b.ReportAllocs()
	b.SetBytes(int64(len(input)))
	for b.Loop() {
		r, err := ParseReceipt([]byte(input))
		if err != nil {
			b.Fatal(err)
		}
		_ = r.Hash()
	}
}
