package patch

import (
	"cmp"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// stepKind says what a step does. The journal has them by these names.
type stepKind string

const (
	stepRemove  stepKind = "remove"  // takes a file away
	stepRmdir   stepKind = "rmdir"   // removes a directory, if it has become empty
	stepMkdir   stepKind = "mkdir"   // makes a directory
	stepReplace stepKind = "replace" // puts a new file in place of an old one
	stepCreate  stepKind = "create"  // puts a new file where there was none
)

// step is one change of the workspace. All of them can be undone, whether or
// not they were carried out. The journal has the exported fields.
type step struct {
	Kind  stepKind    `json:"kind"`
	Name  []byte      `json:"path"`            // the path, which may hold any byte
	Stage int         `json:"stage,omitempty"` // where files are kept meanwhile
	Perm  fs.FileMode `json:"perm,omitempty"`  // the mode of the new file, or of the directory that is removed
	Sum   string      `json:"sum,omitempty"`   // SHA-256 of the new file

	path  string
	above string      // the nearest directory over path that exists
	out   *outcome    // what to stage
	seen  fs.FileInfo // the old file as it was read
	must  bool        // a directory that has to go
}

// arrange turns the outcomes into steps. git apply first removes every file
// that is changed, renamed or deleted, with the directories that become empty,
// and then writes the new ones in the order of the diff. The steps lead to the
// same tree without files being away in between.
func (p *plan) arrange() error {
	a := arrangement{
		plan: p, final: map[string]*outcome{}, removed: map[string]bool{},
		occupied: map[string]bool{}, mkdirs: map[string]bool{}, rmdirs: map[string]bool{},
	}
	for _, out := range p.outcomes {
		s := out.section
		if s.old != "" && !s.copied {
			a.removed[s.old] = a.removed[s.old] || s.deleted == yes || s.renamed
		}
		if s.deleted == yes {
			continue
		}
		if _, again := a.final[out.path]; !again {
			a.order = append(a.order, out.path)
		}
		a.final[out.path] = out
		for dir := path.Dir(out.path); dir != "."; dir = path.Dir(dir) {
			a.occupied[dir] = true
		}
	}
	if err := a.removals(); err != nil {
		return err
	}
	var writes []*step
	for _, name := range a.order {
		s, err := a.write(name)
		if err != nil {
			return err
		}
		writes = append(writes, s)
	}
	if len(p.conflicts) > 0 {
		return nil
	}
	if err := a.directories(); err != nil {
		return err
	}
	p.steps = append(p.steps, writes...)
	return nil
}

type arrangement struct {
	*plan
	final    map[string]*outcome // what each path will be
	order    []string            // of final
	removed  map[string]bool     // paths that git takes away; true: and empty directories above
	occupied map[string]bool     // directories in which something will be
	mkdirs   map[string]bool
	rmdirs   map[string]bool // true: has to go
}

// removals makes the steps for files that will be gone, and finds the
// directories that may become empty.
func (a *arrangement) removals() error {
	for _, name := range slices.Sorted(maps.Keys(a.removed)) {
		for dir := path.Dir(name); a.removed[name] && dir != "." && !a.occupied[dir]; dir = path.Dir(dir) {
			a.rmdirs[dir] = false
		}
		if a.final[name] != nil {
			continue
		}
		info, _, err := a.disk.stat(name)
		if err != nil {
			return err
		}
		if info != nil {
			a.steps = append(a.steps, &step{Kind: stepRemove, path: name, seen: info})
		}
	}
	return nil
}

// write makes the step that puts a file in its place, or finds that there is
// no room for it.
func (a *arrangement) write(name string) (*step, error) {
	s := &step{Kind: stepCreate, path: name, out: a.final[name]}
	if a.occupied[name] {
		a.conflict(name, "the diff needs this path for a file and for a directory")
		return s, nil
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		seen, err := a.disk.dir(dir)
		if err != nil {
			return s, err
		}
		if seen.lead != leadDir {
			a.mkdirs[dir] = true
			if why, err := a.freed(dir); err != nil || why != "" {
				if why != "" {
					a.conflict(name, why)
				}
				return s, err
			}
		}
	}
	info, lead, err := a.disk.stat(name)
	switch {
	case err != nil || lead != leadDir || info == nil:
		return s, err
	case info.IsDir():
		ok, err := a.vanishes(name, false)
		if err == nil && !ok {
			a.conflict(name, "there is a directory with this name, which is not empty")
		}
		a.rmdirs[name] = true
		return s, err
	}
	s.Kind, s.seen = stepReplace, info
	return s, nil
}

// freed says why the path dir, which is no directory, cannot become one.
func (a *arrangement) freed(dir string) (string, error) {
	info, lead, err := a.disk.stat(dir)
	if err != nil || lead != leadDir || info == nil {
		return "", err // missing, or decided further up
	}
	if _, gone := a.removed[dir]; gone && a.final[dir] == nil {
		return "", nil
	}
	return "a part of the path is a file, not a directory", nil
}

// vanishes tells whether a directory will be gone once the files that the
// diff takes away are: it must hold nothing else, and git only removes empty
// directories in which there was such a file, except at the very place.
func (a *arrangement) vanishes(dir string, inner bool) (bool, error) {
	entries, err := a.disk.list(dir)
	if err != nil {
		return false, err
	}
	if inner && len(entries) == 0 {
		return false, nil
	}
	for _, entry := range entries {
		name := dir + "/" + entry.Name()
		if !entry.IsDir() {
			if !a.removed[name] {
				return false, nil
			}
			continue
		}
		if ok, err := a.vanishes(name, true); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// directories makes the steps that remove and make directories: inner ones
// are removed first and made last.
func (a *arrangement) directories() error {
	byDepth := func(x, y string) int {
		return cmp.Or(cmp.Compare(strings.Count(x, "/"), strings.Count(y, "/")), strings.Compare(x, y))
	}
	rmdirs := slices.SortedFunc(maps.Keys(a.rmdirs), byDepth)
	slices.Reverse(rmdirs)
	for _, dir := range rmdirs {
		seen, err := a.disk.dir(dir)
		if err != nil {
			return err
		}
		if seen.lead == leadDir {
			a.steps = append(a.steps, &step{Kind: stepRmdir, path: dir, Perm: seen.info.Mode().Perm(), must: a.rmdirs[dir]})
		}
	}
	for _, dir := range slices.SortedFunc(maps.Keys(a.mkdirs), byDepth) {
		a.steps = append(a.steps, &step{Kind: stepMkdir, path: dir})
	}
	return nil
}
