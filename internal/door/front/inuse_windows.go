package front

import "golang.org/x/sys/windows"

// errInUse is what listening fails with if the port is taken. Untried: there
// was no Windows machine to run it on.
const errInUse = windows.WSAEADDRINUSE
