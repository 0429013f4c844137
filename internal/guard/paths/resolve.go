package paths

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// maxLinks is how many links one path may pass, as in the Linux kernel.
const maxLinks = 40

// Resolved says where a path leads once every link on it has been followed.
type Resolved struct {
	Path   string // as it was given
	Abs    string // the real path, or what it would be if it existed
	Rel    string // Abs below the root with slashes, "." for the root; empty outside
	Named  string // like Rel, but of the path as it was written, before links were followed; empty if that is the same
	Inside bool
	Exists bool
	IsDir  bool
	Reason string // why it is not inside; for people
}

// Resolve follows path, relative to the root (or to the directory of At) unless
// it is absolute, to where it really points. Links are followed one component
// at a time, those that dangle too; ".." means the parent of the directory
// reached so far; a path that does not exist lies where its nearest existing
// parent is.
//
// A path that leads outside is not an error. An error means that the path is
// malformed or means different things to different readers: control and
// invisible characters, forms of another operating system, percent-encoding,
// links that form a loop, and a ".." behind a link, which the kernel and
// programs that tidy paths up first understand differently.
//
// The result is true at the time of the call. Another program may change the
// tree before a tool of the runtime uses the path; nothing here can prevent
// that. Access through FS has no such gap.
func (w *Workspace) Resolve(path string) (Resolved, error) {
	plain, err := w.plain(path)
	if err != nil {
		return Resolved{Path: path}, err
	}
	abs := plain
	if !filepath.IsAbs(abs) {
		abs = w.base + string(filepath.Separator) + plain
	}
	res := Resolved{Path: path}
	at, quick := straight(abs)
	if !quick {
		if at, err = w.follow(path, abs); err != nil {
			return res, err
		}
	}
	if at.links > 0 && hasParent(plain) {
		tidy, err := w.follow(path, filepath.Clean(abs))
		if err != nil {
			return res, err
		}
		if tidy.abs != at.abs {
			if _, in := w.below(tidy.abs); in {
				if _, in = w.below(at.abs); in {
					return res, malformed(path, `has ".." behind a link, so it means two different files`, "name the file without \"..\"")
				}
			} else {
				at = tidy
			}
		}
	}
	res.Abs, res.Exists, res.IsDir = at.abs, at.exists, at.dir
	if at.magic != "" {
		res.Reason = text.Quote(path, maxQuoted) + " is outside the workspace " + w.root + ": it passes " + at.magic + ", which differs from process to process"
		return res, nil
	}
	rel, in := w.below(at.abs)
	if !in {
		res.Reason = text.Quote(path, maxQuoted) + " is outside the workspace " + w.root
		if at.links > 0 {
			res.Reason += ": it leads to " + at.abs
		}
		return res, nil
	}
	res.Rel, res.Inside = rel, true
	if at.links > 0 {
		if named, in := w.below(filepath.Clean(abs)); in && named != rel {
			res.Named = named
		}
	}
	return res, nil
}

// place is where a walk ended.
type place struct {
	abs    string
	exists bool
	dir    bool
	links  int
	magic  string // a link that leads elsewhere for another process
}

// follow walks abs to its real place. The root itself is known to hold no
// links, so a path below it is walked from there.
func (w *Workspace) follow(given, abs string) (place, error) {
	const sep = string(filepath.Separator)
	volume := filepath.VolumeName(abs)
	cur, rest := volume+sep, abs[len(volume):]
	if after, ok := strings.CutPrefix(abs, w.root); ok && (after == "" || os.IsPathSeparator(after[0]) || w.root == cur) {
		cur, rest = w.root, after
	}
	var p place
	var info fs.FileInfo
	for rest != "" {
		var name string
		if name, rest = cutComponent(rest); name == "" || name == "." {
			continue
		}
		if name == ".." {
			cur, info = filepath.Dir(cur), nil
			continue
		}
		next := join(cur, name)
		found, err := os.Lstat(next)
		switch {
		case missing(err):
			cur, info = next, nil
			continue
		case err != nil:
			return p, &bridge.Error{Code: bridge.CodeInvalid, Message: "the path " + text.Quote(given, maxQuoted) + " cannot be checked", Cause: errors.Unwrap(err)}
		case !isLink(found):
			cur, info = next, found
			continue
		}
		if p.links++; p.links > maxLinks {
			return p, malformed(given, "passes too many links, or a loop of them", "")
		}
		target, err := os.Readlink(next)
		if err != nil || target == "" {
			return p, &bridge.Error{Code: bridge.CodeInvalid, Message: "the path " + text.Quote(given, maxQuoted) + " passes a link that cannot be read", Cause: errors.Unwrap(err)}
		}
		if p.magic == "" && isMagic(next) {
			p.magic = next
		}
		rest = target + sep + rest
		if filepath.IsAbs(target) {
			volume := filepath.VolumeName(target)
			cur, rest = volume+sep, rest[len(volume):]
		}
		info = nil
	}
	p.abs = cur
	if info == nil {
		info, _ = os.Lstat(cur) // what cannot be seen does not exist for us
	}
	if info != nil {
		p.exists, p.dir = true, info.IsDir()
	}
	return p, nil
}

// below returns abs relative to the root, if it lies there.
func (w *Workspace) below(abs string) (string, bool) {
	root := w.root
	if abs == root {
		return ".", true
	}
	if os.IsPathSeparator(root[len(root)-1]) { // the root of a volume
		root = root[:len(root)-1]
	}
	if len(abs) > len(root) && abs[:len(root)] == root && os.IsPathSeparator(abs[len(root)]) {
		return filepath.ToSlash(abs[len(root)+1:]), true
	}
	if !w.folding {
		return "", false
	}
	// Another spelling of the root is believed only if it is the same file.
	cut := len(abs)
	for n := strings.Count(abs, string(filepath.Separator)) - strings.Count(root, string(filepath.Separator)); n > 0; n-- {
		cut = strings.LastIndexByte(abs[:cut], filepath.Separator)
	}
	if !strings.EqualFold(abs[:cut], root) {
		return "", false
	}
	if same, known := sameFile(abs[:cut], root); !same || !known {
		return "", false
	}
	if cut == len(abs) {
		return ".", true
	}
	return filepath.ToSlash(abs[cut+1:]), true
}

func cutComponent(s string) (first, rest string) {
	for i := range len(s) {
		if os.IsPathSeparator(s[i]) {
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}

func join(dir, name string) string {
	if os.IsPathSeparator(dir[len(dir)-1]) {
		return dir + name
	}
	return dir + string(filepath.Separator) + name
}

func hasParent(path string) bool {
	for path != "" {
		var name string
		if name, path = cutComponent(path); name == ".." {
			return true
		}
	}
	return false
}

func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// isLink counts what Windows calls junctions in, which os.Readlink reads.
func isLink(info fs.FileInfo) bool {
	return info.Mode()&(fs.ModeSymlink|fs.ModeIrregular) != 0
}

// isMagic reports links of /proc: they name what belongs to the process that
// asks, and the one that will is not this one.
func isMagic(link string) bool {
	return strings.HasPrefix(link, "/proc/") || strings.HasPrefix(link, "/dev/fd/")
}
