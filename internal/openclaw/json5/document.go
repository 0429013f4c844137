package json5

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// Document is a JSON5 text that can be read and changed. It is not safe for
// concurrent use.
type Document struct {
	text     string
	json     []byte       // the text as JSON, with trailing commas
	at       []int        // where each byte of json stands in text
	tree     hujson.Value // of json
	comments []comment
}

// Parse reads a document.
func Parse(text []byte) (*Document, error) {
	c := converter{in: string(text)}
	if err := c.convert(); err != nil {
		return nil, err
	}
	tree, err := hujson.Parse(c.out)
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "hujson: "))
	}
	return &Document{text: c.in, json: c.out, at: c.at, tree: tree, comments: c.comments}, nil
}

// Standardize turns JSON5 into JSON.
func Standardize(text []byte) ([]byte, error) {
	d, err := Parse(text)
	if err != nil {
		return nil, err
	}
	return d.JSON(), nil
}

// Bytes is the text as it stands now.
func (d *Document) Bytes() []byte { return []byte(d.text) }

// JSON is what the document says, as JSON: without comments, and with null for
// Infinity and NaN.
func (d *Document) JSON() []byte { return plain(&d.tree) }

func plain(v *hujson.Value) []byte {
	c := v.Clone()
	c.Minimize()
	return c.Pack()
}

// Get returns the JSON of a value, by the names of the members that lead to it.
// Of members with one name the last counts.
func (d *Document) Get(path ...string) (json.RawMessage, bool) {
	v := &d.tree
	for _, key := range path {
		found := members(v, key)
		if len(found) == 0 {
			return nil, false
		}
		o, _ := v.Value.(*hujson.Object)
		v = &o.Members[found[len(found)-1]].Value
	}
	return plain(v), true
}

// members are the indexes of the members of an object that have a name.
func members(v *hujson.Value, key string) (out []int) {
	if o, ok := v.Value.(*hujson.Object); ok {
		for i, m := range o.Members {
			if name, ok := m.Name.Value.(hujson.Literal); ok && name.String() == key {
				out = append(out, i)
			}
		}
	}
	return out
}

// Comments says whether there are any, which a program that writes the document
// anew would lose.
func (d *Document) Comments() bool { return len(d.comments) > 0 }

// Undo is how a change is taken back. It can be kept as JSON.
type Undo struct {
	Path []string `json:"path"`
	// Element was added to the array at Path; if it is missing, Path
	// itself was set.
	Element json.RawMessage `json:"element,omitempty"`
	// Existing is how many members of Path were there before: the others were
	// made, and are removed once nothing else is in them.
	Existing int `json:"existing"`
	// Was is the text that was replaced.
	Was string `json:"was,omitempty"`
}

// Set gives the member at path a value, and makes the objects that lead there.
// It returns nil if it has that value already.
func (d *Document) Set(value any, path ...string) (*Undo, error) {
	v, depth, err := d.reach(path)
	if err != nil {
		return nil, err
	}
	u := &Undo{Path: slices.Clone(path), Existing: depth}
	if depth == len(path) {
		if same(plain(v), value) {
			return nil, nil
		}
		start, end := d.span(v)
		u.Was = d.text[start:end]
		return u, d.splice(start, end, d.written(value, start, strings.Contains(u.Was, "\n")))
	}
	for i := len(path) - 1; i > depth; i-- {
		value = map[string]any{path[i]: value}
	}
	return u, d.insert(v, quote(path[depth])+": ", value)
}

// Append adds an element to the array at path, which is made if it is missing.
// It returns nil if the array has such an element already.
func (d *Document) Append(value any, path ...string) (*Undo, error) {
	v, depth, err := d.reach(path)
	if err != nil {
		return nil, err
	}
	u := &Undo{Path: slices.Clone(path), Existing: depth, Element: json.RawMessage(render(value, "", ""))}
	if depth < len(path) {
		_, err := d.Set([]any{value}, path...)
		return u, err
	}
	a, ok := v.Value.(*hujson.Array)
	if !ok {
		return nil, fmt.Errorf("%s is not a list", strings.Join(path, "."))
	}
	if element(a, u.Element) >= 0 {
		return nil, nil
	}
	if n := len(a.Elements); n > 0 {
		_, end := d.span(&a.Elements[n-1])
		return u, d.splice(end, end, ", "+render(value, "", ""))
	}
	return u, d.insert(v, "", value)
}

// element is the index of an element of an array, -1 if it has none like it.
func element(a *hujson.Array, value json.RawMessage) int {
	return slices.IndexFunc(a.Elements, func(e hujson.Value) bool { return same(plain(&e), value) })
}

// Revert takes a change back. A value that was removed or changed since is left
// alone.
func (d *Document) Revert(u *Undo) error {
	v, depth, err := d.reach(u.Path)
	if err != nil || depth < len(u.Path) {
		return err
	}
	if u.Was != "" {
		start, end := d.span(v)
		return d.splice(start, end, u.Was)
	}
	path, index := u.Path, -1
	if u.Element != nil {
		a, ok := v.Value.(*hujson.Array)
		if !ok {
			return nil
		}
		if index = element(a, u.Element); index < 0 {
			return nil
		}
	}
	// Of the objects that were made, remove as many as hold nothing else.
	for index < 0 || len(path) > u.Existing && d.only(v) {
		if v, _, err = d.reach(path[:len(path)-1]); err != nil {
			return err
		}
		index = members(v, path[len(path)-1])[0]
		path = path[:len(path)-1]
	}
	return d.remove(v, index)
}

