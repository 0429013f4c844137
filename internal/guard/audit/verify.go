package audit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
)

const maxProblems = 1000

// Verify reads the log in dir from its first entry to its last and reports
// everything that is wrong with it. expect, if not empty, is the hash of an
// entry that the log must contain. The error is about reading, not about what
// was read. Entries may be appended meanwhile; at the very end Verify waits a
// moment for those who do. witness is the path of Options.Witness, or "".
//
// It finds every entry that was changed, removed, moved, repeated or inserted.
// Entries cut off the end are found with head.json, which names the last entry;
// if that file was removed or replaced, Verify or the next entry notices. A log
// that is missing or was replaced by another is found with the witness. A
// missing witness is found because entries say that it was there.
//
// A person who may write both directories can write a new log with a matching
// head.json and witness, or remove everything. That is found only with an
// expect that was kept elsewhere: another log does not contain it.
func Verify(ctx context.Context, dir, expect, witness string) (Report, error) {
	for tries := 3; ; tries-- {
		v := &verifier{ctx: ctx, dir: dir, expect: expect, witness: witness, hash: genesis}
		err := v.run()
		if tries > 1 && errors.Is(err, fs.ErrNotExist) && bridge.CodeOf(err) != bridge.CodeNotFound {
			continue // a segment was pruned meanwhile
		}
		return v.report, err
	}
}

// VerifyFile verifies one segment that may have been moved away from the log
// in dir. Where it ends is known from the segment after it, which is looked
// for beside it and in dir.
func VerifyFile(ctx context.Context, path, dir, expect string) (Report, error) {
	v := &verifier{ctx: ctx, dir: filepath.Dir(path), expect: expect, hash: genesis, alone: true}
	if _, err := v.readFile(filepath.Base(path), false); err != nil {
		return v.report, err
	}
	if v.report.LastSeq, v.report.Head = v.seq, v.hash; v.seq == 0 {
		v.problem(Problem{File: v.name, Kind: KindRemoved, Text: "there is no entry in it"})
	}
	for _, place := range []string{v.dir, dir} {
		if err := v.findSummary(place); err != nil {
			return v.report, err
		}
	}
	if v.unfinished() {
		v.report.Repaired++
	} else {
		v.endJunk(nil)
	}
	v.expected()
	return v.report, nil
}

// unfinished reports whether the file ends with what a crash leaves, which the
// next entry closes off.
func (v *verifier) unfinished() bool {
	return v.junk.sum != nil && !v.junk.whole && !v.junk.newline && v.junk.file == v.name
}

// findSummary compares the one file that was read with its summary, if a
// segment in dir begins with it.
func (v *verifier) findSummary(dir string) error {
	if v.report.ClosedBy != nil {
		return nil
	}
	names, err := files(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		e, err := firstEntry(path)
		if err != nil {
			return err
		}
		if e == nil || !e.closes() || e.Segment.First != v.begin.Seq {
			continue
		}
		v.report.ClosedBy = &Holder{Seq: e.Seq, Path: path}
		v.endJunk(e)
		if !v.sums(e.Segment) {
			v.problem(Problem{File: v.name, Seq: e.Seq, Kind: KindSegment,
				Text: fmt.Sprintf("it is not the segment that entry %d in %s closes: entries were added, removed or changed", e.Seq, path)})
		}
		return nil
	}
	return nil
}

// sums reports whether s is the summary of the file that was read last.
func (v *verifier) sums(s *Segment) bool {
	return s.First == v.begin.Seq && s.FirstHash == v.begin.Hash && s.From.Equal(v.begin.Time) && s.Last == v.seq && s.LastHash == v.hash && s.To.Equal(v.time)
}

type verifier struct {
	ctx    context.Context
	dir    string
	expect string
	found  bool // expect was seen
	report Report

	witness string // the path, or ""
	known   *head  // what it said before the log was read
	other   bool   // the log has another entry there
	signed  bool   // an entry says that the witness was there

	seq   uint64    // the highest entry so far
	hash  string    // its hash
	time  time.Time // its time
	file  string    // and where it is
	first bool      // no entry of this file has been seen
	begin Entry     // the first entry of the file that seq is in
	alone bool      // only one file is read
	name  string    // the file being read
	line  int
	gaps  []gap
	junk  junk

	pruned, prunedBy uint64 // the entries up to which, and the entry that says so
}

