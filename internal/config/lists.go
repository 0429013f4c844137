package config

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
)

// arguments is a command line.
func arguments() kind[[]string] {
	return list(`a JSON array of texts such as ["--acp", "--stdio"], or words separated by spaces with quotes closed`, unicode.IsSpace, true)
}

// names is a list of names, none of them empty.
func names() kind[[]string] {
	return list(`a JSON array of names such as ["Write", "Bash"], or names separated by commas or spaces`,
		func(r rune) bool { return r == ',' || unicode.IsSpace(r) }, false)
}

// pairs is a set of names and what each of them stands for, such as name and
// value.
func pairs(name, value string) kind[map[string]string] {
	word := name + "=" + value
	if strings.Contains(value, " ") {
		word = `"` + word + `"`
	}
	k := kind[map[string]string]{
		allowed: fmt.Sprintf(`a JSON object such as {%q: %q}, or pairs such as %s separated by commas or spaces`, name, value, word), pairs: true,
		text: func(m map[string]string) string {
			if m == nil {
				return ""
			}
			data, err := json.Marshal(m)
			if err != nil { // texts always marshal
				return ""
			}
			return string(data)
		},
	}
	k.parse = func(s string, _ place) (map[string]string, error) {
		out := map[string]string{}
		if strings.HasPrefix(s, "{") {
			if err := json.Unmarshal([]byte(s), &out); err != nil {
				return nil, errNotAllowed
			}
		} else {
			words, err := splitWords(s, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
			if err != nil {
				return nil, err
			}
			for _, w := range words {
				name, value, ok := strings.Cut(w, "=")
				if _, twice := out[name]; !ok || twice {
					return nil, errNotAllowed
				}
				out[name] = value
			}
		}
		for name, value := range out {
			if name == "" || value == "" || strings.ContainsFunc(name+value, unicode.IsControl) {
				return nil, errNotAllowed
			}
		}
		return out, nil
	}
	return k
}

func list(allowed string, separator func(rune) bool, emptyItems bool) kind[[]string] {
	return kind[[]string]{
		allowed: allowed, list: true,
		parse: func(s string, _ place) ([]string, error) {
			items, err := parseList(s, separator)
			if err != nil {
				return nil, err
			}
			for _, item := range items {
				if strings.ContainsRune(item, 0) || item == "" && !emptyItems {
					return nil, errNotAllowed
				}
			}
			return items, nil
		},
		text: func(items []string) string {
			if items == nil {
				return ""
			}
			return jsonArray(items)
		},
	}
}

func jsonArray(items []string) string {
	data, err := json.Marshal(items)
	if err != nil { // texts always marshal
		return ""
	}
	return string(data)
}

// parseList reads a JSON array of texts or, if s does not begin like one,
// words. What begins with a bracket is not tried as words: a slip in the JSON
// would become a strange argument instead of an error.
func parseList(s string, separator func(rune) bool) ([]string, error) {
	if !strings.HasPrefix(s, "[") {
		return splitWords(s, separator)
	}
	// Pointers, because into plain texts a null would decode as "".
	var items []*string
	if err := json.Unmarshal([]byte(s), &items); err != nil {
		return nil, errNotAllowed
	}
	texts := make([]string, 0, len(items))
	for _, item := range items {
		if item == nil {
			return nil, errNotAllowed
		}
		texts = append(texts, *item)
	}
	return texts, nil
}

// splitWords splits s as a shell would, without its expansions: single quotes
// keep everything, double quotes keep all but a backslash before " \ $ and `,
// and elsewhere a backslash keeps the next character.
func splitWords(s string, separator func(rune) bool) ([]string, error) {
	var (
		words   []string
		word    strings.Builder
		inWord  bool
		quote   rune
		escaped bool
	)
	for _, r := range s {
		switch {
		case escaped:
			if quote == '"' && !strings.ContainsRune("\"\\$`", r) {
				word.WriteByte('\\')
			}
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, inWord = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '"' || r == '\'':
			quote, inWord = r, true
		case separator(r):
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	switch {
	case quote != 0:
		return nil, &refusal{text: "has a quote (" + string(quote) + ") that is not closed"}
	case escaped:
		return nil, &refusal{text: "ends in a backslash that has nothing to escape"}
	case inWord:
		words = append(words, word.String())
	case words == nil:
		return nil, errNotAllowed
	}
	return words, nil
}
