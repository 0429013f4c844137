package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// A JSON value is nil, bool, uint64, int64, float64, string, []any or Object.
type (
	// Object is a JSON object as it was read, with duplicates. Written, its
	// keys are sorted by their bytes and of duplicates the last one counts.
	Object []Member
	// Member is one entry of an Object.
	Member struct {
		Key   string
		Value any
	}
)

// maxDepth is how deep values may be nested, as on the other side.
const maxDepth = 127

// broken stands for a value that is JSON by its form but cannot be a value: a
// lone surrogate, a number beyond all floats. It does no harm in a field that is
// not read.
type broken struct{ err error }

// ParseValue reads one JSON value.
func ParseValue(data []byte) (any, error) {
	v, err := parse(data)
	if err == nil {
		err = sound(v)
	}
	return v, err
}

// parse reads one JSON value, in which some may be broken.
func parse(data []byte) (any, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("it is not UTF-8")
	}
	// Lone surrogates are found by text, which says that the value is broken.
	d := jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	v, err := parseNext(d)
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "jsontext: "))
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("trailing characters")
	}
	return v, nil
}

func parseNext(d *jsontext.Decoder) (any, error) {
	switch k := d.PeekKind(); {
	case (k == '{' || k == '[') && d.StackDepth() >= maxDepth:
		return nil, errors.New("recursion limit exceeded")
	case k == '{':
		return parseObject(d)
	case k == '[':
		return parseArray(d)
	}
	raw, err := d.ReadValue()
	if err != nil {
		return nil, err
	}
	switch raw.Kind() {
	case '"':
		s, err := text(raw)
		if err != nil {
			return broken{err}, nil //nolint:nilerr // an error only if the value is used
		}
		return s, nil
	case 't', 'f':
		return raw.Kind() == 't', nil
	case '0':
		n, err := number(string(raw))
		if err != nil {
			return broken{err}, nil //nolint:nilerr // as above
		}
		return n, nil
	default:
		return nil, nil
	}
}

// text is the string that a literal means.
func text(raw jsontext.Value) (string, error) {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), nil
	}
	s, err := jsontext.AppendUnquote(nil, raw)
	if err != nil {
		return "", fmt.Errorf("lone surrogate in the string %.60s", raw)
	}
	return string(s), nil
}

