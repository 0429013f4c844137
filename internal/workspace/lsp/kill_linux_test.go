package lsp

import (
	"bufio"
	"context"
	"fmt"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/task"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/program"
	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/languagetest"
)

// Everything that is started carries this in its environment, however it
// detaches itself.
const mark = "LANGUAGE_TEST_MARK="

func markedEnv(id string) []string { return append(task.PlainEnviron(os.Environ()), mark+id) }

// marked lists the living processes with the mark, by name.
func marked(id string) []string {
	var found []string
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		env, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err != nil || !strings.Contains("\x00"+string(env), "\x00"+mark+id+"\x00") {
			continue
		}
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil || strings.HasPrefix(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " Z") {
			continue
		}
		cmdline, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		found = append(found, filepath.Base(dir)+" "+strings.ReplaceAll(string(cmdline), "\x00", " "))
	}
	return found
}

func testTrees(t *testing.T) program.Trees {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	return func() (*supervise.Tree, error) { return supervise.NewTree(dir, self) }
}

// ownTemp lets everything use a temporary directory of the test's own, so that
// leftover processes are seen.
func ownTemp(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	return dir
}

func leftIn(dir string) []os.DirEntry {
	left, _ := os.ReadDir(dir)
	return left
}

var serverFiles = map[string]string{"go.mod": "module m\n\ngo 1.24\n", "a.go": "package m\n\nfunc A() {}\n", "a.ts": "export const a = 1;\n"}

func TestCloseLeavesNoProcess(t *testing.T) {
	for name, supervised := range map[string]bool{"group": false, "supervised": true} {
		t.Run(name, func(t *testing.T) {
			temp := ownTemp(t)
			id := fmt.Sprint(t.Name(), os.Getpid())
			opts := Options{Env: markedEnv(id)}
			if supervised {
				opts.Trees = testTrees(t)
			}
			m := installed(t, serverFiles, opts)
			var wg sync.WaitGroup
			for i := range 16 {
				wg.Go(func() {
					path := []string{"a.go", "a.ts"}[i%2]
					if got, err := m.Symbols(t.Context(), path); err != nil || len(got) != 1 {
						t.Errorf("%s: %+v, %v", path, got, err)
					}
				})
			}
			wg.Wait()
			if stats := m.Stats(); len(stats) != 2 || stats[0].Starts != 1 || stats[1].Starts != 1 {
				t.Errorf("stats %+v", stats)
			}
			if n := len(marked(id)); n < 3 { // gopls, typescript-language-server and its tsserver
				t.Fatalf("only %d processes: %v", n, marked(id))
			}
			began := time.Now()
			if err := m.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if left := marked(id); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			if left := leftIn(temp); supervised && len(left) > 0 {
				t.Errorf("left in the temporary directory: %v", left)
			}
			t.Logf("closed within %s", time.Since(began).Round(time.Millisecond))
		})
	}
}

// A server that ignores its orders, with a child that ignores SIGTERM.
func TestCloseOfStubbornServer(t *testing.T) {
	t.Parallel()
	for name, supervised := range map[string]bool{"group": false, "supervised": true} {
		t.Run(name, func(t *testing.T) {
			id := fmt.Sprint(t.Name(), os.Getpid())
			m, state := fake(t, "children", func(o *Options, _ *Server) {
				o.Env = markedEnv(id)
				if supervised {
					o.Trees = testTrees(t)
				}
			})
			if _, err := m.Symbols(t.Context(), "a.fake"); err != nil {
				t.Fatal(err)
			}
			if recorded(t, state, "child") == "" {
				t.Fatal("no child")
			}
			if err := m.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if left := marked(id); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestKilledServerIsReplaced(t *testing.T) {
	ownTemp(t)
	m := installed(t, serverFiles, Options{})
	for i, path := range []string{"a.go", "a.ts"} {
		if _, err := m.Symbols(t.Context(), path); err != nil {
			t.Fatal(err)
		}
		pid := m.Stats()[i].PID
		// In the middle: calls go on while it is killed.
		done := make(chan error, 8)
		for range cap(done) {
			go func() {
				_, err := m.Symbols(t.Context(), path)
				done <- err
			}()
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		for range cap(done) {
			if err := <-done; err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
		if got, err := m.Symbols(t.Context(), path); err != nil || len(got) != 1 {
			t.Errorf("%s: %+v, %v", path, got, err)
		}
		s := m.Stats()[i]
		if s.Starts != 2 || s.PID == pid || !strings.Contains(s.LastError, "SIGKILL") {
			t.Errorf("stats %+v", s)
		}
	}
}

// bridgeMain is a bridge with both servers running, that waits to be killed.
func bridgeMain(args []string) int {
	dir, id, records, gopls, typescript := args[0], args[1], args[2], args[3], args[4]
	self, err := os.Executable()
	if err != nil {
		return 1
	}
	opts := Options{Env: markedEnv(id), StartTimeout: 2 * time.Minute, RequestTimeout: 2 * time.Minute, Servers: map[string]Server{
		"go": {Command: []string{gopls}}, "typescript": {Command: []string{typescript, "--stdio"}},
	}}
	if records != "" {
		opts.Trees = func() (*supervise.Tree, error) { return supervise.NewTree(records, self) }
	}
	m := New(dir, opts)
	for _, path := range []string{"a.go", "a.ts"} {
		if _, err := m.Symbols(context.Background(), path); err != nil {
			fmt.Println("error:", err)
			return 1
		}
	}
	fmt.Println("ready")
	<-time.After(time.Hour) // it is killed long before
	return 0
}

func TestKilledBridgeLeavesNoProcess(t *testing.T) {
	for name, supervised := range map[string]bool{"group": false, "supervised": true} {
		t.Run(name, func(t *testing.T) {
			dir, records, temp := t.TempDir(), "", ownTemp(t)
			for file, content := range serverFiles {
				write(t, dir, file, content)
			}
			if supervised {
				records = t.TempDir()
			}
			id := fmt.Sprint(t.Name(), os.Getpid())
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(self, "bridge", dir, id, records, languagetest.Gopls(t), languagetest.TypeScript(t))
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(out).ReadString('\n')
			if line != "ready\n" {
				t.Fatalf("the bridge said %q, %v", line, err)
			}
			if n := len(marked(id)); n < 3 {
				t.Fatalf("only %d processes: %v", n, marked(id))
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // reports the signal
			began := time.Now()
			eventually(t, "all have gone", func() bool { return len(marked(id)) == 0 && (!supervised || len(leftIn(temp)) == 0) })
			t.Logf("all gone after %s", time.Since(began).Round(time.Millisecond))
		})
	}
}
