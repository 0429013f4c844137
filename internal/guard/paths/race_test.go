package paths

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// The bridge's own access must stay inside while another program swaps a directory
// for a link to the outside, over and over.
func TestFSKeepsInsideDuringSwaps(t *testing.T) {
	tr := newTree(t)
	w := open(t, tr)
	spot := filepath.Join(tr.ws, "spot")
	own, link := filepath.Join(tr.ws, "real"), filepath.Join(tr.ws, "swap")
	if err := os.Mkdir(own, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(own, "secret.txt"), []byte("own"), 0o644); err != nil {
		t.Fatal(err)
	}
	rel, err := filepath.Rel(tr.ws, tr.out)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(rel, link); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var swapper sync.WaitGroup
	swapper.Go(func() {
		for {
			for _, src := range []string{own, link} {
				if err := os.Rename(src, spot); err != nil {
					t.Error(err)
					return
				}
				if err := os.Rename(spot, src); err != nil {
					t.Error(err)
					return
				}
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	var wrote, refused int
	for i := 0; i < 20_000 || wrote == 0 || refused == 0; i++ {
		if i > 2_000_000 {
			t.Fatalf("never saw both sides: %d written, %d refused", wrote, refused)
		}
		err := w.FS().WriteFile("spot/new.txt", []byte("x"), 0o644)
		switch {
		case err == nil:
			wrote++
		case !errors.Is(err, fs.ErrNotExist):
			refused++ // the link was there, and it was not followed
		}
		if got, err := w.FS().ReadFile("spot/secret.txt"); err == nil && string(got) != "own" {
			t.Fatalf("read %q from outside", got)
		}
	}
	close(stop)
	swapper.Wait()
	if _, err := os.Lstat(filepath.Join(tr.out, "new.txt")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was written outside: %v", err)
	}
}

func TestFSRefusesEscapes(t *testing.T) {
	tr := newTree(t)
	w := open(t, tr)
	for _, name := range []string{"../x", "link/x", "rel-link/x", "up/x", "dangling", "/etc/x", "src/deep/up/x"} {
		if err := w.FS().WriteFile(name, nil, 0o644); err == nil {
			t.Errorf("wrote %s", name)
		}
	}
	if err := w.FS().WriteFile("inside/ok.txt", nil, 0o644); err != nil {
		t.Error(err)
	}
}
