//go:build unix

package patch

import (
	"path/filepath"
	"syscall"
	"testing"
)

// A FIFO is neither read nor waited for.
func TestFIFO(t *testing.T) {
	w := newWorkspace(t, tree{"y": {"file", numbers}})
	if err := syscall.Mkfifo(filepath.Join(w.dir, "x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, diff := range []string{
		change("x"),
		"diff --git a/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+1\n",
		"diff --git a/x b/z\nrename from x\nrename to z\n",
		"diff --git a/y b/x\nrename from y\nrename to x\n",
		"diff --git a/x/n b/x/n\nnew file mode 100644\n--- /dev/null\n+++ b/x/n\n@@ -0,0 +1 @@\n+1\n",
	} {
		before := readTree(t, w.dir)
		if res := w.apply(t, diff); res.OK || len(res.Conflicts) != 1 {
			t.Errorf("%+v", res)
		}
		w.expect(t, before)
	}
}
