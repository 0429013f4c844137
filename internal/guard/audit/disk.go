package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/durable"
)

// end is where a log ends.
type end struct {
	// The file to append to, and what it was when this was found out. info is
	// nil if it does not exist yet.
	file string
	info os.FileInfo
	size int64
	seq  uint64 // the last entry, or what head.json says it is
	hash string
	// lastFile holds that entry; it differs from file when a day begins.
	lastFile string
	repair   *Repair // what the next entry has to record
	behind   bool    // head.json is one entry behind
	headless bool    // there is neither an entry nor head.json
	open     bool    // file does not end with a line end
}

// head is the content of head.json.
type head struct {
	Seq  uint64 `json:"seq"`
	Hash string `json:"hash"`
	File string `json:"file"`
}

func dayFile(t time.Time) string { return "audit-" + t.UTC().Format(time.DateOnly) + ".jsonl" }

// files returns the names of the log's files, oldest first.
func files(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if fileName.MatchString(e.Name()) && !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// readHead returns nil if there is no head.json, or none that makes sense.
func readHead(dir string) (*head, error) {
	data, err := durable.ReadFile(filepath.Join(dir, headName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parseHead(data), nil
}

func parseHead(data []byte) *head {
	var h head
	if json.Unmarshal(data, &h) != nil || len(h.Hash) != 2*sha256.Size {
		return nil
	}
	return &h
}

// headSize is the length of head.json: always the same, so that it can be
// written over in place. That takes a tenth of the time of a new file and a
// rename, and one small write is not cut in two by the end of a process.
const headSize = 256

func encodeHead(h head) ([]byte, error) {
	data, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	if len(data) >= headSize {
		return nil, fmt.Errorf("%s would be too long", headName)
	}
	data = append(data, bytes.Repeat([]byte{' '}, headSize-len(data))...)
	data[headSize-1] = '\n'
	return data, nil
}

// writeHead replaces head.json, for logs that flush each entry: it is worth
// as much as the entries are. The lock must be held.
func writeHead(dir string, h head) error {
	data, err := encodeHead(h)
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, headName), data, 0o600)
}

// files that a Log keeps open from one entry to the next.
type handles struct {
	data    *os.File // the file that was last appended to
	name    string   // its name
	head    slot
	witness slot
}

func (h *handles) close() error {
	err := errors.Join(h.head.close(), h.witness.close())
	if h.data != nil {
		err = errors.Join(err, h.data.Close())
	}
	*h = handles{}
	return err
}

// appendTo adds data to a file of the log in one write, and returns its length.
func (h *handles) appendTo(dir, name string, data []byte, sync bool) (err error) {
	if h.data == nil || h.name != name {
		if h.data != nil {
			err = h.data.Close()
			h.data = nil
			if err != nil {
				return err
			}
		}
		h.name = name
		if h.data, err = os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600); err != nil {
			h.data = nil
			return err
		}
	}
	if _, err := h.data.Write(data); err != nil {
		return err
	}
	if sync {
		return h.data.Sync()
	}
	return nil
}

// findEnd reads where the log ends and judges whether that is where head.json
// and the witness say it does. The lock must be held. today is the file for
// new entries.
func findEnd(dir, today, witness string) (*end, error) {
	names, err := files(dir)
	if err != nil {
		return nil, err
	}
	h, err := readHead(dir)
	if err != nil {
		return nil, err
	}
	w, err := readWitness(witness)
	if err != nil {
		return nil, err
	}
	var last *Entry
	e := &end{file: today, hash: genesis}
	var junk *tail
	for _, name := range slices.Backward(names) {
		t, err := readTail(dir, name)
		if err != nil {
			return nil, err
		}
		if t.size > 0 && e.lastFile == "" {
			// A clock that was set back must not make files go backwards.
			e.file = max(e.file, name)
			e.lastFile = name
			junk = t
			if e.file == name {
				e.open = t.open
			}
		}
		if last = t.last; last != nil {
			e.lastFile = name
			break
		}
	}
	if info, err := os.Stat(filepath.Join(dir, e.file)); err == nil {
		e.info, e.size = info, info.Size()
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	h, replaced, err := judgeWitness(dir, names, h, w, last)
	if err != nil {
		return nil, err
	}
	e.judge(h, last, junk)
	if w == nil && last != nil && last.Witness != "" && last.Witness == witnessID(witness) && e.repair == nil {
		e.repair = &Repair{Cause: CauseUnwitnessed}
	}
	if replaced && e.repair == nil {
		// It is on record from here on, although the witness moves on.
		e.repair = &Repair{Cause: CauseReplaced, HeadSeq: w.Seq, HeadHash: w.Hash}
	}
	return e, nil
}

// judge decides from which entry the log goes on and what has to be recorded.
// If head.json knows of entries that are gone, the log goes on after those,
// so that the gap stays visible for ever.
func (e *end) judge(h *head, last *Entry, junk *tail) {
	var cause Cause
	if last != nil {
		e.seq, e.hash = last.Seq, last.Hash
	}
	switch {
	case h == nil && last == nil:
		e.headless = true
	case h == nil:
		cause = CauseHeadMissing // it is written before the first entry
	case last == nil && h.Seq == 0 && h.Hash == genesis:
	case last == nil || h.Seq > last.Seq:
		cause = CauseMissing
		e.seq, e.hash, e.lastFile = h.Seq, h.Hash, h.File
	case h.Seq == last.Seq && h.Hash != last.Hash:
		cause = CauseReplaced
		e.hash = h.Hash
	case h.Seq == last.Seq:
	case last.Seq == h.Seq+1 && last.Prev == h.Hash:
		e.behind = true // a crash between the entry and head.json
	default:
		cause = CauseHeadBehind
	}
	if junk != nil && junk.bytes > 0 {
		if cause == "" && junk.open {
			cause = CauseUnfinished
		} else if cause == "" {
			cause = CauseGarbage
		}
		e.repair = &Repair{File: junk.name, Bytes: junk.bytes, SHA256: junk.sum}
	} else if cause != "" {
		e.repair = &Repair{}
	}
	if e.repair == nil {
		return
	}
	e.repair.Cause = cause
	if h != nil && cause != CauseUnfinished {
		e.repair.HeadSeq, e.repair.HeadHash = h.Seq, h.Hash
	}
}

// tail is the end of one file: its last entry, and what comes after it.
type tail struct {
	name  string
	size  int64
	last  *Entry
	bytes int64  // after the last entry, without the last line end
	sum   string // their hash
	open  bool   // the file does not end with a line end
}

func readTail(dir, name string) (t *tail, err error) {
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	t = &tail{name: name, size: info.Size()}
	junkFrom := int64(0)
	for line, err := range linesBackward(f, t.size) {
		if err != nil {
			return nil, err
		}
		if line.open {
			t.open = true
			continue
		}
		if e, err := unseal(line.data); err == nil {
			t.last = &e
			junkFrom = line.end
			break
		}
	}
	sum := sha256.New()
	n, err := io.Copy(sum, io.NewSectionReader(f, junkFrom, t.size-junkFrom-closing(t)))
	if err != nil {
		return nil, err
	}
	t.bytes, t.sum = n, hex.EncodeToString(sum.Sum(nil))
	if junkFrom == t.size {
		t.bytes, t.sum = 0, ""
	}
	return t, nil
}

// closing is the length of the line end at the end of the file.
func closing(t *tail) int64 {
	if t.open || t.size == 0 {
		return 0
	}
	return 1
}

// isFull reports whether a write failed for want of room.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}
