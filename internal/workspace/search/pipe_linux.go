package search

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// pipeRoom is what the system lets every user have.
const pipeRoom = 1 << 20

// watch is how often a wait for output looks whether it is still wanted.
const watch = 100 * time.Millisecond

// readPause is how long output may gather in a pipe that has room for it:
// ripgrep writes file by file, and with many hits to be woken for each costs
// both sides dearly.
const readPause = time.Millisecond

// pipe is the reading end of a pipe outside of Go's poller, which is woken by
// every write even when nobody waits for it. Read is for one goroutine.
type pipe struct {
	ctx context.Context
	fd  int
}

// attach makes a pipe for ripgrep's output. If there is so much room in it that
// the reader may take its time, pause is how.
func attach(ctx context.Context) (r io.ReadCloser, writer *os.File, pause func(), err error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, nil, os.NewSyscallError("pipe2", err)
	}
	p := &pipe{ctx: ctx, fd: ends[0]}
	writer = os.NewFile(uintptr(ends[1]), "ripgrep's output")
	if err := unix.SetNonblock(p.fd, true); err != nil {
		return nil, nil, nil, errors.Join(os.NewSyscallError("fcntl", err), p.Close(), writer.Close())
	}
	if room, err := unix.FcntlInt(uintptr(p.fd), unix.F_SETPIPE_SZ, pipeRoom); err == nil && room >= pipeRoom {
		pause = rest
	}
	return p, writer, pause, nil
}

// rest sleeps without Go's timers, which would wake another thread each time.
func rest() {
	length := unix.NsecToTimespec(readPause.Nanoseconds())
	_ = unix.Nanosleep(&length, nil) // a signal may cut it short
}

func (p *pipe) Read(b []byte) (int, error) {
	for {
		n, err := unix.Read(p.fd, b)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			if err := p.ctx.Err(); err != nil {
				return 0, err
			}
			wait := []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}
			if _, err := unix.Poll(wait, int(watch.Milliseconds())); err != nil && !errors.Is(err, unix.EINTR) {
				return 0, os.NewSyscallError("poll", err)
			}
		case err != nil:
			return 0, os.NewSyscallError("read", err)
		case n == 0 && len(b) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

func (p *pipe) Close() error { return os.NewSyscallError("close", unix.Close(p.fd)) }
