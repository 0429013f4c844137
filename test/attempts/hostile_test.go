//go:build unix

package attempts

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/guardtest"
)

// staged is an entry of testdata/hostile.yaml.
type staged struct {
	Name  string
	Files map[string]string
	Modes map[string]os.FileMode
	Links map[string]string
	Git   [][]string
	Calls []struct {
		Tool string
		Deny bool
		Args map[string]any
	}
}

// A hostile repository with hooks, instructions, servers, policies and git
// configuration starts no program, reads nothing that is denied and changes
// nothing, at any door that opens sessions.
func TestHostileRepository(t *testing.T) {
	for _, d := range doors {
		if !d.agent && !d.bus {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			y := newTestEnv(t)
			y.worktrees = d.worktrees
			cases, deny := y.stageHostile(t)
			y.recordState(t)
			c := d.open(t, y, y.envWithModel())
			calls, outcomes := c.do(t, cases, 6)
			for i, o := range outcomes {
				if deny[calls[i].Name] && o.Ran {
					t.Errorf("%s %.200s was done: %.200s", calls[i].Name, calls[i].args, o.Text)
				}
			}
			for _, change := range y.changedFiles(t) {
				if change != "changed work/README.md" { // an ordinary edit, so that git has a change
					t.Errorf("the repository had %s", change)
				}
			}
			y.checkNoCanary(t)
		})
	}
}

// stageHostile creates the files of testdata/hostile.yaml. It returns the
// calls, and which of them must be denied.
func (y *testEnv) stageHostile(t *testing.T) (cases []guardtest.Case, deny map[string]bool) {
	t.Helper()
	text, err := os.ReadFile("testdata/hostile.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all []staged
	if err := yaml.UnmarshalWithOptions(text, &all, yaml.DisallowUnknownField()); err != nil {
		t.Fatal(err)
	}
	deny = map[string]bool{}
	for _, s := range all {
		fill := strings.NewReplacer("{{pwn}}", y.Pwned+"-"+s.Name, "{{canary}}", guardtest.Canary+"-"+s.Name, "{{ws}}", y.Workspace, "{{out}}", y.Outside).Replace
		for name, text := range s.Files {
			y.Write(t, name, fill(text))
		}
		for name, mode := range s.Modes {
			if err := os.Chmod(filepath.Join(y.Root, name), mode); err != nil {
				t.Fatal(err)
			}
		}
		for name, to := range s.Links {
			link := filepath.Join(y.Root, name)
			if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(os.RemoveAll(link), os.Symlink(fill(to), link)); err != nil {
				t.Fatal(err)
			}
		}
		for _, args := range s.Git {
			args = slices.Clone(args)
			for i := range args {
				args[i] = fill(args[i])
			}
			y.Git(t, "", args...)
		}
		for i, c := range s.Calls {
			name := s.Name + "/" + c.Tool + "/" + string(rune('a'+i))
			deny[name] = c.Deny
			cases = append(cases, guardtest.Case{Name: name, Tool: c.Tool, Args: c.Args})
		}
	}
	return cases, deny
}
