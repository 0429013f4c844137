package guard

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// inside allows paths that lie in the workspace once links are followed.
func (g *Guard) inside(paths []string, done string) bridge.Decision {
	if len(paths) == 0 {
		return deny("no path was given")
	}
	for _, p := range paths {
		target, err := g.resolve(p)
		if err != nil {
			return deny(p + " cannot be resolved: " + err.Error())
		}
		if !within(g.root, target) {
			return deny(p + " may not be " + done + ": it is outside the workspace " + g.root)
		}
	}
	return allow("inside the workspace")
}

// unprotected denies the few places that nothing may write to.
func (g *Guard) unprotected(paths []string) bridge.Decision {
	for _, p := range paths {
		target, err := g.resolve(p)
		if err != nil {
			return deny(p + " cannot be resolved: " + err.Error())
		}
		for _, dir := range g.opts.Protected {
			if d, err := realPath(dir); err == nil && within(d, target) {
				return deny(p + " may not be written: it belongs to copilot-bridge")
			}
		}
		rel, err := filepath.Rel(g.root, target)
		if err != nil {
			return deny(p + " cannot be resolved: " + err.Error())
		}
		rel = strings.ToLower(filepath.ToSlash(rel))
		if rel == ".agent-policy.yaml" || rel == ".git/config" || strings.HasPrefix(rel, ".git/hooks/") ||
			strings.HasSuffix(rel, "/.git/config") || strings.Contains(rel, "/.git/hooks/") {
			return deny(p + " may never be written by an agent")
		}
	}
	return allow("inside the workspace")
}

func (g *Guard) resolve(p string) (string, error) {
	if strings.ContainsRune(p, 0) {
		return "", errors.New("it holds a NUL byte")
	}
	if !filepath.IsAbs(p) {
		p = filepath.Join(g.root, p)
	}
	return realPath(p)
}

// realPath follows every link. What does not exist yet is resolved by its
// nearest parent that does.
func realPath(p string) (string, error) {
	p, err := filepath.Abs(p)
	if err != nil {
		return "", err
	}
	rest := ""
	for at := p; ; {
		target, err := filepath.EvalSymlinks(at)
		if err == nil {
			return filepath.Join(target, rest), nil
		}
		parent := filepath.Dir(at)
		if !errors.Is(err, fs.ErrNotExist) || parent == at {
			return "", err
		}
		if _, err := os.Lstat(at); err == nil {
			return "", errors.New(at + " is a link to nothing") // it could come to point anywhere
		}
		rest = filepath.Join(filepath.Base(at), rest)
		at = parent
	}
}

func within(dir, p string) bool {
	rel, err := filepath.Rel(dir, p)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}
