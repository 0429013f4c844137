package policy

import (
	"errors"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"
)

// stamp tells whether a file is the same as before. The zero value is a file
// that is not there.
type stamp struct {
	device, inode uint64
	size          int64
	written       unix.Timespec
	changed       unix.Timespec // also by what sets written back
	plain         bool          // a regular file
	failed        bool          // it could not be looked at
}

func stampOf(path string) stamp {
	var info unix.Stat_t
	for {
		switch err := unix.Lstat(path, &info); {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
			return stamp{}
		case err != nil:
			return stamp{failed: true}
		}
		return stamp{device: info.Dev, inode: info.Ino, size: info.Size, written: info.Mtim, changed: info.Ctim, plain: info.Mode&unix.S_IFMT == unix.S_IFREG}
	}
}

// tells says whether any change from now on will make another stamp: not that
// of a file behind a link, nor one soon after recent.
func (s stamp) tells(recent time.Time) bool {
	return s == stamp{} || s.plain && !s.failed && time.Unix(s.changed.Unix()).Before(recent)
}