// gap is a row of entries that were missing; they may turn up out of order.
type gap struct {
	from, to uint64
	left     uint64
	problem  int
}

// junk is what stands between two entries and is none.
type junk struct {
	file    string
	line    int
	bytes   int64
	sum     hash.Hash
	newline bool // held back: the last line end does not count
	whole   bool // some of it is complete JSON: not what a crash leaves
}

func (v *verifier) run() (err error) {
	if v.known, err = readHead(v.witness); err != nil {
		return err
	}
	if _, err := os.Stat(v.dir); errors.Is(err, fs.ErrNotExist) {
		if v.known != nil && v.known.Seq > 0 {
			v.finish(nil, v.known)
			return nil
		}
		return &bridge.Error{Code: bridge.CodeNotFound, Message: fmt.Sprintf("there is no audit log in %s", v.dir),
			Remedy: "Check COPILOT_AUDIT_LOG_DIR, or run something first."}
	}
	names, err := files(v.dir)
	if err != nil {
		return err
	}
	// The last file may be growing. It is read as far as it goes; then, with
	// writers locked out, the rest of it, and a new file if a day has begun.
	var last *lineReader
	for i, name := range names {
		if last, err = v.readFile(name, i == len(names)-1); err != nil {
			return err
		}
	}
	return v.readRest(last)
}

// readRest reads what comes after the part of the last file that was read, if
// there is one, and compares it all with head.json.
func (v *verifier) readRest(last *lineReader) (err error) {
	unlock, err := v.lock()
	if err == nil {
		defer func() { err = errors.Join(err, unlock()) }()
	}
	if last != nil {
		if err == nil {
			err = v.readLines(last, true)
		}
		err = errors.Join(err, last.close())
	}
	if err != nil {
		return err
	}
	names, err := files(v.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name > v.name {
			if _, err := v.readFile(name, false); err != nil {
				return err
			}
		}
	}
	h, err := readHead(filepath.Join(v.dir, headName))
	if err != nil {
		return err
	}
	w, err := readHead(v.witness)
	if err != nil {
		return err
	}
	v.finish(h, w)
	return nil
}

