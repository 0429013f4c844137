package audit

import (
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

// readHead reads head.json or a witness. It returns nil if there is none, or
// none that makes sense.
func readHead(path string) (*head, error) {
	if path == "" {
		return nil, nil
	}
	data, err := durable.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var h head
	if valid := json.Unmarshal(data, &h) == nil && len(h.Hash) == 2*sha256.Size; !valid {
		return nil, nil
	}
	return &h, nil
}

// headSize is the length of head.json: always the same, so that it can be
// written over in place. That takes a tenth of the time of a new file and a
// rename, and one small write is not cut in two by the end of a process.
const headSize = 256

func encodeHead(h head) ([]byte, error) {
	data, err := json.Marshal(h)
	if err == nil && len(data) >= headSize {
		err = fmt.Errorf("%s would be too long", headName)
	}
	return fmt.Appendf(nil, "%-*s\n", headSize-1, data), err
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

// appendTo adds data to a file of the log in one write.
func (h *handles) appendTo(dir, name string, data []byte) (err error) {
	if h.data != nil && h.name != name {
		err = h.data.Close()
		h.data = nil
	}
	if h.data == nil && err == nil {
		h.name = name
		h.data, err = os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	}
	if err != nil {
		return err
	}
	_, err = h.data.Write(data)
	return err
}

// findEnd reads where the log ends and judges whether that is where head.json,
// the witness and the last entry of this process, if any, say it does. The
// lock must be held. today is the file for new entries.
func findEnd(dir, today, witness string, mine *head) (*end, error) {
	names, err := files(dir)
	if err != nil {
		return nil, err
	}
	h, err := readHead(filepath.Join(dir, headName))
	if err != nil {
		return nil, err
	}
	w, err := readHead(witness)
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
	known := w
	if mine != nil && (w == nil || w.Seq < mine.Seq) {
		known = mine // the witness went with the log
	}
	h, replaced, err := judgeWitness(dir, names, h, known, last)
	if err != nil {
		return nil, err
	}
	if known != mine && mine != nil {
		// Entries that were pruned since are no longer there to compare.
		hash, err := hashAt(dir, names, mine.Seq)
		if err != nil {
			return nil, err
		}
		if hash != "" && hash != mine.Hash {
			known, replaced = mine, true
		}
	}
	e.judge(h, last, junk)
	if w == nil && last != nil && last.Witness != "" && last.Witness == witnessID(witness) && e.repair == nil {
		e.repair = &Repair{Cause: CauseUnwitnessed}
	}
	if replaced && e.repair == nil {
		// It is on record from here on, although the witness moves on.
		e.repair = &Repair{Cause: CauseReplaced, HeadSeq: known.Seq, HeadHash: known.Hash}
	}
	return e, nil
}

// judge decides after which entry the next one comes and which damage has to be
// recorded. If head.json knows of entries that are gone, the numbers continue
// after those, so that the gap stays visible for ever.
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
	end := t.size
	if !t.open && end > 0 {
		end-- // the last line end
	}
	sum := sha256.New()
	n, err := io.Copy(sum, io.NewSectionReader(f, junkFrom, end-junkFrom))
	if err != nil {
		return nil, err
	}
	t.bytes, t.sum = n, hex.EncodeToString(sum.Sum(nil))
	if junkFrom == t.size {
		t.bytes, t.sum = 0, ""
	}
	return t, nil
}

// isFull reports whether a write failed for want of room.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}
