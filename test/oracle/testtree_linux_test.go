package oracle

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/git"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/guardtest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/search"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/task"
)

// testTree is the workspace of the guard's tables with additional traps.
type testTree struct {
	*guardtest.Yard
	user string    // the user's home
	temp string    // for temporary files
	env  []string  // the environment of commands of the tool bus
	port int       // port of the listener
	ids  [2]string // a tree and a commit with denied files
}

// hostileRepositories are repositories below hostile/: additional settings and
// files. PWN is a command that leaves a trace, OUT is the outside directory.
var hostileRepositories = map[string]struct {
	config string
	files  map[string]string
}{
	"plain":      {},
	"tracked":    {"", map[string]string{".env": "KEY=" + guardtest.Canary + " changed\n"}},
	"fsmonitor":  {"[core]\n\tfsmonitor = PWN\n", nil},
	"oddcase":    {"[CORE] FSMonitor=PWN\n", nil},
	"external":   {"[diff]\n\texternal = PWN\n", nil},
	"textconv":   {"[diff \"x\"]\n\ttextconv = PWN\n", map[string]string{".gitattributes": "* diff=x\n"}},
	"command":    {"[diff \"x\"]\n\tcommand = PWN\n", map[string]string{".gitattributes": "* diff=x\n"}},
	"filter":     {"[filter \"x\"]\n\tclean = PWN\n\tsmudge = PWN\n", map[string]string{".gitattributes": "* filter=x\n"}},
	"process":    {"[filter \"x\"]\n\tprocess = PWN\n", map[string]string{".git/info/attributes": "* filter=x\n"}},
	"hook":       {"", map[string]string{".git/hooks/post-index-change": "#!/bin/sh\nPWN\n", ".git/hooks/pre-commit": "#!/bin/sh\nPWN\n"}},
	"hookspath":  {"[core]\n\thooksPath = h\n", map[string]string{"h/post-index-change": "#!/bin/sh\nPWN\n"}},
	"pager":      {"[core]\n\tpager = PWN\n[pager]\n\tlog = PWN\n\tdiff = PWN\n\tstatus = PWN\n", nil},
	"alias":      {"[alias]\n\tst = !PWN\n\tlog = !PWN\n", nil},
	"include":    {"[include]\n\tpath = ../inc\n", map[string]string{"inc": "[core]\n\tfsmonitor = PWN\n"}},
	"includeif":  {"[includeIf \"gitdir:**\"]\n\tpath = ../inc\n", map[string]string{"inc": "[diff]\n\texternal = PWN\n"}},
	"gpg":        {"[gpg]\n\tprogram = PWN\n[log]\n\tshowSignature = true\n", nil},
	"ssh":        {"[core]\n\tsshCommand = PWN\n\trepositoryformatversion = 1\n[extensions]\n\tpartialClone = o\n[remote \"o\"]\n\turl = ssh://127.0.0.1/x\n\tpromisor = true\n", nil},
	"promisor":   {"[remote \"o\"]\n\turl = http://127.0.0.1:PORT/x\n\tpromisor = true\n", nil},
	"worktree":   {"[core]\n\tworktree = OUT\n", nil},
	"mailmap":    {"[mailmap]\n\tfile = OUT/secret.txt\n", nil},
	"excludes":   {"[core]\n\texcludesFile = OUT/secret.txt\n", nil},
	"attributes": {"[core]\n\tattributesFile = OUT/secret.txt\n", nil},
	"order":      {"[diff]\n\torderFile = OUT/secret.txt\n", nil},
	"ignorerevs": {"[blame]\n\tignoreRevsFile = OUT/secret.txt\n", nil},
	"summary":    {"[status]\n\tsubmoduleSummary = true\n[submodule \"s\"]\n\tupdate = !PWN\n", nil},
	"links":      {"", map[string]string{".gitignore": "->OUT/secret.txt", ".mailmap": "->OUT/secret.txt", ".gitattributes": "->OUT/secret.txt"}},
	"exclude":    {"", map[string]string{".git/info/exclude": "->OUT/secret.txt"}},
	"worktreecf": {"[extensions]\n\tworktreeConfig = true\n", map[string]string{".git/config.worktree": "[core]\n\tfsmonitor = PWN\n"}},
	"gitfile":    {"", map[string]string{"t/.git": "gitdir: OUT/../store/.git\n", "t/x": "x\n"}},
	"gitlink":    {"", map[string]string{"t/.git": "->OUT/../store/.git", "t/x": "x\n"}},
	"super":      {"", nil}, // gets a hostile submodule
}