func parseArray(d *jsontext.Decoder) (any, error) {
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	out := []any{}
	for d.PeekKind() != ']' {
		v, err := parseNext(d)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	_, err := d.ReadToken()
	return out, err
}

func parseObject(d *jsontext.Decoder) (any, error) {
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	out := make(Object, 0, 8)
	for d.PeekKind() != '}' {
		raw, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		key, err := text(raw)
		if err != nil {
			return nil, err
		}
		v, err := parseNext(d)
		if err != nil {
			return nil, err
		}
		out = append(out, Member{key, v})
	}
	_, err := d.ReadToken()
	return out, err
}

// sound returns the error of a broken value, of itself or of one below it.
func sound(v any) error {
	switch v := v.(type) {
	case broken:
		return v.err
	case []any:
		for _, e := range v {
			if err := sound(e); err != nil {
				return err
			}
		}
	case Object:
		for _, m := range v {
			if err := sound(m.Value); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o *Object) read(_ reader, v any) error {
	var ok bool
	if *o, ok = v.(Object); !ok {
		return unexpected(v, "a map")
	}
	return sound(v)
}

// AppendValue writes a value in compact form, with sorted keys.
func AppendValue(to []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(to, "null"...)
	case bool:
		return strconv.AppendBool(to, v)
	case uint64:
		return strconv.AppendUint(to, v, 10)
	case int64:
		return strconv.AppendInt(to, v, 10)
	case float64:
		return appendFloat(to, v)
	case string:
		return AppendString(to, v)
	case []any:
		to = append(to, '[')
		for i, e := range v {
			if i > 0 {
				to = append(to, ',')
			}
			to = AppendValue(to, e)
		}
		return append(to, ']')
	case Object:
		to = append(to, '{')
		for i, m := range sorted(v) {
			if i > 0 {
				to = append(to, ',')
			}
			to = append(AppendString(to, m.Key), ':')
			to = AppendValue(to, m.Value)
		}
		return append(to, '}')
	}
	// Values come from ParseValue, FromGo or this package's own types.
	panic(fmt.Sprintf("contract: %T is no JSON value", v))
}

// sorted returns the members by key, of each the last.
func sorted(members Object) Object {
	byKey := func(a, b Member) int { return strings.Compare(a.Key, b.Key) }
	out := members
	if !slices.IsSortedFunc(members, byKey) {
		out = slices.Clone(members)
		slices.SortStableFunc(out, byKey)
	}
	for i := range len(out) - 1 {
		if out[i].Key == out[i+1].Key {
			last := Object{}
			for i, m := range out {
				if i+1 == len(out) || out[i+1].Key != m.Key {
					last = append(last, m)
				}
			}
			return last
		}
	}
	return out
}

// AppendString writes a string with the escapes that JSON requires.
func AppendString(to []byte, s string) []byte {
	to, _ = jsontext.AppendQuote(to, s) // it fails on bad UTF-8, which it replaces
	return to
}

// FromGo makes a value of what encoding/json has decoded, or can encode.
// Whole floats become integers again: they were integers on the wire.
func FromGo(v any) any {
	switch v := v.(type) {
	case nil, bool, uint64, int64, Object:
		return v
	case string:
		return strings.ToValidUTF8(v, "\uFFFD")
	case int:
		return fromInt(int64(v))
	case float64:
		if v == math.Trunc(v) && math.Abs(v) <= 1<<53 {
			return fromInt(int64(v))
		}
		return v
	case map[string]any:
		o := make(Object, 0, len(v))
		for k, e := range v {
			o = append(o, Member{strings.ToValidUTF8(k, "\uFFFD"), FromGo(e)})
		}
		return sorted(o)
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = FromGo(e)
		}
		return out
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Sprintf("[%T: %v]", v, err)
	}
	out, err := ParseValue(b.Bytes())
	if err != nil {
		return strings.ToValidUTF8(b.String(), "\uFFFD")
	}
	return out
}

func fromInt(i int64) any {
	if i >= 0 {
		return uint64(i)
	}
	return i
}

// powers are those of ten that a float can hold.
var powers = func() (p [309]float64) {
	for i := range p {
		p[i], _ = strconv.ParseFloat("1e"+strconv.Itoa(i), 64)
	}
	return p
}()

// errRange says that a number is beyond what a float can hold.
var errRange = errors.New("number out of range")

// numeral is the digits of a number, as far as they fit into 64 bits, and an
// exponent. The float is made with one multiplication or division, as on the other
// side, and may not be the nearest one.
type numeral struct {
	digits   uint64
	exponent int64
}

// add takes one more digit, if there is room.
func (n *numeral) add(c byte) bool {
	d := uint64(c - '0')
	if n.digits > math.MaxUint64/10 || n.digits == math.MaxUint64/10 && d > math.MaxUint64%10 {
		return false
	}
	n.digits = n.digits*10 + d
	return true
}

// number is the value of a literal, which is well-formed JSON.
func number(literal string) (any, error) {
	digits, negative := strings.CutPrefix(literal, "-")
	if whole, err := strconv.ParseUint(digits, 10, 64); err == nil {
		return integer(whole, negative), nil
	}
	mantissa, exponent := digits, ""
	if i := strings.IndexAny(digits, "eE"); i >= 0 {
		mantissa, exponent = digits[:i], digits[i+1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	n := numeral{}
	fits := true
	for i := range len(whole) {
		if fits = fits && n.add(whole[i]); !fits {
			n.exponent++
		}
	}
	for i := 0; i < len(fraction) && n.add(fraction[i]); i++ { // there is no room for the rest
		n.exponent--
	}
	f, err := n.float(exponent)
	if negative {
		f = -f
	}
	return f, err
}

// integer is a number of 64 bits, or a float. Minus zero is a float too.
func integer(digits uint64, negative bool) any {
	if !negative {
		return digits
	}
	if v := -int64(digits); v < 0 { // wraps beyond the smallest
		return v
	}
	return -float64(digits)
}

// float applies the exponent, in its text form, to the digits.
func (n numeral) float(exponent string) (float64, error) {
	e, err := strconv.ParseInt(strings.TrimPrefix(exponent, "+"), 10, 32)
	switch {
	case exponent == "":
		e = 0
	case err != nil && n.digits != 0 && exponent[0] != '-':
		return 0, errRange
	case err != nil:
		return 0, nil //nolint:nilerr // too small to tell from nothing
	}
	e += n.exponent
	f := float64(n.digits)
	for {
		switch {
		case e >= 0 && e < int64(len(powers)):
			if f *= powers[e]; math.IsInf(f, 0) {
				return 0, errRange
			}
			return f, nil
		case e < 0 && -e < int64(len(powers)):
			return f / powers[-e], nil
		case f == 0:
			return f, nil
		case e >= 0:
			return 0, errRange
		}
		f /= 1e308
		e += 308
	}
}

// appendFloat writes the shortest digits that mean f, with a point or an exponent
// that tells it from an integer.
func appendFloat(to []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(to, "null"...)
	}
	begin := len(to)
	to = strconv.AppendFloat(to, f, 'e', -1, 64)
	mark := begin + bytes.LastIndexByte(to[begin:], 'e')
	exponent, err := strconv.Atoi(string(to[mark+1:]))
	if err != nil || exponent < -5 || exponent > 15 {
		// Go writes at least two digits.
		if sign, digits := to[mark+1], to[mark+2:]; len(digits) == 2 && digits[0] == '0' {
			return append(to[:mark+1], sign, digits[1])
		}
		return to
	}
	to = strconv.AppendFloat(to[:begin], f, 'f', -1, 64)
	if bytes.IndexByte(to[begin:], '.') < 0 {
		to = append(to, ".0"...)
	}
	return to
}
