package sessionstore

import (
	"path/filepath"
	"strings"
	"time"
)

// Filter says which sessions are wanted; what is empty does not matter.
type Filter struct {
	Directory  string // this one or one below, as an absolute path
	Repository string // owner/name, in any case
	Branch     string
	Since      time.Time // used then or later
	Text       string    // in the title, the directory or the model, in any case, or the beginning of the id
}

// Match reports whether a session is wanted.
func (f Filter) Match(e Entry) bool {
	return (f.Directory == "" || within(f.Directory, e.WorkingDirectory)) &&
		(f.Repository == "" || strings.EqualFold(f.Repository, e.Repository)) &&
		(f.Branch == "" || f.Branch == e.Branch) &&
		!e.Updated.Before(f.Since) &&
		(strings.HasPrefix(e.ID, f.Text) || strings.Contains(strings.ToLower(e.Title+"\n"+e.WorkingDirectory+"\n"+e.Model), strings.ToLower(f.Text)))
}

// within reports whether dir is top or below it.
func within(top, dir string) bool {
	rel, err := filepath.Rel(top, dir)
	return err == nil && dir != "" && filepath.IsLocal(rel)
}