// reach follows a path as far as it leads: to the value at its end, or to the
// object that lacks its next member.
func (d *Document) reach(path []string) (v *hujson.Value, depth int, err error) {
	v = &d.tree
	for i, key := range path {
		o, ok := v.Value.(*hujson.Object)
		if !ok {
			return nil, 0, fmt.Errorf("%s is not an object", strings.Join(path[:i], "."))
		}
		switch found := members(v, key); len(found) {
		case 0:
			return v, i, nil
		case 1:
			v = &o.Members[found[0]].Value
		default:
			return nil, 0, fmt.Errorf("%s is there twice", strings.Join(path[:i+1], "."))
		}
	}
	return v, len(path), nil
}

// span is where a value stands in the text.
func (d *Document) span(v *hujson.Value) (start, end int) {
	return d.at[v.StartOffset], d.at[v.EndOffset]
}

// item is a member of an object or an element of an array in the text.
type item struct {
	start, end int
	comma      int // after it; -1 if there is none
}

func (d *Document) items(v *hujson.Value) (out []item) {
	add := func(first, value *hujson.Value) {
		it := item{start: d.at[first.StartOffset], end: d.at[value.EndOffset], comma: -1}
		rest := d.json[value.EndOffset:]
		if next := bytes.TrimLeft(rest, " \n"); bytes.HasPrefix(next, []byte(",")) {
			it.comma = d.at[value.EndOffset+len(rest)-len(next)]
		}
		out = append(out, it)
	}
	switch c := v.Value.(type) {
	case *hujson.Object:
		for i := range c.Members {
			add(&c.Members[i].Name, &c.Members[i].Value)
		}
	case *hujson.Array:
		for i := range c.Elements {
			add(&c.Elements[i], &c.Elements[i])
		}
	}
	return out
}

// only says whether an object or array holds one item and nothing else, not
// even a comment.
func (d *Document) only(v *hujson.Value) bool {
	all := d.items(v)
	start, end := d.span(v)
	return len(all) == 1 && !slices.ContainsFunc(d.comments, func(c comment) bool {
		return start < c.start && c.end < end && (c.end <= all[0].start || all[0].end <= c.start)
	})
}

// splice replaces a part of the text, and refuses if the result is not JSON5.
func (d *Document) splice(from, to int, text string) error {
	next, err := Parse([]byte(d.text[:from] + text + d.text[to:]))
	if err != nil {
		return fmt.Errorf("the change would break the document: %w", err)
	}
	*d = *next
	return nil
}

// insert puts an item first into an object or array, on a separate line
// unless all of it stands on one line.
func (d *Document) insert(v *hujson.Value, name string, value any) error {
	start, end := d.span(v)
	body, comma := d.text[start+1:end-1], ""
	if len(d.items(v)) > 0 {
		comma = ","
	}
	if !strings.Contains(body, "\n") && strings.TrimSpace(body) != "" {
		if comma != "" && body[0] != ' ' {
			comma = ", "
		}
		return d.splice(start+1, start+1, name+render(value, "", "")+comma)
	}
	outer := d.indent(start)
	text := d.lineEnd() + outer + d.unit() + name + d.indented(value, outer+d.unit()) + comma
	if strings.TrimSpace(body) == "" {
		return d.splice(start+1, end-1, text+d.lineEnd()+outer)
	}
	return d.splice(start+1, start+1, text)
}

// remove takes an item out, with its comma and the white space before it.
func (d *Document) remove(v *hujson.Value, index int) error {
	all := d.items(v)
	it := all[index]
	start, end := d.span(v)
	if d.only(v) {
		return d.splice(start+1, end-1, "")
	}
	from := start + 1
	if index > 0 {
		from = all[index-1].end
	}
	from = max(from, len(strings.TrimRight(d.text[:it.start], " \t\r\n")))
	for _, c := range d.comments {
		if c.line && c.end == from {
			from = it.start // else the text behind it would become part of the comment
		}
	}
	text := d.text[:from] + d.text[it.end:]
	switch gone := it.end - from; {
	case it.comma >= 0:
		rest := text[it.comma-gone+1:]
		if index == 0 && from == it.start {
			rest = strings.TrimPrefix(rest, " ") // as insert writes it on one line
		}
		text = text[:it.comma-gone] + rest
	case index > 0: // a list does not end with a comma that it did not have
		before := all[index-1].comma
		text = text[:before] + text[before+1:]
	}
	return d.splice(0, len(d.text), text)
}

// indent is the white space with which the line of a position begins.
func (d *Document) indent(pos int) string {
	line := strings.TrimPrefix(d.text[1+strings.LastIndexByte(d.text[:pos], '\n'):pos], "\ufeff")
	return line[:len(line)-len(strings.TrimLeft(line, " \t"))]
}

// unit is the indentation of one level, as the first item of the document shows
// it.
func (d *Document) unit() string {
	if all := d.items(&d.tree); len(all) > 0 {
		if unit := d.indent(all[0].start); unit != "" {
			return unit
		}
	}
	return "  "
}

func (d *Document) lineEnd() string {
	if n := strings.IndexByte(d.text, '\n'); n > 0 && d.text[n-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// written is a value as it stands at a position of the text.
func (d *Document) written(value any, pos int, lines bool) string {
	if !lines {
		return render(value, "", "")
	}
	return d.indented(value, d.indent(pos))
}

func (d *Document) indented(value any, indent string) string {
	return strings.ReplaceAll(render(value, indent, d.unit()), "\n", d.lineEnd())
}

// same says whether a piece of JSON means a value.
func same(a []byte, value any) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal([]byte(render(value, "", "")), &y) == nil && reflect.DeepEqual(x, y)
}
