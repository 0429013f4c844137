//go:build !linux

package paths

type opened struct{}

// Inside says where a path below the root leads, relative to the root; ok is
// false if that is outside, or if Resolve gives an error. No quicker way than
// Resolve is known here.
func (l *Lookup) Inside(path string) (rel string, ok bool) { return l.resolve(path) }

// Close lets go of nothing.
func (l *Lookup) Close() {}
