package json5

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// Undo is how a change is taken back. It can be kept as JSON.
type Undo struct {
	Path []string `json:"path"`
	// Element is what was added to the array at Path; if it is missing, Path
	// itself was set.
	Element json.RawMessage `json:"element,omitempty"`
	// Existing is how many members of Path were there before: the rest was made,
	// and goes again once nothing else is in it.
	Existing int `json:"existing"`
	// Was is the text that was replaced.
	Was string `json:"was,omitempty"`
	// Empty is the text of the object or array that took what was added, if it
	// had been empty.
	Empty string `json:"empty,omitempty"`
}

// Set gives the member at path a value, and makes the objects that lead there.
// It returns nil if it has that value already. Everything else stays as it is.
func (d *Document) Set(value any, path ...string) (*Undo, error) {
	at, depth, err := d.reach(path)
	if err != nil {
		return nil, err
	}
	if depth < len(path) {
		u := &Undo{Path: slices.Clone(path), Existing: depth}
		for i := len(path) - 1; i > depth; i-- {
			value = map[string]any{path[i]: value}
		}
		return u, d.add(at, path[depth], value, u)
	}
	if same(at.encode(), render(value, "", "")) {
		return nil, nil
	}
	u := &Undo{Path: slices.Clone(path), Existing: depth, Was: d.text[at.start:at.end]}
	return u, d.edit(splice{at.start, at.end, d.written(value, d.indentOf(at.start), strings.Contains(u.Was, "\n"))})
}

// Append adds an element to the array at path, which is made if it is missing.
// It returns nil if the array has such an element already.
func (d *Document) Append(value any, path ...string) (*Undo, error) {
	at, depth, err := d.reach(path)
	if err != nil {
		return nil, err
	}
	element := render(value, "", "")
	if depth < len(path) {
		u, err := d.Set([]any{value}, path...)
		if u != nil {
			u.Element = element
		}
		return u, err
	}
	if at.kind != array {
		return nil, fmt.Errorf("%s is not a list", strings.Join(path, "."))
	}
	for _, it := range at.items {
		if same(it.value.encode(), element) {
			return nil, nil
		}
	}
	u := &Undo{Path: slices.Clone(path), Existing: depth, Element: element}
	return u, d.add(at, "", value, u)
}

// Revert takes a change back. What has gone meanwhile, or has become something
// else, is left alone.
func (d *Document) Revert(u *Undo) error {
	at, depth, err := d.reach(u.Path)
	if err != nil || depth < len(u.Path) {
		return err
	}
	if u.Was != "" {
		return d.edit(splice{at.start, at.end, u.Was})
	}
	path, index := u.Path, -1
	if u.Element != nil {
		for i, it := range at.items {
			if at.kind == array && same(it.value.encode(), u.Element) {
				index = i
			}
		}
		if index < 0 {
			return nil
		}
	}
	// Of what was made, remove as much as holds nothing else.
	for index < 0 || len(at.items) == 1 && len(path) > u.Existing && d.outside(at, at.items[0]) == "" {
		at, _, err = d.reach(path[:len(path)-1])
		if err != nil {
			return err
		}
		index = member(at, path[len(path)-1])
		path = path[:len(path)-1]
	}
	return d.remove(at, index, u.Empty)
}

// Remove takes away a member, if it is there.
func (d *Document) Remove(path ...string) error {
	return d.Revert(&Undo{Path: path, Existing: len(path) - 1})
}

// reach follows a path as far as it goes: to the value at its end, or to the
// object that lacks its next member.
func (d *Document) reach(path []string) (at *node, depth int, err error) {
	at = d.root
	for i, key := range path {
		if at.kind != object {
			return nil, 0, fmt.Errorf("%s is not an object", strings.Join(path[:i], "."))
		}
		twice := 0
		for _, it := range at.items {
			if it.key == key {
				twice++
			}
		}
		switch twice {
		case 0:
			return at, i, nil
		case 1:
			at = at.items[member(at, key)].value
		default:
			return nil, 0, fmt.Errorf("%s is there twice", strings.Join(path[:i+1], "."))
		}
	}
	return at, len(path), nil
}

