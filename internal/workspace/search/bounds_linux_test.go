package search

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// ripgrep holds what it puts out for a file in memory. It must not go on when
// there is enough, or it would need more than it may have.
func TestEnoughOfAFile(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"log": strings.Repeat("a line with a needle in it\n", 2<<20)})
	for _, most := range []int{1, 3} {
		got, err := Search(t.Context(), Options{Dir: dir, RG: rg(t), Query: "needle", MaxResults: most, memory: 48 << 20})
		if err != nil || len(got.Hits) != most || !got.Truncated {
			t.Errorf("%d hits, truncated %v, %v", len(got.Hits), got.Truncated, err)
		}
	}
}

// A line that does not fit into the memory that ripgrep may have costs the hits
// of that file, and is told.
func TestEndlessLine(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"a": "needle\n", "sub/b": "needle\n"})
	f, err := os.Create(filepath.Join(dir, "endless"))
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, err := f.WriteString(strings.Repeat("x", 16<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := Search(t.Context(), Options{Dir: dir, RG: rg(t), Query: "needle", memory: 48 << 20})
	if err != nil || len(got.Hits) != 2 || !got.Truncated {
		t.Errorf("%+v, %v", got, err)
	}
}

// Hits found in time are a result.
func TestSearchTime(t *testing.T) {
	dir := t.TempDir()
	program := script(t, `printf './a\0001:1:hit\n'; sleep 600`)
	got, err := Search(t.Context(), Options{Dir: dir, RG: program, Query: "x", MaxTime: time.Second})
	if err != nil || len(got.Hits) != 1 || !got.Truncated {
		t.Errorf("%+v, %v", got, err)
	}
}
