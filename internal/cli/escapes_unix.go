//go:build !windows

package cli

// enableEscapes reports whether the terminals understand escape sequences.
func enableEscapes(...any) bool { return true }
