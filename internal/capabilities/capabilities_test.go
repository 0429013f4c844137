package capabilities

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

const repository = "../.."

func pinnedParts(t testing.TB) (*Inventory, *Record) {
	t.Helper()
	inv, err := Pinned()
	if err != nil {
		t.Fatal(err)
	}
	record, err := Recorded()
	if err != nil {
		t.Fatal(err)
	}
	return inv, record
}

func runtimePackage(t testing.TB) string {
	t.Helper()
	dir, err := PackageOf(runtimetest.Path(t))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func document(t testing.TB, inv *Inventory, record *Record) string {
	t.Helper()
	text, err := Document(inv, record)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// The inventory, the document and the README fit the pinned versions.
func TestEverythingFits(t *testing.T) {
	inv, record := pinnedParts(t)
	different, err := Check(inv, record, runtimePackage(t), inv.SDK.Version, copilotruntime.RuntimeVersion, repository)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range different {
		t.Errorf("%s: run `make generate`", d)
	}
	for _, f := range inv.Figures() {
		t.Logf("%s: %d, used %d, passed through %d, ignored %d, not yet %d", f.What, f.Total, f.Used, f.Passed, f.Ignored, f.NotYet)
	}
}

func TestNothingIsNotYet(t *testing.T) {
	inv, _ := pinnedParts(t)
	inv.each(func(kind, name string, c Coverage) {
		if c.Mark == NotYet {
			t.Errorf("%s %s is neither used nor left alone for a reason", kind, name)
		}
	})
	for _, v := range inv.Runtime.Permissions {
		if c := inv.ofPermission(v); c.Mark != Used {
			t.Errorf("permission kind %s is %s", v.Kind, c)
		}
	}
	for _, e := range inv.Runtime.Events {
		c := inv.ofEvent(e)
		if has := e.Carries(); has != "" && (c.Mark == NotYet || c.Note == "") {
			t.Errorf("%s carries %s and is %s", e.Name, has, c)
		}
	}
}

// Reasons are given for what exists and is not used, and for nothing else.
func TestMarksAreNotStale(t *testing.T) {
	inv, _ := pinnedParts(t)
	names := map[string][]string{}
	for _, e := range inv.Runtime.Events {
		if c := inv.ofEvent(e); c.Mark != Used {
			names["event"] = append(names["event"], e.Name)
		}
	}
	for _, v := range inv.Runtime.Permissions {
		names["permission"] = append(names["permission"], v.Kind)
	}
	for _, m := range inv.SDK.Members {
		if len(m.Uses) == 0 {
			names["member"] = append(names["member"], m.Owner+"."+m.Name)
		}
	}
	for _, ty := range inv.SDK.Types {
		for _, f := range ty.Fields {
			if len(f.Uses) == 0 {
				names["field"] = append(names["field"], ty.Name+"."+f.Name)
			}
		}
	}
	for kind, table := range reasons() {
		if kind == "needs" {
			continue
		}
		decides := map[string]bool{}
		for _, name := range names[kind] {
			best := ""
			for _, j := range table {
				if j.matches(name) && len(j.match) > len(best) {
					best = j.match
				}
			}
			decides[best] = true
		}
		for _, j := range table {
			if !decides[j.match] {
				// The two session configurations share a table.
				if kind == "field" && decides[twin(j.match)] {
					continue
				}
				t.Errorf("%s %q: nothing needs this reason", kind, j.match)
			}
			if j.Mark == "" || j.Note == "" {
				t.Errorf("%s %q has no mark or no reason", kind, j.match)
			}
		}
	}
	for _, c := range reasons()["needs"] {
		owner, field, _ := strings.Cut(c.Note, ".")
		if !slices.ContainsFunc(inv.SDK.Types, func(ty Type) bool {
			return ty.Name == owner && slices.ContainsFunc(ty.Fields, func(f TypeField) bool { return f.Name == field })
		}) {
			t.Errorf("there is no %s", c.Note)
		}
	}
}

func twin(match string) string {
	if rest, ok := strings.CutPrefix(match, "SessionConfig."); ok {
		return "ResumeSessionConfig." + rest
	}
	return "SessionConfig." + strings.TrimPrefix(match, "ResumeSessionConfig.")
}

func TestReadingIsDeterministic(t *testing.T) {
	dir := runtimePackage(t)
	one, err := ReadSurface(dir)
	if err != nil {
		t.Fatal(err)
	}
	two, err := ReadSurface(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(one, two) || len(Diff(one, two)) != 0 {
		t.Error("the same files were read differently")
	}
	inv, record := pinnedParts(t)
	first := document(t, inv, record)
	if again := document(t, inv, record); again != first {
		t.Error("the same inventory was rendered differently")
	}
	b, err := Encode(inv)
	if err != nil {
		t.Fatal(err)
	}
	was, err := Unpack(pinned)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, was) {
		t.Error("the inventory does not survive a round trip")
	}
}

// scratch copies what describes a runtime.
func scratch(t *testing.T, from string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, schemaFolder), os.DirFS(filepath.Join(from, schemaFolder))); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(from, "package.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "package.json"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestCheckNoticesEveryChange(t *testing.T) {
	inv, record := pinnedParts(t)
	from := runtimePackage(t)
	for name, tc := range map[string]struct{ file, old, now, want string }{
		"the package's version":  {"package.json", `"version": "` + inv.Runtime.Version + `"`, `"version": "9.9.9"`, "9.9.9"},
		"an event's name":        {"schemas/" + eventsFile, `"const": "session.idle"`, `"const": "session.quiet"`, "added event session.quiet"},
		"a field of an event":    {"schemas/" + eventsFile, `"deltaContent"`, `"deltaText"`, "deltaText"},
		"a word of a comment":    {"schemas/" + eventsFile, `JSON Schema for session events`, `JSON schema for session events`, eventsFile},
		"a method's name":        {"schemas/" + apiFile, `"session.history.truncate"`, `"session.history.cut"`, "removed method session.history.truncate"},
		"a permission's kind":    {"schemas/" + eventsFile, `"const": "custom-tool"`, `"const": "client-tool"`, "permission kind custom-tool"},
		"nothing at all":         {},
		"a line that is missing": {"schemas/" + apiFile, `"Checks server responsiveness and returns protocol information."`, `""`, "changed method ping"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := scratch(t, from)
			if tc.file != "" {
				path := filepath.Join(dir, filepath.FromSlash(tc.file))
				b, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Contains(b, []byte(tc.old)) {
					t.Fatalf("%s has no %s", tc.file, tc.old)
				}
				if err := os.WriteFile(path, bytes.ReplaceAll(b, []byte(tc.old), []byte(tc.now)), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			different, err := Check(inv, record, dir, inv.SDK.Version, inv.Runtime.Version, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			if tc.file == "" {
				if len(different) != 0 {
					t.Errorf("differs in %q", different)
				}
				return
			}
			if !strings.Contains(strings.Join(different, "\n"), tc.want) {
				t.Errorf("differs in %q, not in %q", different, tc.want)
			}
		})
	}
}

func TestCheckNoticesVersionsAndFiles(t *testing.T) {
	inv, record := pinnedParts(t)
	dir := runtimePackage(t)
	other := *record
	other.Runtime = "0.0.1"
	stale := t.TempDir()
	if err := os.MkdirAll(filepath.Join(stale, "docs", "reference"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{documentFile: document(t, inv, record), readmeFile: "# x\n" + begin + "\n" + end + "\n"} {
		if err := os.WriteFile(filepath.Join(stale, filepath.FromSlash(name)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		record   *Record
		sdk, pin string
		repo     string
		want     string
	}{
		"SDK":    {record, "v0.0.1", inv.Runtime.Version, t.TempDir(), "the SDK is v0.0.1"},
		"pin":    {record, inv.SDK.Version, "0.0.1", t.TempDir(), "the pinned runtime is 0.0.1"},
		"probes": {&other, inv.SDK.Version, inv.Runtime.Version, t.TempDir(), "the probes ran on runtime 0.0.1"},
		"README": {record, inv.SDK.Version, inv.Runtime.Version, stale, "README.md does not show"},
	} {
		t.Run(name, func(t *testing.T) {
			different, err := Check(inv, tc.record, dir, tc.sdk, tc.pin, tc.repo)
			if err != nil || len(different) != 1 || !strings.Contains(different[0], tc.want) {
				t.Errorf("%q, %v", different, err)
			}
		})
	}
	if err := Write(inv, record, stale); err != nil {
		t.Fatal(err)
	}
	if different, err := Check(inv, record, dir, "", inv.Runtime.Version, stale); err != nil || len(different) != 0 {
		t.Errorf("after writing: %q, %v", different, err)
	}
	if err := os.WriteFile(filepath.Join(stale, filepath.FromSlash(documentFile)), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if different, err := Check(inv, record, dir, "", inv.Runtime.Version, stale); err != nil || len(different) != 1 {
		t.Errorf("an old document: %q, %v", different, err)
	}
}

func TestDiff(t *testing.T) {
	before := &Surface{Package: "p", Version: "1", Events: []Event{{Name: "a", Fields: []Field{{Name: "x", Type: "string"}, {Name: "gone", Type: "string"}}}, {Name: "b"}}}
	after := &Surface{Package: "p", Version: "2", Events: []Event{{Name: "a", Fields: []Field{{Name: "x", Type: "integer"}, {Name: "y", Type: "string", Optional: true}}}, {Name: "c"}}}
	var got []string
	for _, c := range Diff(before, after) {
		got = append(got, c.String())
	}
	want := []string{"changed package p: 1 → 2", "changed event a: + field y optional string; field x: required string → required integer; − field gone",
		"removed event b", "added event c"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestReadAny(t *testing.T) {
	inv, record := pinnedParts(t)
	b, err := json.Marshal(NewReport(inv, record))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "old.json")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	was, err := ReadAny(file)
	if err != nil {
		t.Fatal(err)
	}
	is, err := ReadAny(runtimePackage(t))
	if err != nil || len(Diff(was, is)) != 0 {
		t.Errorf("%v, %v", Diff(was, is), err)
	}
	bad := filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(bad, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, code := range map[string]bridge.Code{bad: bridge.CodeInvalid, bad + "x": bridge.CodeNotFound, t.TempDir(): bridge.CodeNotFound} {
		if _, err := ReadAny(path); bridge.CodeOf(err) != code || bridge.AsError(err).Error() == "" {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// Whatever a schema says, it is read or refused.
func FuzzSchemas(f *testing.F) {
	f.Add([]byte(`{"definitions":{"P":{"type":"object","properties":{"x":{"type":["string","null"]}}}},"server":{"ping":{"rpcMethod":"ping","params":{"$ref":"#/definitions/P"}}}}`),
		[]byte(`{"$ref":"#/definitions/SessionEvent","definitions":{"SessionEvent":{"anyOf":[{"$ref":"#/definitions/E"}]},"E":{"properties":{"type":{"const":"a"},"data":{"properties":{"t":{"type":"array","items":{"enum":["x",1]}}}}}},"PermissionRequest":{"anyOf":[{"properties":{"kind":{"const":"k"}}}]}}}`))
	f.Add([]byte(`{"definitions":{"A":{"$ref":"#/definitions/A"}},"server":{"a":{"b":{"rpcMethod":"m","params":{"$ref":"A"}}}}}`), []byte(`{"$ref":"X","definitions":{"X":{"$ref":"X"}}}`))
	f.Add([]byte(`[]`), []byte(`{"definitions":{"SessionEvent":{"anyOf":[null]}},"$ref":"SessionEvent"}`))
	f.Fuzz(func(t *testing.T, api, events []byte) {
		s := &Surface{}
		if s.addAPI(api) != nil || s.addEvents(events) != nil {
			return
		}
		inv := &Inventory{Runtime: *s}
		if document(t, inv, &Record{}) == "" || len(Diff(s, s)) != 0 {
			t.Error("it was read, but makes no sense")
		}
	})
}

func TestEveryEnumIsShown(t *testing.T) {
	inv, record := pinnedParts(t)
	text := document(t, inv, record)
	for _, e := range inv.Runtime.Enums {
		if !strings.Contains(text, "`"+e.Name+"`: ") {
			t.Errorf("%s is read and not shown", e.Name)
		}
	}
	if missing := slices.DeleteFunc(slices.Sorted(maps.Keys(inv.Runtime.Digests)), func(n string) bool { return strings.Contains(text, inv.Runtime.Digests[n]) }); len(missing) > 0 {
		t.Errorf("digests that are not shown: %v", missing)
	}
}

// A part that nobody makes is an error, and a part's text is not expanded again.
func TestExpand(t *testing.T) {
	parts := map[string]func(string) string{"name": func(argument string) string { return "<" + argument + "{{other}}>" }}
	if got, err := expand(`a {{name}} b {{name "x y"}}`, parts); err != nil || got != "a <{{other}}> b <x y{{other}}>" {
		t.Errorf("%q %v", got, err)
	}
	for _, text := range []string{"{{other}}", "{{}}", "{{.Name}}", "a {{ name}}", "{{na"} {
		if got, err := expand(text, parts); err == nil {
			t.Errorf("%s gives %q", text, got)
		}
	}
}
