package contract

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Time is a moment as receipts have it: in UTC, with a fraction as short as
// it can be in steps of three digits. A leap second keeps its number.
type Time struct {
	at   time.Time
	leap bool
}

// At returns t as a Time.
func At(t time.Time) Time { return Time{at: t.UTC()} }

// Go returns it as the standard library has it.
func (t Time) Go() time.Time { return t.at }

// String returns the form that is hashed.
func (t Time) String() string { return string(t.append(make([]byte, 0, 32))) }

func (t Time) append(b []byte) []byte {
	year, month, day := t.at.Date()
	hour, minute, second := t.at.Clock()
	if t.leap {
		second++
	}
	if year < 0 || year > 9999 {
		b = fmt.Appendf(b, "%+05d", year)
	} else {
		b = digits(b, year, 4)
	}
	b = digits(append(b, '-'), int(month), 2)
	b = digits(append(b, '-'), day, 2)
	b = digits(append(b, 'T'), hour, 2)
	b = digits(append(b, ':'), minute, 2)
	b = digits(append(b, ':'), second, 2)
	switch ns := t.at.Nanosecond(); {
	case ns == 0:
	case ns%1_000_000 == 0:
		b = digits(append(b, '.'), ns/1_000_000, 3)
	case ns%1000 == 0:
		b = digits(append(b, '.'), ns/1000, 6)
	default:
		b = digits(append(b, '.'), ns, 9)
	}
	return append(b, 'Z')
}

// digits writes the last digits of a number that is not negative.
func digits(to []byte, n, width int) []byte {
	for range width {
		to = append(to, 0)
	}
	for i := len(to) - 1; width > 0; i, width = i-1, width-1 {
		to[i] = byte('0' + n%10)
		n /= 10
	}
	return to
}

var (
	errShort   = errors.New("premature end of input")
	errInvalid = errors.New("input contains invalid characters")
	errBeyond  = errors.New("input is out of range")
)

// ParseTime reads a date and time with an offset, as loosely as the other side
// does: a space for the T, white space, single digits, UTC for Z.
func ParseTime(s string) (Time, error) {
	r := timeReader{rest: s}
	year := r.year()
	month := r.after('-')
	day := r.after('-')
	r.separator()
	hour := r.number(2)
	minute := r.after(':')
	second := r.after(':')
	nanos := r.fraction()
	r.rest = strings.TrimLeftFunc(r.rest, unicode.IsSpace)
	offset := r.offset()
	switch {
	case r.err != nil:
		return Time{}, r.err
	case r.rest != "":
		return Time{}, errors.New("trailing input")
	case month < 1 || month > 12 || day < 1 || hour > 23 || minute > 59 || second > 60 || offset <= -86400 || offset >= 86400 ||
		year < -262143 || year > 262142:
		return Time{}, errBeyond
	}
	leap := second == 60
	if leap {
		second = 59
	}
	at := time.Date(year, time.Month(month), day, hour, minute, second, nanos, time.UTC)
	if at.Day() != day {
		return Time{}, errBeyond
	}
	return Time{at: at.Add(-time.Duration(offset) * time.Second), leap: leap}, nil
}

// timeReader takes a text apart; after the first error it does nothing.
type timeReader struct {
	rest string
	err  error
}

func (r *timeReader) fail(err error) int {
	if r.err == nil {
		r.err = err
	}
	return 0
}

func (r *timeReader) trim() { r.rest = strings.TrimLeftFunc(r.rest, unicode.IsSpace) }

func (r *timeReader) number(most int) int {
	r.trim()
	n := 0
	for n < len(r.rest) && n < most && isDigit(r.rest[n]) {
		n++
	}
	switch {
	case r.err != nil:
		return 0
	case n == 0 && r.rest == "":
		return r.fail(errShort)
	case n == 0:
		return r.fail(errInvalid)
	}
	v, err := strconv.Atoi(r.rest[:n])
	if err != nil {
		return r.fail(errBeyond)
	}
	r.rest = r.rest[n:]
	return v
}

func (r *timeReader) year() int {
	r.trim()
	switch {
	case strings.HasPrefix(r.rest, "-"):
		r.rest = r.rest[1:]
		return -r.number(math.MaxInt)
	case strings.HasPrefix(r.rest, "+"):
		r.rest = r.rest[1:]
		return r.number(math.MaxInt)
	}
	return r.number(4)
}

// after reads a mark and the number behind it.
func (r *timeReader) after(mark byte) int {
	r.trim()
	switch {
	case r.err != nil:
		return 0
	case r.rest == "":
		return r.fail(errShort)
	case r.rest[0] != mark:
		return r.fail(errInvalid)
	}
	r.rest = r.rest[1:]
	return r.number(2)
}

func (r *timeReader) separator() {
	switch {
	case r.err != nil:
	case r.rest == "":
		r.fail(errShort)
	case r.rest[0] == 'T' || r.rest[0] == 't' || r.rest[0] == ' ':
		r.rest = r.rest[1:]
	default:
		r.fail(errInvalid)
	}
}

// fraction reads the nanoseconds; digits beyond them are dropped.
func (r *timeReader) fraction() int {
	if r.err != nil || !strings.HasPrefix(r.rest, ".") {
		return 0
	}
	n := 1
	for n < len(r.rest) && isDigit(r.rest[n]) {
		n++
	}
	if n == 1 {
		return r.fail(errShort)
	}
	digits := r.rest[1:min(n, 10)]
	r.rest = r.rest[n:]
	v, err := strconv.Atoi(digits + "000000000"[len(digits):])
	if err != nil {
		return r.fail(errBeyond)
	}
	return v
}

// offset reads the seconds east of Greenwich.
func (r *timeReader) offset() int {
	if r.err != nil {
		return 0
	}
	if len(r.rest) >= 3 && strings.EqualFold(r.rest[:3], "UTC") {
		r.rest = r.rest[3:]
		return 0
	}
	sign := 1
	switch {
	case r.rest == "":
		return r.fail(errShort)
	case r.rest[0] == 'Z' || r.rest[0] == 'z':
		r.rest = r.rest[1:]
		return 0
	case r.rest[0] == '+':
		r.rest = r.rest[1:]
	case r.rest[0] == '-':
		sign, r.rest = -1, r.rest[1:]
	case strings.HasPrefix(r.rest, "−"):
		sign, r.rest = -1, strings.TrimPrefix(r.rest, "−")
	default:
		return r.fail(errInvalid)
	}
	hours := r.pair()
	r.rest = strings.TrimLeftFunc(r.rest, func(c rune) bool { return c == ':' || unicode.IsSpace(c) })
	minutes := r.pair()
	if minutes > 59 {
		return r.fail(errBeyond)
	}
	return sign * (hours*3600 + minutes*60)
}

func (r *timeReader) pair() int {
	switch {
	case r.err != nil:
		return 0
	case len(r.rest) < 2:
		return r.fail(errShort)
	case !isDigit(r.rest[0]) || !isDigit(r.rest[1]):
		return r.fail(errInvalid)
	}
	v := int(r.rest[0]-'0')*10 + int(r.rest[1]-'0')
	r.rest = r.rest[2:]
	return v
}
