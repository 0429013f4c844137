package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// kind is a type of value and the field of Config that it fills.
type kind struct {
	allowed  string   // follows "must be"
	values   []string // every value, where they can be listed
	derived  string   // how the default comes about, where it is not a fixed text
	yaml     form     // what config.yaml may give besides a scalar
	verbatim bool     // space around the value belongs to it
	parse    func(text string, at place) error
	text     func() string // the value in force as a user would write it; masked if secret
	reveal   func() string // the value of a secret; nil for other settings
}

func (k kind) secret() bool { return k.reveal != nil }

func (k kind) derivedFrom(how string) kind { k.derived = how; return k }

// set checks a value and stores it in the field.
func (k kind) set(s string, at place) error {
	if !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
		return &refusal{text: "must be UTF-8 text without NUL bytes"}
	}
	if !k.verbatim {
		s = strings.TrimSpace(s)
	}
	return k.parse(s, at)
}

// place is what paths are resolved against. For config.yaml, dir is the
// directory of that file, otherwise the working directory.
type place struct {
	dir  string // for relative paths
	home string // for ~; "" if the user's home is not known
}

// errNotAllowed says that a value is not what the kind's allowed text asks for.
var errNotAllowed = errors.New("not allowed")

// refusal is a specific reason for rejecting a value.
type refusal struct {
	text string // what the value must be or must not be; "" for the kind's allowed text
	hide bool   // the value may hold a secret
}

func (r *refusal) Error() string { return r.text }

// into makes a kind from a parser for the field's type.
func into[T any](field *T, allowed string, parse func(string, place) (T, error)) kind {
	return kind{
		allowed: allowed,
		parse: func(s string, at place) error {
			v, err := parse(s, at)
			if err == nil {
				*field = v
			}
			return err
		},
		text: func() string { return textOf(*field) },
	}
}

// matching is into for text that is taken as it is if ok accepts it.
func matching[T ~string](field *T, allowed string, ok func(string) bool) kind {
	return into(field, allowed, func(s string, _ place) (T, error) {
		if !ok(s) {
			return "", errNotAllowed
		}
		return T(s), nil
	})
}

// textOf writes a value as a user would: lists and mappings as JSON, and
// nothing for an unset value. A Secret masks itself.
func textOf(v any) string {
	r := reflect.ValueOf(v)
	switch r.Kind() {
	case reflect.Pointer:
		if r.IsNil() {
			return ""
		}
		return fmt.Sprint(r.Elem())
	case reflect.Slice, reflect.Map:
		data, err := json.Marshal(v)
		if r.IsNil() || err != nil { // every such value was decoded, so it can be encoded
			return ""
		}
		return string(data)
	default:
		return fmt.Sprint(v)
	}
}

// unlessZero shows nothing for a field that is zero when unset.
func (k kind) unlessZero() kind {
	text := k.text
	k.text = func() string {
		if t := text(); t != "0" {
			return t
		}
		return ""
	}
	return k
}

func hasControl(s string) bool { return strings.ContainsFunc(s, unicode.IsControl) }

func secret(field *Secret) kind {
	k := matching(field, "one line of printable ASCII characters", func(s string) bool {
		return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
	})
	k.reveal = func() string { return string(*field) }
	return k
}

// oneLine is a name or the like.
func oneLine(field *string) kind {
	return matching(field, "one line of text", func(s string) bool { return !hasControl(s) })
}

// prose is text of any number of lines.
func prose(field *string) kind {
	k := matching(field, "text", func(string) bool { return true })
	k.verbatim = true
	return k
}

// azureVersion checks only the characters: new shapes of versions appear.
func azureVersion(field *string) kind {
	return matching(field, "a version such as 2024-10-21 or 2025-04-01-preview", regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]{0,63}$`).MatchString)
}

func oneOf[T ~string](field *T, values ...T) kind {
	var all []string
	for _, v := range values {
		all = append(all, string(v))
	}
	k := matching(field, "one of "+strings.Join(all, ", "), func(s string) bool { return slices.Contains(all, s) })
	k.values = all
	return k
}

func whole(field *int, least, most int) kind {
	return into(field, fmt.Sprintf("a whole number from %d to %d", least, most), func(s string, _ place) (int, error) {
		// ParseUint, unlike Atoi, takes no sign.
		n, err := strconv.ParseUint(s, 10, 31)
		if err != nil || int(n) < least || int(n) > most {
			return 0, errNotAllowed
		}
		return int(n), nil
	})
}

func port(field *int) kind {
	k := whole(field, 1, math.MaxUint16).unlessZero()
	k.allowed = "a port number from 1 to 65535"
	return k
}

func duration(field *time.Duration) kind {
	return atLeast(field, 1, "a duration above 0 such as 90s, 5m or 1h30m")
}

func durationOrZero(field *time.Duration) kind {
	return atLeast(field, 0, "a duration such as 90s, 5m or 1h30m, or 0 for no limit")
}

func atLeast(field *time.Duration, least time.Duration, allowed string) kind {
	return into(field, allowed, func(s string, _ place) (time.Duration, error) {
		d, err := time.ParseDuration(s)
		if err != nil || d < least {
			return 0, errNotAllowed
		}
		return d, nil
	})
}

func fraction(field *float64) kind {
	return into(field, "a number above 0 and up to 1", func(s string, _ place) (float64, error) {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || !(f > 0 && f <= 1) { // this way round NaN fails
			return 0, errNotAllowed
		}
		return f, nil
	}).unlessZero()
}

func parseBool(s string, _ place) (bool, error) {
	b, err := strconv.ParseBool(s)
	if err != nil {
		return false, errNotAllowed
	}
	return b, nil
}

func boolean(field *bool) kind {
	k := into(field, "true or false", parseBool)
	k.values = []string{"true", "false"}
	return k
}

// optionalBoolean tells unset from false.
func optionalBoolean(field **bool) kind {
	k := into(field, "true or false", func(s string, at place) (*bool, error) {
		b, err := parseBool(s, at)
		return &b, err
	})
	k.values = []string{"true", "false"}
	return k
}

// path is a file or directory; it is made absolute.
func path(field *string) kind { return into(field, "a path", resolve) }

// program is a path, or a bare name that is left for PATH.
func program(field *string) kind {
	return into(field, "a path or the name of a program", parseProgram)
}

// parseProgram makes a relative path absolute so that it does not come to mean
// a file of the workspace in which a child happens to be started.
func parseProgram(s string, at place) (string, error) {
	bare := s != "~" && s != "." && s != ".." && filepath.Base(s) == s
	if bare && !hasControl(s) {
		return s, nil
	}
	return resolve(s, at)
}

func resolve(s string, at place) (string, error) {
	if hasControl(s) {
		return "", &refusal{text: "must not contain control characters"}
	}
	rest, inHome := strings.CutPrefix(s, "~")
	switch {
	case inHome && (rest == "" || strings.HasPrefix(filepath.ToSlash(rest), "/")):
		if at.home == "" {
			return "", &refusal{text: "must not begin with ~, because your home directory is not known"}
		}
		return filepath.Join(at.home, rest), nil
	case filepath.IsAbs(s):
		return filepath.Clean(s), nil
	}
	return filepath.Join(at.dir, s), nil
}
