package config

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// arguments is a command line.
func arguments(field *[]string) kind {
	const allowed = `a JSON array of texts such as ["--acp", "--stdio"], or words separated by spaces with quotes closed`
	k := into(field, allowed, func(s string, _ place) ([]string, error) { return parseList(s, unicode.IsSpace) })
	k.yaml = list
	return k
}

func commaOrSpace(r rune) bool { return r == ',' || unicode.IsSpace(r) }

// names is a list of names, none of them empty.
func names(field *[]string) kind {
	const allowed = `a JSON array of names such as ["Write", "Bash"], or names separated by commas or spaces`
	k := into(field, allowed, func(s string, _ place) ([]string, error) {
		all, err := parseList(s, commaOrSpace)
		if slices.Contains(all, "") {
			err = errNotAllowed
		}
		return all, err
	})
	k.yaml = list
	return k
}

// pairs maps names to values; name and value are an example.
func pairs(field *map[string]string, name, value string) kind {
	word := name + "=" + value
	if strings.Contains(value, " ") {
		word = `"` + word + `"`
	}
	allowed := fmt.Sprintf(`a JSON object such as {%q: %q}, or pairs such as %s separated by commas or spaces`, name, value, word)
	k := into(field, allowed, func(s string, _ place) (map[string]string, error) { return parsePairs(s) })
	k.yaml = textMapping
	return k
}

// headers maps names of HTTP headers to values, which are secret.
func headers(field *map[string]Secret) kind {
	const allowed = `a JSON object of HTTP headers such as {"X-Team": "tools"}, or pairs such as X-Team=tools separated by commas or spaces`
	k := into(field, allowed, func(s string, _ place) (map[string]Secret, error) {
		all, err := parsePairs(s)
		out := make(map[string]Secret, len(all))
		for name, value := range all {
			if !headerName.MatchString(name) || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
				return nil, errNotAllowed
			}
			out[name] = Secret(value)
		}
		return out, err
	})
	k.yaml = textMapping
	k.reveal = func() string {
		if len(*field) == 0 {
			return ""
		}
		data, err := json.Marshal(Plain(*field))
		if err != nil { // texts can be encoded
			return ""
		}
		return string(data)
	}
	return k
}

// headerName is what RFC 9110 calls a token.
var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

func parsePairs(s string) (map[string]string, error) {
	out := map[string]string{}
	if strings.HasPrefix(s, "{") {
		if err := json.Unmarshal([]byte(s), &out); err != nil {
			return nil, errNotAllowed
		}
	} else {
		words, err := splitWords(s, commaOrSpace)
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
		if name == "" || value == "" || hasControl(name+value) {
			return nil, errNotAllowed
		}
	}
	return out, nil
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
		if item == nil || strings.ContainsRune(*item, 0) {
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
