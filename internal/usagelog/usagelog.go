// Package usagelog keeps on disk what turns have used: premium requests, AI
// credits and tokens by hour, session, API and model, and how long the first
// words took. Many processes write to it at once, and its size is bounded. The
// engine writes it; `copilot-bridge usage` and the dashboard read it.
package usagelog

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/durable"
)

const (
	// keepDays is how long a day's figures are kept.
	keepDays = 400
	// maxFile is how large the file of one day grows. Then its lines are summed.
	maxFile = 256 << 10
	// suffix follows the day in the name of a file.
	suffix = ".jsonl"
)

// Record is what one turn has used, or the sum of several turns.
type Record struct {
	Day          string  `json:"day,omitempty"`  // in UTC, as GitHub counts
	Hour         string  `json:"hour,omitempty"` // of the day, 00 to 23; "" where hours are not told apart
	Session      string  `json:"session,omitempty"`
	Door         string  `json:"door,omitempty"` // the API
	Model        string  `json:"model,omitempty"`
	Turns        int     `json:"turns"`
	Requests     int     `json:"requests"` // to the model
	Premium      float64 `json:"premium_requests"`
	Credits      float64 `json:"ai_credits"`
	InputTokens  int64   `json:"input_tokens"`
	OutputTokens int64   `json:"output_tokens"`
	Cost         float64 `json:"cost,omitempty"` // in the agent's own unit
	// FirstWordMs is the time from the prompt to the first word of the answer,
	// added up over the FirstWords turns that had one.
	FirstWordMs int64 `json:"first_word_ms,omitempty"`
	FirstWords  int   `json:"first_words,omitempty"`
}

// Log is the figures in a directory.
type Log struct {
	dir string
	now func() time.Time
}

// Open returns the log in dir, which need not exist.
func Open(dir string) *Log { return &Log{dir, time.Now} }

// Add adds records to today's. It waits for other processes until ctx ends.
func (l *Log) Add(ctx context.Context, records ...Record) (err error) {
	now := l.now().UTC()
	today := now.Format(time.DateOnly)
	var lines bytes.Buffer
	for _, r := range records {
		r.Day, r.Hour = today, now.Format("15")
		if err := json.NewEncoder(&lines).Encode(r); err != nil {
			return err
		}
	}
	unlock, err := durable.Lock(ctx, filepath.Join(l.dir, "lock"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	path := filepath.Join(l.dir, today+suffix)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		l.prune()
	}
	size, err := add(path, lines.Bytes())
	if err == nil && size > maxFile {
		err = compact(path)
	}
	return err
}

// add appends lines to a file and returns its size.
func add(path string, lines []byte) (size int64, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	size = info.Size()
	if last := make([]byte, 1); size > 0 {
		if _, err := f.ReadAt(last, size-1); err != nil {
			return 0, err
		}
		if last[0] != '\n' { // a power cut left half a line
			lines = slices.Concat([]byte("\n"), lines)
		}
	}
	n, err := f.Write(lines)
	return size + int64(n), err
}

// compact sums the lines of a file. If there are still too many, sessions are no
// longer told apart, and then hours.
func compact(path string) error {
	data, err := durable.ReadFile(path)
	if err != nil {
		return err
	}
	records := parse(data)
	for _, merge := range []func(*Record){func(*Record) {}, func(r *Record) { r.Session = "" }, func(r *Record) { r.Hour = "" }} {
		for i := range records {
			merge(&records[i])
		}
		if records = Sum(records); len(encode(records)) <= maxFile/2 {
			break
		}
	}
	return durable.WriteFile(path, encode(records), 0o600)
}

func encode(records []Record) []byte {
	var out bytes.Buffer
	for _, r := range records {
		line, _ := json.Marshal(r) // numbers and strings
		out.Write(append(line, '\n'))
	}
	return out.Bytes()
}

// parse reads the lines of a file, without those that a power cut has damaged.
func parse(data []byte) (out []Record) {
	for line := range bytes.Lines(data) {
		var r Record
		if json.Unmarshal(line, &r) == nil {
			out = append(out, r)
		}
	}
	return out
}

// Sum adds up records of the same hour, session, API and model. The result is
// sorted.
func Sum(records []Record) []Record {
	sums := map[Record]int{} // a key's place in out
	var out []Record
	for _, r := range records {
		key := Record{Day: r.Day, Hour: r.Hour, Session: r.Session, Door: r.Door, Model: r.Model}
		i, known := sums[key]
		if !known {
			i = len(out)
			sums[key] = i
			out = append(out, key)
		}
		out[i] = out[i].Add(r)
	}
	slices.SortStableFunc(out, func(a, b Record) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.Hour, b.Hour), cmp.Compare(a.Session, b.Session), cmp.Compare(a.Door, b.Door), cmp.Compare(a.Model, b.Model))
	})
	return out
}

// Add returns r with the figures of o added.
func (r Record) Add(o Record) Record {
	r.Turns += o.Turns
	r.Requests += o.Requests
	r.Premium += o.Premium
	r.Credits += o.Credits
	r.InputTokens += o.InputTokens
	r.OutputTokens += o.OutputTokens
	r.Cost += o.Cost
	r.FirstWordMs += o.FirstWordMs
	r.FirstWords += o.FirstWords
	return r
}

// Read returns the records of all days from that of since on.
func (l *Log) Read(since time.Time) (out []Record, err error) {
	days, err := l.days()
	first := since.UTC().Format(time.DateOnly)
	for _, day := range days {
		if day < first {
			continue
		}
		data, err := durable.ReadFile(filepath.Join(l.dir, day+suffix))
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed at this moment
		}
		if err != nil {
			return nil, err
		}
		out = append(out, parse(data)...)
	}
	return out, err
}

// days lists the days of which there are figures, oldest first.
func (l *Log) days() (out []string, err error) {
	entries, err := os.ReadDir(l.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		day, ok := strings.CutSuffix(e.Name(), suffix)
		if _, err := time.Parse(time.DateOnly, day); ok && err == nil {
			out = append(out, day)
		}
	}
	return out, err
}

// prune removes the figures of days that are long past. What cannot be removed
// stays until the next day's first record.
func (l *Log) prune() {
	oldest := l.now().UTC().AddDate(0, 0, -keepDays).Format(time.DateOnly)
	days, _ := l.days()
	for _, day := range days {
		if day < oldest {
			_ = os.Remove(filepath.Join(l.dir, day+suffix))
		}
	}
}
