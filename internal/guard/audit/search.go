package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Query says which entries Search looks for. Fields that are empty match all.
type Query struct {
	Text    string // words, each of which occurs somewhere in the entry, in capitals or not
	Verdict string
	Session string // or the beginning of one
	Tool    string
	// Before: only entries with a lower number; 0 for all.
	Before uint64
	// Limit is how many entries are returned at most, Within for how long Search
	// looks for them.
	Limit  int
	Within time.Duration
}

// Found is what Search has found, the newest entry first.
type Found struct {
	Entries []Entry
	// Before, if not 0, is the Query.Before with which the search goes on: there
	// are more entries, or the time was over.
	Before uint64
}

// Search looks for entries of the log in dir, from its end backwards. It reads
// what it has to and keeps no more than it returns.
func Search(ctx context.Context, dir string, q Query) (found Found, err error) {
	found.Entries = []Entry{}
	names, err := files(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return found, nil
	}
	if err != nil {
		return found, err
	}
	if names, err = q.mayHold(dir, names); err != nil {
		return found, err
	}
	m := q.matcher()
	var deadline time.Time
	var last uint64 // the entry that was looked at last
	for line, err := range linesOf(dir, names) {
		if errors.Is(err, fs.ErrNotExist) {
			continue // pruned
		}
		if err := errors.Join(err, ctx.Err()); err != nil {
			return found, err
		}
		seq := seqOf(line.data)
		if seq == 0 || q.Before > 0 && seq >= q.Before {
			continue
		}
		if deadline.IsZero() {
			deadline = time.Now().Add(q.Within) // from here on, so that each search gets on
		} else if time.Now().After(deadline) {
			found.Before = last
			return found, nil
		}
		last = seq
		if !m.may(line.data) {
			continue
		}
		e, err := unseal(line.data)
		if err != nil && !errors.Is(err, errSeal) || !m.matches(&e) {
			continue
		}
		if len(found.Entries) >= q.Limit {
			found.Before = e.Seq + 1
			return found, nil
		}
		found.Entries = append(found.Entries, e)
	}
	return found, nil
}

// mayHold drops the files at the end that begin with Before or a later entry.
func (q Query) mayHold(dir string, names []string) ([]string, error) {
	for q.Before > 0 && len(names) > 0 {
		first, err := firstSeq(filepath.Join(dir, names[len(names)-1]))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err == nil && first < q.Before {
			break
		}
		names = names[:len(names)-1]
	}
	return names, nil
}

// firstSeq is the number of the entry in the first line of a file, 0 if that is none.
func firstSeq(path string) (seq uint64, err error) {
	r, err := openLines(path)
	if err != nil {
		return 0, err
	}
	data, _, err := r.next()
	return seqOf(data), errors.Join(err, r.close())
}

// seqOf is the number of the entry in a line, which stands first; 0 for a line
// that is none.
func seqOf(line []byte) uint64 {
	rest, ok := bytes.CutPrefix(line, []byte(`{"seq":`))
	digits, _, _ := bytes.Cut(rest, []byte{','})
	seq, err := strconv.ParseUint(string(digits), 10, 64)
	if !ok || err != nil {
		return 0
	}
	return seq
}

// matcher looks at the bytes of a line first, since most lines do not match.
type matcher struct {
	Query
	words  []string // in lower case
	coded  [][]byte // the same as in JSON
	fields [][]byte // "tool":"bash"
}

func (q Query) matcher() (m matcher) {
	m.Query, m.words = q, strings.Fields(strings.ToLower(q.Text))
	for _, w := range m.words {
		m.coded = append(m.coded, inJSON(w))
	}
	for _, f := range [][2]string{{`"decision":"`, q.Verdict}, {`"session":"`, q.Session}, {`"tool":"`, q.Tool}} {
		if f[1] != "" {
			m.fields = append(m.fields, append([]byte(f[0]), inJSON(f[1])...))
		}
	}
	return m
}

// inJSON is a text as it stands in a line, without quotes.
func inJSON(text string) []byte {
	data, _ := encode(text) // a string can be encoded
	return data[1 : len(data)-1]
}

func (m *matcher) may(line []byte) bool {
	for _, f := range m.fields {
		if !bytes.Contains(line, f) {
			return false
		}
	}
	if len(m.coded) > 0 {
		line = bytes.ToLower(line)
	}
	for _, w := range m.coded {
		if !bytes.Contains(line, w) {
			return false
		}
	}
	return true
}

// matches looks at the values, among them those of the caller's own JSON.
func (m *matcher) matches(e *Entry) bool {
	if m.Verdict != "" && e.Decision != m.Verdict || m.Tool != "" && e.Tool != m.Tool || !strings.HasPrefix(e.Session, m.Session) {
		return false
	}
	var b strings.Builder
	for _, s := range []string{string(e.Hook), e.Session, e.Door, e.Caller, e.Connection, e.Request, e.Tool, e.Call, e.Decision, e.Reason, e.Sandbox} {
		b.WriteString(s + "\n")
	}
	for _, v := range []any{e.Input, e.Output} {
		raw, _ := v.(json.RawMessage)
		b.Write(append(raw, '\n'))
	}
	if e.Result != nil {
		b.WriteString(e.Result.Preview)
	}
	text := strings.ToLower(b.String())
	for i, w := range m.words {
		if !strings.Contains(text, w) && !strings.Contains(text, string(m.coded[i])) {
			return false
		}
	}
	return true
}
