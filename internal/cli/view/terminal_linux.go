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

// hideInput stops the terminal from showing what is typed, until show is called.
func hideInput(f *os.File) (show func(), ok bool) {
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, false
	}
	var before *unix.Termios
	set := func(change func(unix.Termios) unix.Termios) {
		closed := conn.Control(func(fd uintptr) {
			now := before
			if now == nil {
				if now, err = unix.IoctlGetTermios(int(fd), unix.TCGETS); err != nil {
					return
				}
				before = now
			}
			next := change(*now)
			err = unix.IoctlSetTermios(int(fd), unix.TCSETS, &next)
		})
		if closed != nil { // otherwise a secret would be shown while it is typed
			err = closed
		}
	}
	set(func(t unix.Termios) unix.Termios { t.Lflag &^= unix.ECHO; return t })
	return func() { set(func(t unix.Termios) unix.Termios { return t }) }, err == nil
}
