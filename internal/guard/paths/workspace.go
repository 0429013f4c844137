package paths

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"unicode"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// Workspace is one directory tree that paths are held against. It is
// immutable once made, and all its methods may be called concurrently; only
// Close must come last. Hard links and mount points that exist inside the
// workspace are part of it.
type Workspace struct {
	root    string // real, absolute, clean
	base    string // where relative paths start: the root, unless At says otherwise
	home    string // what ~ stands for; "" if unknown
	dir     *os.Root
	folding bool
	windows bool // names are judged as Windows would read them
}

// Option changes how New makes a workspace.
type Option func(*Workspace)

// WithHome sets the directory that ~ and $HOME stand for. The default is the
// user's.
func WithHome(dir string) Option { return func(w *Workspace) { w.home = dir } }

// New opens the workspace at root, which must be an existing directory.
func New(root string, opts ...Option) (*Workspace, error) {
	fail := func(why string, cause error) error {
		return &bridge.Error{Code: bridge.CodeInvalid, Message: "the workspace " + text.Quote(root, maxQuoted) + " cannot be used" + why,
			Remedy: "name an existing directory", Cause: cause}
	}
	if root == "" || strings.ContainsRune(root, 0) {
		return nil, fail(": it is not a path", nil)
	}
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, fail("", err)
	}
	// The walk of Resolve starts at this name without looking at it again, so
	// it must hold no link.
	if abs, err = filepath.EvalSymlinks(abs); err != nil {
		return nil, fail("", err)
	}
	info, err := os.Stat(abs)
	if err != nil {
		return nil, fail("", err)
	}
	if !info.IsDir() {
		return nil, fail(": it is not a directory", nil)
	}
	w := &Workspace{root: abs, base: abs, windows: runtime.GOOS == "windows"}
	if home, err := os.UserHomeDir(); err == nil {
		w.home = home
	}
	for _, opt := range opts {
		opt(w)
	}
	if w.dir, err = os.OpenRoot(abs); err != nil {
		return nil, fail("", err)
	}
	// The directory that was opened has to be the one that was named.
	opened, err := w.dir.Stat(".")
	if err != nil || !os.SameFile(opened, info) {
		return nil, fail(": it changed while it was opened", errors.Join(err, w.dir.Close()))
	}
	w.folding = foldsCase(abs)
	return w, nil
}

// Root returns the real path of the workspace.
func (w *Workspace) Root() string { return w.root }

// At returns the same workspace for a session that works in dir, a real
// directory inside it: relative paths start there. The root stays the same. Only
// the workspace that New made is closed.
func (w *Workspace) At(dir string) *Workspace {
	at := *w
	at.base = dir
	return &at
}

// Base returns where relative paths start.
func (w *Workspace) Base() string { return w.base }

// FS gives the bridge's own access to the workspace. No name can lead outside
// of it, not even while links are being swapped. Close closes it.
func (w *Workspace) FS() *os.Root { return w.dir }

// Close releases the directory. Resolve works on.
func (w *Workspace) Close() error { return w.dir.Close() }

// CaseFolding reports whether the workspace's file system takes names that
// differ only in case for the same file. A comparison of Rel with a rule
// has to ignore case then: Rel keeps the spelling it was given.
func (w *Workspace) CaseFolding() bool { return w.folding }

// foldsCase looks for a name in dir, or dir's own, that is found under a
// swapped case too. Nothing is written; if no name has letters the operating
// system's habit is assumed.
func foldsCase(dir string) bool {
	const enough = 64
	names := []string{}
	if d, err := os.Open(dir); err == nil {
		names, _ = d.Readdirnames(enough) // an unreadable directory is judged by its own name
		_ = d.Close()
	}
	have := make(map[string]bool, len(names))
	for _, n := range names {
		have[n] = true
	}
	for _, n := range names {
		swapped := swapCase(n)
		if swapped == n || have[swapped] {
			continue
		}
		if same, known := sameFile(filepath.Join(dir, n), filepath.Join(dir, swapped)); known {
			return same
		}
	}
	parent, base := filepath.Split(dir)
	if swapped := swapCase(base); swapped != base {
		if same, known := sameFile(dir, filepath.Join(parent, swapped)); known {
			return same
		}
	}
	return runtime.GOOS == "windows" || runtime.GOOS == "darwin" || runtime.GOOS == "ios"
}

func sameFile(a, b string) (same, known bool) {
	ai, err := os.Lstat(a)
	if err != nil {
		return false, false
	}
	bi, err := os.Lstat(b)
	if errors.Is(err, fs.ErrNotExist) {
		return false, true
	}
	if err != nil {
		return false, false
	}
	return os.SameFile(ai, bi), true
}

func swapCase(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= unicode.MaxASCII {
			return r
		}
		if unicode.IsUpper(r) {
			return unicode.ToLower(r)
		}
		return unicode.ToUpper(r)
	}, s)
}
