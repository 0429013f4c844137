//go:build !linux && !windows

package cli

import "os"

const terminalFile = "/dev/tty"

// drain does nothing here: what was typed ahead is read. Untried.
func drain(*os.File) {}
