package shell

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// Bounds. A script beyond them is refused.
const (
	maxScript   = 64 << 10
	maxParens   = 100   // open parentheses at any place
	maxNesting  = 100   // compound commands within each other
	maxScripts  = 8     // sh -c within sh -c
	maxWrapping = 32    // env sudo nice … in front of one command
	maxCommands = 5_000 // listed
)

// Analysis lists what a script would do. The aim is that nothing is missing:
// where the meaning is only known when the script runs, a word is marked
// dynamic rather than guessed, and a path or an address is listed rather than
// left out. Paths, writes and addresses of programs that take them in unusual
// ways are best effort.
type Analysis struct {
	Commands []Command
	Paths    []Path   // files that are named, those of redirections included
	Copies   []Copy   // files that are copied, moved or linked to another place
	URLs     []string // addresses for ParseHost
	// Redirects are those to files whose names are only known when it runs.
	Redirects []Redirect

	// Opaque says why something would run that is not listed in Commands.
	Opaque []string
	// Dangerous names what changes the meaning of other commands: PATH and its
	// like, aliases, git's -c.
	Dangerous []string
	// Problems are characters that deceive the reader.
	Problems []string
}

// Command is one simple command. It has at least one word.
type Command struct {
	// Words are the command's words as the program would get them: quotes
	// removed, tildes and globs as they stand. A word that is only known when it
	// runs is here as it was written, and its index is in DynamicWords.
	Words        []string
	DynamicWords []int
	Dynamic      bool // there are such words, or arguments come from elsewhere
	DynamicName  bool // even what is run is not known
	Globs        []int
	Assignments  []Assign
	Via          string // what runs it, if not the shell itself: xargs, find, sh
	// Wrapper: it runs another command, which is listed too.
	Wrapper bool
	// Network: it uses the network whatever its arguments are.
	Network bool
	// Dirs are the directories that it may run in, relative to where the script
	// starts; "" is that one. git's -C is taken into account. Lost means that it
	// may be any other, too.
	Dirs []string
	Lost bool
	// Altered: what runs it changes its environment, its user or its name.
	Altered bool
	Raw     string
}

// Assign gives a variable a value.
type Assign struct {
	Name      string
	Value     string
	Dynamic   bool
	Dangerous bool // changes what other commands mean
}

// Redirect opens a file.
type Redirect struct {
	Path  string // as written
	Write bool
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
	// Moves: the file or directory is moved, removed or replaced as a whole, with
	// all that is below.
	Moves bool
	// Unknown: the names of the files written there are in a file, such as an
	// archive.
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

// Analyse lists what script would do in bash. An error means that it cannot be
// parsed, or is too large, or holds characters that no script needs.
func Analyse(script string) (result Analysis, err error) {
	// The parser is not ours, and what it cannot take must not be let through.
	defer func() {
		if p := recover(); p != nil {
			result, err = Analysis{}, invalid("the command cannot be parsed", fmt.Errorf("%v", p))
		}
	}()
	if err := readable(script); err != nil {
		return Analysis{}, err
	}
	return analyse(script)
}

func analyse(script string) (Analysis, error) {
	a := &analyser{}
	a.out.Commands = make([]Command, 0, 4)
	a.script(script, dirSet{at: []string{""}}, "")
	if a.err != nil {
		return Analysis{}, a.err
	}
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

// continuations refuses a backslash at the end of a line where it may join the
// two halves of an operator, or stand behind another backslash: bash joins
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
		if run < at || !isBlank(before) && !isBlank(after) {
			return invalid("the command joins two lines in the middle of an operator", nil)
		}
	}
	end := strings.TrimRight(script, `\`)
	if (len(script)-len(end))%2 == 1 {
		return invalid("the command ends in a backslash", nil)
	}
	return nil
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' }

func invalid(message string, cause error) error {
	return &bridge.Error{Code: bridge.CodeInvalid, Message: message, Cause: cause}
}
