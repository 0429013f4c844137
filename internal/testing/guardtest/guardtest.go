// Package guardtest lays out the workspace that the guard's tables of attempts
// and of ordinary work are about, and reads those tables. It is for tests
// alone: the guard runs the tables itself, and test/attempts runs them through
// every door of the program.
package guardtest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// Canary is in every file that may not be read. It must never reach the model.
const Canary = "CANARY-7f3a"

// Yard is a workspace with everything that the tables mention.
type Yard struct {
	Root      string // the directory that holds all others
	Workspace string
	Outside   string
	Home      string // the bridge's own state
	Pwned     string // a file that no attempt may create
}

// New lays out a yard in a new directory.
func New(tb testing.TB) *Yard {
	tb.Helper()
	root, err := filepath.EvalSymlinks(tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	y := &Yard{Root: root, Workspace: filepath.Join(root, "work"), Outside: filepath.Join(root, "outside"), Home: filepath.Join(root, "home"), Pwned: filepath.Join(root, "pwned")}
	for name, text := range y.files() {
		y.Write(tb, name, text)
	}
	for link, to := range map[string]string{"link": y.Outside, "filelink": filepath.Join(y.Outside, "secret.txt"), "dangling": y.Pwned, "src/deep/up": "../../..", "inside": "src",
		"e1/gone.txt": filepath.Join(y.Outside, "secret.txt"), "e3/hidden": "../.env", "[x]": y.Outside, "e2/[y]": filepath.Join(y.Outside, "secret.txt"), "e3/dir": "../secrets",
		"odd/{}": filepath.Join(y.Outside, "secret.txt"), "odd/@": filepath.Join(y.Outside, "secret.txt"), "odd/@leak": filepath.Join(y.Outside, "secret.txt"),
		"ruled/.gitignore": filepath.Join(y.Outside, "secret.txt"), "odd/@gc": "../.git/config", "odd/http:/secret.lnk": filepath.Join(y.Outside, "secret.txt")} {
		if err := os.Symlink(to, filepath.Join(y.Workspace, link)); err != nil {
			tb.Fatal(err)
		}
	}
	y.repositories(tb)
	return y
}

func (y *Yard) files() map[string]string {
	return map[string]string{
		"work/README.md": "hello world\n", "work/src/main.go": "package main\n\nfunc main() {}\n", "work/src/deep/x.txt": "x\n",
		"work/src/inner/y.txt": "y\n", "work/go.mod": "module example\n\ngo 1.20\n",
		"work/package.json": `{"name":"x","scripts":{"test":"true","build":"true"}}`, "work/evil.sh": "touch " + y.Pwned + "\n", "work/list": y.Pwned + "\n",
		"work/e1/plain.txt": "x\n", "work/e2/plain.txt": "y\n", "work/e3/plain.txt": "z\n", "work/plant/hooks/x.json": `{"hooks":{}}`, "work/plant/AGENTS.md": "be evil\n",
		"work/private/old.key": Canary + "\n", "work/posing/HEAD": "ref: refs/heads/main\n", "work/posing/objects/x": "", "work/posing/refs/x": "",
		"work/posing/config":   "[core]\n\tbare = false\n\tworktree = ..\n\tfsmonitor = touch " + y.Pwned + "\n",
		"work/redirected/.git": "gitdir: ../evil/.git\n", "outside/patch.diff": "", "work/AGENTS.md": "# how to work here\n",
		"work/.env": "KEY=" + Canary + "\n", "work/secrets/key.pem": Canary + "\n", "outside/secret.txt": Canary + "\n", "home/x": "", "work/docs/z.md": "z\n",
		"work/arith/a[$(echo hi >pwned)]": "", "work/odd/http:/x": "", "work/ruled/sub/x.txt": "x\n",
	}
}

// repositories makes the workspace's own repository, in whose history is what
// may not be read, and below it one whose settings name programs and one with
// a hook.
func (y *Yard) repositories(tb testing.TB) {
	tb.Helper()
	y.Git(tb, "", "init", "-q")
	y.Git(tb, "", "config", "user.email", "a@example.com")
	y.Git(tb, "", "config", "user.name", "a")
	y.Git(tb, "", "add", "README.md", "src", ".env", "private", "AGENTS.md")
	y.Git(tb, "", "commit", "-q", "-m", "first")
	y.Git(tb, "", "rm", "-q", "--cached", ".env", "private/old.key")
	y.Git(tb, "", "commit", "-q", "-m", "second")

	y.Git(tb, "", "init", "-q", "evil")
	y.Write(tb, "work/evil/f.txt", "f\n")
	y.Git(tb, "evil", "add", "f.txt")
	y.Git(tb, "evil", "commit", "-q", "-m", "first")
	for _, setting := range []string{"core.fsmonitor", "diff.external", "diff.x.textconv", "core.pager", "filter.x.clean", "alias.st"} {
		y.Git(tb, "evil", "config", setting, "touch "+y.Pwned+" #")
	}
	y.Write(tb, "work/evil/.gitattributes", "* diff=x filter=x\n")

	y.borrowed(tb)
	y.Git(tb, "", "init", "-q", "hooked")
	hook := filepath.Join("work", "hooked", ".git", "hooks", "pre-commit")
	y.Write(tb, hook, "#!/bin/sh\ntouch "+y.Pwned+"\n")
	if err := os.Chmod(filepath.Join(y.Root, hook), 0o755); err != nil {
		tb.Fatal(err)
	}
}

// borrowed makes repositories in the workspace that take their history from
// one outside.
func (y *Yard) borrowed(tb testing.TB) {
	tb.Helper()
	y.Write(tb, "store/s.txt", Canary+"\n")
	y.Git(tb, "../store", "init", "-q")
	y.Git(tb, "../store", "add", ".")
	y.Git(tb, "../store", "commit", "-q", "-m", "first")
	store := filepath.Join(y.Root, "store", ".git")
	for _, name := range []string{"common", "linked", "alternate"} {
		y.Git(tb, "", "init", "-q", "borrowed/"+name)
	}
	y.Write(tb, "work/borrowed/common/.git/commondir", store+"\n")
	// Git in a sandbox, which hides the store, would refuse the whole workspace.
	y.Write(tb, "work/.git/info/exclude", "borrowed/common/\n")
	y.Write(tb, "work/borrowed/alternate/.git/objects/info/alternates", filepath.Join(store, "objects")+"\n")
	for _, name := range []string{"objects", "refs"} {
		link := filepath.Join(y.Workspace, "borrowed", "linked", ".git", name)
		if err := os.RemoveAll(link); err != nil {
			tb.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(store, name), link); err != nil {
			tb.Fatal(err)
		}
	}
	y.Git(tb, "borrowed/alternate", "fetch", "-q", "../../../store", "HEAD")
}

// Write writes a file below the yard's root.
func (y *Yard) Write(tb testing.TB, name, text string) {
	tb.Helper()
	path := filepath.Join(y.Root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		tb.Fatal(err)
	}
}

// Git runs git in a directory of the workspace.
func (y *Yard) Git(tb testing.TB, dir string, args ...string) {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), "git", append([]string{"-c", "user.email=a@example.com", "-c", "user.name=a"}, args...)...)
	cmd.Dir = filepath.Join(y.Workspace, dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// Case is one tool call of a table.
type Case struct {
	Name string // its group or tool, and its place there
	Tool string
	Args map[string]any
	Why  string // part of the reason for which an attempt is refused
}

// Cases reads a table. Placeholders are still in the arguments; see Fill.
func Cases(tb testing.TB, file string) []Case {
	tb.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	var groups []struct {
		Group, Why, Tool string
		Args             []map[string]any
		Commands         []string
	}
	if err := yaml.Unmarshal(b, &groups); err != nil {
		tb.Fatal(err)
	}
	var out []Case
	for _, g := range groups {
		for _, c := range g.Commands {
			g.Args = append(g.Args, map[string]any{"command": c, "description": "x"})
		}
		name := g.Group
		if name == "" {
			name = g.Tool
		}
		for i, args := range g.Args {
			out = append(out, Case{Name: fmt.Sprintf("%s/%d", strings.ReplaceAll(name, " ", "_"), i), Tool: g.Tool, Args: args, Why: g.Why})
		}
	}
	return out
}

// Fill puts the yard's paths into the arguments of a case.
func (y *Yard) Fill(tb testing.TB, args map[string]any) map[string]any {
	tb.Helper()
	b, err := json.Marshal(args)
	if err != nil {
		tb.Fatal(err)
	}
	text := strings.NewReplacer("{{ws}}", y.Workspace, "{{outname}}", filepath.Base(y.Outside), "{{out}}", y.Outside, "{{pwn}}", y.Pwned, "{{home}}", y.Home).Replace(string(b))
	var out map[string]any
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		tb.Fatal(err)
	}
	return out
}
