package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

const terminalFile = "/dev/tty"

// drain throws away what was typed ahead; if it cannot, that is read. It does
// not use Fd, which would end the use of deadlines.
func drain(f *os.File) {
	conn, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) { _ = unix.IoctlSetInt(int(fd), unix.TCFLSH, unix.TCIFLUSH) })
}
