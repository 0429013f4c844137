package timeline

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
)

const (
	eventsSuffix  = ".jsonl"
	summarySuffix = ".json"
	// readMost is about how many bytes one reading returns: at least one event,
	// however large it is.
	readMost = 256 << 10
	// lineMost is more than any line has: a reader does not hold more.
	lineMost = 4 << 20
)

// Store is a directory of timelines. Its methods may be called concurrently,
// also while processes write to it.
type Store struct{ dir string }

// Open returns the store in a directory, which need not exist.
func Open(dir string) *Store { return &Store{dir} }

// Dir is where the timelines of agents' sessions are, in the bridge's home.
func Dir(home string) string { return filepath.Join(home, "timelines") }

var plainID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$`)

// base is the beginning of the names of a session's files. Agents choose ids, so
// one that is no good name is hashed.
func (s *Store) base(session string) string {
	if !plainID.MatchString(session) {
		sum := sha256.Sum256([]byte(session))
		session = "x." + hex.EncodeToString(sum[:16])
	}
	return filepath.Join(s.dir, session)
}

// Summary returns a session's summary as it is stored.
func (s *Store) Summary(session string) (Summary, error) {
	sum, err := readSummary(s.base(session) + summarySuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return sum, unknown(session)
	}
	return sum, err
}

func readSummary(file string) (sum Summary, err error) {
	data, err := durable.ReadFile(file)
	if err != nil {
		return sum, err
	}
	if err := json.Unmarshal(data, &sum); err != nil {
		return sum, fmt.Errorf("read %s: %w", file, err)
	}
	return sum, nil
}

func unknown(session string) error {
	return &bridge.Error{Code: bridge.CodeNotFound, Message: "there is no timeline of the session " + session}
}

// List returns the summaries as they are stored, in no order. Those that cannot
// be read are left out.
func (s *Store) List() (out []Summary, err error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if !isSummary(e.Name()) {
			continue
		}
		if sum, err := readSummary(filepath.Join(s.dir, e.Name())); err == nil {
			out = append(out, sum)
		}
	}
	return out, err
}

func isSummary(name string) bool {
	return strings.HasSuffix(name, summarySuffix) && !strings.HasPrefix(name, ".")
}

// Prune removes the timelines that were last written before a time, and returns
// how many.
func (s *Store) Prune(before time.Time) (removed int, err error) {
	old, err := s.Old(before)
	for _, files := range old {
		var errs []error
		for _, file := range files {
			if rm := os.Remove(file); !errors.Is(rm, fs.ErrNotExist) {
				errs = append(errs, rm)
			}
		}
		if rm := errors.Join(errs...); rm != nil {
			err = errors.Join(err, rm)
			continue
		}
		removed++
	}
	return removed, err
}

// Old returns the files of each timeline that was last written before a time.
func (s *Store) Old(before time.Time) (timelines [][]string, err error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	files, young := map[string][]string{}, map[string]bool{}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		id := strings.TrimSuffix(strings.TrimSuffix(e.Name(), eventsSuffix), summarySuffix)
		files[id] = append(files[id], filepath.Join(s.dir, e.Name()))
		young[id] = young[id] || !info.ModTime().Before(before)
	}
	for _, id := range slices.Sorted(maps.Keys(files)) {
		if !young[id] {
			timelines = append(timelines, files[id])
		}
	}
	return timelines, err
}

// Remove removes a session's timeline, if it has one.
func (s *Store) Remove(session string) error {
	var errs []error
	for _, suffix := range []string{eventsSuffix, summarySuffix} {
		if err := os.Remove(s.base(session) + suffix); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Size is how long a session's timeline is now.
func (s *Store) Size(session string) (int64, error) {
	info, err := os.Stat(s.base(session) + eventsSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Read returns events from an offset on, at most limit and at most 256 KiB of
// them, as JSON objects with their ids. next is where to go on: it is from if
// there is nothing more yet. An offset inside an event means the next one.
func (s *Store) Read(session string, from int64, limit int) (events []json.RawMessage, next int64, err error) {
	f, size, err := s.open(session)
	if f == nil || err != nil {
		return nil, max(from, 0), err
	}
	defer f.Close()
	next = max(from, 0)
	if next > size {
		return nil, next, nil
	}
	skip := next > 0 && !endsLine(f, next)
	r := &lineReader{r: io.NewSectionReader(f, next, size-next)}
	for total := 0; len(events) < limit && total < readMost; {
		line, n, ok := r.next()
		if !ok {
			break
		}
		next += int64(n)
		if event := withID(line, next); event != nil && !skip {
			events = append(events, event)
			total += len(event)
		}
		skip = false
	}
	return events, next, r.err
}

// Before returns the last events that end at or before an offset, in their
// order, at most limit and about 256 KiB of them. first is where the earliest
// begins: with it as before, one reads on backwards, until it is 0.
func (s *Store) Before(session string, before int64, limit int) (events []json.RawMessage, first, next int64, err error) {
	f, size, err := s.open(session)
	if f == nil || err != nil {
		return nil, 0, 0, err
	}
	defer f.Close()
	// Enough of the end of the file is read to hold as many lines.
	for window := int64(readMost); ; window *= 4 {
		end := min(max(before, 0), size)
		start := max(end-window, 0)
		data := make([]byte, end-start)
		if _, err := f.ReadAt(data, start); err != nil && !errors.Is(err, io.EOF) {
			return nil, 0, 0, err
		}
		end = start + int64(bytes.LastIndexByte(data, '\n')) + 1
		data = data[:end-start]
		if start > 0 && !endsLine(f, start) {
			cut := bytes.IndexByte(data, '\n') + 1
			data, start = data[cut:], start+int64(cut)
		}
		if len(data) == 0 && start > 0 && window < lineMost {
			continue
		}
		events, first = tail(data, start, limit)
		return events, first, end, nil
	}
}

// tail returns the last lines of data, which begins at an offset.
func tail(data []byte, start int64, limit int) (events []json.RawMessage, first int64) {
	first = start
	var ends []int64
	for at := 0; at < len(data); {
		at += bytes.IndexByte(data[at:], '\n') + 1
		ends = append(ends, int64(at))
	}
	from := max(len(ends)-limit, 0)
	begin := int64(0)
	if from > 0 {
		begin = ends[from-1]
	}
	first += begin
	for _, end := range ends[from:] {
		if event := withID(data[begin:end-1], start+end); event != nil {
			events = append(events, event)
		}
		begin = end
	}
	return events, first
}

// open opens a session's timeline. Without one there is no file; a session whose
// summary alone exists has an empty timeline.
func (s *Store) open(session string) (*os.File, int64, error) {
	f, err := os.Open(s.base(session) + eventsSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		_, err := s.Summary(session)
		return nil, 0, err
	}
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// endsLine says whether an event ends at an offset.
func endsLine(f *os.File, at int64) bool {
	var b [1]byte
	_, err := f.ReadAt(b[:], at-1)
	return err == nil && b[0] == '\n'
}

// withID returns a stored event with its id as the first member, or nil if the
// line is none, such as one that a power cut has damaged.
func withID(line []byte, id int64) json.RawMessage {
	if len(line) < 2 || line[0] != '{' || !json.Valid(line) {
		return nil
	}
	out := make([]byte, 0, len(line)+26)
	out = append(out, `{"id":`...)
	out = strconv.AppendInt(out, id, 10)
	out = append(out, ',')
	return append(out, line[1:]...)
}

// lineReader reads whole lines. A last line without an end is being written.
type lineReader struct {
	r   io.Reader
	buf []byte
	at  int // of what was not returned yet
	eof bool
	err error
}

// next returns a line without its end, which is valid until the next call, and
// its length with it. ok is false at the end of the whole lines.
func (l *lineReader) next() (line []byte, n int, ok bool) {
	for scanned := 0; ; {
		if i := bytes.IndexByte(l.buf[l.at+scanned:], '\n'); i >= 0 {
			line = l.buf[l.at : l.at+scanned+i]
			l.at += len(line) + 1
			return line, len(line) + 1, true
		}
		scanned = len(l.buf) - l.at
		if l.eof || l.err != nil || scanned > lineMost {
			return nil, 0, false
		}
		l.fill()
	}
}

func (l *lineReader) fill() {
	l.buf, l.at = append(l.buf[:0], l.buf[l.at:]...), 0
	const chunk = 64 << 10
	have := len(l.buf)
	l.buf = append(l.buf, make([]byte, chunk)...)
	n, err := l.r.Read(l.buf[have:])
	l.buf = l.buf[:have+n]
	switch {
	case errors.Is(err, io.EOF):
		l.eof = true
	case err != nil:
		l.err = err
	}
}
