package config

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/joho/godotenv"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// DotEnv is what a .env file holds for the bridge. Such a file often comes with
// code that was not reviewed, so its values count only if Options.Trusted says
// that the user trusts exactly these bytes; Show and DotEnvWarning report those
// that were ignored. Values are literal: $NAME is not expanded.
type DotEnv struct {
	Path     string
	Data     []byte    // what was parsed
	Settings []Setting // by line; secrets are masked

	values  map[string]located // by variable
	badLine int
}

// ReadDotEnv reads the .env file of a directory, so that the user can decide
// whether to trust it. Without one, or if it mentions none of the bridge's
// variables, it returns nil. homeDir is the user's home.
func ReadDotEnv(dir, homeDir string) (*DotEnv, error) {
	var parsed Config
	table := settings(&parsed)
	d, err := readDotEnv(dir, table)
	if err != nil || d == nil {
		return nil, err
	}
	if d.badLine > 0 {
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("%s:%d: %s", d.Path, d.badLine, badStatement),
			Remedy: "Correct the line, then run the command again."}
	}
	for _, s := range table {
		v, ok := d.values[s.env]
		if !ok || strings.TrimSpace(v.value) == "" {
			continue
		}
		// As Show would show it; a value that cannot be used may hold anything.
		text := "(not valid)"
		if s.set(v.value, place{dir: dir, home: homeDir}) == nil {
			text = s.text()
		}
		d.Settings = append(d.Settings, Setting{Key: s.key, Env: s.env, Value: text, Secret: s.secret(), Description: s.about,
			Origin: Origin{Source: SourceDotEnv, Where: fmt.Sprintf("%s:%d", DotEnvName, v.line)}})
	}
	slices.SortStableFunc(d.Settings, func(a, b Setting) int { return d.values[a.Env].line - d.values[b.Env].line })
	return d, nil
}

// badStatement is our own text: the parser's quotes the line, which may hold a
// secret.
const badStatement = "is not of the form NAME=value, or has a quote that is not closed"

func readDotEnv(dir string, table []setting) (*DotEnv, error) {
	file := filepath.Join(dir, DotEnvName)
	// Not a regular file: a virtual environment of that name, or a pipe that a
	// password manager serves and that could block for ever.
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
		return nil, nil
	}
	data, err := readLimited(file)
	if err != nil {
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: file + " " + err.Error()}
	}
	if !slices.ContainsFunc(table, func(s setting) bool { return bytes.Contains(data, []byte(s.env)) }) {
		return nil, nil
	}
	d := &DotEnv{Path: file, Data: data}
	d.values, d.badLine = parseDotEnv(data, table)
	return d, nil
}

// dotenvReport lists the values of a .env file that were ignored.
type dotenvReport struct {
	file       string
	notTaken   map[string]string // where, by variable
	unreadable string            // why nothing could be
}

// readDotEnv adds the trusted values of the working directory's .env file. It
// fails only if the record of trusted files cannot be used.
func (l *loader) readDotEnv() error {
	layer := map[string]given{}
	l.add(layer)
	report := &l.cfg.dotenv
	d, err := readDotEnv(l.opts.Dir, l.table)
	if err != nil { // it cannot have been trusted
		report.unreadable = bridge.AsError(err).Message
		return nil
	}
	if d == nil {
		return nil
	}
	trusted := false
	if l.opts.Trusted != nil && l.cfg.Home != "" {
		if trusted, err = l.opts.Trusted(l.cfg.Home, d.Path, d.Data); err != nil {
			return err
		}
	}
	if trusted && d.badLine > 0 {
		l.incomplete = true
		l.problems = append(l.problems, problem{source: SourceDotEnv, subject: fmt.Sprintf("%s:%d", d.Path, d.badLine), text: badStatement})
	}
	report.file, report.notTaken = d.Path, map[string]string{}
	for _, s := range l.table {
		v, ok := d.values[s.env]
		if !ok {
			continue
		}
		where := fmt.Sprintf("%s:%d", DotEnvName, v.line)
		if !s.noFile() && trusted {
			layer[s.key] = given{v.value, Origin{Source: SourceDotEnv, Where: where, Trusted: trusted}}
		} else if l.wouldCount(s.key, v.value) {
			report.notTaken[s.env] = where
		}
	}
	return nil
}

// wouldCount reports whether a value of a .env file would be in force: it is
// not empty, and nothing stronger gives the setting.
func (l *loader) wouldCount(key, value string) bool {
	_, stronger := l.lookup(key)
	return strings.TrimSpace(value) != "" && !stronger
}

// DotEnvWarning names what a .env file has tried to decide without the user's
// trust, and the remedy; "" if there is nothing to say. It holds no values.
func (c *Config) DotEnvWarning() string {
	d := &c.dotenv
	if d.unreadable != "" {
		return d.unreadable + ". Nothing in it was taken."
	}
	var untrusted, texts []string
	for _, s := range settings(c) {
		switch {
		case d.notTaken[s.env] == "":
		case s.noFile():
			texts = append(texts, s.env+" is never taken from a .env file. Set it in the environment.")
		default:
			untrusted = append(untrusted, s.env)
		}
	}
	if len(untrusted) > 0 {
		texts = append(texts, fmt.Sprintf("%s is not trusted: %s not taken from it. If you wrote it or have read it, run: copilot-bridge trust",
			d.file, listed(untrusted, "was", "were")))
	}
	return strings.Join(texts, "\n")
}

// maxStatement bounds the lines of one quoted value, and with it the work that
// an ill-meant file can cause.
const maxStatement = 200

// parseDotEnv returns the variables of a .env file with their lines, and the
// line of the first statement that is wrong, or 0. What came before it is
// returned too.
//
// A quote that is still open where one of our variables is set was forgotten: a
// later quote would close it, and the variable would be lost without a word.
//
// The text goes through the parser statement by statement, which is what tells
// the lines. Dollar signs are hidden from it: it would expand $NAME, which
// mangles keys that hold a dollar and can make a small file enormous.
func parseDotEnv(data []byte, table []setting) (values map[string]located, badLine int) {
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
		} else if number-start >= maxStatement || slices.ContainsFunc(table, func(s setting) bool { return s.env == nameOn(line) }) {
			return values, start
		}
		// A last line without an end would be parsed differently.
		statement += strings.TrimSuffix(line, "\n") + "\n"
		quoted := strings.ContainsAny(line, `"'`)
		if !quoted && number > start {
			continue // cannot close the open quote
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

// nameOn is the variable that a line would set by itself.
func nameOn(line string) string {
	name := line[:max(strings.IndexAny(line, "=:"), 0)]
	return strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(name), "export "))
}

func withoutBOM(data []byte) []byte { return bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")) }
