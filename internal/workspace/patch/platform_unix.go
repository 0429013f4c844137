//go:build unix

package patch

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// nonBlocking keeps an open from waiting if a file has become a FIFO since it
// was looked at.
const nonBlocking = syscall.O_NONBLOCK

func sameDevice(a, b fs.FileInfo) bool {
	x, ok1 := a.Sys().(*syscall.Stat_t)
	y, ok2 := b.Sys().(*syscall.Stat_t)
	return !ok1 || !ok2 || x.Dev == y.Dev
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return syncOpenDir(f)
}

// syncOpenDir flushes the names in a directory and closes it. Some file
// systems cannot, and say so.
func syncOpenDir(f *os.File) error {
	err := f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}
