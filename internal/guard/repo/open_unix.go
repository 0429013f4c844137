//go:build unix

package repo

import "syscall"

// openFlags keeps the opening of a pipe from waiting for somebody to write to
// it.
const openFlags = syscall.O_NONBLOCK
