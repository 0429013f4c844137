//go:build unix

package search

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// script writes a program that plays ripgrep.
func script(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rg")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// poll asks until it is so.
func poll(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(10 * time.Second); !is(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("in vain: %s", what)
		}
	}
}

func gone(t *testing.T, pid int) {
	t.Helper()
	poll(t, fmt.Sprintf("process %d ends", pid), func() bool { return syscall.Kill(pid, 0) != nil })
}

func readPID(t *testing.T, path string) (pid int) {
	t.Helper()
	poll(t, "a process id in "+path, func() bool {
		text, err := os.ReadFile(path)
		if err != nil || !strings.HasSuffix(string(text), "\n") {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		return true
	})
	return pid
}

// An endless search is killed with all that it started when enough is found,
// and leaves no zombie.
func TestKilledAtTheLimit(t *testing.T) {
	dir := t.TempDir()
	pid, child := filepath.Join(dir, "pid"), filepath.Join(dir, "child")
	program := script(t, `echo $$ >'`+pid+`'; sleep 600 & echo $! >'`+child+`'; printf './a\0'; i=1; while :; do echo "$i:1:hit"; i=$((i+1)); done`)
	got, err := Search(t.Context(), Options{Dir: dir, RG: program, Query: "x", MaxResults: 5})
	if err != nil || len(got.Hits) != 5 || !got.Truncated {
		t.Fatalf("got %+v, %v", got, err)
	}
	gone(t, readPID(t, pid))
	gone(t, readPID(t, child))
}

func TestKilledWithItsContext(t *testing.T) {
	dir := t.TempDir()
	pid := filepath.Join(dir, "pid")
	program := script(t, `echo $$ >'`+pid+`'; sleep 600`)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := Search(ctx, Options{Dir: dir, RG: program, Query: "x"})
		failed <- err
	}()
	id := readPID(t, pid)
	cancel()
	if err := <-failed; bridge.CodeOf(err) != bridge.CodeCanceled {
		t.Errorf("got %v", err)
	}
	gone(t, id)

	late, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer stop()
	if _, err := Search(late, Options{Dir: dir, RG: program, Query: "x"}); bridge.CodeOf(err) != bridge.CodeTimeout {
		t.Errorf("got %v", err)
	}
}

func TestWhatRipgrepGetsAndSays(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("RIPGREP_CONFIG_PATH", "/nowhere")
	t.Setenv("GH_TOKEN", "s3cret")
	out := filepath.Join(dir, "out")
	program := script(t, `{ env; for a; do echo "arg $a"; done; } >'`+out+`'; exit 1`)
	if _, err := Search(t.Context(), Options{Dir: dir, RG: program, Query: "--pre=evil"}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for word, want := range map[string]bool{"RIPGREP_CONFIG_PATH": false, "s3cret": false, "arg --no-config\n": true, "arg --regexp=--pre=evil\narg --\narg ./\n": true} {
		if strings.Contains(string(text), word) != want {
			t.Errorf("%q: want %t in\n%s", word, want, text)
		}
	}

	for _, test := range []struct {
		body, words string
		regex       bool
		code        bridge.Code
	}{
		{"exit 2", "", false, ""},
		{"echo 'rg: bad thing' >&2; exit 2", "bad thing", false, bridge.CodeInternal},
		{"echo 'rg: bad thing' >&2; exit 2", "wrong: bad thing", true, bridge.CodeInvalid},
		{"echo oops; exit 0", "form", false, bridge.CodeInternal},
		{"exit 7", "exit status 7", false, bridge.CodeInternal},
		{"kill -9 $$", "SIGKILL", false, bridge.CodeInternal},
	} {
		_, err := Search(t.Context(), Options{Dir: dir, RG: script(t, test.body), Query: "x", Regex: test.regex})
		if bridge.CodeOf(err) != test.code || err != nil && !strings.Contains(err.Error(), test.words) {
			t.Errorf("%s: got %v", test.body, err)
		}
	}
	_, err = Search(t.Context(), Options{Dir: dir, RG: filepath.Join(dir, "none"), Query: "x"})
	if bridge.CodeOf(err) != bridge.CodeUnavailable || !strings.Contains(err.Error(), "none") {
		t.Errorf("got %v", err)
	}
}

// The rules for included files are given in a file that does not stay.
func TestNothingStaysBehind(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	o := Options{Dir: sample(t), RG: rg(t), Query: "needle"}
	o.Glob = []string{"*.txt"}
	if got, err := Search(t.Context(), o); err != nil || len(got.Hits) == 0 {
		t.Errorf("got %d hits, %v", len(got.Hits), err)
	}
	left, err := filepath.Glob(filepath.Join(temp, "copilot-bridge-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left %q, %v", left, err)
	}
}

func TestFindRipgrep(t *testing.T) {
	dir := t.TempDir()
	pkg := filepath.Join(dir, "node_modules", "@github", "copilot-sdk-linux-x64")
	write(t, pkg, map[string]string{"ripgrep/bin/linux-x64/rg": "", "prebuilds/linux-x64/copilot-runtime": ""})
	program := filepath.Join(pkg, "ripgrep", "bin", "linux-x64", "rg")
	none := func(string) (string, error) { return "", exec.ErrNotFound }
	if got := FindRipgrep(pkg, none); got != "" {
		t.Errorf("not executable, yet found: %s", got)
	}
	if err := os.Chmod(program, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{dir, pkg, filepath.Join(pkg, "prebuilds", "linux-x64")} {
		if got := FindRipgrep(at, none); got != program {
			t.Errorf("from %s: got %q", at, got)
		}
	}
	onPath := func(string) (string, error) { return "/usr/bin/rg", nil }
	if got := FindRipgrep(filepath.Join(dir, "elsewhere"), onPath); got != "/usr/bin/rg" {
		t.Errorf("on PATH: got %q", got)
	}
	if got := FindRipgrep("", nil); got != "" {
		t.Errorf("nowhere: got %q", got)
	}
}
