package search

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// aborted is how a program ends that runs out of memory.
const aborted = "SIGABRT"

func limitMemory(pid int, most uint64) {
	limit := unix.Rlimit{Cur: most, Max: most}
	_ = unix.Prlimit(pid, unix.RLIMIT_DATA, &limit, nil) // it has ended
}

const (
	// pipeRoom is what the system lets every user have.
	pipeRoom = 1 << 20
	// readPause is how long output may gather in a pipe that has room for it:
	// ripgrep writes file by file, and with many hits to be woken for each
	// costs both sides dearly.
	readPause = time.Millisecond
)

// attach makes a pipe for ripgrep's output. Its ends block, so that they stay
// out of Go's poller, which is woken by every write. If there is enough room
// in it that the reader may take its time, pause is how.
func attach() (reader, writer *os.File, pause func(), err error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, nil, os.NewSyscallError("pipe2", err)
	}
	if room, err := unix.FcntlInt(uintptr(ends[0]), unix.F_SETPIPE_SZ, pipeRoom); err == nil && room >= pipeRoom {
		pause = func() { // without Go's timers, which wake another thread each time
			length := unix.NsecToTimespec(readPause.Nanoseconds())
			_ = unix.Nanosleep(&length, nil) // a signal may cut it short
		}
	}
	return os.NewFile(uintptr(ends[0]), "ripgrep's output"), os.NewFile(uintptr(ends[1]), "ripgrep's output"), pause, nil
}