// oddNames are files in names/ that programs may mistake for options, globs and
// the like.
var oddNames = []string{"-rf", "--output=x", "-o", "-delete", "-exec", "--pre=sh", "--files0-from=list0", "--help", "@file", "a b.txt", "new\nline", "tab\t", "*", "?",
	"[a]", "{}", "{a,b}", "$(id)", "`id`", ";ls", "#x", "~", "~root", "=x", "\\x", "'q'", "\"dq\"", "é", "-", "--", "!x", ":(top)x", "HEAD", "x:y"}

// newTestTree creates the tree. Call it before anything reads HOME.
func newTestTree(t *testing.T) *testTree {
	t.Helper()
	rg := search.FindRipgrep(filepath.Dir(runtimetest.Path(t)), nil)
	y := &testTree{Yard: guardtest.New(t)}
	y.user = filepath.Join(y.Root, "user")
	bin := t.TempDir()
	y.temp = t.TempDir()
	if rg != "" {
		check(t, os.Symlink(rg, filepath.Join(bin, "rg")))
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { _ = l.Close() })   // no connection is open
	y.port = l.Addr().(*net.TCPAddr).Port //nolint:errcheck // it listens on TCP
	for name, text := range map[string]string{
		"user/notes.txt": guardtest.Canary + "\n", "user/.gitconfig": "[user]\n\tname = a\n\temail = a@example.com\n", "outside/sub/deep.txt": guardtest.Canary + "\n",
		"work/plain/a.txt": "alpha\nbeta\nKEY\n", "work/plain/b.md": "beta\n1\n", "work/plain/sub/c.txt": "gamma 3\n", "work/plain/sub/d.sh": "echo d\n", "work/plain/empty": "",
		"work/plain/big.txt": strings.Repeat("some words\n", 20_000),
		"work/list0":         y.Outside + "/secret.txt\x00.env\x00", "work/names.txt": y.Outside + "/secret.txt\n.env\n", "work/tree/leaf.txt": "leaf\n", "work/tree/a/leaf.txt": "leaf\n",
		"work/tree/b/x.txt": "x\n", "work/denied/.env": guardtest.Canary + "\n", "work/denied/ok.txt": "ok\n", "work/out/x": "", "work/kept/x": "",
	} {
		y.Write(t, name, text)
	}
	for _, name := range oddNames {
		y.Write(t, "work/names/"+name, "odd\n")
	}
	for link, to := range map[string]string{"tree/a/out": y.Outside, "tree/a/sec": "../../.env", "tree/b/file": "../../../outside/secret.txt", "tree/in": "../plain",
		"names2/-L": y.Outside, "names2/x y": "../private/old.key", "plain/sub/self": "c.txt"} {
		check(t, os.MkdirAll(filepath.Join(y.Workspace, filepath.Dir(link)), 0o755))
		check(t, os.Symlink(to, filepath.Join(y.Workspace, link)))
	}
	// Globs must match each of these.
	for i, name := range []string{"\xff", "new\nline", ".hidden", "é", `a\b`, "[z]", "*", "-e", "\u202e", "{a,b}"} {
		dir := filepath.Join("work", "lk", fmt.Sprint(i))
		y.Write(t, filepath.Join(dir, "plain.txt"), "x\n")
		check(t, os.Symlink(filepath.Join(y.Outside, "secret.txt"), filepath.Join(y.Root, dir, name)))
	}
	y.history(t)
	for name := range hostileRepositories {
		y.repository(t, name)
	}
	t.Setenv("HOME", y.user)
	t.Setenv("LC_ALL", "C")
	t.Setenv("TZ", "UTC")
	t.Setenv("TMPDIR", y.temp)
	t.Setenv("PATH", os.Getenv("PATH")+":"+bin)
	// The tool bus creates the environment of commands in the same way.
	y.env = git.SafeEnviron(task.PlainEnviron(os.Environ()))
	return y
}

