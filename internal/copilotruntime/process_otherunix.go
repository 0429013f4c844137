//go:build unix && !linux

package copilotruntime

import "syscall"

// dieWithParent does nothing where there is no parent-death signal: if the
// bridge is killed, a child ends when it finds its input closed, and npm when
// it is done; the next install removes what npm leaves. Untried.
func dieWithParent(*syscall.SysProcAttr) {}
