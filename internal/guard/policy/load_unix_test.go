//go:build unix

package policy

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A pipe must neither be read nor make the program wait for a writer.
func TestLoadPipe(t *testing.T) {
	dir := tempDir(t)
	if err := syscall.Mkfifo(filepath.Join(dir, WorkspaceFile), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadWorkspace(dir); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Error(err)
	}
}

func TestLoadUnreadable(t *testing.T) {
	dir := tempDir(t)
	path := filepath.Join(dir, WorkspaceFile)
	put(t, path, "readOnly: true")
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	file, err := LoadWorkspace(dir)
	if os.Geteuid() == 0 {
		// Root reads everything; then it must be in force.
		if err != nil || file == nil || file.Rules.ReadOnly == nil {
			t.Errorf("%v, %v", file, err)
		}
		return
	}
	if err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("%v, %v", file, err)
	}
}
