//go:build !linux

package cli

import "os"

// drain does nothing here: typed-ahead input is read. Untried.
func drain(*os.File) {}
