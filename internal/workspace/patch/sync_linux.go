package patch

import (
	"errors"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// syncsWhole: one call flushes all files, so they are not flushed one by one.
const syncsWhole = true

// syncTree flushes the file systems on which the steps work.
func syncTree(root *os.Root, r *record) error {
	var all error
	done := map[string]bool{}
	for _, stage := range r.stages {
		dir := path.Dir(stage)
		if done[dir] {
			continue
		}
		done[dir] = true
		f, err := root.Open(dir)
		if err != nil {
			return err
		}
		all = errors.Join(all, unix.Syncfs(int(f.Fd())), f.Close())
	}
	return all
}
