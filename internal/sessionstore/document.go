package sessionstore

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// version is the format that this program reads and writes. Added members do
// not change it; it grows when an older program would misread the file.
const version = 1

// document is the decoded file. Members that this version does not know are
// kept beside the known ones, so that a rewrite loses nothing of a newer
// writer's.
type document struct {
	records []record
	unknown jsontext.Value
}

type record struct {
	entry   Entry
	unknown jsontext.Value
}

// storedRecord is a record as the file has it.
type storedRecord struct {
	Entry   storedEntry    `json:",inline"`
	Unknown jsontext.Value `json:",unknown"`
}

// find returns the index of the record with exactly this id, or -1.
func (d *document) find(id string) int {
	return slices.IndexFunc(d.records, func(r record) bool { return r.entry.ID == id })
}

// adopt takes over the records of another document that are newer than its
// own.
func (d *document) adopt(records []record) error {
	changed := false
	for _, r := range records {
		i := d.find(r.entry.ID)
		switch {
		case i < 0:
			d.records, changed = append(d.records, r), true
		case r.entry.Updated.After(d.records[i].entry.Updated):
			d.records[i], changed = r, true
		}
	}
	if !changed {
		return errUnchanged
	}
	return nil
}

// damage is the error about a file that cannot be read by any version.
type damage struct{ err *bridge.Error }

func (d *damage) Error() string { return d.err.Error() }
func (d *damage) Unwrap() error { return d.err }

// decode reads the file's contents; name is the file's, for errors. It refuses
// what it could not write back unchanged in meaning, since the caller is about
// to overwrite the only copy: broken JSON, text that is not UTF-8, members or
// ids that occur twice.
func decode(name string, data []byte) (*document, error) {
	doc := &document{}
	if len(bytes.TrimSpace(data)) == 0 {
		return doc, nil
	}
	var file struct {
		Version  *int64         `json:"version"`
		Sessions []storedRecord `json:"sessions"`
		Unknown  jsontext.Value `json:",unknown"`
	}
	where, reason := "", ""
	err := json.Unmarshal(data, &file, stampsAsStored)
	if found := newest(data, file.Version); found > version { // nothing else of it can be judged
		return nil, &bridge.Error{
			Code:    bridge.CodeConflict,
			Message: fmt.Sprintf("the session store %s has format version %d, but this copilot-bridge knows only version %d", name, found, version),
			Remedy:  fmt.Sprintf("Upgrade copilot-bridge, or move %s away to start with an empty store. It has been left as it is.", name),
		}
	}
	switch {
	case err != nil:
		where, reason = describe(data, err)
	case file.Version == nil:
		reason = "the version is missing"
	case *file.Version != version:
		reason = wrongVersion
	}
	seen := map[string]bool{}
	for i, r := range file.Sessions {
		switch id := r.Entry.ID; {
		case reason != "":
		case id == "":
			reason = fmt.Sprintf("session %d has no id", i+1)
		case seen[id]:
			reason = fmt.Sprintf("two sessions have the id %q", id)
		}
		seen[r.Entry.ID] = true
		doc.records = append(doc.records, record{Entry(r.Entry), compact(r.Unknown)})
	}
	if reason != "" {
		return nil, &damage{&bridge.Error{
			Code:    bridge.CodeConflict,
			Message: fmt.Sprintf("the session store %s is damaged%s: %s", name, where, reason),
			Remedy:  fmt.Sprintf("Repair %s by hand, or leave it: it is set aside with the next change.", name),
		}}
	}
	doc.unknown = compact(file.Unknown)
	return doc, nil
}

// compact takes the white space out of members that were kept.
func compact(v jsontext.Value) jsontext.Value {
	_ = v.Compact() // it was read as JSON
	return v
}

// newest is the version of a file, whose other members may be of another shape.
func newest(data []byte, read *int64) int64 {
	if read != nil {
		return *read
	}
	var head struct {
		Version int64 `json:"version"`
	}
	_ = json.Unmarshal(data, &head) // a file that is not JSON has none
	return head.Version
}

var wrongVersion = fmt.Sprintf("the version must be the whole number %d", version)

// expected words what a member of a kind must be.
var expected = map[reflect.Kind]string{reflect.String: "text", reflect.Bool: "true or false", reflect.Slice: "a list", reflect.Struct: "an object"}

// describe says where and why JSON is refused. It leaves the value out: it may
// be a person's text.
func describe(data []byte, err error) (where, reason string) {
	var syntax *jsontext.SyntacticError
	var semantic *json.SemanticError
	at := func(offset int64) string {
		return fmt.Sprintf(" at byte offset %d (line %d)", offset, 1+bytes.Count(data[:min(offset, int64(len(data)))], []byte("\n")))
	}
	switch {
	case errors.As(err, &syntax) && errors.Is(err, jsontext.ErrDuplicateName):
		return at(syntax.ByteOffset), fmt.Sprintf("the member %q occurs twice", syntax.JSONPointer.LastToken())
	case errors.As(err, &syntax):
		return at(syntax.ByteOffset), syntax.Err.Error()
	case !errors.As(err, &semantic):
		return "", err.Error()
	}
	name := semantic.JSONPointer.LastToken()
	if name == "version" && semantic.JSONPointer.Parent() == "" {
		return at(semantic.ByteOffset), wrongVersion
	}
	reason = "a whole number is expected"
	if semantic.GoType != nil && expected[semantic.GoType.Kind()] != "" {
		reason = expected[semantic.GoType.Kind()] + " is expected"
	}
	for _, own := range []error{errText, errTime, errYear} {
		if errors.Is(err, own) {
			reason = own.Error()
		}
	}
	if name != "" {
		reason = name + " has a wrong value: " + reason
	}
	return at(semantic.ByteOffset), reason
}

// encode writes one session a line: easy to search and compare.
func (d *document) encode() ([]byte, error) {
	out := []byte(`{"version":` + strconv.Itoa(version) + `,"sessions":[`)
	for i, r := range d.records {
		if i > 0 {
			out = append(out, ',')
		}
		line, err := json.Marshal(storedRecord{storedEntry(r.entry), r.unknown}, stampsAsStored, jsontext.PreserveRawStrings(true))
		if err != nil {
			return nil, fmt.Errorf("encode session %q: %w", r.entry.ID, err)
		}
		out = append(append(out, '\n'), line...)
	}
	out = append(out, "\n]"...)
	if len(d.unknown) > 2 { // without its braces
		out = append(append(out, ','), d.unknown[1:len(d.unknown)-1]...)
	}
	return append(out, "}\n"...), nil
}
