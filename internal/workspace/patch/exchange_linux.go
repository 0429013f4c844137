package patch

import (
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// exchange lets a staged file and the file at name change places, in one step
// that nobody sees half of. Besides leaving the old file at hand, it spares
// ext4 what it does when a file is renamed over another: it writes the new one
// out at once, and a thousand such writes take longer than all the rest.
func exchange(stage *os.Root, staged string, root *os.Root, name string) error {
	from, err := stage.Open(".")
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }() // a handle of a directory
	to, err := root.Open(path.Dir(name))
	if err != nil {
		return err
	}
	defer func() { _ = to.Close() }() // as above
	err = unix.Renameat2(int(from.Fd()), staged, int(to.Fd()), path.Base(name), unix.RENAME_EXCHANGE)
	if err != nil {
		return &os.LinkError{Op: "exchange", Old: staged, New: name, Err: err}
	}
	return nil
}
