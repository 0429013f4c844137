//go:build unix

package patch

import (
	"io/fs"
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
