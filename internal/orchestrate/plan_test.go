package orchestrate

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

const small = `{"tasks":[{"id":"a","description":"do a","estimatedComplexity":"S"},{"id":"b","description":"do b","estimatedComplexity":"L"}],"dependencies":{"b":["a"]}}`

func TestPlanIn(t *testing.T) {
	want, err := ParsePlan([]byte(small))
	if err != nil {
		t.Fatal(err)
	}
	for name, answer := range map[string]string{
		"bare":           small,
		"fenced":         "Here it is:\n```json\n" + small + "\n```\nGood luck!",
		"prose":          "I looked at {the files} and found {\"x\":1}. The plan: " + small + " That is all {really}.",
		"pairs":          strings.Replace(small, `{"b":["a"]}`, `[{"task":"b","dependsOn":["a"]}]`, 1),
		"beside":         strings.Replace(strings.Replace(small, `,"dependencies":{"b":["a"]}`, "", 1), `"do b",`, `"do b","dependsOn":["a"],`, 1),
		"lower case":     strings.Replace(small, `"L"`, `" l "`, 1),
		"unknown member": strings.Replace(small, `"tasks"`, `"note":[1],"tasks"`, 1),
		"second object":  `{"tasks":[]} no, better: ` + small,
	} {
		t.Run(name, func(t *testing.T) {
			got, err := planIn(answer)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%v: %+v", err, got)
			}
		})
	}
}

func TestPlansThatCannotBeCarriedOut(t *testing.T) {
	task := func(id string) string {
		return fmt.Sprintf(`{"id":%q,"description":"x","estimatedComplexity":"S"}`, id)
	}
	for _, tt := range []struct{ plan, want string }{
		{`no plan`, "no JSON object"},
		{`{"tasks":[`, "the JSON is broken"},
		{`{"tasks":[]}`, "no tasks"},
		{`{"tasks":[` + task("a") + `,` + task("a") + `]}`, `two tasks have the id "a"`},
		{`{"tasks":[` + task("") + `]}`, "no id"},
		{`{"tasks":[` + task("a b") + `]}`, "holds a space"},
		{`{"tasks":[` + task(strings.Repeat("x", 65)) + `]}`, "longer than 64"},
		{`{"tasks":[{"id":"a","description":" "}]}`, `"a" has no description`},
		{`{"tasks":[{"id":"a","description":"x","estimatedComplexity":"XL"}]}`, "must be S, M or L"},
		{`{"tasks":[` + task("a") + `],"dependencies":{"a":["a"]}}`, "depends on itself"},
		{`{"tasks":[` + task("a") + `],"dependencies":{"a":["z"]}}`, `"a" depends on "z", which is not in the plan`},
		{`{"tasks":[` + task("a") + `],"dependencies":{"z":["a"]}}`, `name the task "z"`},
		{`{"tasks":[` + task("a") + `],"dependencies":7}`, "must map"},
		{`{"tasks":[` + task("a") + `,` + task("b") + `,` + task("c") + `,` + task("d") + `],"dependencies":{"a":["b"],"b":["c"],"c":["a"],"d":["a"]}}`, "a → b → c → a"},
	} {
		if _, err := planIn(tt.plan); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.plan, err, tt.want)
		}
	}
}

func TestGraph(t *testing.T) {
	g, err := newGraph(TaskPlan{
		Tasks:        []SubTask{{"d", "x", Small}, {"b", "x", Large}, {"a", "x", Small}, {"c", "x", Medium}},
		Dependencies: map[string][]string{"d": {"b", "c", "b"}, "b": {"a"}, "c": {"a"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := g.names(g.order); !slices.Equal(got, []string{"a", "b", "c", "d"}) {
		t.Error(got)
	}
	if !slices.Equal(g.wave, []int{3, 2, 1, 2}) || g.waves != 3 || !slices.Equal(g.rank, []int64{1, 10, 11, 4}) {
		t.Error(g.wave, g.waves, g.rank)
	}
	path, total := g.criticalPath(func(i int) int64 { return g.plan.Tasks[i].EstimatedComplexity.weight() })
	if got := g.names(path); !slices.Equal(got, []string{"a", "b", "d"}) || total != 11 {
		t.Error(got, total)
	}
}

func TestRender(t *testing.T) {
	p := TaskPlan{Tasks: []SubTask{{"a", "first \"part\"\nmore", Small}, {"b#1", "second <x>", Large}}, Dependencies: map[string][]string{"b#1": {"a"}}}
	text, err := p.Text()
	if want := "Wave 1\n  S  a  first \"part\"…\nWave 2\n  L  b#1  second <x>  (after a)\nLongest path: a → b#1\n"; err != nil || text != want {
		t.Errorf("%v\n%s", err, text)
	}
	chart, err := p.Mermaid()
	if want := "flowchart TD\n  t0[\"a (S)<br/>first #quot;part#quot;…\"]\n  t1[\"b#35;1 (L)<br/>second #lt;x#gt;\"]\n  t0 --> t1\n"; err != nil || chart != want {
		t.Errorf("%v\n%s", err, chart)
	}
	for _, f := range []func() (string, error){TaskPlan{}.Text, TaskPlan{}.Mermaid} {
		if _, err := f(); err == nil {
			t.Error("an empty plan was drawn")
		}
	}
}

// Whatever a model says, the result is an error or a plan that can be carried
// out, and a plan survives being written and read.
func FuzzPlan(f *testing.F) {
	f.Add(small)
	f.Add("```json\n" + small + "\n```")
	f.Add(`{"tasks":[{"id":"a","description":"x"}],"dependencies":[{"task":"a","dependsOn":["a"]}]}`)
	f.Add(`{{{"tasks":[{"id":"a","description":"x","dependsOn":["b"]},{"id":"b","description":"y","dependsOn":["a"]}]}`)
	f.Fuzz(func(t *testing.T, answer string) {
		p, err := planIn(answer)
		if err != nil {
			return
		}
		data, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		q, err := ParsePlan(data)
		if err != nil || !reflect.DeepEqual(p, q) {
			t.Errorf("%v\n%+v\n%+v", err, p, q)
		}
	})
}

func FuzzMergeOutput(f *testing.F) {
	f.Add("4b825dc642cb6eb9a060e54bf8d69288fbee4904\x00", false)
	f.Add("4b825dc642cb6eb9a060e54bf8d69288fbee4904\x00100644 aa 2\ta b\x00100644 bb 3\ta b\x00", false)
	f.Fuzz(func(t *testing.T, out string, clean bool) {
		if m, err := parseMerge(out, clean); err == nil && (m.tree == "" || clean != (len(m.conflicts) == 0)) {
			t.Errorf("%+v", m)
		}
		if _, err := parseDiff(out); err != nil && err.Error() == "" {
			t.Error("an error without words")
		}
	})
}

func FuzzReplay(f *testing.F) {
	f.Add([]byte(`{"type":"run_start"}` + "\n" + `{"type":"plan_ready","plan":` + small + "}\n" + `{"type":"task_complete","task":"a","result":{"id":"a","state":"done"}}` + "\n{\"type\""))
	f.Add([]byte("{}\n{}\nx\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, whole, err := replayEvents(data)
		if err != nil {
			return
		}
		again, same, err := replayEvents(data[:whole])
		if err != nil || same != whole || len(again.done) != len(r.done) || (again.plan == nil) != (r.plan == nil) {
			t.Errorf("%v: %d of %d", err, same, whole)
		}
	})
}
