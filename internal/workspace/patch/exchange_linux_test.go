package patch

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// Another program writes a file anew between the two looks at it: its file is
// kept, and all others are as they were.
func TestChangedAtTheLastMoment(t *testing.T) {
	const diff = `--- a/one
+++ b/one
@@ -1 +1 @@
-a
+A
--- a/two
+++ b/two
@@ -1 +1 @@
-b
+B
`
	c := newCrash(t, tree{"one": {"file", "a\n"}, "two": {"file", "b\n"}}, diff)
	c.staged()
	rename := c.book.rename
	c.book.rename = func(st *stage, name string, dir *os.Root, base string, swap bool) error {
		if base == "two" {
			theirs := filepath.Join(c.dir, ".theirs")
			c.must(os.WriteFile(theirs, []byte("theirs\n"), 0o644))
			c.must(os.Rename(theirs, filepath.Join(c.dir, "two")))
		}
		return rename(st, name, dir, base, swap)
	}
	var changed *changedError
	if err := c.book.run(c.record); !errors.As(err, &changed) || changed.path != "two" {
		t.Fatalf("got %v", err)
	}
	c.recovered(tree{"one": {"file", "a\n"}, "two": {"file", "theirs\n"}})
}
