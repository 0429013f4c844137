package json5

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Document is a JSON5 text that can be read and changed. It is not safe for
// concurrent use.
type Document struct {
	text     string
	root     *node
	comments []gap
}

// Parse reads a document. The error is a *SyntaxError.
func Parse(text []byte) (*Document, error) {
	d := &Document{}
	if err := d.become(string(text)); err != nil {
		return nil, err
	}
	return d, nil
}

// become takes a new text, unless it is not JSON5.
func (d *Document) become(text string) error {
	p := &parser{in: text}
	root, err := p.document()
	if err != nil {
		return err
	}
	d.text, d.root, d.comments = text, root, p.comments
	return nil
}

// Bytes is the text as it stands now.
func (d *Document) Bytes() []byte { return []byte(d.text) }

// JSON is what the document says, as JSON: without comments, and with null for
// what JSON cannot say.
func (d *Document) JSON() []byte { return d.root.encode() }

// Get returns the JSON of a value, by the names of the members that lead to it.
func (d *Document) Get(path ...string) (json.RawMessage, bool) {
	n := d.find(path)
	if n == nil {
		return nil, false
	}
	return n.encode(), true
}

// Comments says whether there are any, which a program that writes the document
// anew would lose.
func (d *Document) Comments() bool { return len(d.comments) > 0 }

// commentsIn are the comments of a part of the text.
func (d *Document) commentsIn(from, to int) string {
	var b strings.Builder
	for _, g := range d.comments {
		if from <= g.start && g.end <= to {
			b.WriteString(d.text[g.start:g.end])
		}
	}
	return b.String()
}

// encode writes a value as JSON. Of members with one name the last counts, as
// for every reader of JSON.
func (n *node) encode() []byte {
	switch n.kind {
	case scalar:
		return []byte(n.json)
	case array:
		out := []byte{'['}
		for i, it := range n.items {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(out, it.value.encode()...)
		}
		return append(out, ']')
	case object:
	}
	out := []byte{'{'}
	for i, it := range n.items {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(out, quote(it.key)...), ':')
		out = append(out, it.value.encode()...)
	}
	return append(out, '}')
}

// find follows a path of members; nil if it leads nowhere.
func (d *Document) find(path []string) *node {
	n := d.root
	for _, key := range path {
		i := member(n, key)
		if i < 0 {
			return nil
		}
		n = n.items[i].value
	}
	return n
}

// member is the index of the last member of a name, -1 if there is none.
func member(n *node, key string) int {
	if n == nil || n.kind != object {
		return -1
	}
	for i := len(n.items) - 1; i >= 0; i-- {
		if n.items[i].key == key {
			return i
		}
	}
	return -1
}

// Standardize turns JSON5 into JSON.
func Standardize(text []byte) ([]byte, error) {
	d, err := Parse(text)
	if err != nil {
		return nil, err
	}
	return d.JSON(), nil
}

// quote writes a string as JSON.
func quote(s string) string { return string(render(s, "", "")) }

// render writes a value as JSON, over several lines if there is an indent.
func render(v any, prefix, indent string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if indent != "" {
		e.SetIndent(prefix, indent)
	}
	if err := e.Encode(v); err != nil { // our own values always can be
		return []byte("null")
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
