//go:build !windows

package view

const terminalFile = "/dev/tty"

// EnableEscapes reports whether the terminals understand escape sequences.
func EnableEscapes(...any) bool { return true }
