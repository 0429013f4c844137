//go:build unix

package files

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// A FIFO without a writer would hold an ordinary open for ever.
func TestReadDoesNotWaitForAFIFO(t *testing.T) {
	dir, err := os.MkdirTemp("", "fifo") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	socket, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	root := openRoot(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for name, words := range map[string]string{"fifo": "a FIFO", "socket": "a socket"} {
		_, err := Read(ctx, root, name, ReadOptions{})
		if bridge.CodeOf(err) != bridge.CodeInvalid || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	// Not even if it took the place of a file after the look.
	if _, _, err := openRegular(root, "fifo"); err == nil || !strings.Contains(err.Error(), ErrNotRegular.Error()) {
		t.Errorf("open: got %v", err)
	}
	if l, err := List(ctx, root, ListOptions{}); err != nil || len(l.Files) != 0 {
		t.Errorf("listed %q, %v", l.Files, err)
	}
}
