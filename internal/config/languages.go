package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode"
)

// Language says how the files of a language are served. What it leaves empty
// stays as it is built in.
type Language struct {
	// Command is the language server: a program and its arguments. A bare name
	// is looked for on PATH; another one is absolute.
	Command []string `json:"command,omitempty"`
	// Extensions are those of its files, with the dot, or whole file names.
	Extensions []string `json:"extensions,omitempty"`
	LanguageID string   `json:"language_id,omitempty"`
	// Formatter reads a text and writes it formatted; {file} stands for the
	// file's path. FormatterFirst prefers it to the server.
	Formatter             []string       `json:"formatter,omitempty"`
	FormatterFirst        bool           `json:"formatter_first,omitempty"`
	TabSize               int            `json:"tab_size,omitempty"`
	Settings              map[string]any `json:"settings,omitempty"`
	InitializationOptions map[string]any `json:"initialization_options,omitempty"`
	// RunsCode: the server may run code of the project, so it needs consent
	// even if it is one that is known.
	RunsCode bool `json:"runs_code,omitempty"`
}

const languageExample = `{"go": {"command": ["gopls"], "formatter": ["gofumpt"]}}`

// languages is a mapping from languages to how they are served.
func languages(field *map[string]Language) kind {
	k := into(field, "a mapping from languages to their servers, such as "+languageExample, parseLanguages)
	k.yaml = anyMapping
	return k
}

func parseLanguages(s string, at place) (map[string]Language, error) {
	var each map[string]json.RawMessage
	if err := json.Unmarshal([]byte(s), &each); err != nil || each == nil {
		return nil, errNotAllowed
	}
	out := map[string]Language{}
	for _, name := range slices.Sorted(maps.Keys(each)) {
		wrong := func(format string, args ...any) error {
			return &refusal{text: quote(name) + ": " + fmt.Sprintf(format, args...)}
		}
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
			return nil, wrong("is no name of a language; use one such as go, typescript or python")
		}
		l, err := parseLanguage(each[name])
		if err != nil {
			return nil, wrong("%s", err)
		}
		for _, command := range [][]string{l.Command, l.Formatter} {
			if len(command) == 0 {
				continue
			}
			if command[0], err = parseProgram(command[0], at); err != nil {
				return nil, wrong("%s is no program", quote(command[0]))
			}
		}
		out[name] = l
	}
	return out, nil
}

// parseLanguage reads one language. Its errors name the expected form.
func parseLanguage(data []byte) (Language, error) {
	var l Language
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	err := dec.Decode(&l)
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong) && wrong.Field != "":
		return l, fmt.Errorf("%s must be %s", wrong.Field, languageFields[strings.SplitN(wrong.Field, ".", 2)[0]])
	case errors.As(err, &wrong):
		return l, errors.New("must be a mapping with some of " + fieldNames())
	case err != nil && strings.Contains(err.Error(), "unknown field"):
		_, field, _ := strings.Cut(err.Error(), "unknown field ")
		return l, fmt.Errorf("there is no %s; there are %s", field, fieldNames())
	case err != nil:
		return l, errNotAllowed
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return l, errNotAllowed
	}
	for field, list := range map[string][]string{"command": l.Command, "formatter": l.Formatter, "extensions": l.Extensions} {
		if list != nil && len(list) == 0 || slices.ContainsFunc(list, func(s string) bool { return strings.ContainsRune(s, 0) }) || len(list) > 0 && list[0] == "" {
			return l, fmt.Errorf("%s must be %s", field, languageFields[field])
		}
	}
	for _, e := range l.Extensions {
		if e == "" || strings.ContainsAny(e, "/\\*") {
			return l, fmt.Errorf("extensions must be %s, and %s is not", languageFields["extensions"], quote(e))
		}
	}
	if l.TabSize < 0 || l.TabSize > 16 {
		return l, fmt.Errorf("tab_size must be %s", languageFields["tab_size"])
	}
	return l, nil
}

// languageFields says what each field must be.
var languageFields = map[string]string{
	"command": `a list with a program and its arguments, such as ["gopls"]`, "formatter": `a list with a program and its arguments, such as ["gofumpt"]`,
	"extensions": `a list such as [".go"]`, "language_id": "a text", "formatter_first": "true or false", "runs_code": "true or false",
	"tab_size": "a whole number up to 16", "settings": "a mapping", "initialization_options": "a mapping",
}

func fieldNames() string { return strings.Join(slices.Sorted(maps.Keys(languageFields)), ", ") }
