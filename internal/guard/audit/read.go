package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Tail returns the last n entries of the log in dir, oldest first. Lines that
// are no entries are left out; Verify is there to complain about them.
func Tail(ctx context.Context, dir string, n int) ([]Entry, error) {
	names, err := files(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []Entry
	for line, err := range linesOf(dir, names) {
		if errors.Is(err, fs.ErrNotExist) {
			continue // pruned
		}
		if err := errors.Join(err, ctx.Err()); err != nil {
			return nil, err
		}
		if len(all) >= n {
			break
		}
		if e, err := unseal(line.data); err == nil || errors.Is(err, errSeal) {
			all = append(all, e)
		}
	}
	slices.Reverse(all)
	return all, nil
}

const followPoll = 200 * time.Millisecond

// Follow yields the entries of the log in dir from number from on, and then
// new ones as they are written, until ctx ends. A line that is no entry yields
// an error, and so does one that was changed, together with the entry; the
// caller may go on. Nothing is yielded twice, even if a file is cut short or
// replaced. The directory may appear later.
func Follow(ctx context.Context, dir string, from uint64) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		f := &follower{dir: dir, next: max(from, 1), yield: yield}
		defer f.close()
		tick := time.NewTicker(followPoll)
		defer tick.Stop()
		for f.poll(ctx) {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}
}

type follower struct {
	dir   string
	next  uint64 // the entry to yield next, or a later one
	yield func(Entry, error) bool
	name  string // the file being read; "" before the first
	file  *lineReader
}

func (f *follower) close() {
	if f.file != nil {
		_ = f.file.close() // opened for reading only
		f.file = nil
	}
}

// poll yields the entries written since the last call. It returns false when the caller is done.
func (f *follower) poll(ctx context.Context) bool {
	names, err := files(f.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	if err != nil {
		return f.yield(Entry{}, err)
	}
	if f.name == "" {
		f.name = f.start(names)
	}
	for _, name := range names {
		if name < f.name {
			continue
		}
		if name > f.name || f.file == nil || f.replaced() {
			f.close()
			f.name = name
			f.file, err = openLines(filepath.Join(f.dir, name))
			if errors.Is(err, fs.ErrNotExist) {
				continue // pruned
			}
			if err != nil {
				return f.yield(Entry{}, err)
			}
		}
		if !f.drain(ctx) {
			return false
		}
	}
	return true
}

// start returns the file in which to look for the first entry: the last one
// that begins before it.
func (f *follower) start(names []string) string {
	first := ""
	for _, name := range names {
		e, err := firstEntry(filepath.Join(f.dir, name))
		if err == nil && e != nil && e.Seq > f.next && first != "" {
			break
		}
		first = name
	}
	return first
}

// replaced reports whether the file being read is not, or no longer as long
// as, the one of that name.
func (f *follower) replaced() bool {
	now, err := os.Stat(filepath.Join(f.dir, f.name))
	if err != nil {
		return false
	}
	then, err := f.file.f.Stat()
	return err != nil || !os.SameFile(now, then) || now.Size() < f.file.at
}

func (f *follower) drain(ctx context.Context) bool {
	for ctx.Err() == nil {
		data, complete, err := f.file.next()
		if err != nil {
			return f.yield(Entry{}, err)
		}
		if !complete {
			return true
		}
		e, err := unseal(data)
		if err != nil && !errors.Is(err, errSeal) {
			if len(bytes.TrimSpace(data)) > 0 && !f.yield(Entry{}, fmt.Errorf("%s: %d bytes that are no entry", f.name, len(data))) {
				return false
			}
			continue
		}
		if e.Seq < f.next {
			continue
		}
		f.next = e.Seq + 1
		if err != nil {
			err = fmt.Errorf("%s: entry %d: %w", f.name, e.Seq, err)
		}
		if !f.yield(e, err) {
			return false
		}
	}
	return true
}
