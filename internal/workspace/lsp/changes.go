package lsp

import (
	"context"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Servers such as gopls read a file once and then rely on being told of
// changes, which may be made by anybody. So before an operation the tree is
// looked through for files the server cares about. It costs a stat a file;
// to keep that a small part of the whole, the next look comes only after
// several times what the last one took, unless Manager.Changed was called.
const (
	maxWatched = 50_000 // files; past that, changes are not looked for
	restFactor = 10
)

type stamp struct {
	modified time.Time
	size     int64
}

// changes remembers the last look at a server's files.
type changes struct {
	mu    sync.Mutex
	seen  map[string]stamp // by absolute path
	next  time.Time
	given bool // up: too many files
}

// fileEvent is the protocol's: 1 created, 2 changed, 3 deleted.
type fileEvent struct {
	URI  string `json:"uri"`
	Type int    `json:"type"`
}

// look compares the tree with the last look.
func (c *changes) look(dir string, server Server) []fileEvent {
	began := time.Now()
	now := make(map[string]stamp, len(c.seen))
	// What cannot be read is not seen; the server cannot read it either.
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return fs.SkipDir
		}
		name := e.Name()
		switch {
		case e.IsDir():
			if path != dir && (name == "node_modules" || strings.HasPrefix(name, ".")) {
				return fs.SkipDir
			}
			return nil
		case !e.Type().IsRegular() || !server.watches(name):
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return nil //nolint:nilerr // it has just gone
		}
		now[path] = stamp{info.ModTime(), info.Size()}
		if len(now) > maxWatched {
			c.given = true
			return fs.SkipAll
		}
		return nil
	})
	c.next = time.Now().Add(restFactor * time.Since(began))
	if c.given {
		c.seen = nil
		return nil
	}
	var events []fileEvent
	for path, s := range now {
		if old, known := c.seen[path]; !known {
			events = append(events, fileEvent{fileURI(path), 1})
		} else if old != s {
			events = append(events, fileEvent{fileURI(path), 2})
		}
	}
	for path := range c.seen {
		if _, still := now[path]; !still {
			events = append(events, fileEvent{fileURI(path), 3})
		}
	}
	c.seen = now
	return events
}

func (s Server) watches(name string) bool {
	match := func(e string) bool { return name == e || (strings.HasPrefix(e, ".") && strings.HasSuffix(name, e)) }
	return slices.ContainsFunc(s.Extensions, match) || slices.Contains(s.watch, name)
}

// notifyChanges lets a server that asked for it know what changed on disk.
func (c *client) notifyChanges(ctx context.Context, now bool) {
	if !c.hasRegistered("workspace/didChangeWatchedFiles") {
		return
	}
	c.changes.mu.Lock()
	defer c.changes.mu.Unlock()
	if c.changes.given || (!now && time.Now().Before(c.changes.next)) {
		return
	}
	if events := c.changes.look(c.m.dir, c.server); len(events) > 0 {
		// If the server has ended, the operation finds out.
		_ = c.conn.Notify(ctx, "workspace/didChangeWatchedFiles", map[string]any{"changes": events})
	}
}
