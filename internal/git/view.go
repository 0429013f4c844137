package git

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// maxData bounds the small files that are copied from a repository: patterns,
// attributes, pointers.
const maxData = 4 << 20

// makeView makes the git directory of ours. Its objects are the repository's.
func (r *Repository) makeView(ctx context.Context, config []entry) error {
	if err := os.RemoveAll(r.view); err != nil {
		return err
	}
	for _, dir := range []string{"info", "objects", "refs"} {
		if err := os.MkdirAll(filepath.Join(r.view, dir), 0o700); err != nil {
			return err
		}
	}
	r.Warnings, r.hooks, r.settings = warnings(config), configuredHooks(config), r.ours(config)
	if info, err := os.Lstat(filepath.Join(r.Common, "lfs")); err == nil && info.IsDir() {
		// Where git-lfs keeps its objects: it would look in the view.
		r.settings = append(r.settings, setting{"lfs.storage", filepath.Join(r.Common, "lfs")})
	}
	head, err := r.Head(ctx)
	if err != nil {
		return err
	}
	if head == "" {
		head = "ref: refs/heads/none"
	}
	own := "[core]\n\trepositoryformatversion = 0\n\tbare = false\n"
	if r.format != "sha1" {
		own = "[core]\n\trepositoryformatversion = 1\n\tbare = false\n[extensions]\n\tobjectformat = " + r.format + "\n"
	}
	for name, text := range map[string]string{"config": own, "HEAD": head + "\n"} {
		if err := os.WriteFile(filepath.Join(r.view, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	for name, from := range map[string]string{"exclude": r.Common, "attributes": r.Common, "sparse-checkout": r.gitDir} {
		data, err := readData(filepath.Join(from, "info", name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(r.view, "info", name), data, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readData reads a small file.
func readData(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxData {
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("it is no file, or too large")}
	}
	return os.ReadFile(path)
}

// CopyIndex copies the user's index to a new file in a directory, which spares
// git reading every file anew. Without an index the file does not exist, which
// git takes for an empty one. RemoveIndex removes it.
func (r *Repository) CopyIndex(dir string) (string, error) {
	f, err := os.CreateTemp(dir, "index-*")
	if err != nil {
		return "", err
	}
	name := f.Name()
	if err := f.Close(); err != nil {
		return "", err
	}
	// An index that is split names a shared one, which git looks for beside
	// its other files.
	shared, err := filepath.Glob(filepath.Join(r.gitDir, "sharedindex.*"))
	if err != nil {
		return "", err
	}
	for _, from := range shared {
		if err := CopyFile(from, filepath.Join(r.view, filepath.Base(from))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	err = CopyFile(filepath.Join(r.gitDir, "index"), name)
	if errors.Is(err, fs.ErrNotExist) {
		return name, os.Remove(name) // an empty file would be a broken index
	}
	return name, err
}

// RemoveIndex removes an index, and the lock of a git that was killed.
func RemoveIndex(name string) error {
	for _, n := range []string{name, name + ".lock"} {
		if err := os.Remove(n); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// CopyFile copies an index with its time: git takes files that are as new as
// their index for possibly changed.
func CopyFile(from, to string) (err error) {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return &fs.PathError{Op: "copy", Path: from, Err: errors.New("it is no file")}
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	return os.Chtimes(to, info.ModTime(), info.ModTime())
}
