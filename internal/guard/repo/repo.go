// Package repo says what git would find in a directory, without running git:
// which repository, whether its own configuration makes git run a program, and
// which files are in its index. It does not look at the user's own
// configuration, because that is the user's. The guard calls it before it takes
// a git command for one that only reads, and asks a person on any error. App
// calls it to protect what belongs to a repository.
package repo

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Repository is what git finds. It is read strictly: anything unusual or
// unreadable is an error.
type Repository struct {
	Top string // the work tree
	dir string // the .git directory, or what stands for it
	// common has what the work trees of a repository share.
	common string
	by     *Finder
}

// Finder finds repositories. It may be used concurrently.
type Finder struct {
	mu sync.Mutex
	// plain are directories that hold nothing but files, as they were when that
	// was found out: those of objects, which may be very many.
	plain map[string]fs.FileInfo
}

// maxUp bounds how many directories are looked at.
const maxUp = 256

// Find returns the repository that git would find from dir, which is absolute
// and passes no link. Without one it returns nil.
func (f *Finder) Find(dir string) (*Repository, error) {
	for range maxUp {
		r, err := f.at(dir)
		if r != nil || err != nil {
			return r, err
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return nil, nil
		}
		dir = parent
	}
	return nil, errors.New("the directory is too deep")
}

// at looks at one directory.
func (f *Finder) at(dir string) (*Repository, error) {
	link := filepath.Join(dir, ".git")
	info, err := os.Lstat(link)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if posesAsBare(dir) {
			return nil, fmt.Errorf("%s is, or poses as, a repository without a work tree", dir)
		}
		return nil, nil
	case err != nil:
		return nil, err
	case info.IsDir():
		return f.open(dir, link, false)
	case info.Mode().IsRegular():
		to, err := redirection(link)
		if err != nil {
			return nil, err
		}
		return f.open(dir, to, true)
	}
	return nil, fmt.Errorf("%s is neither a directory nor a file", link)
}

// posesAsBare is less strict than git, so that nothing is missed.
func posesAsBare(dir string) bool {
	if _, err := os.Lstat(filepath.Join(dir, "HEAD")); err != nil {
		return false
	}
	for _, name := range []string{"objects", "refs", "commondir", "config"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

// redirection reads a .git file.
func redirection(file string) (string, error) {
	text, err := read(file, 8<<10)
	if err != nil {
		return "", err
	}
	to, ok := strings.CutPrefix(string(text), "gitdir: ")
	to = strings.TrimRight(to, "\r\n")
	if !ok || to == "" || strings.ContainsAny(to, "\r\n\x00") {
		return "", fmt.Errorf("%s is not understood", file)
	}
	return absolute(filepath.Dir(file), to)
}

// absolute is where a path in one of git's files leads, links followed.
func absolute(base, path string) (string, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(base, path)
	}
	return filepath.EvalSymlinks(path)
}

// pointer is where the path in one of git's files leads, if the file is there.
func pointer(dir, name string) (to string, there bool, err error) {
	text, err := read(filepath.Join(dir, name), 8<<10)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err == nil {
		to, err = absolute(dir, strings.TrimRight(string(text), "\r\n"))
	}
	return to, true, err
}

// open checks that dir is a repository whose work tree is at top, and that all
// of it is there: nothing in it leads to another repository.
func (f *Finder) open(top, dir string, redirected bool) (*Repository, error) {
	r := &Repository{Top: top, dir: dir, common: dir, by: f}
	if info, err := os.Lstat(filepath.Join(dir, "HEAD")); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a complete repository", dir)
	}
	switch common, there, err := pointer(dir, "commondir"); {
	case err != nil:
		return nil, err
	case there:
		// So git lays out a work tree that was added.
		if r.common = common; !redirected || filepath.Dir(dir) != filepath.Join(common, "worktrees") {
			return nil, fmt.Errorf("%s uses the repository %s, to which it does not belong", dir, common)
		}
	}
	for _, d := range slices.Compact([]string{r.dir, r.common}) {
		if err := f.complete(d); err != nil {
			return nil, err
		}
	}
	if redirected {
		return r, r.belongs()
	}
	return r, nil
}

