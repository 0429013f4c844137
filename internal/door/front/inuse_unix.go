//go:build unix

package front

import "syscall"

// errInUse is what listening fails with if the port is taken.
const errInUse = syscall.EADDRINUSE
