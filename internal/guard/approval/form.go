package approval

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const maxFields = 100

// field is one question of a form.
type field struct {
	name     string
	kind     string
	about    string
	choices  []choice // not empty: one of these
	required bool
	fallback any // nil for none
	least    *float64
	most     *float64
	shortest int
	longest  int // 0 for no limit
}

type choice struct {
	value any
	label string
}

// The kinds of field that can be asked for on a terminal. kindDone is our
// own: an acknowledgement with no value.
const (
	kindString  = "string"
	kindNumber  = "number"
	kindInteger = "integer"
	kindBoolean = "boolean"
	kindDone    = "done"
)

// property is what JSON schema says of a field.
type property struct {
	Type        string            `json:"type"`
	Title       string            `json:"title"`
	Description string            `json:"description"`
	Enum        []json.RawMessage `json:"enum"`
	EnumNames   []string          `json:"enumNames"`
	OneOf       []option          `json:"oneOf"`
	AnyOf       []option          `json:"anyOf"`
	Default     any               `json:"default"`
	Minimum     *float64          `json:"minimum"`
	Maximum     *float64          `json:"maximum"`
	MinLength   int               `json:"minLength"`
	MaxLength   int               `json:"maxLength"`
}

type option struct {
	Const any    `json:"const"`
	Title string `json:"title"`
}

// decodeForm reads the fields of an object's schema in the order in which it
// lists them. What cannot be asked for is left out unless it is required.
func decodeForm(schema json.RawMessage) ([]field, error) {
	if len(bytes.TrimSpace(schema)) == 0 {
		return nil, nil
	}
	var object struct {
		Properties json.RawMessage `json:"properties"`
		Required   []string        `json:"required"`
	}
	if err := json.Unmarshal(schema, &object); err != nil {
		return nil, errors.New("its schema is not understood")
	}
	var fields []field
	err := eachMember(object.Properties, func(name string, raw json.RawMessage) error {
		required := slices.Contains(object.Required, name)
		f, err := newField(name, raw)
		if err == nil && len(fields) == maxFields {
			return fmt.Errorf("it has more than %d fields", maxFields)
		}
		if err == nil {
			f.required = required
			fields = append(fields, f)
		} else if required {
			return fmt.Errorf("its field %q %w", name, err)
		}
		return nil
	})
	return fields, err
}

// eachMember walks an object in its own order, which a map would lose.
func eachMember(object json.RawMessage, f func(name string, value json.RawMessage) error) error {
	if len(object) == 0 || string(object) == "null" {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(object))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.New("its schema is not understood")
	}
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			return errors.New("its schema is not understood")
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return errors.New("its schema is not understood")
		}
		if err := f(name, value); err != nil {
			return err
		}
	}
	return nil
}

func newField(name string, raw json.RawMessage) (field, error) {
	var p property
	if err := json.Unmarshal(raw, &p); err != nil {
		return field{}, errors.New("has a schema that is not understood")
	}
	f := field{name: name, kind: p.Type, about: name, fallback: scalar(p.Default),
		least: p.Minimum, most: p.Maximum, shortest: p.MinLength, longest: p.MaxLength}
	if p.Title != "" {
		f.about = p.Title
	}
	if p.Description != "" {
		f.about += ": " + p.Description
	}
	for i, raw := range p.Enum {
		var v any
		if err := json.Unmarshal(raw, &v); err != nil || scalar(v) == nil {
			return field{}, errors.New("has choices that are not simple values")
		}
		c := choice{value: v, label: fmt.Sprint(v)}
		if i < len(p.EnumNames) && p.EnumNames[i] != "" {
			c.label = p.EnumNames[i]
		}
		f.choices = append(f.choices, c)
	}
	for _, o := range slices.Concat(p.OneOf, p.AnyOf) {
		if scalar(o.Const) == nil {
			return field{}, errors.New("has choices that are not simple values")
		}
		c := choice{value: o.Const, label: fmt.Sprint(o.Const)}
		if o.Title != "" {
			c.label = o.Title
		}
		f.choices = append(f.choices, c)
	}
	switch f.kind {
	case kindString, kindNumber, kindInteger, kindBoolean:
		return f, nil
	case "":
		if len(f.choices) > 0 {
			return f, nil
		}
	}
	return field{}, fmt.Errorf("is of type %q, which a terminal cannot ask for", p.Type)
}

// scalar returns v if it can be a field's value, else nil.
func scalar(v any) any {
	switch v.(type) {
	case string, float64, bool:
		return v
	}
	return nil
}

func (f field) heading() string {
	if f.kind == kindDone {
		return ""
	}
	var b strings.Builder
	b.WriteString("  " + Visible(f.about) + "\n")
	for i, c := range f.choices {
		fmt.Fprintf(&b, "    %d) %s\n", i+1, Visible(c.label))
	}
	return b.String()
}

func (f field) prompt() string {
	hint := ""
	switch {
	case f.kind == kindDone:
		return "  Press Enter when you are done: "
	case f.fallback != nil:
		hint = " [" + Visible(fmt.Sprint(f.fallback)) + "]"
	case !f.required:
		hint = " (optional)"
	case f.kind == kindBoolean && len(f.choices) == 0:
		hint = " (y/n)"
	}
	return "  " + Visible(f.name) + hint + ": "
}

// parse returns the value of an answer; its error completes "It must be".
func (f field) parse(text string) (any, error) {
	trimmed := strings.TrimSpace(text)
	switch {
	case f.kind == kindDone:
		return nil, nil
	case trimmed == "" && (f.fallback != nil || !f.required):
		return f.fallback, nil
	case len(f.choices) > 0:
		labels := make([]string, len(f.choices))
		for i, c := range f.choices {
			labels[i] = c.label
		}
		if label, ok := choose(labels, trimmed); ok {
			return f.choices[slices.Index(labels, label)].value, nil
		}
		return nil, fmt.Errorf("a number from 1 to %d", len(f.choices))
	}
	switch f.kind {
	case kindBoolean:
		switch strings.ToLower(trimmed) {
		case "y", "yes", "true":
			return true, nil
		case "n", "no", "false":
			return false, nil
		}
		return nil, errors.New("y or n")
	case kindInteger:
		n, err := strconv.ParseInt(trimmed, 10, 64)
		if err != nil {
			return nil, errors.New("a whole number")
		}
		return n, f.bounded(float64(n))
	case kindNumber:
		n, err := strconv.ParseFloat(trimmed, 64)
		if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
			return nil, errors.New("a number")
		}
		return n, f.bounded(n)
	}
	n := utf8.RuneCountInString(text)
	switch {
	case trimmed == "" || n < f.shortest:
		return nil, fmt.Errorf("at least %d characters long", max(1, f.shortest))
	case f.longest > 0 && n > f.longest:
		return nil, fmt.Errorf("at most %d characters long", f.longest)
	}
	return text, nil
}

func (f field) bounded(n float64) error {
	switch {
	case f.least != nil && n < *f.least:
		return fmt.Errorf("at least %v", *f.least)
	case f.most != nil && n > *f.most:
		return fmt.Errorf("at most %v", *f.most)
	}
	return nil
}
