package config

import (
	"bytes"
	"strings"

	"github.com/joho/godotenv"
)

// maxStatement bounds the lines of one quoted value, and with it the work that
// an ill-meant file can cause.
const maxStatement = 200

// mentionsAny reports whether data names one of our variables anywhere.
func mentionsAny(data []byte, table []setting) bool {
	for _, s := range table {
		if bytes.Contains(data, []byte(s.env)) {
			return true
		}
	}
	return false
}

// parseDotEnv returns the variables of a .env file with their lines, and the
// line of the first statement that is wrong, or 0. What came before it is
// returned too.
//
// The text goes through the parser statement by statement, which is what tells
// the lines. Dollar signs are hidden from it: it would expand $NAME, which
// mangles keys that hold a dollar and can make a small file enormous.
func parseDotEnv(data []byte) (values map[string]located, badLine int) {
	values = map[string]located{}
	text := strings.ReplaceAll(string(withoutBOM(data)), "\r\n", "\n")
	if before, _, found := strings.Cut(text, "\x00"); found {
		return values, strings.Count(before, "\n") + 1
	}
	text = strings.ReplaceAll(text, "$", "\x00")
	start, statement := 1, ""
	number := 0
	for line := range strings.Lines(text) {
		number++
		if statement == "" {
			start = number
		} else if number-start >= maxStatement {
			return values, start
		}
		// A last line without an end would be parsed differently.
		statement += strings.TrimSuffix(line, "\n") + "\n"
		quoted := strings.ContainsAny(line, `"'`)
		if !quoted && number > start {
			continue // cannot close what is open
		}
		parsed, err := godotenv.Unmarshal(statement)
		if err != nil && !quoted {
			return values, start
		}
		if err != nil {
			continue // perhaps a quote that a later line closes
		}
		for name, value := range parsed {
			values[name] = located{strings.ReplaceAll(value, "\x00", "$"), start}
		}
		statement = ""
	}
	if statement != "" {
		return values, start
	}
	return values, 0
}

func withoutBOM(data []byte) []byte { return bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")) }
