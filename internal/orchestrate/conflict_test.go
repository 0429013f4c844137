package orchestrate

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

func conflicting() TaskPlan {
	return TaskPlan{Tasks: []SubTask{
		task("base", "write base.txt base"),
		task("red", "replace big.txt line-30 RED"),
		task("blue", "replace big.txt line-30 BLUE"),
		task("after", "replace big.txt line-00 AFTER"),
	}, Dependencies: map[string][]string{"red": {"base"}, "blue": {"base"}, "after": {"red", "blue"}}}
}

func TestConflictIsResolved(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]bool{"before a task": true, "at the end": false} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			want := strings.Replace(numbered(60), "line-30", "RED-AND-BLUE", 1)
			p := conflicting()
			if !last {
				p.Tasks = p.Tasks[:3]
				delete(p.Dependencies, "after")
			} else {
				want = strings.Replace(want, "line-00", "AFTER", 1)
			}
			y.resolve = "do: write big.txt placeholder"
			o := y.options(p)
			solve := o.Open
			o.Open = func(ctx context.Context, op Opening) (Session, error) {
				if strings.Contains(op.Title, " conflict: ") {
					data, err := os.ReadFile(filepath.Join(op.Dir, "big.txt"))
					if err != nil || !hasMarkers(string(data)) || !strings.Contains(string(data), "RED") || !strings.Contains(string(data), "BLUE") {
						t.Errorf("%v: the sides are not shown:\n%s", err, data)
					}
					clean := strings.Replace(numbered(60), "line-30", "RED-AND-BLUE", 1)
					if err := os.WriteFile(filepath.Join(op.Dir, "big.txt"), []byte(clean), 0o644); err != nil {
						return nil, err
					}
					return &worker{op, "", ""}, nil
				}
				return solve(ctx, op)
			}
			r, err := Run(t.Context(), o)
			if err != nil || !r.Success || len(r.Conflicts) != 1 || !r.Conflicts[0].Resolved {
				t.Fatalf("%v: %+v", err, r)
			}
			y.expect(map[string]string{"big.txt": want, "base.txt": "base\n"})
			y.clean()
		})
	}
}

func TestConflictIsReportedAndBothSidesKept(t *testing.T) {
	y := newYard(t) // its resolver does nothing
	r, err := Run(t.Context(), y.options(conflicting()))
	if err != nil || r.Success || len(r.Conflicts) != 1 || r.Conflicts[0].Resolved || !slices.Equal(r.Conflicts[0].Paths, []string{"big.txt"}) {
		t.Fatalf("%v: %+v", err, r)
	}
	states := []State{}
	held := 0
	for _, x := range r.Tasks {
		states = append(states, x.State)
		if x.HeldBack {
			held++
			if got := y.git("show", x.Branch+":big.txt"); !strings.Contains(got, "BLUE") && !strings.Contains(got, "RED") {
				t.Errorf("%s is not on %s", x.ID, x.Branch)
			}
		}
	}
	if !slices.Equal(states, []State{Done, Done, Done, Failed}) || held != 1 || r.Tasks[3].Error.Code != bridge.CodeConflict {
		t.Errorf("%v, %d held back, %v", states, held, r.Tasks[3].Error)
	}
	y.expect(map[string]string{"base.txt": "base\n"})
	if big := y.read("big.txt"); hasMarkers(big) || strings.Contains(big, "RED") == strings.Contains(big, "BLUE") {
		t.Errorf("%s", big)
	}
}

// Files that cannot hold markers come with the other side beside them.
func TestConflictOfBinaries(t *testing.T) {
	y := newYard(t)
	y.write("pic", "\x00base\n")
	y.git("add", "-A")
	p := TaskPlan{Tasks: []SubTask{task("red", "write pic \x00red"), task("blue", "write pic \x00blue")}}
	r, err := Run(t.Context(), y.options(p))
	if err != nil || r.Success || len(r.Conflicts) != 1 || len(r.Kept) != 1 || y.read("pic") != "\x00red\n" || y.git("show", r.Kept[0]+":pic") != "\x00blue" {
		t.Fatalf("%v: %+v %q", err, r, y.read("pic"))
	}
	y = newYard(t)
	y.write("pic", "\x00base\n")
	y.git("add", "-A")
	y.resolve = "do: write pic \x00violet\ndo: remove pic.OTHER-SIDE"
	r, err = Run(t.Context(), y.options(p))
	if err != nil || !r.Success || y.read("pic") != "\x00violet\n" || y.read("pic.OTHER-SIDE") == "" {
		t.Fatalf("%v: %+v %q", err, r, y.read("pic"))
	}
	y.clean()
}

// What the user does during a run is merged with, or wins.
func TestUserWorksMeanwhile(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		edit, text string
		ok         bool
	}{
		"elsewhere in the file": {"line-59", "MINE", true},
		"in the same place":     {"line-30", "MINE", false},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			o := y.options(TaskPlan{Tasks: []SubTask{task("a", "replace big.txt line-30 THEIRS", "write new.txt new")}})
			watch := o.Watch
			o.Watch = func(e Event) {
				watch(e)
				if e.Type == TaskCompleted {
					y.write("big.txt", strings.Replace(numbered(60), tt.edit, tt.text, 1))
				}
			}
			r, err := Run(t.Context(), o)
			if err != nil || r.Success != tt.ok {
				t.Fatalf("%v: %+v", err, r)
			}
			want := strings.Replace(numbered(60), tt.edit, tt.text, 1)
			if tt.ok {
				y.expect(map[string]string{"big.txt": strings.Replace(want, "line-30", "THEIRS", 1), "new.txt": "new\n"})
				return
			}
			y.expect(map[string]string{"big.txt": want})
			if len(r.Kept) != 1 || y.git("show", r.Kept[0]+":new.txt") != "new" {
				t.Errorf("%v", r.Kept)
			}
			// Once the user has made room the merge can be had.
			y.write("big.txt", numbered(60))
			r, err = Resume(t.Context(), r.Run, y.options(TaskPlan{}))
			if err != nil || !r.Success {
				t.Fatalf("%v: %+v", err, r)
			}
			y.expect(map[string]string{"big.txt": strings.Replace(numbered(60), "line-30", "THEIRS", 1), "new.txt": "new\n"})
		})
	}
}

// A file that git ignores is never overwritten.
func TestIgnoredFilesAreSafe(t *testing.T) {
	y := newYard(t)
	y.write("key.secret", "mine\n")
	p := TaskPlan{Tasks: []SubTask{task("a", "write .gitignore nothing", "write key.secret theirs")}}
	r, err := Run(t.Context(), y.options(p))
	if bridge.CodeOf(err) != bridge.CodeConflict || r.Success || y.read("key.secret") != "mine\n" {
		t.Fatalf("%v: %+v %q", err, r, y.read("key.secret"))
	}
	if err := os.Remove(filepath.Join(y.dir, "key.secret")); err != nil {
		t.Fatal(err)
	}
	if r, err = Resume(t.Context(), r.Run, y.options(TaskPlan{})); err != nil || !r.Success || y.read("key.secret") != "theirs\n" {
		t.Fatalf("%v: %+v", err, r)
	}
}
