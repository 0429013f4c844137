package guard

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/copilot-bridge/copilot-bridge/internal/guard/paths"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/repo"
)

// maxListed bounds how many files are looked at to learn whether one is among
// them that a rule speaks about; beyond it there may be one.
const maxListed = 5_000

// maxFound is how many of them are named.
const maxFound = 3

// deniedBelow says whether a file that may not be read lies below a directory.
func (g *Guard) deniedBelow(dir paths.Resolved) bool {
	if !g.policy().LimitsReads() {
		return false
	}
	seen, found := 0, false
	err := fs.WalkDir(g.opts.Workspace.FS().FS(), dir.Rel, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if seen++; seen > maxListed {
			found = true
			return fs.SkipAll
		}
		if d.IsDir() {
			if d.Name() == ".git" {
				return fs.SkipDir
			}
			return nil
		}
		if _, found = g.policy().ReadDenied(p); found {
			return fs.SkipAll
		}
		return nil
	})
	return found || err != nil
}

// below says which files below a directory are looked for.
type below struct {
	write bool // what may not be written without consent, else what may not be read
	links bool // and through links
	// at are the places that the directory is copied to; without any it is
	// about the directory itself.
	at []string
}

// addBelow adds the files below a directory that rules speak about, and links
// that lead outside.
func (g *Guard) addBelow(a *policy.Action, dir paths.Resolved, b below) {
	found := 0
	add := func(p policy.Path) {
		found++
		p.Write = b.write
		a.Paths = append(a.Paths, p)
	}
	seen, queue, done := 0, []string{dir.Rel}, map[string]bool{dir.Rel: true}
	look := func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if seen++; seen > maxListed {
			return errTooMany
		}
		switch {
		case found >= maxFound:
			return fs.SkipAll
		case b.links && d.Type()&(fs.ModeSymlink|fs.ModeIrregular) != 0:
			res, err := g.opts.Workspace.Resolve(filepath.Join(g.opts.Workspace.Root(), filepath.FromSlash(p)))
			switch {
			case err != nil || !res.Inside || g.denied(res.Rel):
				add(pathOf(res, err, p, false))
			case res.IsDir && !done[res.Rel]:
				done[res.Rel], queue = true, append(queue, res.Rel)
			}
		case b.write:
			if d.IsDir() && d.Name() == "node_modules" {
				return fs.SkipDir
			}
			for _, rel := range g.placed(dir, p, b) {
				if !g.policy().MayWrite(rel) {
					add(policy.Path{Rel: rel})
				}
			}
		case !d.IsDir() && g.denied(p):
			add(policy.Path{Rel: p})
		}
		return nil
	}
	for len(queue) > 0 && found < maxFound {
		next := queue[0]
		queue = queue[1:]
		if err := fs.WalkDir(g.opts.Workspace.FS().FS(), next, look); err != nil {
			add(policy.Path{Rel: dir.Rel, Doubt: "not all that lies below could be looked at"})
			return
		}
	}
}

// maxRuled bounds how many files are looked at to find rules of what to ignore.
const maxRuled = 500_000

// addRules adds the files with rules of what to ignore that rg reads for a
// path, below it and in the directories above, where they are not plain files
// of the workspace. A rule that cannot be understood is shown.
func (g *Guard) addRules(a *policy.Action, at paths.Resolved) {
	root := g.opts.Workspace.Root()
	look := func(file string) {
		if _, err := os.Lstat(file); err != nil {
			return
		}
		if res, err := g.opts.Workspace.Resolve(file); err != nil || !res.Inside || g.denied(res.Rel) {
			a.Paths = append(a.Paths, pathOf(res, err, file, false))
		}
	}
	lookIn := func(dir string) {
		for _, name := range []string{".gitignore", ".ignore", ".rgignore", ".git/info/exclude"} {
			look(filepath.Join(dir, filepath.FromSlash(name)))
		}
		for _, store := range repo.Stores(dir) {
			look(filepath.Join(store, "info", "exclude"))
		}
	}
	for dir := path.Dir(at.Rel); at.Rel != "."; dir = path.Dir(dir) {
		lookIn(filepath.Join(root, filepath.FromSlash(dir)))
		if dir == "." {
			break
		}
	}
	seen := 0
	err := fs.WalkDir(g.opts.Workspace.FS().FS(), at.Rel, func(p string, d fs.DirEntry, err error) error {
		if seen++; err == nil && seen > maxRuled {
			err = errTooMany
		}
		switch {
		case err != nil || !d.IsDir():
			return err
		case d.Name() == ".git":
			return fs.SkipDir
		}
		lookIn(filepath.Join(root, filepath.FromSlash(p)))
		return nil
	})
	if err != nil {
		a.Paths = append(a.Paths, policy.Path{Rel: at.Rel, Doubt: "not all that lies below could be looked at"})
	}
}

var errTooMany = errors.New("too many files")

// placed are the names that a file below dir has where it is written.
func (g *Guard) placed(dir paths.Resolved, p string, b below) []string {
	if len(b.at) == 0 {
		return []string{p}
	}
	rel, err := filepath.Rel(filepath.FromSlash(dir.Rel), filepath.FromSlash(p))
	if err != nil {
		return nil
	}
	var out []string
	for _, at := range b.at {
		out = append(out, path.Join(at, filepath.ToSlash(rel)))
	}
	return out
}
