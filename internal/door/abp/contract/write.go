package contract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// record is one of ABP's own structures: its members keep their order, except
// in the canonical form.
type record []Member

// AppendValue writes a value in compact form, with sorted keys.
func AppendValue(to []byte, v any) []byte { return appendValue(to, v, true) }

func appendValue(to []byte, v any, canonical bool) []byte {
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
			to = appendValue(to, e, canonical)
		}
		return append(to, ']')
	case Object:
		return appendMembers(to, sorted(v), canonical)
	case *Event:
		if canonical {
			return v.appendCanonical(to)
		}
		return appendValue(to, v.value(), false)
	case record:
		if canonical {
			v.sort() // it was made to be written once
		}
		return appendMembers(to, v, canonical)
	}
	// Values come from ParseValue, FromGo or this package's own types.
	panic(fmt.Sprintf("contract: %T is no JSON value", v))
}

func appendMembers(to []byte, members []Member, canonical bool) []byte {
	to = append(to, '{')
	for i, m := range members {
		if i > 0 {
			to = append(to, ',')
		}
		to = AppendString(to, m.Key)
		to = append(to, ':')
		to = appendValue(to, m.Value, canonical)
	}
	return append(to, '}')
}

// sort puts the members in order of their keys, of which none comes twice.
// There are few, and they are nearly in order.
func (r record) sort() {
	for i := 1; i < len(r); i++ {
		for j := i; j > 0 && r[j].Key < r[j-1].Key; j-- {
			r[j], r[j-1] = r[j-1], r[j]
		}
	}
}

// sorted returns the members by key, of each the last.
func sorted(members []Member) []Member {
	inOrder := true
	for i := 1; i < len(members) && inOrder; i++ {
		inOrder = members[i-1].Key < members[i].Key
	}
	if inOrder {
		return members
	}
	out := slices.Clone(members)
	slices.SortStableFunc(out, func(a, b Member) int { return strings.Compare(a.Key, b.Key) })
	last := out[:0]
	for i, m := range out {
		if i+1 == len(out) || out[i+1].Key != m.Key {
			last = append(last, m)
		}
	}
	return last
}

// AppendString writes a string, which must be UTF-8. Only quotes, backslashes
// and control characters are escaped.
func AppendString(to []byte, s string) []byte {
	const hex = "0123456789abcdef"
	to = append(to, '"')
	begin := 0
	for i := range len(s) {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		to = append(to, s[begin:i]...)
		begin = i + 1
		switch c {
		case '"', '\\':
			to = append(to, '\\', c)
		case '\b':
			to = append(to, `\b`...)
		case '\t':
			to = append(to, `\t`...)
		case '\n':
			to = append(to, `\n`...)
		case '\f':
			to = append(to, `\f`...)
		case '\r':
			to = append(to, `\r`...)
		default:
			to = append(to, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(append(to, s[begin:]...), '"')
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
		return Object(sorted(o))
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
