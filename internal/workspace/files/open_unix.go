//go:build unix

package files

import (
	"os"
	"syscall"
)

// openFlags keep the open of a FIFO, which may take the place of a file
// between the look and the open, from waiting for a writer.
const openFlags = os.O_RDONLY | syscall.O_NONBLOCK
