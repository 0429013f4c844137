package files

import (
	"iter"
	"slices"
	"strings"
)

// Order gathers values by path and gives them back in the order of Compare,
// those of one path as they came. To sort so many paths takes several times as
// long, because most of what they begin with is the same: here names are
// compared only within a directory, and directories are put in order one after
// the other, while the first values are already in use. The zero Order is
// empty. It is not safe for concurrent use.
type Order[T any] struct {
	top  shelf[T]
	dirs map[string]*shelf[T]

	// Paths come directory by directory, so the last one is kept.
	dir   string
	shelf *shelf[T]
}

// shelf is a directory that something is in, itself or further down.
type shelf[T any] []entry[T]

type entry[T any] struct {
	name  string
	shelf *shelf[T] // nil for a value
	value T
}

// Add adds a value.
func (o *Order[T]) Add(path string, value T) {
	i := strings.LastIndexByte(path, '/')
	if dir := path[:max(i, 0)]; o.shelf == nil || dir != o.dir {
		o.dir, o.shelf = dir, o.at(dir)
	}
	*o.shelf = append(*o.shelf, entry[T]{name: path[i+1:], value: value})
}

// at returns the shelf of a directory.
func (o *Order[T]) at(dir string) *shelf[T] {
	if dir == "" {
		return &o.top
	}
	s := o.dirs[dir]
	if s == nil {
		s = &shelf[T]{}
		if o.dirs == nil {
			o.dirs = map[string]*shelf[T]{}
		}
		o.dirs[dir] = s
		i := strings.LastIndexByte(dir, '/')
		parent := o.at(dir[:max(i, 0)])
		*parent = append(*parent, entry[T]{name: dir[i+1:], shelf: s})
	}
	return s
}

// All returns the values.
func (o *Order[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) { o.top.all(yield) }
}

func (s shelf[T]) all(yield func(T) bool) bool {
	slices.SortStableFunc(s, func(a, b entry[T]) int { return strings.Compare(a.name, b.name) })
	for i := range s {
		if e := &s[i]; e.shelf != nil && !e.shelf.all(yield) || e.shelf == nil && !yield(e.value) {
			return false
		}
	}
	return true
}
