package audit

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
)

// Append writes an entry. Its input, output and reason are redacted, and cut
// if they are too long; e itself is not changed. When Append returns an error
// the entry may not be in the log, and what it was about must not happen.
func (l *Log) Append(ctx context.Context, e Entry) error {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	if err := l.prepare(&e); err != nil {
		return unavailable(l.dir, err)
	}
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return unavailable(l.dir, &bridge.Error{Code: bridge.CodeBusy, Message: "other entries are waiting", Cause: ctx.Err()})
	}
	if l.closed {
		return unavailable(l.dir, errors.New("the log is closed"))
	}
	return l.locked(ctx, func() error {
		err := l.write(e)
		if err != nil {
			l.last = nil
			err = errors.Join(err, l.open.close())
		}
		return err
	})
}

// locked calls f with the lock that every writer of the directory takes.
func (l *Log) locked(ctx context.Context, f func() error) error {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	unlock, err := durable.Lock(ctx, filepath.Join(l.dir, lockName))
	if err != nil {
		return unavailable(l.dir, err)
	}
	err = f()
	if unlockErr := unlock(); err == nil && unlockErr != nil {
		err = unavailable(l.dir, unlockErr)
	}
	return err
}

// prepare does what needs no lock.
func (l *Log) prepare(e *Entry) error {
	for _, field := range []*any{&e.Input, &e.Output} {
		data, err := l.bounded(*field)
		if err != nil {
			return err
		}
		if *field = nil; data != nil {
			*field = data
		}
	}
	texts := []*string{&e.Reason, &e.Sandbox, &e.Caller, &e.Connection, &e.Request}
	if e.Result != nil {
		r := *e.Result
		e.Result = &r
		texts = append(texts, &r.Preview)
	}
	for _, text := range texts {
		if clean, ok := l.opts.Redact(*text).(string); ok {
			*text = clean
		} else if *text != "" {
			*text = "(not readable after redaction)"
		}
	}
	for _, field := range []*string{&e.Session, &e.Door, &e.Tool, &e.Call, &e.Decision, &e.Reason, &e.Sandbox} {
		*field = cut(*field, maxText)
	}
	for _, field := range []*string{&e.Caller, &e.Connection, &e.Request} {
		*field = cut(*field, maxName)
	}
	e.PID = os.Getpid()
	e.Repair, e.Segment = nil, nil // writeOne sets the rest
	return nil
}

// write appends e. If the end of the log was damaged, an entry about that comes
// first. The lock must be held.
func (l *Log) write(e Entry) error {
	now := l.opts.now().UTC()
	at, err := l.current(dayFile(now))
	if err != nil {
		return unavailable(l.dir, err)
	}
	if at.file == at.lastFile && at.size >= l.opts.segmentSize {
		at.file, at.info, at.size, at.open = nextFile(at.file), nil, 0, false
	}
	if at.behind || at.headless {
		// head.json may never be more than one entry behind, and is there
		// before the first, so that its absence always tells something.
		if err := l.writeHead(at); err != nil {
			return err
		}
		at.behind, at.headless = false, false
	}
	if l.open.witness.f == nil && (at.repair == nil || at.repair.Cause == CauseUnfinished) {
		// It is there before an entry says so. What it has to tell, or that it
		// is missing, is on record first.
		if err := l.writeWitness(at); err != nil {
			return err
		}
	}
	if at.repair != nil {
		r := Entry{Time: now, PID: e.PID, Hook: HookRepair, Reason: string(at.repair.Cause), Repair: at.repair}
		if err := l.writeOne(at, r); err != nil {
			return err
		}
		at.repair = nil
	}
	e.Time = now
	if err := l.writeOne(at, e); err != nil {
		return err
	}
	l.last, l.mine = at, &head{Seq: at.seq, Hash: at.hash, File: at.lastFile}
	l.startPrune(at.file)
	return nil
}

// current returns where the log ends. It is known from the last time if
// neither the file nor head.json has changed since.
func (l *Log) current(today string) (*end, error) {
	mine := l.mine
	if at := l.last; at != nil && at.info != nil {
		info, err := os.Stat(filepath.Join(l.dir, at.file))
		same := err == nil && os.SameFile(info, at.info) // it is open, so no other file can pass for it
		if same && info.Size() == at.size && today <= at.file && l.witnessThere() && l.open.head.untouched(filepath.Join(l.dir, headName)) {
			return at, nil
		}
		if same && info.Size() >= at.size {
			mine = nil // others have written to it; no need to look for our last entry
		}
	}
	l.last = nil
	if err := l.open.close(); err != nil {
		return nil, err
	}
	return findEnd(l.dir, today, l.opts.Witness, mine)
}

// writeOne appends one entry in one write, so that a crash leaves at most one
// unfinished line, moves at on and then brings head.json up to date.
func (l *Log) writeOne(at *end, e Entry) error {
	e.Seq, e.Prev = at.seq+1, at.hash
	e.Witness = witnessID(l.opts.Witness)
	if e.PrevFile = ""; at.lastFile != at.file {
		// The one write that begins a file closes the one before.
		var err error
		e.PrevFile = at.lastFile
		if e.Segment, err = summarize(l.dir, at); err != nil {
			return unavailable(filepath.Join(l.dir, at.lastFile), err)
		}
	}
	data, hash, err := seal(e)
	if err != nil {
		return unavailable(l.dir, err)
	}
	data = append(data, '\n')
	if at.open {
		data = append([]byte{'\n'}, data...)
	}
	if err := l.open.appendTo(l.dir, at.file, data); err != nil {
		return unavailable(filepath.Join(l.dir, at.file), err)
	}
	if at.size += int64(len(data)); at.info == nil {
		if at.info, err = l.open.data.Stat(); err != nil {
			return unavailable(filepath.Join(l.dir, at.file), err)
		}
	}
	at.seq, at.hash, at.lastFile, at.open = e.Seq, hash, at.file, false
	return errors.Join(l.writeHead(at), l.writeWitness(at))
}

func (l *Log) writeHead(at *end) error {
	return l.open.head.put(filepath.Join(l.dir, headName), at)
}
