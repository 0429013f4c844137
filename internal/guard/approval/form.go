package approval

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

const maxFields = 100

var errSchema = errors.New("its schema is not understood")

// field is one question of a form.
type field struct {
	property
	name     string
	about    string
	choices  []choice // not empty: one of these
	required bool
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
	Type        string   `json:"type"`
	Title       string   `json:"title"`
	Description string   `json:"description"`
	Enum        []any    `json:"enum"`
	EnumNames   []string `json:"enumNames"`
	OneOf       []option `json:"oneOf"`
	AnyOf       []option `json:"anyOf"`
	Default     any      `json:"default"` // nil for none
	Minimum     *float64 `json:"minimum"`
	Maximum     *float64 `json:"maximum"`
	MinLength   int      `json:"minLength"`
	MaxLength   int      `json:"maxLength"` // 0 for no limit
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
	if json.Unmarshal(schema, &object) != nil {
		return nil, errSchema
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

// Field is one question of a form, for those who show it elsewhere.
type Field struct {
	Name     string   `json:"name"`
	About    string   `json:"about,omitempty"`
	Type     string   `json:"type,omitempty"`    // string, number, integer, boolean
	Choices  []string `json:"choices,omitempty"` // not empty: one of these
	Default  string   `json:"default,omitempty"`
	Required bool     `json:"required,omitempty"`
}

// Fields are the questions of a form, by its JSON schema.
func Fields(schema json.RawMessage) (out []Field, err error) {
	fields, err := decodeForm(schema)
	for _, f := range fields {
		shown := Field{Name: f.name, About: Visible(f.about), Type: f.Type, Required: f.required}
		if f.Default != nil {
			shown.Default = fmt.Sprint(f.Default)
		}
		for _, c := range f.choices {
			shown.Choices = append(shown.Choices, c.label)
		}
		out = append(out, shown)
	}
	return out, err
}

// Fill reads what was entered into the fields of a form, by their names.
func Fill(schema json.RawMessage, entered map[string]string) (map[string]any, error) {
	fields, err := decodeForm(schema)
	if err != nil {
		return nil, err
	}
	content := map[string]any{}
	for _, f := range fields {
		value, err := f.parse(entered[f.name])
		if err != nil {
			return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("%q must be %v", f.name, err)}
		}
		if value != nil {
			content[f.name] = value
		}
	}
	return content, nil
}

// eachMember walks an object in its own order, which a map would lose.
func eachMember(object json.RawMessage, f func(name string, value json.RawMessage) error) error {
	if len(object) == 0 || string(object) == "null" {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(object))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errSchema
	}
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		var value json.RawMessage
		if err != nil || !ok || d.Decode(&value) != nil {
			return errSchema
		}
		if err := f(name, value); err != nil {
			return err
		}
	}
	return nil
}

func newField(name string, raw json.RawMessage) (field, error) {
	f := field{name: name, about: name}
	if json.Unmarshal(raw, &f.property) != nil {
		return field{}, errors.New("has a schema that is not understood")
	}
	f.Default = scalar(f.Default)
	if f.Title != "" {
		f.about = f.Title
	}
	if f.Description != "" {
		f.about += ": " + f.Description
	}
	options := slices.Concat(f.OneOf, f.AnyOf)
	for i, v := range f.Enum {
		o := option{Const: v}
		if i < len(f.EnumNames) {
			o.Title = f.EnumNames[i]
		}
		options = slices.Insert(options, i, o)
	}
	for _, o := range options {
		if scalar(o.Const) == nil {
			return field{}, errors.New("has choices that are not simple values")
		}
		f.choices = append(f.choices, choice{value: o.Const, label: cmp.Or(o.Title, fmt.Sprint(o.Const))})
	}
	switch f.Type {
	case kindString, kindNumber, kindInteger, kindBoolean:
		return f, nil
	case "":
		if len(f.choices) > 0 {
			return f, nil
		}
	}
	return field{}, fmt.Errorf("is of type %q, which a terminal cannot ask for", f.Type)
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
	if f.Type == kindDone {
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
	case f.Type == kindDone:
		return "  Press Enter when you are done: "
	case f.Default != nil:
		hint = " [" + Visible(fmt.Sprint(f.Default)) + "]"
	case !f.required:
		hint = " (optional)"
	case f.Type == kindBoolean && len(f.choices) == 0:
		hint = " (y/n)"
	}
	return "  " + Visible(f.name) + hint + ": "
}

// parse returns the value of an answer; its error completes "It must be".
func (f field) parse(text string) (any, error) {
	trimmed := strings.TrimSpace(text)
	switch {
	case f.Type == kindDone:
		return nil, nil
	case trimmed == "" && (f.Default != nil || !f.required):
		return f.Default, nil
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
	switch f.Type {
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
	case trimmed == "" || n < f.MinLength:
		return nil, fmt.Errorf("at least %d characters long", max(1, f.MinLength))
	case f.MaxLength > 0 && n > f.MaxLength:
		return nil, fmt.Errorf("at most %d characters long", f.MaxLength)
	}
	return text, nil
}

func (f field) bounded(n float64) error {
	switch {
	case f.Minimum != nil && n < *f.Minimum:
		return fmt.Errorf("at least %v", *f.Minimum)
	case f.Maximum != nil && n > *f.Maximum:
		return fmt.Errorf("at most %v", *f.Maximum)
	}
	return nil
}
