package httpserver

import (
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

func TestKeptToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "home", "serve.token")
	var tokens [8]string
	var wg sync.WaitGroup
	for i := range tokens {
		wg.Go(func() {
			var err error
			if tokens[i], err = KeptToken(t.Context(), file); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, token := range tokens {
		if token != tokens[0] || len(token) < 20 {
			t.Errorf("tokens %q", tokens)
		}
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o600 && runtime.GOOS != "windows" {
		t.Errorf("mode %o", mode)
	}
	if other, err := KeptToken(t.Context(), file+"2"); err != nil || other == tokens[0] {
		t.Errorf("another home has the same token %q, %v", other, err)
	}
}
