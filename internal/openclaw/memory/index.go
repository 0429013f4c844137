package memory

import (
	"context"
	"os"
	"sync"
	"time"
)

// Index is a search index over folders, kept in memory only. Every search first
// looks for files that were added, changed or removed since the last. Its
// methods may be called concurrently; one search runs at a time.
type Index struct {
	folders []Folder

	mu       sync.Mutex
	files    map[name]*file
	terms    map[string]uint32
	postings [][]posting // by term
	sections []entry     // those of files that are gone are dead
	live     int
	length   int64 // in terms, of all live sections
	skipped  int
	unread   int
	round    int // of refreshing
}

// file is what the index knows of one.
type file struct {
	state
	indexed time.Time
	first   uint32 // its sections
	count   uint32
	failed  bool
	seen    int // in which round
}

// entry is a section in the index; its text is read again when it is shown.
type entry struct {
	name    name
	heading string
	first   int
	last    int
	length  int32
	dead    bool
}

// posting says that a section holds a term, and how much.
type posting struct {
	section uint32
	weight  uint32
}

// New returns an index that reads nothing until it is searched. Of two folders
// with the same file both count.
func New(folders ...Folder) *Index {
	return &Index{folders: folders, files: map[name]*file{}, terms: map[string]uint32{}}
}

// racy is how close to its own reading a file's time may be that a later
// change could leave the time as it is.
const racy = 100 * time.Millisecond

// refresh brings the index up to date. The caller holds mu.
func (x *Index) refresh(ctx context.Context, roots []*os.Root) error {
	there, skipped, err := walk(ctx, x.folders, roots)
	if err != nil {
		return err
	}
	x.skipped = skipped
	x.round++
	var fresh []found
	for _, now := range there {
		f := x.files[now.name]
		if f != nil && now.state.size == f.size && now.state.modified.Equal(f.modified) && f.indexed.Sub(f.modified) > racy {
			f.seen = x.round
			continue
		}
		fresh = append(fresh, now)
	}
	if len(x.files) != len(there)-len(fresh) { // something has gone or changed
		for n, f := range x.files {
			if f.seen != x.round {
				x.forget(n, f)
			}
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	if err := x.learn(ctx, roots, fresh); err != nil {
		return err
	}
	if dead := len(x.sections) - x.live; dead > x.live/2+1000 {
		x.compact()
	}
	return nil
}

func (x *Index) forget(n name, f *file) {
	delete(x.files, n)
	if f.failed {
		x.unread--
	}
	for i := f.first; i < f.first+f.count; i++ {
		e := &x.sections[i]
		e.dead = true
		x.live--
		x.length -= int64(e.length)
	}
}

// compact drops the dead sections.
func (x *Index) compact() {
	moved := make([]uint32, len(x.sections))
	kept := make([]entry, 0, x.live)
	for i, e := range x.sections {
		if !e.dead {
			moved[i] = uint32(len(kept))
			kept = append(kept, e)
		}
	}
	for t, list := range x.postings {
		rest := list[:0]
		for _, p := range list {
			if !x.sections[p.section].dead {
				rest = append(rest, posting{moved[p.section], p.weight})
			}
		}
		x.postings[t] = rest
	}
	for _, f := range x.files {
		if f.count > 0 {
			f.first = moved[f.first] // a file's sections stay together
		}
	}
	x.sections = kept
}
