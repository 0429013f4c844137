// Package files reads and lists the files of a directory tree.
//
// All access goes through the *os.Root that the caller gives, so neither a
// symbolic link nor a change made at the same time leads out of it. Paths are
// slash-separated and relative to that root. The package knows no policy: the
// workspace calls it under the guard and passes what may not be seen as
// Scope.Keep. Its functions may be called concurrently.
package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// localPath cleans a path of the interface and refuses those that are not
// inside the root by their words alone. os.Root refuses the rest.
func localPath(name string) (string, error) {
	clean := path.Clean(name)
	if name == "" || strings.ContainsRune(name, 0) || !filepath.IsLocal(filepath.FromSlash(clean)) {
		return "", &bridge.Error{
			Code:    bridge.CodeInvalid,
			Message: fmt.Sprintf("%q is not a path inside the workspace", name),
			Remedy:  "Give a path relative to the workspace's directory, with slashes and without leaving it.",
		}
	}
	return clean, nil
}

// fault words an error of the file system.
func fault(verb, name string, err error) error {
	var known *bridge.Error
	var inPath *fs.PathError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &bridge.Error{Code: bridge.CodeOf(err), Message: fmt.Sprintf("the attempt to %s %s was stopped", verb, name), Cause: err}
	case errors.Is(err, fs.ErrNotExist):
		return &bridge.Error{
			Code:    bridge.CodeNotFound,
			Message: fmt.Sprintf("cannot %s %s: there is no such file", verb, name),
			Remedy:  "List the workspace's files to see what there is.",
			Cause:   err,
		}
	case errors.Is(err, fs.ErrPermission):
		return &bridge.Error{
			Code:    bridge.CodeDenied,
			Message: fmt.Sprintf("cannot %s %s: the system does not permit it", verb, name),
			Remedy:  "Change the permissions of the file, or run as a user who may read it.",
			Cause:   err,
		}
	case errors.As(err, &inPath) && strings.Contains(inPath.Err.Error(), "escapes"):
		// The standard library has no exported value for this one.
		return &bridge.Error{
			Code:    bridge.CodeInvalid,
			Message: fmt.Sprintf("cannot %s %s: a symbolic link leads out of the workspace", verb, name),
			Remedy:  "Name a file that lies inside the workspace.",
			Cause:   err,
		}
	default:
		return &bridge.Error{Code: bridge.CodeInternal, Message: fmt.Sprintf("cannot %s %s", verb, name), Cause: err}
	}
}
