package files

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"
)

// DefaultListLimit is how many files are listed unless the caller says.
const DefaultListLimit = 1000

// maxListTime is how long a listing takes at most.
const maxListTime = time.Minute

var errTime = errors.New("the listing took too long")

// ListOptions says what to list.
type ListOptions struct {
	Scope
	Limit int // most files to return; 0 means 1000
}

// Listing is the answer of List.
type Listing struct {
	Files []string `json:"files"` // in the order of Compare; never nil
	// Truncated means that there are, or may be, more: more than the limit, in
	// a directory that cannot be read, by a path that is too long, or where the
	// time did not suffice to look.
	Truncated bool `json:"truncated"`
}

// List returns the regular files of a tree. If there are more than the limit
// it returns the first ones and goes no further.
func List(ctx context.Context, root *os.Root, o ListOptions) (Listing, error) {
	if o.Limit <= 0 {
		o.Limit = DefaultListLimit
	}
	ctx, cancel := context.WithTimeoutCause(ctx, maxListTime, errTime)
	defer cancel()
	l := Listing{Files: []string{}}
	missed, err := walkAll(ctx, root, o.Scope, nil, func(f File) error {
		if len(l.Files) == o.Limit {
			l.Truncated = true
			return fs.SkipAll
		}
		l.Files = append(l.Files, f.Path)
		return nil
	})
	late := err != nil && errors.Is(context.Cause(ctx), errTime)
	if err != nil && !late {
		return Listing{}, err
	}
	l.Truncated = l.Truncated || missed || late
	return l, nil
}
