//go:build !linux

package patch

import (
	"errors"
	"os"
)

// exchange is not offered here.
func exchange(*os.Root, string, *os.Root, string) error { return errors.ErrUnsupported }
