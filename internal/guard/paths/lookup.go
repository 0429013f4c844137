package paths

// Lookup resolves many paths, most of which have their directory in common with
// one that came shortly before, at a part of what Resolve costs. Its answers
// are those of Resolve, with one difference: that no link is on the way to a
// directory is found out when it is met, and holds as long as it is kept open.
// So it is for one look at a tree, and for one goroutine.
type Lookup struct {
	w *Workspace
	opened
}

// Lookup returns one, which must be closed.
func (w *Workspace) Lookup() *Lookup { return &Lookup{w: w} }

func (l *Lookup) resolve(path string) (rel string, ok bool) {
	res, err := l.w.Resolve(path)
	return res.Rel, err == nil && res.Inside
}
