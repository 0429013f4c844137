package sessionstore

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// walker steps through valid JSON text. Decoding into maps would be shorter,
// but it hides doubled members, of which a rewrite would then lose all but
// one, and it has no offsets to name in an error.
type walker struct {
	data []byte
	dec  *json.Decoder
}

func newWalker(data []byte) *walker {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber() // a number too large for float64 is no reason to stop
	return &walker{data: data, dec: dec}
}

// offset is where the next value begins.
func (w *walker) offset() int64 {
	rest := bytes.TrimLeft(w.data[w.dec.InputOffset():], " \t\r\n:,")
	return int64(len(w.data) - len(rest))
}

// object calls visit for each member of the object that comes next; visit
// consumes the member's value.
func (w *walker) object(visit func(name string) error) error {
	if err := w.delimiter('{', "an object"); err != nil {
		return err
	}
	seen := make(map[string]bool)
	for w.dec.More() {
		at := w.offset()
		token, err := w.dec.Token()
		if err != nil {
			return &flaw{at, err.Error()}
		}
		name, ok := token.(string)
		if !ok || seen[name] {
			return &flaw{at, fmt.Sprintf("the member %q occurs twice", token)}
		}
		seen[name] = true
		if err := visit(name); err != nil {
			return err
		}
	}
	return w.delimiter('}', "the end of an object")
}

// array calls visit for each element of the array that comes next; visit
// consumes the element.
func (w *walker) array(visit func() error) error {
	if err := w.delimiter('[', "a list"); err != nil {
		return err
	}
	for w.dec.More() {
		if err := visit(); err != nil {
			return err
		}
	}
	return w.delimiter(']', "the end of a list")
}

func (w *walker) delimiter(want json.Delim, name string) error {
	at := w.offset()
	token, err := w.dec.Token()
	if err != nil {
		return &flaw{at, err.Error()}
	}
	if token != want {
		return &flaw{at, name + " is expected"}
	}
	return nil
}
