package patch

import (
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
	link := c.book.link
	c.book.link = func(oldname, newname string) error {
		if err := link(oldname, newname); err != nil || oldname != "two" {
			return err
		}
		theirs := filepath.Join(c.dir, ".theirs")
		c.must(os.WriteFile(theirs, []byte("theirs\n"), 0o644))
		return os.Rename(theirs, filepath.Join(c.dir, "two"))
	}
	var changed *changedError
	if err := c.book.run(c.record, c.stages); !asChanged(err, &changed) || changed.path != "two" {
		t.Fatalf("got %v", err)
	}
	c.recovered(tree{"one": {"file", "a\n"}, "two": {"file", "theirs\n"}})
}
