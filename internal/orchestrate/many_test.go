package orchestrate

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Many works are put together at once, and those that touch each other in pairs:
// everything is there, and a task that builds on all of it sees that too.
func TestManyWorks(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	p := TaskPlan{Tasks: []SubTask{
		task("root", "write shared.txt shared", "append big.txt root"),
		task("one", "replace big.txt line-00 ONE"), task("two", "replace big.txt line-30 TWO"),
		task("gone", "remove old.txt"), task("moved", "remove README.md", "write docs/README.md hello"), task("run", "program bin/run"), task("link", "link latest d1/1.txt"),
		task("file", "write place file"), task("nothing", "replace big.txt line-01 line-01"),
	}, Dependencies: map[string][]string{"one": {"root"}, "two": {"root"}}}
	want := map[string]string{"shared.txt": "shared\n", "docs/README.md": "hello\n", "bin/run": "#!/bin/sh\n", "place": "file\n", "last.txt": "last\n",
		"big.txt": strings.NewReplacer("line-00", "ONE", "line-30", "TWO").Replace(numbered(60)) + "root\n", "latest": "1\n"}
	for i := range 20 {
		id := fmt.Sprintf("t%d", i)
		p.Tasks = append(p.Tasks, task(id, fmt.Sprintf("write d%d/%d.txt %d", i%3, i, i)))
		if i%2 == 0 {
			p.Dependencies[id] = []string{"root"}
		}
		want[fmt.Sprintf("d%d/%d.txt", i%3, i)] = fmt.Sprintf("%d\n", i)
	}
	last := task("last", "replace d2/2.txt 2 2", "write last.txt last")
	for _, t := range p.Tasks {
		p.Dependencies["last"] = append(p.Dependencies["last"], t.ID)
	}
	p.Tasks = append(p.Tasks, last)
	r, err := Run(t.Context(), y.options(p))
	if err != nil || !r.Success {
		t.Fatalf("%v: %+v", err, r)
	}
	y.expect(want)
	for _, name := range []string{"old.txt", "README.md"} {
		if _, err := os.Lstat(filepath.Join(y.dir, name)); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
	if info, err := os.Stat(filepath.Join(y.dir, "bin/run")); err != nil || info.Mode()&0o100 == 0 {
		t.Error(err)
	}
	joins := 0
	for _, e := range y.events {
		if e.Type == Joined {
			joins++
		}
	}
	if joins == 0 || joins > 6 {
		t.Errorf("%d joins", joins)
	}
	y.clean()
}

func TestSeparate(t *testing.T) {
	changes := map[string][]change{}
	var works []string
	for i, text := range strings.Fields("M:a M:a,A:b M:c A:d/x A:d A:d/x/y D:e A:f A:d/z") {
		w := fmt.Sprint(i)
		for one := range strings.SplitSeq(text, ",") {
			changes[w] = append(changes[w], change{path: one[2:], status: one[0], object: one})
		}
		works = append(works, w)
	}
	changes["2"][0].object, changes["7"] = "1", append(changes["7"], change{path: "c", status: 'M', object: "2"})
	if apart, rest := separate(works, changes); !slices.Equal(apart, []string{"0", "1", "2", "3", "8"}) || !slices.Equal(rest, []string{"4", "5", "6", "7"}) {
		t.Error(apart, rest)
	}
}
