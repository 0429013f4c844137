package task

import (
	"regexp"
	"slices"
	"strings"
)

// discoverMake reads the makefile that make itself would take. It is parsed,
// not run: make would execute what $(shell …) says even to list targets, so
// computed names and included files are not seen.
func discoverMake(w source) ([]Task, error) {
	for _, file := range []string{"GNUmakefile", "makefile", "Makefile"} {
		b, ok, err := w.read(file)
		if err != nil {
			return nil, err
		}
		if !ok {
			if _, err := w.root.Stat(file); err == nil {
				return nil, nil // make would take this one, of which we know nothing
			}
			continue
		}
		var tasks []Task
		for _, t := range parseMakefile(string(b)) {
			tasks = append(tasks, runnable(Task{
				Label: t.name, Source: SourceMake, Detail: t.detail, Command: []string{"make", t.name},
			}))
		}
		return tasks, nil
	}
	return nil, nil
}

type target struct{ name, detail string }

var (
	plainTarget = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+/@-]*$`)
	assignment  = regexp.MustCompile(`^\s*(?:(?:export|override|private|unexport)\s+)*[^\s:#=]+\s*(?:=|:=|::=|:::=|\?=|\+=|!=)`)
	defineStart = regexp.MustCompile(`^\s*(?:(?:override|export)\s+)*define\b`)
	defineEnd   = regexp.MustCompile(`^\s*endef\b`)
	docLine     = regexp.MustCompile(`^##\s*(?:([A-Za-z0-9_./-]+)\s*:)?\s*(.*)$`)
)

// parseMakefile lists the explicit targets, in order, each once. A comment
// "## text" before a rule or behind it, or "## name: text", describes it.
func parseMakefile(text string) []target {
	var found []target
	index := map[string]int{}
	details := map[string]string{}
	var above string // the ## line just before
	defining := false
	for line := range logicalLines(text) {
		switch {
		case defining:
			defining = !defineEnd.MatchString(line)
			continue
		case defineStart.MatchString(line):
			defining = true
			continue
		case strings.HasPrefix(line, "\t"): // a recipe
			continue
		}
		if m := docLine.FindStringSubmatch(line); m != nil {
			if m[1] != "" {
				details[m[1]] = m[2]
			} else {
				above = m[2]
			}
			continue
		}
		names, detail := ruleTargets(line)
		if detail == "" {
			detail = above
		}
		above = ""
		for _, name := range names {
			if i, known := index[name]; known {
				if found[i].detail == "" {
					found[i].detail = detail
				}
				continue
			}
			index[name] = len(found)
			found = append(found, target{name: name, detail: detail})
		}
	}
	for i := range found {
		if d := details[found[i].name]; d != "" {
			found[i].detail = d
		}
	}
	return found
}

// ruleTargets returns the plain targets of a rule, or none.
func ruleTargets(line string) (names []string, detail string) {
	if assignment.MatchString(line) {
		return nil, ""
	}
	rule, comment, _ := strings.Cut(line, "#")
	left, right, ok := strings.Cut(rule, ":")
	if !ok {
		return nil, ""
	}
	// A static pattern rule "a b: %.x: %.y" has plain targets; an implicit one
	// has its pattern on the left.
	for name := range strings.FieldsSeq(strings.TrimSuffix(left, "&")) {
		if plainTarget.MatchString(name) && !slices.Contains([]string{"ifeq", "ifneq", "ifdef", "ifndef", "include", "-include", "sinclude", "vpath"}, name) {
			names = append(names, name)
		} else {
			return nil, "" // computed, a pattern, special or no rule at all
		}
	}
	if text, ok := strings.CutPrefix(comment, "#"); ok && !strings.Contains(right, "=") {
		detail = strings.TrimSpace(text)
	}
	return names, detail
}

// logicalLines joins lines that end in a backslash.
func logicalLines(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		var b strings.Builder
		for line := range strings.Lines(text) {
			line = strings.TrimRight(line, "\r\n")
			if joined, ok := strings.CutSuffix(line, `\`); ok {
				b.WriteString(joined + " ")
				continue
			}
			b.WriteString(line)
			if !yield(b.String()) {
				return
			}
			b.Reset()
		}
		if b.Len() > 0 {
			yield(b.String())
		}
	}
}
