package shell

import (
	"slices"
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
	parsed  bool // the parser knows the command, and its expressions have been read
	via     string
	raw     string
	line    int
	lang    Lang
	bg      bool
	stdin   *word // text that the command reads, if a here-document or a here-string gives it
	piped   bool  // its standard input is a pipe or a file
	altered bool  // it has another environment, user or name than the script
	wrapped int
	index   int // of its Command, to add flags to
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
	return s.run(call{
		words: words, assigns: assigns, via: s.via, raw: s.raw(cmd), line: s.lineOf(cmd), lang: s.lang,
		bg: stmt.Background, stdin: s.stdin(stmt), piped: s.piped || readsFile(stmt),
	}, d)
}

// run lists c and looks into it. It is called again for each command that a
// wrapper runs.
func (a *analyser) run(c call, d dirSet) (ok, fail dirSet) {
	if c.wrapped++; c.wrapped > maxWrapping {
		a.fail("the command has too many commands in front of it to be checked", nil)
	}
	if len(a.out.Commands) >= maxCommands {
		a.fail("the command runs too many commands to be checked", nil)
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
	a.lookAtName(first)
	if c.name == "" {
		a.mentions(&c, d)
		return d, d
	}
	if def, defined := a.funcs[first.text]; defined && !def.same(d) {
		a.opaque("the function " + first.text + " runs in another directory than where it was defined")
	}
	// What a command runs is looked into whether or not a function has its name.
	return a.dispatch(&c, d)
}

func (a *analyser) record(c *call, d dirSet) {
	cmd := Command{Words: make([]string, len(c.words)), Assignments: c.assigns, Via: c.via, Background: c.bg, Dirs: d.at, Lost: d.lost,
		Altered: c.altered, Raw: c.raw, Line: c.line}
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

func (a *analyser) flag(c *call, f Flag) {
	cmd := &a.out.Commands[c.index]
	if !cmd.Has(f) {
		cmd.Flags = append(cmd.Flags, f)
	}
}

// finish marks the calls of functions, which may stand before their
// definition in a loop or a function.
func (a *analyser) finish() {
	if len(a.funcs) == 0 {
		return
	}
	for i := range a.out.Commands {
		cmd := &a.out.Commands[i]
		if _, ok := a.funcs[cmd.Words[0]]; ok && !cmd.DynamicName {
			cmd.Flags = append(cmd.Flags, FlagFunction)
			cmd.Dynamic = true
		}
	}
}

// programName takes the directory off, and what Windows adds. Names are
// compared without case because some file systems find programs that way.
func programName(text string) string {
	if i := strings.LastIndexAny(text, `/\`); i >= 0 {
		text = text[i+1:]
	}
	return strings.TrimSuffix(strings.ToLower(text), ".exe")
}

// dispatch looks into a command whose name is known.
func (a *analyser) dispatch(c *call, d dirSet) (ok, fail dirSet) {
	switch c.name {
	case "cd", "chdir", "pushd", "popd":
		return a.changeDir(*c, d)
	case "exit", "return", "logout", "break", "continue":
		a.mentions(c, d)
		return dirSet{}, dirSet{}
	case "eval":
		a.flag(c, FlagEval)
		return a.eval(c, d)
	case "command", "builtin", "exec":
		return a.prefix(c, d)
	}
	if look := inspector(c.name); look != nil {
		look(a, c, d)
	} else if isInterpreter(c.name) {
		a.interpreter(c)
	}
	a.builtin(c)
	a.programs(c, d)
	a.mentions(c, d)
	return d, d
}

// inspector returns what looks into a program that runs others.
func inspector(name string) func(*analyser, *call, dirSet) {
	switch name {
	case "sh", "bash", "dash", "ash", "rbash", "zsh", "ksh", "mksh", "ksh93", "yash":
		return (*analyser).shell
	case "fish", "csh", "tcsh", "pwsh", "powershell", "cmd", "nu", "elvish", "xonsh", "osascript", "wsl":
		return (*analyser).otherShell
	case "xargs", "gxargs":
		return (*analyser).xargs
	case "parallel":
		return (*analyser).parallel
	case "watch":
		return (*analyser).watch
	case "find", "gfind":
		return (*analyser).find
	case "fd", "fdfind":
		return (*analyser).fd
	case "su", "runuser", "script":
		return (*analyser).withScript
	case "flock":
		return (*analyser).flock
	case "ssh", "mosh":
		return (*analyser).remote
	case "source", ".":
		return (*analyser).source
	case "trap":
		return (*analyser).trap
	case "at", "batch", "crontab", "systemd-run":
		return (*analyser).later
	case "git":
		return (*analyser).git
	case "awk", "gawk", "mawk", "nawk":
		return (*analyser).awk
	case "sed", "gsed":
		return (*analyser).sed
	}
	if _, ok := wrapperSpecs[name]; ok {
		return (*analyser).wrapper
	}
	return nil
}

// inner makes the call of a command that c runs.
func (c *call) inner(words []word) call {
	return call{words: words, via: c.name, raw: c.raw, line: c.line, lang: c.lang, bg: c.bg, stdin: c.stdin, piped: c.piped, altered: c.altered, wrapped: c.wrapped}
}

// joined is the text of words as eval and the like put it together; it reports
// false if not all of it is known.
func joined(words []word) (string, bool) {
	parts := make([]string, len(words))
	for i, w := range words {
		if w.dynamic || w.pattern != "" || w.tilde {
			return "", false
		}
		parts[i] = w.text
	}
	return strings.Join(parts, " "), true
}

func anyDynamic(words []word) bool {
	return slices.ContainsFunc(words, func(w word) bool { return w.dynamic })
}
