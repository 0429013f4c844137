//go:build !linux

package view

import "os"

// drain does nothing here: typed-ahead input is read. Untried.
func drain(*os.File) {}

// hideInput cannot hide what is typed here.
func hideInput(*os.File) (show func(), ok bool) { return nil, false }
