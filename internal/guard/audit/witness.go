package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// WitnessFile names, in a directory that is not the log's, the file that knows
// how far the log in dir has come. Logs in different directories have
// different ones.
func WitnessFile(state, dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(abs))
	return filepath.Join(state, "audit-witness", hex.EncodeToString(sum[:8])+".json"), nil
}

// slot is a small file that is written over in place, kept open.
type slot struct {
	f    *os.File
	info os.FileInfo
	last []byte // what it holds
}

func (s *slot) close() error {
	f := s.f
	*s = slot{}
	if f == nil {
		return nil
	}
	return f.Close()
}

// there reports whether the file is still the one at path.
func (s *slot) there(path string) bool {
	if s.f == nil {
		return false
	}
	info, err := os.Stat(path)
	return err == nil && os.SameFile(info, s.info) && info.Size() == headSize
}

// untouched reports whether the file is as we last wrote it.
func (s *slot) untouched(path string) bool {
	if !s.there(path) {
		return false
	}
	var now [headSize]byte
	n, err := s.f.ReadAt(now[:], 0)
	return n == headSize && (err == nil || errors.Is(err, io.EOF)) && bytes.Equal(now[:], s.last)
}

// put writes where the log ends.
func (s *slot) put(path string, at *end) error {
	data, err := encodeHead(head{Seq: at.seq, Hash: at.hash, File: at.lastFile})
	if err == nil && s.f == nil {
		err = s.open(path)
	}
	if err == nil {
		_, err = s.f.WriteAt(data, 0)
	}
	if err != nil {
		return unavailable(path, err)
	}
	s.last = data
	return nil
}

func (s *slot) open(path string) (err error) {
	if err = os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if s.f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return err
	}
	if err = s.f.Truncate(headSize); err == nil {
		s.info, err = s.f.Stat()
	}
	return err
}

// writeWitness writes down outside the log how far it has come. It comes last, so
// that a crash leaves the witness behind and never ahead. The lock must be
// held.
func (l *Log) writeWitness(at *end) error {
	if l.opts.Witness == "" {
		return nil
	}
	return l.open.witness.put(l.opts.Witness, at)
}

// witnessThere reports whether the witness is still the one that was written.
func (l *Log) witnessThere() bool {
	return l.opts.Witness == "" || l.open.witness.there(l.opts.Witness)
}

// witnessID is what entries say of the witness that they have: a log may be
// written by users with witnesses of their own.
func witnessID(path string) string {
	if path == "" {
		return ""
	}
	return hexSum([]byte(path))[:16]
}

// hashAt returns the hash of an entry, or "" if it is not in the log. It reads
// from the end, where the entries are that it is asked about.
func hashAt(dir string, names []string, seq uint64) (string, error) {
	for line, err := range linesOf(dir, names) {
		if err != nil {
			return "", err
		}
		e, err := unseal(line.data)
		switch {
		case line.open || err != nil:
		case e.closes() && e.Segment.Last == seq:
			return e.Segment.LastHash, nil // whether its file is there or not
		case e.Seq == seq:
			return e.Hash, nil
		case e.Seq < seq:
			return "", nil
		}
	}
	return "", nil
}

// judgeWitness compares the log with the last entry that the witness or this
// process knows. It returns the head to use from here on, and whether an entry
// was replaced.
func judgeWitness(dir string, names []string, h, w *head, last *Entry) (known *head, replaced bool, err error) {
	switch {
	case w == nil || w.Seq == 0:
		return h, false, nil
	case (last == nil || w.Seq > last.Seq) && (h == nil || w.Seq > h.Seq):
		return w, false, nil // judge takes it for entries that are gone
	case last == nil || w.Seq > last.Seq:
		return h, false, nil
	}
	hash := last.Hash
	if w.Seq != last.Seq {
		if hash, err = hashAt(dir, names, w.Seq); err != nil {
			return nil, false, err
		}
	}
	return h, hash != w.Hash, nil
}

// compareWitness compares the log that Verify has read with the witness.
func (v *verifier) compareWitness(h, w *head) {
	switch {
	case w == nil && v.signed:
		v.problem(Problem{Kind: KindWitness,
			Text: fmt.Sprintf("%s is missing or unreadable, though entries say that it was there: others may have been cut off the end", v.witness)})
	case w == nil && v.witness != "" && v.seq > 0:
		v.report.Unwitnessed = true
	case w == nil || w.Seq == 0 || h != nil && h.Seq > v.seq && h.Seq >= w.Seq: // said already
	case w.Seq > v.seq && v.seq == 0:
		v.problem(Problem{File: w.File, Seq: w.Seq, Kind: KindRemoved,
			Text: fmt.Sprintf("the log is gone: %s knows of %d entries", v.witness, w.Seq)})
	case w.Seq > v.seq:
		v.problem(Problem{File: w.File, Seq: w.Seq, Kind: KindTruncated,
			Text: fmt.Sprintf("entries %d to %d are missing at the end: %s knows of them", v.seq+1, w.Seq, v.witness)})
	case v.other:
		v.problem(Problem{Seq: v.known.Seq, Kind: KindEdited,
			Text: fmt.Sprintf("entry %d is not the one that was written: %s knows another", v.known.Seq, v.witness)})
	}
}
