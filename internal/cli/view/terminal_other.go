//go:build !linux

package view

import "os"

// drain does nothing here: typed-ahead input is read. Untried.
func drain(*os.File) {}
