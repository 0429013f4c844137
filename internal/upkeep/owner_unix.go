//go:build unix

package upkeep

import (
	"io/fs"
	"os"
	"syscall"
)

// ownFile says whether a file is this user's.
func ownFile(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid()
}
