//go:build unix

package durable

import (
	"errors"
	"os"
	"syscall"
)

// syncDir makes the names in dir durable: a rename lives in the directory,
// not in the file. Some network and user-space file systems cannot flush a
// directory and say so; there is nothing better to do on those.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil
	}
	return errors.Join(err, d.Close())
}

// retryWhileReplaced calls op once: here a rename never disturbs readers, nor
// they it.
func retryWhileReplaced(op func() error) error { return op() }
