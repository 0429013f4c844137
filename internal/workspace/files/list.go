package files

import (
	"context"
	"io/fs"
	"os"
)

// DefaultListLimit is how many files are listed unless somebody asks for more.
const DefaultListLimit = 1000

// ListOptions says what to list.
type ListOptions struct {
	Scope
	Limit int // most files to return; 0 means 1000
}

// Listing is the answer of List.
type Listing struct {
	Files     []string `json:"files"` // in the order of Compare; never nil
	Truncated bool     `json:"truncated"`
}

// List returns the regular files of a tree. If there are more than the limit
// it returns the first ones and goes no further.
func List(ctx context.Context, root *os.Root, o ListOptions) (Listing, error) {
	if o.Limit <= 0 {
		o.Limit = DefaultListLimit
	}
	l := Listing{Files: []string{}}
	err := Walk(ctx, root, o.Scope, 1, func(f File) error {
		if len(l.Files) == o.Limit {
			l.Truncated = true
			return fs.SkipAll
		}
		l.Files = append(l.Files, f.Path)
		return nil
	})
	if err != nil {
		return Listing{}, err
	}
	return l, nil
}