// splice replaces a part of the text.
type splice struct {
	from, to int
	text     string
}

// edit makes splices, which are in order and do not overlap.
func (d *Document) edit(splices ...splice) error {
	text := d.text
	for _, s := range slices.Backward(splices) {
		text = text[:s.from] + s.text + text[s.to:]
	}
	if err := d.become(text); err != nil {
		return fmt.Errorf("the change would break the document: %w", err)
	}
	return nil
}

// add puts a new item behind the last one.
func (d *Document) add(at *node, key string, value any, u *Undo) error {
	name := ""
	if at.kind == object {
		name = quote(key) + ": "
	}
	if len(at.items) == 0 {
		u.Empty = d.text[at.start:at.end]
		return d.fill(at, name, value)
	}
	first, last := at.items[0], at.items[len(at.items)-1]
	after, comma := last.value.end, ","
	if last.comma >= 0 {
		after, comma = last.comma+1, ""
	}
	trailing := ""
	if comma == "" {
		trailing = ","
	}
	if !strings.Contains(d.text[at.start:first.start], "\n") {
		return d.edit(splice{after, after, comma + " " + name + d.written(value, "", false) + trailing})
	}
	indent := d.indentOf(first.start)
	if s := d.lineStart(last.start); strings.TrimSpace(d.text[s:last.start]) == "" {
		indent = d.text[s:last.start]
	}
	text := d.lineEnd() + indent + name + d.written(value, indent, true) + trailing
	if behind := d.behindComment(after); behind > after {
		return d.edit(splice{after, after, comma}, splice{behind, behind, text})
	}
	return d.edit(splice{after, after, comma + text})
}

// fill puts the first item into an empty object or array, behind what comments
// it has.
func (d *Document) fill(at *node, name string, value any) error {
	from := at.start + 1
	for _, g := range d.comments {
		if g.start >= from && g.end < at.end {
			from = g.end
		}
	}
	outer := d.indentOf(at.start)
	inner := outer + d.unit()
	return d.edit(splice{from, at.end - 1, d.lineEnd() + inner + name + d.written(value, inner, true) + d.lineEnd() + outer})
}

// remove takes an item out again, with its comma and the white space before it.
// empty is what becomes of an object or array of which nothing is left.
func (d *Document) remove(at *node, index int, empty string) error {
	it := at.items[index]
	if len(at.items) == 1 && empty != "" && d.outside(at, it) == commentsOf(empty) {
		return d.edit(splice{at.start, at.end, empty})
	}
	from := d.spaceBefore(it.start)
	next := it.value.end
	if it.comma == next {
		next++
	}
	if d.endsWithLine(from) && !startsWithBreak(d.text[next:]) {
		from = it.start // else what comes next would become part of the comment before
	}
	cut := splice{from, it.value.end, ""}
	switch {
	case it.comma >= 0:
		return d.edit(cut, splice{it.comma, it.comma + 1, ""})
	case index > 0:
		before := at.items[index-1].comma
		return d.edit(splice{before, before + 1, ""}, cut)
	}
	return d.edit(cut)
}

// endsWithLine says whether a comment of the kind // ends at a position.
func (d *Document) endsWithLine(at int) bool {
	return slices.ContainsFunc(d.comments, func(g gap) bool { return g.line && g.end == at })
}

func startsWithBreak(text string) bool {
	r, _ := utf8.DecodeRuneInString(text)
	return isBreak(r)
}

// outside are the comments of a value that are not in one of its items.
func (d *Document) outside(at *node, it item) string {
	return d.commentsIn(at.start, it.start) + d.commentsIn(it.value.end, at.end)
}

func commentsOf(text string) string {
	d, err := Parse([]byte(text))
	if err != nil {
		return ""
	}
	return d.commentsIn(0, len(text))
}

// same says whether two pieces of JSON mean the same.
func same(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
