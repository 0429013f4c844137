package durable

import (
	"errors"
	"time"

	"golang.org/x/sys/windows"
)

// This file compiles and is vetted, but has not been tried on Windows.

const (
	replaceWait = 2 * time.Second
	replacePoll = 10 * time.Millisecond
)

// syncDir does nothing: Windows has no flush of a directory, and NTFS
// journals renames itself.
func syncDir(string) error { return nil }

// retryWhileReplaced repeats op for a short while when the file is held: a
// rename fails while a reader or a virus scanner has the target open, and an
// open fails while a rename is under way.
func retryWhileReplaced(op func() error) error {
	deadline := time.Now().Add(replaceWait)
	for {
		err := op()
		held := errors.Is(err, windows.ERROR_ACCESS_DENIED) || errors.Is(err, windows.ERROR_SHARING_VIOLATION)
		if !held || time.Now().After(deadline) {
			return err
		}
		time.Sleep(replacePoll)
	}
}
