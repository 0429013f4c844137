//go:build !linux

package patch

import (
	"errors"
	"os"
)

// exchange is not offered here.
func exchange(*os.Root, string, string) error { return errors.ErrUnsupported }
