//go:build unix

package task

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestDiscoverDoesNotBlockOrLeaveTheRoot(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "package.json")
	if err := os.WriteFile(outside, []byte(`{"scripts":{"secret":"x"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	root := workspace(t, nil)
	if err := syscall.Mkfifo(filepath.Join(root.Name(), "Makefile"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(root.Name(), "package.json")); err != nil {
		t.Fatal(err)
	}
	tasks, err := Discover(t.Context(), root, Options{})
	if len(tasks) != 0 || err == nil {
		t.Errorf("got %+v, %v", tasks, err)
	}
}

func TestDiscoveredTaskRuns(t *testing.T) {
	root := workspace(t, map[string]string{
		".vscode/tasks.json": `{"version":"2.0.0","tasks":[{"label":"Say it","type":"shell","command":"echo","args":["a  b","$WHAT"],"options":{"env":{"WHAT":"else"},"cwd":"sub"}}]}`,
		"sub/x":              "",
		"Makefile":           "hello:\n\t@echo made\n",
	})
	tasks, err := Discover(t.Context(), root, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"vscode:Say it": "a  b else\n", "hello": "made\n"} {
		plan, err := Plan(tasks, name)
		if err != nil || len(plan) != 1 {
			t.Fatal(plan, err)
		}
		c, err := plan[0].Program(root.Name(), testEnv)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Run(t.Context(), Spec{Program: c})
		if err != nil || got.Stdout != want || got.ExitCode != 0 {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}
