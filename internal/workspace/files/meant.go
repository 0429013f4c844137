package files

import (
	"context"
	"os"
	"path"
	"slices"
)

// Meant returns those of some paths that Walk would visit, in the order of
// Compare. It looks into no other directories than those on the way.
func Meant(ctx context.Context, root *os.Root, scope Scope, paths []string) ([]string, error) {
	keep := scope.Keep
	scope.Keep = func(p string) bool { return slices.Contains(paths, p) && (keep == nil || keep(p)) }
	filter, err := NewFilter(scope)
	if err != nil {
		return nil, err
	}
	out := []string{}
	w := &walk{scope: scope, filter: filter, bases: []string{}, visit: func(f File) error { out = append(out, f.Path); return nil }}
	for _, p := range paths {
		if dir := path.Dir(p); dir != "." {
			w.bases = append(w.bases, dir)
		}
	}
	var top *level
	if !scope.NoIgnore {
		var above []string
		above, w.inRepository = Repository(root.Name())
		top = levelsAbove(root.Name(), above)
	}
	start := job{parent: &node{root: root}, name: ".", level: top}
	start.parent.refs.Store(2) // one for the job, one that keeps the caller's root open
	return out, fault("list", "the workspace", w.inOrder(ctx, start))
}
