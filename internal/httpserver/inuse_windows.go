package httpserver

import "golang.org/x/sys/windows"

// errInUse is the error for a port in use. It was never tried on Windows.
const errInUse = windows.WSAEADDRINUSE
