package config

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// binding ties a setting to the field of Config that it fills.
type binding struct {
	allowed string   // follows "must be"
	values  []string // every value, where they can be listed
	list    bool     // config.yaml may give a sequence
	pairs   bool     // config.yaml may give a mapping
	tree    bool     // config.yaml may give a mapping of anything
	set     func(*Config, string, place) error
	text    func(*Config) string // the value in force as a user would write it; masked if secret
	reveal  func(*Config) string // the value of a secret; nil for other settings
}

// errNotAllowed says that a value is not what the kind's allowed text asks for.
var errNotAllowed = errors.New("not allowed")

// refusal is a reason of its own for turning a value down.
type refusal struct {
	text string // what the value must be or must not be; "" for the kind's allowed text
	hide bool   // the value may hold a secret
}

func (r *refusal) Error() string { return r.text }

// kind is a type of value: how it is read, written and described.
type kind[T any] struct {
	allowed  string
	values   []string
	list     bool
	pairs    bool
	tree     bool
	verbatim bool // space around the value belongs to it
	parse    func(string, place) (T, error)
	text     func(T) string
}

func (k kind[T]) into(field func(*Config) *T) binding {
	return binding{
		allowed: k.allowed, values: k.values, list: k.list, pairs: k.pairs, tree: k.tree,
		set: func(c *Config, s string, at place) error {
			if !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
				return &refusal{text: "must be UTF-8 text without NUL bytes"}
			}
			if !k.verbatim {
				s = strings.TrimSpace(s)
			}
			v, err := k.parse(s, at)
			if err != nil {
				return err
			}
			*field(c) = v
			return nil
		},
		text: func(c *Config) string { return k.text(*field(c)) },
	}
}

func secretLine(field func(*Config) *Secret) binding {
	k := kind[Secret]{
		allowed: "one line of printable ASCII characters",
		parse: func(s string, _ place) (Secret, error) {
			if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
				return "", errNotAllowed
			}
			return Secret(s), nil
		},
		text: Secret.masked,
	}
	b := k.into(field)
	b.reveal = func(c *Config) string { return string(*field(c)) }
	return b
}

func asIs(s string) string { return s }

// oneLine is a name or the like.
func oneLine() kind[string] {
	return kind[string]{
		allowed: "one line of text",
		parse: func(s string, _ place) (string, error) {
			if strings.ContainsFunc(s, unicode.IsControl) {
				return "", errNotAllowed
			}
			return s, nil
		},
		text: asIs,
	}
}

// prose is text of any number of lines.
func prose() kind[string] {
	return kind[string]{
		allowed: "text", verbatim: true,
		parse: func(s string, _ place) (string, error) { return s, nil },
		text:  asIs,
	}
}

// New shapes of Azure's API versions appear, so only the characters are checked.
var azureVersion = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]{0,63}$`)

func version() kind[string] {
	return kind[string]{
		allowed: "a version such as 2024-10-21 or 2025-04-01-preview",
		parse: func(s string, _ place) (string, error) {
			if !azureVersion.MatchString(s) {
				return "", errNotAllowed
			}
			return s, nil
		},
		text: asIs,
	}
}

func oneOf[T ~string](values ...T) kind[T] {
	k := kind[T]{text: func(v T) string { return string(v) }}
	for _, v := range values {
		k.values = append(k.values, string(v))
	}
	k.allowed = "one of " + strings.Join(k.values, ", ")
	k.parse = func(s string, _ place) (T, error) {
		for _, v := range values {
			if string(v) == s {
				return v, nil
			}
		}
		return "", errNotAllowed
	}
	return k
}

func whole(least, most int) kind[int] {
	return kind[int]{
		allowed: fmt.Sprintf("a whole number from %d to %d", least, most),
		parse: func(s string, _ place) (int, error) {
			// ParseUint, unlike Atoi, takes no sign.
			n, err := strconv.ParseUint(s, 10, 31)
			if err != nil || int(n) < least || int(n) > most {
				return 0, errNotAllowed
			}
			return int(n), nil
		},
		text: strconv.Itoa,
	}
}

func port() kind[int] {
	k := whole(1, math.MaxUint16)
	k.allowed = "a port number from 1 to 65535"
	k.text = func(n int) string {
		if n == 0 {
			return ""
		}
		return strconv.Itoa(n)
	}
	return k
}

func duration(zero bool) kind[time.Duration] {
	k := kind[time.Duration]{
		allowed: "a duration above 0 such as 90s, 5m or 1h30m",
		parse: func(s string, _ place) (time.Duration, error) {
			d, err := time.ParseDuration(s)
			if err != nil || d < 0 || d == 0 && !zero {
				return 0, errNotAllowed
			}
			return d, nil
		},
		text: time.Duration.String,
	}
	if zero {
		k.allowed = "a duration such as 90s, 5m or 1h30m, or 0 for no limit"
	}
	return k
}

func fraction() kind[float64] {
	return kind[float64]{
		allowed: "a number above 0 and up to 1",
		parse: func(s string, _ place) (float64, error) {
			f, err := strconv.ParseFloat(s, 64)
			if err != nil || !(f > 0 && f <= 1) { // this way round NaN fails
				return 0, errNotAllowed
			}
			return f, nil
		},
		text: func(f float64) string {
			if f == 0 {
				return ""
			}
			return strconv.FormatFloat(f, 'g', -1, 64)
		},
	}
}

func boolean() kind[bool] {
	return kind[bool]{
		allowed: "true or false", values: []string{"true", "false"},
		parse: func(s string, _ place) (bool, error) {
			b, err := strconv.ParseBool(s)
			if err != nil {
				return false, errNotAllowed
			}
			return b, nil
		},
		text: strconv.FormatBool,
	}
}

// optional makes a kind that knows "unset" from every value.
func optional[T any](k kind[T]) kind[*T] {
	return kind[*T]{
		allowed: k.allowed, values: k.values, list: k.list, verbatim: k.verbatim,
		parse: func(s string, at place) (*T, error) {
			v, err := k.parse(s, at)
			if err != nil {
				return nil, err
			}
			return &v, nil
		},
		text: func(v *T) string {
			if v == nil {
				return ""
			}
			return k.text(*v)
		},
	}
}