// history adds commits to the workspace's own repository.
func (y *testTree) history(t *testing.T) {
	t.Helper()
	for i, name := range []string{"HEAD~1^{tree}", "HEAD~1"} {
		cmd, err := program.New(program.Place{Dir: y.Workspace, Env: os.Environ()}, "git", "rev-parse", name)
		check(t, err)
		out := &program.Head{Limit: 100}
		_, err = cmd.Run(t.Context(), program.RunOptions{Stdout: out})
		check(t, err)
		y.ids[i] = strings.TrimSpace(out.String())
	}
	y.Git(t, "", "tag", "v1")
	y.Git(t, "", "branch", "side")
	y.Git(t, "", "add", "plain", "docs")
	y.Git(t, "", "commit", "-q", "-m", "third")
	y.Write(t, "work/plain/a.txt", "alpha\nchanged\nKEY\n")
	y.Write(t, "work/README.md", "hello again\n")
}

func (y *testTree) repository(t *testing.T, name string) {
	t.Helper()
	dir, h := "hostile/"+name, hostileRepositories[name]
	y.Git(t, "", "init", "-q", dir)
	y.Write(t, "work/"+dir+"/f.txt", "f\n")
	y.Write(t, "work/"+dir+"/.env", "KEY="+guardtest.Canary+"\n")
	y.Git(t, dir, "add", "-f", ".")
	y.Git(t, dir, "commit", "-q", "-m", "first")
	if name == "super" {
		y.Git(t, dir, "init", "-q", "sub")
		y.Write(t, "work/"+dir+"/sub/f.txt", "f\n")
		y.Git(t, dir+"/sub", "add", ".")
		y.Git(t, dir+"/sub", "commit", "-q", "-m", "first")
		y.Git(t, dir, "-c", "advice.addEmbeddedRepo=false", "add", "sub")
		y.Git(t, dir+"/sub", "config", "core.fsmonitor", "touch "+y.Pwned)
	}
	fill := strings.NewReplacer("PWN", "touch "+y.Pwned, "OUT", y.Outside, "PORT", fmt.Sprint(y.port))
	for file, text := range h.files {
		at := filepath.Join(y.Workspace, dir, file)
		if to, link := strings.CutPrefix(text, "->"); link {
			check(t, os.MkdirAll(filepath.Dir(at), 0o755))
			_ = os.Remove(at) // it may not exist
			check(t, os.Symlink(fill.Replace(to), at))
			continue
		}
		y.Write(t, "work/"+dir+"/"+file, fill.Replace(text))
		check(t, os.Chmod(at, 0o755))
	}
	y.Write(t, "work/"+dir+"/f.txt", "changed\n")
	config := filepath.Join(y.Workspace, dir, ".git", "config")
	text, err := os.ReadFile(config)
	check(t, err)
	check(t, os.WriteFile(config, append(text, fill.Replace(h.config)...), 0o644))
}

// blob returns git's object name of a file content.
func blob(text string) string {
	sum := sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(text), text))
	return hex.EncodeToString(sum[:])
}

// shell returns the command that the tool bus runs for a line.
func (y *testTree) shell(line string) (program.Command, error) {
	return program.Shell(program.Place{Root: y.Workspace, Env: y.env}, line)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
