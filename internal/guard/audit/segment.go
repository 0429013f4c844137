package audit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// segmentSize is the size at which a file is closed before its day is over.
const segmentSize = 64 << 20

// Segment sums up a file of the log that is closed. The first entry of the
// next file carries it, so the chain, head.json and the witness vouch for it
// as they do for every entry: the file may go, and the rest still verifies.
//
// A file is closed when its day is over or at segmentSize. The oldest closed
// files may be moved away or deleted, by Prune or by hand. Verify then says
// which entries are missing and which entry holds the summary. Any other
// missing file is a problem.
type Segment struct {
	File      string    `json:"file"`
	First     uint64    `json:"first"` // the numbers of its entries
	Last      uint64    `json:"last"`
	From      time.Time `json:"from"` // their times
	To        time.Time `json:"to"`
	FirstHash string    `json:"first_hash"`
	LastHash  string    `json:"last_hash"` // stands for all entries up to there
}

// closes reports whether e begins a file with the summary of all before it.
func (e *Entry) closes() bool {
	s := e.Segment
	return s != nil && s.File == e.PrevFile && s.Last+1 == e.Seq && s.LastHash == e.Prev
}

// begins reports whether e is the first entry of a file.
func (e *Entry) begins() bool { return e.Seq == 1 || e.PrevFile != "" }

// summarize returns the summary of the file that holds the last entry, or nil
// if entries are missing at the beginning or the end of the file.
func summarize(dir string, at *end) (*Segment, error) {
	if !fileName.MatchString(at.lastFile) {
		return nil, nil // there is none, or head.json names something else
	}
	first, err := firstEntry(filepath.Join(dir, at.lastFile))
	if errors.Is(err, fs.ErrNotExist) || err == nil && (first == nil || !first.begins()) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	t, err := readTail(dir, at.lastFile)
	if err != nil || t.last == nil || t.last.Seq != at.seq || t.last.Hash != at.hash {
		return nil, err
	}
	return &Segment{File: at.lastFile, First: first.Seq, Last: at.seq, From: first.Time, To: t.last.Time, FirstHash: first.Hash, LastHash: at.hash}, nil
}

// nextFile names the file after one that is full: audit-2026-03-01.jsonl,
// audit-2026-03-01_0002.jsonl and so on, which is also how names sort.
func nextFile(name string) string {
	day, part, _ := strings.Cut(strings.TrimSuffix(name, ".jsonl"), "_")
	n, err := strconv.Atoi(part)
	if err != nil {
		n = 1 // the first of a day has no number
	}
	return fmt.Sprintf("%s_%04d.jsonl", day, n+1)
}

// firstEntry returns the first entry of a file, or nil if there is none.
func firstEntry(path string) (e *Entry, err error) {
	r, err := openLines(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	for {
		data, complete, err := r.next()
		if err != nil || !complete {
			return nil, err
		}
		if e, err := unseal(data); err == nil {
			return &e, nil
		}
	}
}

// Old is a row of closed segments at the beginning of a log.
type Old struct {
	Files []string  `json:"files"`
	Bytes int64     `json:"bytes"`
	First uint64    `json:"first,omitempty"` // the numbers of their entries
	Last  uint64    `json:"last,omitempty"`
	To    time.Time `json:"to,omitzero"` // the time of the last
}

// OlderThan returns the closed segments of the log in dir whose entries are
// all from before a time, after it has verified them. Files from before there
// were summaries go together with the first one that has one.
func OlderThan(ctx context.Context, dir string, before time.Time) (Old, error) {
	names, err := files(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return Old{}, nil
	}
	if err != nil {
		return Old{}, err
	}
	var old Old
	var next *Entry // the one that closes them
	for i, name := range names {
		e, err := firstEntry(filepath.Join(dir, name))
		if err != nil {
			return Old{}, err
		}
		if i == 0 && e != nil {
			old.First = e.Seq
		}
		if i == 0 || e == nil || !e.closes() {
			continue
		}
		if !e.Segment.To.Before(before) {
			break
		}
		next, old.Files, old.Last, old.To = e, names[:i], e.Segment.Last, e.Segment.To
	}
	if next == nil {
		return Old{}, nil
	}
	v := &verifier{ctx: ctx, dir: dir, hash: genesis}
	for _, name := range old.Files {
		if _, err := v.readFile(name, false); err != nil {
			return Old{}, err
		}
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			return Old{}, err
		}
		old.Bytes += info.Size()
	}
	if v.endJunk(next); v.report.OK() && !v.sums(next.Segment) {
		v.problem(Problem{File: v.name, Seq: next.Seq, Kind: KindSegment, Text: fmt.Sprintf("entry %d does not have its summary", next.Seq)})
	}
	if !v.report.OK() {
		return Old{}, &bridge.Error{Code: bridge.CodeConflict,
			Message: fmt.Sprintf("nothing was deleted: the old segments of the audit log in %s are not what was written: %s", dir, v.report.Problems[0]),
			Remedy:  "Look into it with `copilot-bridge audit verify`. If they are to go all the same, move the files away yourself, the oldest first."}
	}
	return old, nil
}

// Prune deletes what OlderThan returns, the oldest first. The log says so
// before it happens.
func (l *Log) Prune(ctx context.Context, before time.Time) (Old, error) {
	old, err := OlderThan(ctx, l.dir, before)
	if err != nil || len(old.Files) == 0 {
		return old, err
	}
	err = l.Append(ctx, Entry{Hook: HookPrune, Pruned: old.Last,
		Reason: fmt.Sprintf("entries %d to %d, from before %s, are deleted: %d segments", old.First, old.Last, before.UTC().Format(time.DateOnly), len(old.Files))})
	if err != nil {
		return Old{}, err
	}
	return old, l.locked(ctx, func() error {
		for _, name := range old.Files {
			if err := os.Remove(filepath.Join(l.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err // the rest stays, and verifies
			}
		}
		return nil
	})
}

const pruneTime = 30 * time.Second

// startPrune deletes segments older than Options.Keep in the background, once
// for each file that this log writes to. A failure becomes an entry, since no
// caller waits for the outcome. The turn must be held.
func (l *Log) startPrune(file string) {
	if l.opts.Keep <= 0 || l.pruned == file {
		return
	}
	l.pruned = file
	before := l.opts.now().Add(-l.opts.Keep)
	l.pruning.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), pruneTime)
		defer cancel()
		if _, err := l.Prune(ctx, before); err != nil && !errors.Is(err, fs.ErrNotExist) { // another process was first
			// If this fails too, the segments are still there and are tried again.
			_ = l.Append(ctx, Entry{Hook: HookError, Reason: "old segments were not deleted: " + err.Error()})
		}
	})
}
