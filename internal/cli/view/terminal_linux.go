package view

import (
	"os"

	"golang.org/x/sys/unix"
)

// drain discards typed-ahead input. If it fails, that input is read. It does
// not use Fd, which would disable deadlines.
func drain(f *os.File) {
	conn, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) { _ = unix.IoctlSetInt(int(fd), unix.TCFLSH, unix.TCIFLUSH) })
}
