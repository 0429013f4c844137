package orchestrate

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// worker is a session that does what lines of its prompt say, in its
// directory, without a runtime: for the tests of everything around it.
//
//	do: write PATH TEXT      do: append PATH TEXT     do: remove PATH
//	do: replace PATH OLD NEW do: program PATH         do: link PATH TARGET
//	do: fail CODE            do: hang                 do: commit
type worker struct {
	opening Opening
	log     string // a file that gets a line for each task
	resolve string // what to do about conflicts, as above
}

func workers(log, resolve string) Opener {
	return func(_ context.Context, o Opening) (Session, error) { return &worker{o, log, resolve}, nil }
}

func (w *worker) ID() string                  { return "session" }
func (w *worker) Close(context.Context) error { return nil }

func (w *worker) Send(ctx context.Context, p bridge.Prompt) iter.Seq2[bridge.Event, error] {
	return func(yield func(bridge.Event, error) bool) {
		text := p.Text
		if strings.HasPrefix(text, "Two parts of a larger task") {
			text = w.resolve
		} else if err := w.note(text); err != nil {
			yield(nil, err)
			return
		}
		for line := range strings.SplitSeq(text, "\n") {
			if todo, ok := strings.CutPrefix(line, "do: "); ok {
				if err := w.do(ctx, strings.Fields(todo)); err != nil {
					yield(nil, err)
					return
				}
			}
		}
		_ = yield(bridge.MessageDone{Text: "done in " + filepath.Base(w.opening.Dir)}, nil) &&
			yield(bridge.UsageReported{Usage: bridge.Usage{Calls: 1, InputTokens: 10, OutputTokens: 1}}, nil) &&
			yield(bridge.TurnEnded{Reason: bridge.EndDone}, nil)
	}
}

func (w *worker) note(text string) error {
	_, rest, _ := strings.Cut(text, "\nYour part, ")
	id, _, _ := strings.Cut(rest, ":")
	if w.log == "" {
		return nil
	}
	f, err := os.OpenFile(w.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(f, id); err != nil {
		return err
	}
	return f.Close()
}

func (w *worker) do(ctx context.Context, words []string) error {
	path := ""
	if len(words) > 1 {
		path = filepath.Join(w.opening.Dir, words[1])
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
	}
	switch words[0] {
	case "write":
		return os.WriteFile(path, []byte(strings.Join(words[2:], " ")+"\n"), 0o644)
	case "remove":
		return os.RemoveAll(path)
	case "program":
		return os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755)
	case "link":
		return os.Symlink(words[2], path)
	case "commit": // what tasks are told not to do
		return errors.Join(gitIn(w.opening.Dir, "add", "-A"), gitIn(w.opening.Dir, "-c", "user.name=x", "-c", "user.email=x", "commit", "-q", "-m", "x"))
	case "fail":
		return &bridge.Error{Code: bridge.Code(words[1]), Message: "planted"}
	case "hang":
		<-ctx.Done()
		return context.Cause(ctx)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text := string(data)
	switch words[0] {
	case "append":
		text += strings.Join(words[2:], " ") + "\n"
	case "replace":
		if !strings.Contains(text, words[2]) {
			return fmt.Errorf("%s does not hold %s", words[1], words[2])
		}
		text = strings.Replace(text, words[2], words[3], 1)
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// yard is a repository, a home beside it, and git as a user has it.
type yard struct {
	t         testing.TB
	dir, home string
	log       string
	resolve   string
	events    []Event
}

func newYard(t testing.TB) *yard {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	y := &yard{t: t, dir: filepath.Join(root, "repo"), home: filepath.Join(root, "home"), log: filepath.Join(root, "log")}
	y.write("README.md", "hello\n")
	y.write("big.txt", numbered(60))
	y.write(".gitignore", "ignored/\n*.secret\n")
	y.write("old.txt", "to be removed\n")
	y.git("init", "-q", "-b", "main")
	y.git("config", "user.email", "a@example.com")
	y.git("config", "user.name", "a")
	y.git("add", "-A")
	y.git("commit", "-q", "-m", "first")
	return y
}

// numbered is n lines that can be edited apart from each other.
func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line-%02d\n", i)
	}
	return b.String()
}

func (y *yard) write(name, text string) {
	y.t.Helper()
	path := filepath.Join(y.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		y.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		y.t.Fatal(err)
	}
}

func (y *yard) read(name string) string {
	data, err := os.ReadFile(filepath.Join(y.dir, name))
	if err != nil {
		return "(" + err.Error() + ")"
	}
	return string(data)
}

func (y *yard) git(args ...string) string {
	y.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = y.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		y.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// tree is every file of the working tree with its contents.
func (y *yard) tree() string {
	y.t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(y.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() && d.Name() == ".git" {
			if err == nil {
				err = filepath.SkipDir
			}
			return err
		}
		if d.Type().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(y.dir, path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "== %s\n%s", rel, data)
		}
		return nil
	})
	if err != nil {
		y.t.Fatal(err)
	}
	return b.String()
}

func (y *yard) options(p TaskPlan) Options {
	return Options{Home: y.home, Dir: y.dir, Task: "the whole", Plan: &p, Environ: os.Environ(), Open: workers(y.log, y.resolve),
		Watch: func(e Event) { y.events = append(y.events, e) }}
}

// clean checks that nothing of a run is left in the repository.
func (y *yard) clean() {
	y.t.Helper()
	if out := y.git("worktree", "list", "--porcelain"); strings.Count(out, "worktree ") != 1 {
		y.t.Errorf("worktrees are left:\n%s", out)
	}
	if out := y.git("for-each-ref", "--format=%(refname)"); out != "refs/heads/main" && !strings.HasSuffix(out, "/before\nrefs/heads/main") {
		y.t.Errorf("names are left:\n%s", out)
	}
	entries, err := os.ReadDir(WorktreesDir(y.home))
	if err != nil && !os.IsNotExist(err) || len(entries) > 0 {
		y.t.Errorf("%v: %v", err, entries)
	}
	y.git("fsck", "--no-dangling", "--no-progress")
}

// task makes one for plans of workers.
func task(id string, todo ...string) SubTask {
	return SubTask{ID: id, Description: "part " + id + "\ndo: " + strings.Join(todo, "\ndo: "), EstimatedComplexity: Small}
}

// gitIn is for runs of git that may fail.
func gitIn(dir string, args ...string) error {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	return cmd.Run()
}
