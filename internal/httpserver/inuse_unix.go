//go:build unix

package httpserver

import "syscall"

// errInUse is what listening fails with if the port is taken.
const errInUse = syscall.EADDRINUSE
