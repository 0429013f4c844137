//go:build unix

package program

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

const usual = "PATH=/usr/bin:/bin"

// put writes an executable script.
func put(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700)); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, target, name string) {
	t.Helper()
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
}

func output(t *testing.T, c Command) string {
	t.Helper()
	out := &Head{Limit: 1 << 16}
	if exit, err := c.Run(t.Context(), RunOptions{Stdout: out, Stderr: out}); err != nil || exit.Code != 0 {
		t.Errorf("%s: %v, %v", c.Line(), exit, err)
	}
	return out.String()
}

// The user's PATH may lead into the workspace, by an absolute path, a relative
// one, an empty one or a link. None of these decides what a name means.
func TestPathDoesNotLeadIntoTheWorkspace(t *testing.T) {
	root, apart := t.TempDir(), t.TempDir()
	put(t, filepath.Join(root, "bin", "uname"), "echo evil")
	put(t, filepath.Join(root, "uname"), "echo evil")
	link(t, filepath.Join(root, "bin"), filepath.Join(apart, "linked"))
	put(t, filepath.Join(apart, "x"), "")
	link(t, filepath.Join(root, "bin", "uname"), filepath.Join(apart, "uname"))
	t.Chdir(root)
	for _, lead := range []string{filepath.Join(root, "bin"), "bin", "", ".", filepath.Join(apart, "linked"), filepath.Join(root, "later")} {
		p := Place{Root: root, Env: []string{"PATH=" + lead + ":/usr/bin:/bin"}}
		direct, err := New(p, "uname")
		if err != nil || within(direct.Path, root) {
			t.Errorf("PATH %q: %v, %v", lead, direct.Path, err)
		}
		line, err := Shell(p, "uname")
		if err != nil {
			t.Fatal(err)
		}
		if got := output(t, direct) + output(t, line); strings.Contains(got, "evil") {
			t.Errorf("PATH %q: %s", lead, got)
		}
	}
	if c, err := New(Place{Root: root, Env: []string{"PATH=" + apart + ":/usr/bin"}}, "uname"); err != nil || strings.HasPrefix(c.Path, apart) {
		t.Errorf("a link to the workspace: %s, %v", c.Path, err)
	}
	if _, err := Find("uname", []string{"PATH=bin::."}); !errors.Is(err, ErrNotFound) {
		t.Errorf("found %v", err)
	}
}

