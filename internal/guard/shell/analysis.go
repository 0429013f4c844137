package shell

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// Lang is the dialect that a script is written in.
type Lang int

// The dialects.
const (
	Bash  Lang = iota
	POSIX      // as dash and other plain shells read it
)

// Bounds. A script beyond them is refused.
const (
	maxScript   = 64 << 10
	maxParens   = 100   // open parentheses at any place
	maxNesting  = 100   // compound commands within each other
	maxScripts  = 8     // sh -c within sh -c
	maxWrapping = 32    // env sudo nice … in front of one command
	maxCommands = 5_000 // listed
	maxBraces   = 256   // words made of one word by brace expansion

	maxBraceGroups = 16 // in one word
)

// Analysis lists what a script would do.
type Analysis struct {
	Commands    []Command
	Redirects   []Redirect
	Assignments []Assign // all of them: in front of commands, of export, of loops and read
	Paths       []Path   // files that are named, those of redirections included
	Copies      []Copy   // files that are copied, moved or linked to another place
	URLs        []string // addresses for ParseHost
	Functions   []string // names of the functions the script defines

	// Opaque says why something would run that is not listed in Commands.
	Opaque []string
	// Dangerous names what changes the meaning of other commands: PATH and its
	// like, aliases, functions called like commands, git's -c.
	Dangerous []string
	// Problems are characters that deceive the reader.
	Problems []string

	// Dirs are the directories in which the shell may be afterwards, relative
	// to the one it started in; "" is that one. A shell that lives on starts
	// the next script there: see From.
	Dirs []string
}

// Command is one simple command. It has at least one word.
type Command struct {
	// Words are the command's words as the program would get them: quotes
	// removed, braces expanded, tildes and globs as they stand. A word that is
	// only known when it runs is here as it was written, and its index is in
	// DynamicWords.
	Words        []string
	DynamicWords []int
	Dynamic      bool // there are such words, or arguments come from elsewhere
	DynamicName  bool // even what is run is not known
	Globs        []int
	Assignments  []Assign
	Flags        []Flag
	Via          string // what runs it, if not the shell itself: xargs, find, sh
	Background   bool
	// Dirs are the directories that it may run in, as in Analysis; git's -C is
	// taken into account. Lost means that it may be any other, too.
	Dirs []string
	Lost bool
	// Altered: what runs it changes its environment, its user or its name.
	Altered bool
	Raw     string
	Line    int
}

// Has reports whether the command has a flag.
func (c *Command) Has(f Flag) bool { return slices.Contains(c.Flags, f) }

// Flag says what kind of command it is, where that matters.
type Flag string

// The flags.
const (
	FlagWrapper  Flag = "wrapper"  // runs another command, which is listed too
	FlagShell    Flag = "shell"    // a shell
	FlagCode     Flag = "code"     // runs code of another language from its arguments
	FlagNetwork  Flag = "network"  // uses the network whatever its arguments are
	FlagFunction Flag = "function" // calls a function that the script defines
	FlagDeclare  Flag = "declare"  // export, declare, readonly, local …
	FlagOptions  Flag = "options"  // set, shopt
	FlagAlias    Flag = "alias"    // alias, unalias
	FlagHash     Flag = "hash"     // hash -p: another program under a name
	FlagLoad     Flag = "load"     // enable -f: loads code into the shell
	FlagSource   Flag = "source"   // reads commands from a file
	FlagEval     Flag = "eval"     // eval, trap
)

// Assign gives a variable a value.
type Assign struct {
	Name      string
	Value     string
	Dynamic   bool
	Dangerous bool // changes what other commands mean
}

// Redirect opens a file. Duplicated descriptors and /dev/null are left out.
type Redirect struct {
	Path    string // as written if Dynamic
	Op      string
	FD      string // empty for the operator's own
	Write   bool
	Dynamic bool
}

// Path is a file that a command names.
type Path struct {
	Text string // relative to where the script starts, also behind cd
	// Pattern is set if the name has wildcards; characters that stand for
	// themselves have a backslash in front of them there. What it matches has
	// to be checked, not the text: a link may be among it.
	Pattern string
	Write   bool
	// Certain is not set for a word that may be something else than a path.
	Certain bool
	Reach   Reach
	// Moves: what is written is the file or directory as a whole: it is moved,
	// removed or replaced with all that is below.
	Moves bool
	// Unknown: the names of what is written there are in a file, as those of
	// an archive.
	Unknown bool
	// Runs: it is run, as the program itself or as the script of an interpreter.
	Runs bool
}

