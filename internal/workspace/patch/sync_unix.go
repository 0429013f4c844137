//go:build unix && !linux

package patch

import (
	"os"
	"path"
)

// syncsWhole: each staged file is flushed when it is written.
const syncsWhole = false

// syncTree flushes the directories that the steps change. This has been
// compiled but not tried on macOS.
func syncTree(root *os.Root, r *record) error {
	dirs := map[string]bool{}
	for _, dir := range r.stages {
		dirs[dir] = true
	}
	for _, s := range r.steps {
		dirs[path.Dir(s.path)] = true
	}
	for dir := range dirs {
		f, err := root.Open(dir)
		if isMissing(err) {
			continue
		}
		if err != nil {
			return err
		}
		if err := syncOpenDir(f); err != nil {
			return err
		}
	}
	return nil
}