// lock keeps writers out, unless the directory is a copy that has no lock or
// that cannot be written to.
func (v *verifier) lock() (func() error, error) {
	path := filepath.Join(v.dir, lockName)
	nothing := func() error { return nil }
	if f, err := os.OpenFile(path, os.O_RDWR, 0); err != nil {
		return nothing, nil // a copy
	} else if err := f.Close(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(v.ctx, lockWait)
	defer cancel()
	return durable.Lock(ctx, path)
}

func (v *verifier) problem(p Problem) int {
	if len(v.report.Problems) >= maxProblems {
		v.report.More++
		return -1
	}
	v.report.Problems = append(v.report.Problems, p)
	return len(v.report.Problems) - 1
}

func (v *verifier) here(seq uint64, kind Kind, format string, args ...any) int {
	return v.problem(Problem{File: v.name, Line: v.line, Seq: seq, Kind: kind, Text: fmt.Sprintf(format, args...)})
}

// readFile reads a file. If it is growing the reader is returned open, and
// there is more to come.
func (v *verifier) readFile(name string, growing bool) (*lineReader, error) {
	r, err := openLines(filepath.Join(v.dir, name))
	if err != nil {
		return nil, err
	}
	v.name, v.line, v.first = name, 0, true
	v.report.Files++
	err = v.readLines(r, !growing)
	if err != nil || !growing {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (v *verifier) readLines(r *lineReader, toEnd bool) error {
	for {
		if err := v.ctx.Err(); err != nil {
			return err
		}
		data, complete, err := r.next()
		if err != nil {
			return err
		}
		if !complete {
			if toEnd && len(data) > 0 {
				v.line++
				v.readLine(data, false)
			}
			return nil
		}
		v.line++
		v.readLine(data, true)
	}
}

func (v *verifier) readLine(data []byte, complete bool) {
	e, err := unseal(data)
	if err != nil && !errors.Is(err, errSeal) || !complete {
		v.addJunk(data, complete)
		return
	}
	v.report.Entries++
	v.found = v.found || e.Hash == v.expect
	if v.known != nil && e.Seq == v.known.Seq && e.Hash != v.known.Hash {
		v.other = true
	}
	v.signed = v.signed || e.Witness != "" && e.Witness == witnessID(v.witness)
	if e.Pruned > v.pruned {
		v.pruned, v.prunedBy = e.Pruned, e.Seq
	}
	v.endJunk(&e)
	if err != nil {
		v.here(e.Seq, KindEdited, "entry %d was changed: it does not have the hash that it was written with", e.Seq)
	}
	if e.Repair != nil && e.Repair.Cause != CauseUnfinished {
		v.here(e.Seq, e.Repair.Cause.kind(), "entry %d records that the log had been tampered with: %s", e.Seq, e.Repair.Cause)
	}
	v.follow(&e)
	v.first = false
}

// kind is the problem that a recorded repair stands for.
func (c Cause) kind() Kind {
	switch c {
	case CauseMissing:
		return KindTruncated
	case CauseReplaced:
		return KindEdited
	case CauseUnfinished, CauseGarbage:
		return KindGarbage
	case CauseUnwitnessed:
		return KindWitness
	case CauseHeadMissing, CauseHeadBehind:
	}
	return KindHead
}

// follow checks that e comes after the entries before it.
func (v *verifier) follow(e *Entry) {
	v.start(e)
	switch {
	case e.Seq == v.seq && e.Hash == v.hash:
		v.here(e.Seq, KindDuplicated, "entry %d stands there a second time", e.Seq)
		return
	case e.Seq <= v.seq:
		v.late(e)
		return
	case e.Seq > v.seq+1:
		v.missing(e)
	case e.Prev != v.hash:
		v.here(e.Seq, KindEdited, "entry %d does not refer to the entry %d that stands before it: one of them was replaced", e.Seq, v.seq)
	}
	want := ""
	if v.first {
		want = v.file
	}
	if e.PrevFile != want && e.Seq == v.seq+1 {
		v.here(e.Seq, KindReordered, "entry %d was moved to another file: the entry before it should be in %q, not in %q", e.Seq, e.PrevFile, want)
	}
	if e.Segment != nil && e.Seq == v.seq+1 && v.begin.Seq > 0 && (e.Segment.File != v.file || !v.sums(e.Segment)) {
		v.here(e.Seq, KindSegment, "entry %d does not have the summary of %s as it is", e.Seq, v.file)
	}
	if v.first {
		v.begin = Entry{Seq: e.Seq, Hash: e.Hash, Time: e.Time}
	}
	v.seq, v.hash, v.time, v.file = e.Seq, e.Hash, e.Time, v.name
}

// start lets the log begin with e if that may be its first entry, or closes
// those before it: a closed file may be gone, but not be empty.
func (v *verifier) start(e *Entry) {
	if v.seq > 0 || e.Seq < 2 || v.report.Files != 1 {
		return
	}
	if v.alone && e.begins() {
		v.seq, v.hash, v.file = e.Seq-1, e.Prev, e.PrevFile
	}
	if !v.alone && e.closes() {
		v.seq, v.hash, v.file = e.Seq-1, e.Prev, e.PrevFile
		v.report.Gone = &Gone{Segment: *e.Segment, By: Holder{Seq: e.Seq, Path: filepath.Join(v.dir, v.name)}}
		v.found = v.found || v.expect == e.Prev || v.expect == e.Segment.FirstHash
	}
}

// missing records that the entries between the last one and e are not there.
func (v *verifier) missing(e *Entry) {
	from, to := v.seq+1, e.Seq-1
	text := fmt.Sprintf("entry %d is missing", from)
	if to > from {
		text = fmt.Sprintf("entries %d to %d are missing", from, to)
	}
	if v.first && e.PrevFile != "" && e.PrevFile != v.file {
		text += "; the last of them was in " + e.PrevFile
	}
	if len(v.gaps) >= maxProblems {
		v.gaps = v.gaps[1:]
	}
	v.gaps = append(v.gaps, gap{from, to, to - from + 1, v.here(e.Seq, KindRemoved, "%s", text)})
}

// late is for an entry that should have come before.
func (v *verifier) late(e *Entry) {
	for i := range v.gaps {
		g := &v.gaps[i]
		if g.from <= e.Seq && e.Seq <= g.to && g.left > 0 {
			if g.left--; g.left == 0 && g.problem >= 0 {
				v.report.Problems[g.problem].Text = fmt.Sprintf("entries %d to %d are not in their place", g.from, g.to)
				v.report.Problems[g.problem].Kind = KindReordered
			}
			v.here(e.Seq, KindReordered, "entry %d stands after entry %d", e.Seq, v.seq)
			return
		}
	}
	v.here(e.Seq, KindDuplicated, "entry %d stands here again, after entry %d", e.Seq, v.seq)
}

func (v *verifier) addJunk(data []byte, complete bool) {
	j := &v.junk
	if j.sum == nil {
		*j = junk{file: v.name, line: v.line, sum: sha256.New()}
	}
	if j.newline {
		j.write([]byte{'\n'})
	}
	j.write(data)
	j.newline = complete
	j.whole = j.whole || json.Valid(data) && len(data) > 0
}

func (j *junk) write(data []byte) {
	j.sum.Write(data) // never fails
	j.bytes += int64(len(data))
}

// endJunk reports what stood before e and was no entry, unless e says that it
// was found there.
func (v *verifier) endJunk(e *Entry) {
	j := v.junk
	v.junk = junk{}
	if j.sum == nil {
		return
	}
	sum := hex.EncodeToString(j.sum.Sum(nil))
	if e != nil && e.Repair != nil && e.Repair.Cause == CauseUnfinished && e.Repair.Bytes == j.bytes && e.Repair.SHA256 == sum && e.Repair.File == j.file && !j.whole {
		v.report.Repaired++
		return
	}
	v.problem(Problem{File: j.file, Line: j.line, Kind: KindGarbage, Text: fmt.Sprintf("%d bytes that are no entry", j.bytes)})
}

// finish compares the end of the log with head.json and the witness.
func (v *verifier) finish(h, w *head) {
	r := &v.report
	r.LastSeq = v.seq
	if v.seq > 0 {
		r.Head = v.hash
	}
	unfinished := v.unfinished()
	if !unfinished {
		v.endJunk(nil)
	}
	switch {
	case h == nil && v.seq > 0:
		v.problem(Problem{File: headName, Kind: KindHead, Text: "head.json is missing or unreadable: entries may have been cut off the end"})
	case h == nil:
	case h.Seq > v.seq:
		v.problem(Problem{File: h.File, Seq: h.Seq, Kind: KindTruncated,
			Text: fmt.Sprintf("entries %d to %d are missing at the end; the last was in %s", v.seq+1, h.Seq, h.File)})
	case h.Seq == v.seq && h.Hash != v.hash:
		v.problem(Problem{File: headName, Seq: v.seq, Kind: KindEdited, Text: fmt.Sprintf("the last entry is not the one that head.json knows as %d", h.Seq)})
	case h.Seq+1 < v.seq:
		v.problem(Problem{File: headName, Seq: h.Seq, Kind: KindHead, Text: fmt.Sprintf("head.json says that the log ends with entry %d, but it goes on to %d", h.Seq, v.seq)})
	}
	if g := r.Gone; g != nil {
		if v.pruned >= g.Last {
			g.Pruned = v.prunedBy
		}
		if v.known != nil && v.known.Seq > 0 && v.known.Seq <= g.Last && v.known.Hash != g.LastHash {
			// Anybody can write a log that begins with a summary.
			v.problem(Problem{Seq: v.known.Seq, Kind: KindWitness,
				Text: fmt.Sprintf("entry %d, the last one that %s knows, is no longer here: nothing proves that this is the same log", v.known.Seq, v.witness)})
		}
	}
	v.compareWitness(h, w)
	v.expected()
	if unfinished {
		r.Repaired++ // the next entry will close it off
	}
}

func (v *verifier) expected() {
	if v.expect == "" || v.found {
		return
	}
	text := "the expected hash " + v.expect + " is not in the log: this is another log, or its end is missing"
	if v.report.Gone != nil {
		text += ", or it was among the entries that are no longer here"
	}
	v.problem(Problem{Kind: KindExpect, Text: text})
}
