package sandbox

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"
)

// Watch looks after what configures agents, editors or git in a workspace. A
// sandbox cannot keep a file from being made that is not there yet.
type Watch struct {
	Root string
	// Holders are directories that hold configuration among other files.
	Holders []string
	// Protects says whether a path, relative to Root and with slashes, is
	// configuration that must not be made without consent.
	Protects func(rel string) bool
	// Plain says whether a repository that was made at Root runs nothing.
	Plain func() bool
}

// Configuration is what a workspace has of it, by its path and what it leads
// to if it is a link.
type Configuration map[string]string

// Now lists what there is.
func (w Watch) Now() Configuration {
	out := Configuration{}
	for _, rel := range w.list() {
		to, _ := os.Readlink(filepath.Join(w.Root, rel)) // "" if it is no link
		out[rel] = to
	}
	return out
}

// list is what Protects names at the root, in Holders and in .git.
func (w Watch) list() []string {
	top, err := os.OpenRoot(w.Root)
	if err != nil {
		return nil
	}
	defer func() { _ = top.Close() }() // it was only read
	var out []string
	list := func(dir string, wanted func(rel string) bool) {
		entries, err := fs.ReadDir(top.FS(), dir)
		if err != nil {
			return
		}
		for _, e := range entries {
			if rel := path.Join(dir, e.Name()); wanted(rel) {
				out = append(out, rel)
			}
		}
	}
	protects := func(rel string) bool { return w.Protects != nil && w.Protects(rel) }
	list(".", func(rel string) bool { return rel == ".git" || protects(rel) })
	for _, dir := range w.Holders {
		if info, err := top.Lstat(dir); err == nil && info.IsDir() {
			list(dir, protects)
		} else if err == nil {
			out = append(out, dir) // a link may lead to anything
		}
	}
	if info, err := top.Lstat(".git"); err == nil && info.IsDir() {
		list(".git", func(rel string) bool { return slices.Contains(gitSettings, path.Base(rel)) })
	}
	return out
}

// Withhold moves configuration that was not there before to a directory of its
// own in into, and returns what it moved. A new repository that runs nothing
// stays.
func (w Watch) Withhold(before Configuration, into string) (moved []string, err error) {
	top, err := os.OpenRoot(w.Root)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, top.Close()) }()
	into = filepath.Join(into, time.Now().UTC().Format("20060102-150405-")+rand.Text()[:6])
	now := w.Now()
	_, repository := before[".git"]
	for rel, to := range now {
		old, known := before[rel]
		switch {
		case known && old == to:
			continue
		case !repository && path.Dir(rel) == ".git": // it goes or stays with .git
			continue
		case rel == ".git" && !known && w.Plain != nil && w.Plain():
			continue
		}
		if err := take(top, w.Root, rel, filepath.Join(into, filepath.FromSlash(rel))); err != nil {
			return moved, fmt.Errorf("%s was made by a command without consent and cannot be moved away: %w", rel, err)
		}
		moved = append(moved, rel)
	}
	slices.Sort(moved)
	return moved, nil
}

// take moves a file or a directory out of the workspace. It is renamed to a
// name at the root first, which no link leads to.
func take(top *os.Root, root, rel, to string) error {
	name := ".withheld-" + rand.Text()
	if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), top.Rename(rel, name)); err != nil {
		return err
	}
	from := filepath.Join(root, name)
	err := os.Rename(from, to)
	if err == nil {
		return nil
	}
	// Another file system. The content counts, not the metadata.
	switch info, statErr := os.Lstat(from); {
	case statErr != nil:
		return statErr
	case info.IsDir():
		err = os.CopyFS(to, os.DirFS(from))
	case info.Mode().IsRegular():
		var text []byte
		if text, err = os.ReadFile(from); err == nil {
			err = os.WriteFile(to, text, 0o600)
		}
	default: // a link, a pipe: nothing to keep
		err = nil
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(from)
}
