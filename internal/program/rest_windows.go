package program

import (
	"io"
	"os"
)

// copyWaiting has nothing to do: pipes know no deadlines here.
func copyWaiting(io.Writer, *os.File) {}
