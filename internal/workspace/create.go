package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/patch"
)

// ToolCreate is the writing of a whole file.
const ToolCreate = "mcp.fs.create"

// maxCreate bounds a file that is created.
const maxCreate = 8 << 20

// Created is a file that was written.
type Created struct {
	Path     string `json:"path"`
	Size     int64  `json:"size"`
	SHA256   string `json:"sha256"`
	Replaced bool   `json:"replaced" jsonschema:"there was such a file before"`
}

// Create writes a file, and makes its directories. A file that exists is
// replaced only with overwrite, and then whole or not at all.
func (w *Workspace) Create(ctx context.Context, name, content string, overwrite bool) (Created, error) {
	if len(content) > maxCreate {
		return Created{}, &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("the content is larger than %d MiB", maxCreate>>20)}
	}
	call := bridge.ToolCall{Name: ToolCreate, Args: map[string]any{"path": name, "overwrite": overwrite}}
	return guard.Do(bridge.WithDetail(ctx, content), w.opts.Guard, call, denied(ToolCreate), func(d bridge.Decision) (Created, error) {
		at, err := w.judged(name, d)
		if err != nil {
			return Created{}, err
		}
		defer w.language.Changed()
		return w.create(ctx, at, content, overwrite)
	}, nil)
}

// judged is the path that the guard has judged, relative to the root: links on
// the way were followed by it, and are not followed again.
func (w *Workspace) judged(name string, d bridge.Decision) (string, error) {
	if args, ok := d.Args.(map[string]any); ok {
		if p, ok := args["path"].(string); ok {
			name = p
		}
	}
	if filepath.IsAbs(name) {
		root, err := filepath.EvalSymlinks(w.dir)
		if err != nil {
			return "", err
		}
		if name, err = filepath.Rel(root, name); err != nil {
			return "", err
		}
	}
	if name = filepath.Clean(name); !filepath.IsLocal(name) || name == "." {
		return "", &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("%q is not a path of a file inside the workspace", name),
			Remedy: "give a path relative to the workspace's directory"}
	}
	return filepath.ToSlash(name), nil
}

func (w *Workspace) create(ctx context.Context, at, content string, overwrite bool) (Created, error) {
	info, err := w.root.Lstat(at)
	switch {
	case err == nil && !overwrite:
		return Created{}, exists(at)
	case err == nil && !info.Mode().IsRegular():
		return Created{}, &bridge.Error{Code: bridge.CodeConflict, Message: at + " exists and is not a file", Remedy: "choose another name"}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return Created{}, &bridge.Error{Code: bridge.CodeInvalid, Message: at + " cannot be written", Cause: err, Remedy: "see that its directory exists and may be written to"}
	}
	r, err := patch.Write(ctx, w.root, at, content, patch.Options{Journal: w.opts.Journal, Tell: w.opts.Tell})
	switch {
	case err != nil:
		return Created{}, err
	case !r.OK && info == nil: // it has come into being meanwhile
		return Created{}, exists(at)
	case !r.OK:
		return Created{}, &bridge.Error{Code: bridge.CodeConflict, Message: at + ": " + r.Conflicts[0].Reason, Remedy: "try again"}
	}
	return Created{Path: at, Size: int64(len(content)), SHA256: r.Files[0].SHA256, Replaced: info != nil}, nil
}

func exists(at string) error {
	return &bridge.Error{Code: bridge.CodeConflict, Message: at + " exists already", Remedy: "choose another name, or ask to overwrite it"}
}
