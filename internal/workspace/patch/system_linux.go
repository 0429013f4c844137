package patch

import (
	"errors"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// unnamed makes a file in a directory that has no name yet, and is gone if the
// process dies. Not all file systems can.
func unnamed(dir *os.Root, perm fs.FileMode) (*os.File, error) {
	return dir.OpenFile(".", unix.O_TMPFILE|os.O_WRONLY, perm)
}

// giveName gives such a file a name in a stage.
func giveName(f *os.File, st *stage, name string) error {
	at := "/proc/self/fd/" + strconv.Itoa(int(f.Fd()))
	return os.NewSyscallError("linkat", unix.Linkat(unix.AT_FDCWD, at, int(st.at.Fd()), name, unix.AT_SYMLINK_FOLLOW))
}

// renameAt moves a staged file to where there is none or, with swap, lets it
// change places with another, each in one atomic step. To
// swap also spares ext4 what it does when a file is renamed over another: it
// writes the new one out at once, and a thousand such writes take longer than
// all the rest. The error is errors.ErrUnsupported where the file system cannot.
func renameAt(st *stage, name string, dir *os.Root, base string, swap bool) error {
	at, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer func() { _ = at.Close() }() // a handle of a directory
	flags := uint(unix.RENAME_NOREPLACE)
	if swap {
		flags = unix.RENAME_EXCHANGE
	}
	err = unix.Renameat2(int(st.at.Fd()), name, int(at.Fd()), base, flags)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return errors.ErrUnsupported
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: name, New: base, Err: err}
	}
	return nil
}
