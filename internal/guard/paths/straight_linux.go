package paths

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

// straight asks the kernel where an absolute path leads if it passes no link,
// in one step instead of one for each directory. It answers only if there is
// something at the path and no link on it, the last name included; any other
// case is left to the walk.
func straight(abs string) (place, bool) {
	if hasParent(abs) {
		return place{}, false
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, abs, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return place{}, false
	}
	var info unix.Stat_t
	err = unix.Fstat(fd, &info)
	if closeErr := unix.Close(fd); err != nil || closeErr != nil {
		return place{}, false
	}
	return place{abs: filepath.Clean(abs), exists: true, dir: info.Mode&unix.S_IFMT == unix.S_IFDIR}, true
}
