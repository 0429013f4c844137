package editor

import (
	"context"
	"path/filepath"
	"sync"
)

// unsaved are the texts of documents that were sent once, by path. They are
// not sent again while their version stays.
type unsaved struct {
	mu    sync.Mutex
	known map[string]version
}

type version struct {
	number int64
	text   string
}

// Unsaved returns the texts of open documents that differ from their files, by
// absolute path.
func (c *Conn) Unsaved(ctx context.Context) (map[string]string, error) {
	u := &c.unsaved
	u.mu.Lock()
	known := u.known // replaced as a whole, never changed
	u.mu.Unlock()
	have := make(map[string]int64, len(known))
	for path, v := range known {
		have[path] = v.number
	}
	dirty, err := c.Documents(ctx, have)
	if err != nil {
		return nil, err
	}
	texts, now := make(map[string]string, len(dirty)), make(map[string]version, len(dirty))
	for _, doc := range dirty {
		v := version{doc.Version, known[doc.Path].text}
		if doc.Text != nil {
			v.text = *doc.Text
		}
		texts[filepath.Clean(doc.Path)], now[doc.Path] = v.text, v
	}
	// Of two answers at a time the later one may win: either is right about
	// the versions that it names.
	u.mu.Lock()
	u.known = now
	u.mu.Unlock()
	return texts, nil
}