// Variables from others are part of the command, in every form of it.
func TestLineTellsAll(t *testing.T) {
	root := t.TempDir()
	root = resolved(root)
	if err := os.Mkdir(filepath.Join(root, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	p := Place{Root: root, Dir: "sub", Env: []string{usual, "OWN=1"}, Set: []string{"A=b c", "B=it's"}}
	at := "cd " + filepath.Join(root, "sub") + " && "
	direct, err := New(p, "env", "-0")
	if err != nil || direct.Line() != at+`A='b c' B='it'\''s' env -0` || direct.Dir != filepath.Join(root, "sub") || !slices.Contains(direct.Env, "A=b c") {
		t.Errorf("%+v, %v", direct, err)
	}
	line, err := Shell(p, `echo "$A,$B"; pwd`)
	if err != nil || line.Line() != at+`export A='b c' B='it'\''s' && echo "$A,$B"; pwd` || line.Args[len(line.Args)-1] != line.Line() {
		t.Errorf("%+v, %v", line, err)
	}
	if got, want := output(t, line), "b c,it's\n"+filepath.Join(root, "sub")+"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	put(t, filepath.Join(root, "bin", "A=b"), "")
	put(t, filepath.Join(root, "bin", "time"), "")
	for name, want := range map[string]string{"true": "true ''", "A=b": "'A=b' ''", "time": "'time' ''"} {
		c, err := New(Place{Env: []string{"PATH=" + filepath.Join(root, "bin") + ":/bin"}}, name, "")
		if err != nil || c.Line() != want {
			t.Errorf("%q, %v", c.Line(), err)
		}
	}
}

// A line runs in the shell that it is judged for, and nothing changes how that
// shell reads it.
func TestShellIsBash(t *testing.T) {
	root := t.TempDir()
	rc := filepath.Join(root, "rc")
	put(t, rc, "echo sourced")
	for _, set := range [][]string{
		nil, {"BASH_ENV=" + rc}, {"ENV=" + rc}, {"SHELLOPTS=xtrace:posix"}, {"BASHOPTS=extglob"}, {"BASH_FUNC_echo%%=() { touch made; }"},
		{"POSIXLY_CORRECT=1", "ENV=" + rc}, {"IFS=a"}, {"LD_PRELOAD=" + filepath.Join(root, "x.so")}, {"LD_LIBRARY_PATH=lib:/usr/lib"}, {"PS4=$(touch made)"},
	} {
		c, err := Shell(Place{Root: root, Env: append([]string{usual}, set...)}, `echo $'a\'; touch made #'`)
		if err != nil {
			t.Fatal(err)
		}
		if got := output(t, c); got != "a'; touch made #\n" || !filepath.IsAbs(c.Path) || filepath.Base(c.Path) != "bash" {
			t.Errorf("%v: %q by %s", set, got, c.Path)
		}
		if _, err := os.Stat(filepath.Join(root, "made")); err == nil {
			t.Errorf("%v: what looks quoted was run", set)
		}
	}
}

func TestRefused(t *testing.T) {
	root, apart := t.TempDir(), t.TempDir()
	link(t, apart, filepath.Join(root, "out"))
	link(t, "out", filepath.Join(root, "further"))
	put(t, filepath.Join(root, "file"), "")
	for name, tt := range map[string]struct {
		p    Place
		want bridge.Code
	}{
		"a link to outside":       {Place{Dir: "out"}, bridge.CodeDenied},
		"a link to a link":        {Place{Dir: "further"}, bridge.CodeDenied},
		"through a link and back": {Place{Dir: "out/../" + filepath.Base(root)}, bridge.CodeNotFound},
		"outside":                 {Place{Dir: apart}, bridge.CodeDenied},
		"above":                   {Place{Dir: ".."}, bridge.CodeDenied},
		"a file":                  {Place{Dir: "file"}, bridge.CodeNotFound},
		"nothing":                 {Place{Dir: "none"}, bridge.CodeNotFound},
		"a function":              {Place{Set: []string{"BASH_FUNC_ls%%=() { :; }"}}, bridge.CodeInvalid},
		"no name":                 {Place{Set: []string{"=x"}}, bridge.CodeInvalid},
		"NUL":                     {Place{Set: []string{"A=\x00"}}, bridge.CodeInvalid},
	} {
		tt.p.Root, tt.p.Env = root, []string{usual}
		if _, err := New(tt.p, "true"); bridge.CodeOf(err) != tt.want {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := Shell(tt.p, "true"); bridge.CodeOf(err) != tt.want {
			t.Errorf("%s in a shell: %v", name, err)
		}
	}
	if _, err := New(Place{Dir: "relative"}, "true"); bridge.CodeOf(err) != bridge.CodeInvalid {
		t.Error(err)
	}
	if _, err := New(Place{Env: []string{usual}}, "no-such-program"); bridge.CodeOf(err) != bridge.CodeNotFound || !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

func TestRunIsBoundedAndEnds(t *testing.T) {
	made := func(script string) Command {
		c, err := New(Place{Env: []string{usual}}, "/bin/sh", "-c", script)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	out, last := &Head{Limit: 4}, &Tail{Limit: 4}
	exit, err := made("cat; echo 123456 >&2; exit 3").Run(t.Context(), RunOptions{Stdin: []byte("fed and more"), Stdout: out, Stderr: last})
	if err != nil || exit.Code != 3 || exit.Err() == nil || out.String() != "fed " || !out.Truncated || last.String() != "456\n" {
		t.Errorf("%+v, %v, %q, %q", exit, err, out, last)
	}
	// Asked to end it tidies up, and is killed if it does not listen.
	for name, script := range map[string]string{
		"polite":   "trap 'rm ready; exit 9' TERM; : > ready; sleep 300 & wait",
		"stubborn": "trap '' TERM; : > ready; sleep 300",
	} {
		ready := filepath.Join(t.TempDir(), "ready")
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New(name)
		go func() {
			for t.Context().Err() == nil {
				if _, err := os.Stat(ready); err == nil {
					break
				}
				<-time.After(2 * time.Millisecond)
			}
			cancel(why)
		}()
		exit, err := made("cd "+filepath.Dir(ready)+"; "+script).Run(ctx, RunOptions{Grace: 2 * time.Second})
		_, there := os.Stat(ready)
		if !errors.Is(err, why) || exit.Code == 0 || (there == nil) != (name == "stubborn") {
			t.Errorf("%s: %+v, %v, %v", name, exit, err, there)
		}
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	kept := &Tail{Limit: 5}
	for _, part := range []string{"ab", "cdef", "", "ghijklmnop", "q"} {
		if n, err := kept.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatalf("Write returned %d, %v", n, err)
		}
	}
	if got := kept.String(); got != "mnopq" {
		t.Errorf("got %q", got)
	}
}

// slow takes its first bytes only after the wait for output is over, as this
// process does when it was suspended or had no processor.
type slow struct {
	got  bytes.Buffer
	once sync.Once
	wait time.Duration
}

func (s *slow) Write(p []byte) (int, error) {
	s.once.Do(func() { <-time.After(s.wait) })
	return s.got.Write(p)
}

func TestOutputIsWholeWhereReadingIsSlow(t *testing.T) {
	c, err := New(Place{Dir: t.TempDir(), Env: os.Environ()}, "/bin/sh", "-c", "head -c 60000 /dev/zero")
	if err != nil {
		t.Fatal(err)
	}
	out := &slow{wait: 2 * pipeGrace}
	exit, err := c.Run(t.Context(), RunOptions{Stdout: out})
	if err != nil || exit.Code != 0 || out.got.Len() != 60_000 {
		t.Errorf("%d bytes of 60000, %+v, %v", out.got.Len(), exit, err)
	}
}
