package config

import (
	"path/filepath"
	"strings"
	"unicode"
)

// place is what paths are resolved against.
type place struct {
	dir  string // for relative paths
	home string // for ~; "" if the user's home is not known
}

// path is a file or directory; it is made absolute.
func path() kind[string] {
	return kind[string]{allowed: "a path", parse: resolve, text: asIs}
}

// program is a path, or a bare name that is left for PATH. A relative path is
// made absolute so that it does not come to mean a file of the workspace in
// which a child happens to be started.
func program() kind[string] {
	return kind[string]{
		allowed: "a path or the name of a program",
		parse: func(s string, at place) (string, error) {
			bare := s != "~" && s != "." && s != ".." && filepath.Base(s) == s
			if bare && !strings.ContainsFunc(s, unicode.IsControl) {
				return s, nil
			}
			return resolve(s, at)
		},
		text: asIs,
	}
}

func resolve(s string, at place) (string, error) {
	if strings.ContainsFunc(s, unicode.IsControl) {
		return "", &refusal{text: "must not contain control characters"}
	}
	rest, inHome := strings.CutPrefix(s, "~")
	if inHome && (rest == "" || strings.HasPrefix(filepath.ToSlash(rest), "/")) {
		if at.home == "" {
			return "", &refusal{text: "must not begin with ~, because your home directory is not known"}
		}
		return filepath.Join(at.home, rest), nil
	}
	if filepath.IsAbs(s) {
		return filepath.Clean(s), nil
	}
	return filepath.Join(at.dir, s), nil
}
