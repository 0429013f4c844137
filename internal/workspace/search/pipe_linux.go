package search

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

// pipeRoom is what the system lets every user have.
const pipeRoom = 1 << 20

// watch is how often a wait for output looks whether it is still wanted.
const watch = 100 * time.Millisecond

// pipe is the reading end of a pipe outside of Go's poller, which is woken by
// every write even when nobody waits for it. Read is for one goroutine.
type pipe struct {
	ctx context.Context
	fd  int
}

// attach makes a pipe the output of cmd. It is patient if there is so much
// room that the reader may take its time.
func attach(ctx context.Context, cmd *exec.Cmd) (r io.ReadCloser, patient bool, err error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, false, os.NewSyscallError("pipe2", err)
	}
	p := &pipe{ctx: ctx, fd: ends[0]}
	writer := os.NewFile(uintptr(ends[1]), "ripgrep's output")
	if err := unix.SetNonblock(p.fd, true); err != nil {
		return nil, false, errors.Join(os.NewSyscallError("fcntl", err), p.Close(), writer.Close())
	}
	room, err := unix.FcntlInt(uintptr(p.fd), unix.F_SETPIPE_SZ, pipeRoom)
	cmd.Stdout = writer
	return p, err == nil && room >= pipeRoom, nil
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
