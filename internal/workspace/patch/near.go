package patch

import (
	"os"
	"path"
)

// dirHandles opens the directories that files are in, and keeps the last one open:
// diffs name the files of a directory one after the other, and root opens
// every directory on the way each time.
type dirHandles struct {
	root *os.Root
	dir  string
	at   *os.Root // of dir, or nil
}

// in returns a handle of the directory that name is in, which stays open until
// the next call, and the rest of the name.
func (n *dirHandles) in(name string) (*os.Root, string, error) {
	dir, base := path.Split(name)
	if dir == "" {
		return n.root, base, nil
	}
	if n.at == nil || n.dir != dir {
		at, err := n.root.OpenRoot(dir)
		if err != nil {
			return nil, "", err
		}
		n.close()
		n.dir, n.at = dir, at
	}
	return n.at, base, nil
}

func (n *dirHandles) close() {
	if n.at != nil {
		_ = n.at.Close() // a handle of a directory
		n.at = nil
	}
}
