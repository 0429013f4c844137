package sessionstore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// version is the format that this program reads and writes. Added members do
// not change it; it grows when an older program would misread the file.
const version = 1

// document is the decoded file. Members that this version does not know are
// kept beside what it does, so that a rewrite loses nothing of a newer
// writer's.
type document struct {
	records []record
	unknown map[string]json.RawMessage
}

type record struct {
	entry   Entry
	unknown map[string]json.RawMessage
}

// find returns the index of the record with exactly this id, or -1.
func (d *document) find(id string) int {
	return slices.IndexFunc(d.records, func(r record) bool { return r.entry.ID == id })
}

// flaw is a fault in the file and the byte at which it shows.
type flaw struct {
	offset int64
	reason string
}

func (f *flaw) Error() string { return f.reason }

// decode reads the file's contents; name is the file's, for errors. Whatever
// it could not write back unchanged in meaning it refuses, since the caller
// is about to overwrite the only copy: broken JSON, text that is not UTF-8,
// members or ids that occur twice.
func decode(name string, data []byte) (*document, error) {
	doc, err := parse(name, data)
	var f *flaw
	if !errors.As(err, &f) {
		return doc, err
	}
	line := 1 + bytes.Count(data[:min(f.offset, int64(len(data)))], []byte("\n"))
	return nil, &bridge.Error{
		Code:    bridge.CodeConflict,
		Message: fmt.Sprintf("the session store %s is damaged at byte offset %d (line %d): %s", name, f.offset, line, f.reason),
		Remedy:  fmt.Sprintf("Repair %s by hand, or move it away to start with an empty store. It has been left as it is.", name),
	}
}

func parse(name string, data []byte) (*document, error) {
	doc := &document{}
	if len(bytes.TrimSpace(data)) == 0 {
		return doc, nil
	}
	if err := survey(name, data); err != nil {
		return nil, err
	}
	w := newWalker(data)
	versioned := false
	err := w.object(func(member string) (err error) {
		switch member {
		case "version":
			versioned = true
			return parseVersion(w)
		case "sessions":
			doc.records, err = parseRecords(w)
			return err
		default:
			return keep(&doc.unknown, member, w)
		}
	})
	if err == nil && !versioned {
		err = &flaw{0, "the version is missing"}
	}
	if err != nil {
		return nil, err
	}
	return doc, nil
}

// survey judges the file as a whole: is it valid JSON text, and is it of a
// newer version, wherever in the file that stands? Of a newer file nothing
// else can be judged. Faults of its parts are left to be found in their order.
func survey(name string, data []byte) error {
	if !utf8.Valid(data) {
		return &flaw{int64(invalidAt(data)), "not UTF-8 text"}
	}
	var top map[string]json.RawMessage
	err := json.Unmarshal(data, &top)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return &flaw{syntax.Offset, syntax.Error()}
	}
	var found int64
	readable := err == nil && json.Unmarshal(top["version"], &found) == nil
	if !readable || found <= version {
		return nil
	}
	return &bridge.Error{
		Code:    bridge.CodeConflict,
		Message: fmt.Sprintf("the session store %s has format version %d, but this copilot-bridge knows only version %d", name, found, version),
		Remedy:  fmt.Sprintf("Upgrade copilot-bridge, or move %s away to start with an empty store. It has been left as it is.", name),
	}
}

// invalidAt returns where the first byte is that is not UTF-8.
func invalidAt(data []byte) int {
	at := 0
	for at < len(data) {
		r, size := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		at += size
	}
	return at
}

func parseVersion(w *walker) error {
	at := w.offset()
	var found int64
	if err := w.dec.Decode(&found); err != nil || found != version {
		return &flaw{at, fmt.Sprintf("the version must be the whole number %d", version)}
	}
	return nil
}

func parseRecords(w *walker) ([]record, error) {
	var records []record
	seen := make(map[string]bool)
	err := w.array(func() error {
		at := w.offset()
		r, err := parseRecord(w)
		if err != nil {
			return err
		}
		switch id := r.entry.ID; {
		case id == "":
			return &flaw{at, "a session has no id"}
		case seen[id]:
			return &flaw{at, fmt.Sprintf("two sessions have the id %q", id)}
		default:
			seen[id] = true
			records = append(records, r)
			return nil
		}
	})
	return records, err
}

func parseRecord(w *walker) (record, error) {
	var r record
	err := w.object(func(member string) error {
		target := r.entry.field(member)
		if target == nil {
			return keep(&r.unknown, member, w)
		}
		at := w.offset()
		if err := w.dec.Decode(target); err != nil {
			return &flaw{at, fmt.Sprintf("%s has a wrong value: %s", member, describe(err))}
		}
		return nil
	})
	return r, err
}

// describe leaves the value out of the message: it may be a person's text.
func describe(err error) string {
	var wrong *json.UnmarshalTypeError
	switch {
	case !errors.As(err, &wrong):
		return err.Error()
	case wrong.Type.Kind() == reflect.String:
		return "text is expected"
	default:
		return "a whole number is expected"
	}
}

func keep(unknown *map[string]json.RawMessage, member string, w *walker) error {
	var raw json.RawMessage
	if err := w.dec.Decode(&raw); err != nil {
		return err
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return err
	}
	if *unknown == nil {
		*unknown = make(map[string]json.RawMessage)
	}
	(*unknown)[member] = compact.Bytes()
	return nil
}

// encode writes one session a line: easy to search and compare, and no more
// bytes than needed however deep a kept member is nested.
func (d *document) encode() ([]byte, error) {
	out := []byte(`{"version":` + strconv.Itoa(version) + `,"sessions":[`)
	for i, r := range d.records {
		if i > 0 {
			out = append(out, ',')
		}
		object, err := marshal(r.entry)
		if err != nil {
			return nil, fmt.Errorf("encode session %q: %w", r.entry.ID, err)
		}
		out = append(out, '\n')
		out = append(out, bytes.TrimSuffix(object, []byte("}"))...)
		if out, err = appendMembers(out, r.unknown); err != nil {
			return nil, err
		}
		out = append(out, '}')
	}
	out = append(out, "\n]"...)
	out, err := appendMembers(out, d.unknown)
	if err != nil {
		return nil, err
	}
	return append(out, "}\n"...), nil
}

func appendMembers(out []byte, members map[string]json.RawMessage) ([]byte, error) {
	for _, name := range slices.Sorted(maps.Keys(members)) {
		key, err := marshal(name)
		if err != nil {
			return nil, err
		}
		out = append(out, ',')
		out = append(out, key...)
		out = append(out, ':')
		out = append(out, members[name]...)
	}
	return out, nil
}