// maxEntries bounds how much of a repository is looked through.
const maxEntries = 500_000

// complete makes sure that a .git directory has its history itself: no link and
// no list of other stores leads out of it. Hooks are looked at elsewhere.
func (f *Finder) complete(dir string) error {
	for _, name := range []string{"alternates", "http-alternates"} {
		if _, err := os.Lstat(filepath.Join(dir, "objects", "info", name)); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s takes objects from other repositories", dir)
		}
	}
	left := maxEntries
	return f.look(dir, dir, &left)
}

// settled is how long a directory must have been as it is to be remembered.
// One that has just changed may change again without another time.
const settled = 2 * time.Second

// look makes sure that there is no link in a directory of the repository top,
// nor below it. left is how many entries may still be looked at.
func (f *Finder) look(top, dir string, left *int) error {
	began := time.Now()
	info, err := os.Lstat(dir)
	if err == nil && f.knows(dir, info) {
		return nil
	}
	entries, err := list(dir, *left+1)
	if errors.Is(err, fs.ErrNotExist) && dir != top {
		return nil // files come and go while git works
	}
	if err != nil {
		return err
	}
	if *left -= len(entries); *left < 0 {
		return fmt.Errorf("%s has too many files to look through", top)
	}
	plain := dir != top && info != nil && began.Sub(info.ModTime()) > settled
	for _, e := range entries {
		switch {
		case dir == top && e.Name() == "hooks":
		case e.IsDir() && dir == top && !has("objects refs info reftable", e.Name()):
			// other repositories, and what git only writes down
		case e.IsDir():
			plain = false
			if err := f.look(top, filepath.Join(dir, e.Name()), left); err != nil {
				return err
			}
		case e.Type()&(fs.ModeSymlink|fs.ModeIrregular) != 0:
			return fmt.Errorf("%s is a link", filepath.Join(dir, e.Name()))
		}
	}
	if plain {
		f.remember(dir, info)
	}
	return nil
}

// list returns up to most entries of a directory.
func list(dir string, most int) ([]fs.DirEntry, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	entries, err := f.ReadDir(most)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return entries, errors.Join(err, f.Close())
}

func (f *Finder) knows(dir string, info fs.FileInfo) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.plain[dir]
	return was != nil && os.SameFile(was, info) && was.ModTime().Equal(info.ModTime())
}

// maxPlain bounds the remembered directories: some ten repositories.
const maxPlain = 4096

func (f *Finder) remember(dir string, info fs.FileInfo) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.plain == nil || len(f.plain) >= maxPlain {
		f.plain = map[string]fs.FileInfo{}
	}
	f.plain[dir] = info
}

// belongs makes sure that a repository which a .git file leads to says itself
// that the work tree is its own. Else any file could show any repository.
func (r *Repository) belongs() error {
	if back, there, err := pointer(r.dir, "gitdir"); err == nil && there && back == filepath.Join(r.Top, ".git") {
		return nil
	}
	c, err := r.settings()
	if err != nil {
		return err
	}
	if tree, ok := c.last("core.worktree"); ok {
		if back, err := absolute(r.dir, tree); err == nil && back == r.Top {
			return nil
		}
	}
	return fmt.Errorf("%s leads to %s, which does not know it", filepath.Join(r.Top, ".git"), r.dir)
}

// Stores are the directories in which the repository of a work tree really is,
// where that is not a plain .git directory.
func Stores(top string) []string {
	link := filepath.Join(top, ".git")
	info, err := os.Lstat(link)
	if err != nil || info.IsDir() {
		return nil
	}
	find := filepath.EvalSymlinks
	if info.Mode().IsRegular() {
		find = redirection
	}
	dir, err := find(link)
	if err != nil {
		return nil
	}
	out := []string{dir}
	if common, there, err := pointer(dir, "commondir"); err == nil && there {
		out = append(out, common)
	}
	return out
}

