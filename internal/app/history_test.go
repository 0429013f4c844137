package app

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/config"
)

func TestHistory(t *testing.T) {
	t.Parallel()
	h := ChatHistory(&config.Config{Home: t.TempDir()})
	if past, err := h.Load(); len(past) != 0 || err != nil {
		t.Errorf("at first: %q, %v", past, err)
	}
	for _, line := range []string{"one", "one", "two\nlines", " ", "the key ghp_0123456789abcdefghijABCDEFGHIJ012345", strings.Repeat("x", historyLine+1)} {
		if err := h.Add(line); err != nil {
			t.Fatal(err)
		}
	}
	want := `["one" "two\nlines" "the key [REDACTED]"]`
	if past, err := h.Load(); fmt.Sprintf("%q", past) != want || err != nil {
		t.Errorf("%q, %v; want %s", past, err, want)
	}
	// Two programs at once, and a line that is damaged.
	f, err := os.OpenFile(h.path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("{half\n"); err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	var both sync.WaitGroup
	for i := range 2 {
		both.Go(func() {
			for j := range 20 {
				if err := (&History{h.path}).Add(fmt.Sprintf("%d/%d", i, j)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	both.Wait()
	if past, err := h.Load(); len(past) != 43 || err != nil {
		t.Errorf("%d lines, %v", len(past), err)
	}
	many := strings.Repeat("\"x\"\n", historyLines+10)
	if err := os.WriteFile(h.path, []byte(many), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := h.Add("newest"); err != nil {
		t.Fatal(err)
	}
	if past, err := h.Load(); len(past) != historyLines || past[historyLines-1] != "newest" || err != nil {
		t.Errorf("%d lines, %v", len(past), err)
	}
}
