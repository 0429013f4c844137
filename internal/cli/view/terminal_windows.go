package view

import (
	"os"

	"golang.org/x/sys/windows"
)

const terminalFile = "CONIN$"

// EnableEscapes asks the console to understand escape sequences, which older
// ones cannot. Untried.
func EnableEscapes(streams ...any) bool {
	for _, s := range streams {
		f, ok := s.(*os.File)
		if !ok {
			continue
		}
		h := windows.Handle(f.Fd())
		var mode uint32
		if windows.GetConsoleMode(h, &mode) != nil {
			continue // not a console
		}
		if windows.SetConsoleMode(h, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) != nil {
			return false
		}
	}
	return true
}
