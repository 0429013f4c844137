//go:build unix

package program

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"
)

// copyWaiting copies what is in a pipe now and waits for nothing. A pipe holds
// less than the bound, so only a program that still writes meets it.
func copyWaiting(into io.Writer, f *os.File) {
	conn, err := f.SyscallConn()
	if err != nil || f.SetDeadline(time.Time{}) != nil { // with one that has passed nothing is read
		return
	}
	buf := make([]byte, 64<<10)
	for range 32 {
		var n int
		raw := conn.Read(func(fd uintptr) bool { n, err = syscall.Read(int(fd), buf); return true })
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if raw != nil || err != nil || n <= 0 {
			return // empty, or at its end
		}
		if _, err := into.Write(buf[:n]); err != nil {
			return
		}
	}
}
