package files

import (
	"iter"
	"slices"
	"strings"
)

// Compare orders paths as a walk visits them: element by element, so that the
// files of a directory stay together.
func Compare(a, b string) int { return strings.Compare(sortKey(a), sortKey(b)) }

// sortKey lets a slash come before every other byte. No path holds a zero byte.
func sortKey(path string) string { return strings.ReplaceAll(path, "/", "\x00") }

// Order gathers values by path and returns them in the order of Compare, those
// of one path as they came. It makes the keys once: to compare paths byte by
// byte takes several times as long. The zero Order is empty. It is not safe
// for concurrent use.
type Order[T any] struct{ entries []entry[T] }

type entry[T any] struct {
	key   string
	value T
}

// Add adds a value.
func (o *Order[T]) Add(path string, value T) {
	o.entries = append(o.entries, entry[T]{sortKey(path), value})
}

// All returns the values.
func (o *Order[T]) All() iter.Seq[T] {
	slices.SortStableFunc(o.entries, func(a, b entry[T]) int { return strings.Compare(a.key, b.key) })
	return func(yield func(T) bool) {
		for _, e := range o.entries {
			if !yield(e.value) {
				return
			}
		}
	}
}
