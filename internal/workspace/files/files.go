// Package files reads and lists the files of a directory tree. It never writes,
// and it knows no policy: package workspace calls it under the guard and says
// in Scope.Keep what may be seen. Packages search and task use it too. Paths
// are slash-separated and relative to the *os.Root of the caller, which neither
// a link nor a concurrent change can leave. Concurrent calls are safe.
package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/copilot-bridge/copilot-bridge/bridge"
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
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
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
