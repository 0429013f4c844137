//go:build !linux

package patch

import (
	"errors"
	"io/fs"
	"os"
)

// These are not offered here; what stands in for them is in stage.go.

func unnamed(*os.Root, fs.FileMode) (*os.File, error) { return nil, errors.ErrUnsupported }
func giveName(*os.File, *stage, string) error         { return errors.ErrUnsupported }

func renameAt(*stage, string, *os.Root, string, bool) error { return errors.ErrUnsupported }
