package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// call is a simple command on its way into the list: as it stands in the
// script, or as a wrapper runs it.
type call struct {
	words   []word
	name    string // of the program, without directory, in lower case; empty if unknown
	args    []word
	assigns []Assign
	via     string
	raw     string
	piped   bool // its standard input is a pipe or a file
	altered bool // it has another environment, user or name than the script
	wrapped int
	index   int // of its Command
}

// call lists a simple command and what it runs.
func (s *scriptReader) call(stmt *syntax.Stmt, cmd *syntax.CallExpr, d dirSet) (ok, fail dirSet) {
	assigns := s.assigns(cmd.Assigns, d)
	for _, w := range cmd.Args {
		s.substitutions(w, d)
	}
	if len(cmd.Args) > 0 {
		if _, glob := cmd.Args[0].Parts[0].(*syntax.ExtGlob); glob {
			// Without extended globs !(cmd) runs cmd in a subshell.
			s.opaque("an extended pattern in place of a command")
		}
	}
	words := s.words(cmd.Args)
	if len(words) == 0 {
		s.note(assigns, "")
		return d, d
	}
	return s.run(call{words: words, assigns: assigns, via: s.via, raw: s.raw(cmd), piped: s.piped || readsFile(stmt)}, d)
}

// run lists c and looks into it. It is called again for each command that a
// wrapper runs.
func (a *analyser) run(c call, d dirSet) (ok, fail dirSet) {
	if c.wrapped++; c.wrapped > maxWrapping {
		a.fail("the command has too many commands in front of it to be checked", nil)
	}
	if a.err != nil || len(c.words) == 0 {
		return d, d
	}
	first := c.words[0]
	c.args = c.words[1:]
	if !first.dynamic && first.pattern == "" {
		c.name = programName(first.text)
	}
	a.note(c.assigns, c.name)
	a.record(&c, d)
	outer := a.manner
	a.manner = mannerOf(&c)
	defer func() { a.manner = outer }()
	a.flagForeignLetters(first)
	if c.name == "" {
		a.mentions(&c, d)
		return d, d
	}
	switch c.name {
	case "cd", "chdir", "pushd", "popd":
		return a.changeDir(c, d)
	case "exit", "return", "logout", "break", "continue":
		a.mentions(&c, d)
		return dirSet{}, dirSet{}
	case "command", "builtin", "exec":
		return a.prefix(&c, d)
	}
	a.runs(&c, d)
	a.builtin(&c)
	a.mentions(&c, d)
	return d, d
}

func (a *analyser) record(c *call, d dirSet) {
	if len(a.out.Commands) >= maxCommands {
		a.fail("the command runs too many commands to be checked", nil)
		return
	}
	cmd := Command{Words: make([]string, len(c.words)), Assignments: c.assigns, Via: c.via, Dirs: d.at, Lost: d.lost, Altered: c.altered, Raw: c.raw}
	for i, w := range c.words {
		cmd.Words[i] = w.text
		if w.dynamic {
			cmd.DynamicWords = append(cmd.DynamicWords, i)
		}
		if w.pattern != "" {
			cmd.Globs = append(cmd.Globs, i)
		}
	}
	cmd.DynamicName = c.name == ""
	cmd.Dynamic = cmd.DynamicName || len(cmd.DynamicWords) > 0
	c.index = len(a.out.Commands)
	a.out.Commands = append(a.out.Commands, cmd)
}

// programName takes the directory off, and what Windows adds. Names are
// compared without case because some file systems find programs that way.
func programName(text string) string {
	if i := strings.LastIndexAny(text, `/\`); i >= 0 {
		text = text[i+1:]
	}
	return strings.TrimSuffix(strings.ToLower(text), ".exe")
}

// inner makes the call of a command that c runs.
func (c *call) inner(words []word) call {
	return call{words: words, via: c.name, raw: c.raw, piped: c.piped, altered: c.altered, wrapped: c.wrapped}
}