// Runs says why a git command in the repository may run a program that the
// repository itself names, or reach another place. It is empty if none can.
// With deep the submodules that are checked out count too.
func (r *Repository) Runs(deep bool) string {
	if why := r.runs(); why != "" || !deep {
		return why
	}
	index, err := r.Index()
	if err != nil {
		return "its index: " + err.Error()
	}
	for i, path := range index.Submodules {
		if i >= maxSubmodules {
			return "it has very many submodules"
		}
		dir := filepath.Join(r.Top, filepath.FromSlash(path))
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err != nil {
			continue // not checked out
		}
		inner, err := r.by.at(dir)
		switch {
		case err != nil:
			return "submodule " + path + ": " + err.Error()
		case inner != nil:
			if why := inner.Runs(true); why != "" {
				return "submodule " + path + ": " + why
			}
		}
	}
	return ""
}

const maxSubmodules = 256

// maxRefs bounds the list of packed references: some million.
const maxRefs = 64 << 20

// MayBeAnyObject reports a name that git finds, and not as HEAD or a branch: a
// tag may point at a file.
func (r *Repository) MayBeAnyObject(name string) bool {
	if has("@ HEAD ORIG_HEAD MERGE_HEAD", name) {
		return false
	}
	packed, err := read(filepath.Join(r.common, "packed-refs"), maxRefs)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return true
	}
	isFile := func(dir, ref string) bool {
		info, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(ref)))
		return err == nil && info.Mode().IsRegular()
	}
	// In the order in which git looks.
	for _, ref := range []string{name, "refs/" + name, "refs/tags/" + name, "refs/heads/" + name, "refs/remotes/" + name, "refs/remotes/" + name + "/HEAD"} {
		if isFile(r.common, ref) || isFile(r.dir, ref) || bytes.Contains(packed, []byte(" "+ref+"\n")) {
			return !strings.HasPrefix(ref, "refs/heads/") && !strings.HasPrefix(ref, "refs/remotes/")
		}
	}
	_, err = os.Lstat(filepath.Join(r.common, "reftable"))
	return err == nil // they are not in files
}

// HasHooks reports whether there are hooks, or may be.
func (r *Repository) HasHooks() bool {
	c, err := r.settings()
	if err != nil {
		return true
	}
	if _, elsewhere := c.last("core.hookspath"); elsewhere {
		return true
	}
	entries, err := os.ReadDir(filepath.Join(r.common, "hooks"))
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	return err != nil || slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return !strings.HasSuffix(e.Name(), ".sample") })
}

func (r *Repository) runs() string {
	c, err := r.settings()
	if err != nil {
		return err.Error()
	}
	hooks := filepath.Join(r.common, "hooks")
	for _, s := range c {
		switch {
		case s.key == "core.worktree":
			if tree, err := absolute(r.dir, s.value); err != nil || tree != r.Top {
				return "core.worktree names another directory"
			}
		case s.key == "core.hookspath":
			if strings.HasPrefix(s.value, "~") || strings.ContainsAny(s.value, `%"\\`) {
				return "core.hooksPath leads elsewhere"
			}
			if hooks = s.value; !filepath.IsAbs(hooks) {
				hooks = filepath.Join(r.Top, hooks)
			}
		case !s.harmless():
			return "its setting " + s.key + " may run a program or lead elsewhere"
		}
	}
	// It is run when a command that only reads brings the index up to date.
	if _, err := os.Lstat(filepath.Join(hooks, "post-index-change")); err == nil {
		return "its hook post-index-change is run"
	}
	return ""
}

// settings reads the repository's own configuration.
func (r *Repository) settings() (settings, error) {
	c, err := readSettings(filepath.Join(r.common, "config"))
	if err != nil {
		return nil, err
	}
	if on, ok := c.last("extensions.worktreeconfig"); ok && on != "false" {
		more, err := readSettings(filepath.Join(r.dir, "config.worktree"))
		if err != nil {
			return nil, err
		}
		c = append(c, more...)
	}
	return c, nil
}

// read returns a regular file of at most limit bytes. A pipe in its place does
// not make it wait.
func read(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	data, err := readFile(f, limit)
	return data, errors.Join(err, f.Close())
}

func readFile(f *os.File, limit int64) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New(f.Name() + " is not a regular file")
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = errors.New(f.Name() + " is too large")
	}
	return data, err
}
