package workspace

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// ToolCreate is the writing of a whole file.
const ToolCreate = "mcp.fs.create"

// maxCreate bounds a file that is created.
const maxCreate = 8 << 20

// Created is a file that was written.
type Created struct {
	Path     string
	Size     int64
	SHA256   string
	Replaced bool
}

// Create writes a file, and makes its directories. A file that exists is
// replaced only with overwrite, and then whole or not at all.
func (w *Workspace) Create(ctx context.Context, name, content string, overwrite bool) (Created, error) {
	if len(content) > maxCreate {
		return Created{}, &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("the content is larger than %d MiB", maxCreate>>20)}
	}
	call := bridge.ToolCall{Name: ToolCreate, Args: map[string]any{"path": name, "overwrite": overwrite}}
	d := w.opts.Guard.Before(bridge.WithDetail(ctx, content), call)
	if d.Verdict != bridge.Allow {
		return Created{}, denied(ToolCreate, d.Reason)
	}
	at, err := w.judged(name, d)
	var out Created
	if err == nil {
		out, err = w.create(at, content, overwrite)
	}
	if err != nil {
		w.opts.Guard.Failed(ctx, call, err.Error())
		return Created{}, err
	}
	w.language.Changed()
	if _, err := w.opts.Guard.Reveal(ctx, call); err != nil {
		return Created{}, err
	}
	return out, nil
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

// What a new file is called until it takes its place.
const (
	temporaryPrefix = ".copilot-bridge-"
	temporarySuffix = ".tmp"
)

func (w *Workspace) create(at, content string, overwrite bool) (Created, error) {
	if dir := path.Dir(at); dir != "." {
		if err := w.root.MkdirAll(dir, 0o777); err != nil {
			return Created{}, unwritten(at, err)
		}
	}
	sum := sha256.Sum256([]byte(content))
	out := Created{Path: at, Size: int64(len(content)), SHA256: hex.EncodeToString(sum[:])}
	info, err := w.root.Lstat(at)
	switch {
	case err == nil && !overwrite:
		return Created{}, exists(at)
	case err == nil && !info.Mode().IsRegular():
		return Created{}, &bridge.Error{Code: bridge.CodeConflict, Message: at + " exists and is not a file", Remedy: "choose another name"}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return Created{}, unwritten(at, err)
	case err != nil:
		err := w.fill(at, content, 0o666) // and if it has come into being meanwhile, that is said
		if errors.Is(err, fs.ErrExist) {
			return Created{}, exists(at)
		}
		return out, unwritten(at, err)
	}
	// A new file in the place of the old one: readers see one or the other.
	temporary := path.Join(path.Dir(at), temporaryPrefix+rand.Text()+temporarySuffix)
	if err := w.fill(temporary, content, info.Mode().Perm()); err != nil {
		return Created{}, unwritten(at, err)
	}
	if err := w.root.Rename(temporary, at); err != nil {
		return Created{}, errors.Join(unwritten(at, err), w.root.Remove(temporary))
	}
	out.Replaced = true
	return out, nil
}

// fill writes a new file; if that fails nothing of it stays.
func (w *Workspace) fill(at, content string, perm fs.FileMode) error {
	f, err := w.root.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, w.root.Remove(at))
	}
	return nil
}

func exists(at string) error {
	return &bridge.Error{Code: bridge.CodeConflict, Message: at + " exists already", Remedy: "choose another name, or ask to overwrite it"}
}

func unwritten(at string, err error) error {
	if err == nil {
		return nil
	}
	return &bridge.Error{Code: bridge.CodeInvalid, Message: at + " cannot be written", Cause: err, Remedy: "see that its directory exists and may be written to"}
}