// Reach says what else a command touches if a path is a directory.
type Reach int

// The reaches.
const (
	ReachTree  Reach = iota // all files below, but no links
	ReachNames              // nothing but the names below
	ReachLinks              // all files below, and what links below lead to
	ReachRules              // all files below, and rules of what to ignore, which may be links
	ReachWords              // not even that: the name is only a word, such as one that echo prints
)

// Copy is a file or a directory that is copied, moved or linked to To, or into
// To if that is a directory.
type Copy struct{ From, To Path }

// Option changes how Analyse works.
type Option func(*analyser)

// From names the directories in which the shell may be at the start, as Dirs
// of the script before gave them.
func From(dirs ...string) Option {
	return func(a *analyser) {
		if len(dirs) > 0 {
			a.start = dirSet{at: slices.Clone(dirs)}
		}
	}
}

// Analyse lists what script would do. An error means that it cannot be parsed
// as lang, or is too large, or holds characters that no script needs.
func Analyse(script string, lang Lang, opts ...Option) (result Analysis, err error) {
	// The parser is not ours, and what it cannot take must not be let through.
	defer func() {
		if p := recover(); p != nil {
			result, err = Analysis{}, invalid("the command cannot be parsed", fmt.Errorf("%v", p))
		}
	}()
	if err := readable(script); err != nil {
		return Analysis{}, err
	}
	return analyse(script, lang, opts)
}

func analyse(script string, lang Lang, opts []Option) (Analysis, error) {
	a := &analyser{start: dirSet{at: []string{""}}}
	a.out.Commands = make([]Command, 0, 4)
	for _, opt := range opts {
		opt(a)
	}
	a.seen = a.start
	end := a.script(script, lang, a.start, "", 0)
	if a.err != nil {
		return Analysis{}, a.err
	}
	a.finish()
	a.out.Dirs = end.at
	return a.out, nil
}

// readable refuses what a parser and a shell may take differently.
func readable(script string) error {
	if len(script) > maxScript {
		return invalid("the command is too long to be checked", nil)
	}
	if !utf8.ValidString(script) {
		return invalid("the command is not valid UTF-8", nil)
	}
	if strings.TrimSpace(script) == "" {
		return invalid("the command is empty", nil)
	}
	if err := continuations(script); err != nil {
		return err
	}
	parens := 0
	for _, r := range script {
		switch {
		case r == 0:
			return invalid("the command contains a NUL byte", nil)
		case r < ' ' && r != '\n' && r != '\t', r >= 0x7f && r < 0xa0:
			return invalid("the command contains a control character", nil)
		case r == '(':
			if parens++; parens > maxParens {
				return invalid("the command is nested too deeply to be checked", nil)
			}
		case r == ')' && parens > 0:
			parens--
		}
	}
	return nil
}

// continuations refuses a backslash at the end of a line where it would join
// the two halves of an operator, or stand behind another backslash: bash joins
// lines before it reads them, the parser does not always.
func continuations(script string) error {
	for from := 0; ; {
		i := strings.Index(script[from:], "\\\n")
		if i < 0 {
			break
		}
		at := from + i
		from = at + 2
		run := at
		for run > 0 && script[run-1] == '\\' {
			run--
		}
		if (at-run)%2 == 1 {
			continue // an escaped backslash, then the end of the line
		}
		before, after := byte(' '), byte(' ')
		if at > 0 {
			before = script[at-1]
		}
		if from < len(script) {
			after = script[from]
		}
		if run < at || joinsOperator(before, after) {
			return invalid("the command joins two lines in the middle of an operator", nil)
		}
	}
	end := strings.TrimRight(script, `\`)
	if (len(script)-len(end))%2 == 1 {
		return invalid("the command ends in a backslash", nil)
	}
	return nil
}

func joinsOperator(before, after byte) bool {
	switch {
	case isBlank(before), isBlank(after):
		return false
	case isInWord(after):
		return !isInWord(before) && strings.IndexByte(";&|(", before) < 0
	default:
		return !isInWord(before) || strings.IndexByte(";|)", after) < 0
	}
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' }

func isInWord(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("_./-,:=@%+'\"", c) >= 0
}

func invalid(message string, cause error) error {
	return &bridge.Error{Code: bridge.CodeInvalid, Message: message, Cause: cause}
}
