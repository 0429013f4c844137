package contract

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// UUID is an identifier in its usual form: lower case, with hyphens.
type UUID string

// ParseUUID reads any of the forms in which they are written.
func ParseUUID(s string) (UUID, error) {
	text := strings.ToLower(strings.TrimPrefix(s, "urn:uuid:"))
	if n := len(text); n == 38 && text[0] == '{' && text[n-1] == '}' && len(s) == 38 {
		text = text[1 : n-1]
	}
	if len(text) == 36 && text[8] == '-' && text[13] == '-' && text[18] == '-' && text[23] == '-' {
		text = text[:8] + text[9:13] + text[14:18] + text[19:23] + text[24:]
	} else if len(text) != 32 || len(s) != 32 {
		return "", errors.New("UUID parsing failed: " + quoteShort(s) + " is no UUID")
	}
	var raw [16]byte
	if _, err := hex.Decode(raw[:], []byte(text)); err != nil {
		return "", errors.New("UUID parsing failed: " + quoteShort(s) + " is no UUID")
	}
	return formatUUID(raw), nil
}

func (u *UUID) read(_ reader, v any) (err error) {
	s, ok := v.(string)
	if !ok {
		return unexpected(v, "a UUID string")
	}
	*u, err = ParseUUID(s)
	return err
}

// NameUUID returns the identifier of a name: always the same one.
func NameUUID(name string) UUID {
	// RFC 9562, version 5, in the name space of object identifiers.
	space, _ := hex.DecodeString("6ba7b8129dad11d180b400c04fd430c8")
	sum := sha1.Sum(append(space, name...))
	raw := [16]byte(sum[:16])
	raw[6] = raw[6]&0x0f | 0x50
	raw[8] = raw[8]&0x3f | 0x80
	return formatUUID(raw)
}

func formatUUID(raw [16]byte) UUID {
	h := hex.EncodeToString(raw[:])
	return UUID(h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:])
}

func quoteShort(s string) string {
	const most = 60
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return "`" + s + "`"
}

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
func (t Time) String() string { return string(t.append(nil)) }

func (t Time) append(b []byte) []byte {
	if t.at.Year() > 9999 {
		b = append(b, '+')
	}
	b = t.at.AppendFormat(b, "2006-01-02T15:04:05")
	if t.leap {
		b = append(b[:len(b)-2], "60"...)
	}
	switch ns := t.at.Nanosecond(); {
	case ns == 0:
	case ns%1_000_000 == 0:
		b = t.at.AppendFormat(b, ".000")
	case ns%1000 == 0:
		b = t.at.AppendFormat(b, ".000000")
	default:
		b = t.at.AppendFormat(b, ".000000000")
	}
	return append(b, 'Z')
}

func (t *Time) read(_ reader, v any) (err error) {
	s, ok := v.(string)
	if !ok {
		return unexpected(v, "an RFC 3339 formatted date and time string")
	}
	*t, err = ParseTime(s)
	return err
}

// looseTime is a date and time as the other side reads it: white space before
// numbers and marks, a space for the T, single digits, years with a sign and
// any number of digits, UTC for Z, an offset with or without a colon.
var looseTime = func() *regexp.Regexp {
	const s = `[\s\p{Z}\x{85}]*`
	return regexp.MustCompile(`^` + s + `([+-]` + s + `\d+|\d{1,4})` + s + `-` + s + `(\d{1,2})` + s + `-` + s + `(\d{1,2})[Tt ]` +
		s + `(\d{1,2})` + s + `:` + s + `(\d{1,2})` + s + `:` + s + `(\d{1,2})(?:\.(\d+))?` + s +
		`(?:[Zz]|(?i:utc)|([+−-])(\d\d)[:\s\p{Z}\x{85}]*(\d\d))$`)
}()

// ParseTime reads a date and time with an offset in any form that ABP reads.
func ParseTime(s string) (Time, error) {
	if strings.HasSuffix(s, "Z") && !strings.Contains(s, ",") { // the usual form
		if at, err := time.Parse(time.RFC3339Nano, s); err == nil {
			return Time{at: at}, nil
		}
	}
	m := looseTime.FindStringSubmatch(s)
	if m == nil {
		return Time{}, fmt.Errorf("%s is not a date and time", quoteShort(s))
	}
	beyond := fmt.Errorf("%s is out of range", quoteShort(s))
	n := func(i int) int {
		v, err := strconv.Atoi(strings.Join(strings.Fields(m[i]), ""))
		if m[i] != "" && err != nil {
			return -1 << 30 // beyond every range
		}
		return v
	}
	year, month, day, hour, minute, second := n(1), n(2), n(3), n(4), n(5), n(6)
	offset := n(9)*3600 + n(10)*60
	if month < 1 || month > 12 || day < 1 || hour > 23 || minute > 59 || second > 60 || n(10) > 59 || offset >= 86400 || year < -262143 || year > 262142 {
		return Time{}, beyond
	}
	if m[8] != "+" {
		offset = -offset
	}
	leap := second == 60
	if leap {
		second = 59
	}
	nanos, _ := strconv.Atoi((m[7] + "000000000")[:9]) // nine digits
	at := time.Date(year, time.Month(month), day, hour, minute, second, nanos, time.UTC)
	if at.Day() != day {
		return Time{}, beyond
	}
	return Time{at: at.Add(-time.Duration(offset) * time.Second), leap: leap}, nil
}
