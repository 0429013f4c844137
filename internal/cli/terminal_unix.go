//go:build !windows

package cli

const terminalFile = "/dev/tty"

// enableEscapes reports whether the terminals understand escape sequences.
func enableEscapes(...any) bool { return true }
