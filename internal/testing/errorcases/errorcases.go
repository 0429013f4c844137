// Package errorcases reads the list of errors that a person can cause: the
// commands that lead to them and the exact report. test/e2e runs the list on the
// program, and test/docs makes docs/reference/errors.md of it. Only tests use it.
package errorcases

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Case is one error.
type Case struct {
	Section string   // the heading above it
	Means   string   // one sentence
	Setup   []string // shell commands that make the trouble
	Command string   // a shell command that meets it
	Report  []string // what the program prints about it
	Exit    int      // the exit code
}

// Text is what the error says, without the prefix of the program.
func (c Case) Text() string {
	var text []string
	for _, line := range c.Report {
		if !strings.HasPrefix(line, arrow) {
			text = append(text, strings.TrimSpace(strings.TrimPrefix(line, "copilot-bridge:")))
		}
	}
	return strings.Join(text, " ")
}

// Remedy is what the error says to do.
func (c Case) Remedy() string {
	for _, line := range c.Report {
		if remedy, ok := strings.CutPrefix(line, arrow); ok {
			return remedy
		}
	}
	return ""
}

const arrow = "  → "

// file is the list; lines begin with "# " for a section, "% " for a shell
// command that makes the trouble, "$ " for the command, and "[exit N]" ends a
// case. The report stands between the last two; other lines say what it means.
func file(root string) string { return filepath.Join(root, "test", "e2e", "testdata", "errors.txt") }

// Read reads the list of the repository at root.
func Read(root string) ([]Case, error) {
	data, err := os.ReadFile(file(root))
	if err != nil {
		return nil, err
	}
	var all []Case
	var c Case
	for number, line := range strings.Split(string(data), "\n") {
		of := func(prefix string) bool { return strings.HasPrefix(line, prefix) }
		switch {
		case of("[exit "):
			if c.Exit, err = strconv.Atoi(strings.TrimSuffix(line[len("[exit "):], "]")); err != nil || c.Command == "" {
				return nil, fmt.Errorf("line %d: %q: no command or no exit code", number+1, line)
			}
			all = append(all, c)
			c = Case{Section: c.Section}
		case c.Command != "":
			c.Report = append(c.Report, line)
		case of("# "):
			c.Section = line[2:]
		case of("% "):
			c.Setup = append(c.Setup, line[2:])
		case of("$ "):
			c.Command = line[2:]
		case line != "":
			c.Means = strings.TrimSpace(c.Means + " " + line)
		}
	}
	return all, nil
}

// Write writes the list anew.
func Write(root string, all []Case) error {
	var b strings.Builder
	section := ""
	for _, c := range all {
		if c.Section != section {
			section = c.Section
			fmt.Fprintf(&b, "# %s\n\n", section)
		}
		fmt.Fprintf(&b, "%s\n", c.Means)
		for _, s := range c.Setup {
			fmt.Fprintf(&b, "%% %s\n", s)
		}
		fmt.Fprintf(&b, "$ %s\n%s\n[exit %d]\n\n", c.Command, strings.Join(c.Report, "\n"), c.Exit)
	}
	return os.WriteFile(file(root), []byte(strings.TrimSuffix(b.String(), "\n")), 0o600)
}
