package policy

import (
	"errors"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// readOnlyCommands is the shell.allow entry that stands for the built-in list
// of commands that only read.
const readOnlyCommands = "builtin:read-only"

// commandRule is a shell.allow or shell.deny entry.
type commandRule struct {
	words    []string
	open     bool // any further words
	readOnly bool // the built-in list
}

func compileAllowCommand(r *Rule) error {
	if strings.TrimSpace(r.Pattern) == readOnlyCommands {
		r.command = &commandRule{readOnly: true}
		return nil
	}
	return compileCommand(r)
}

func compileDenyCommand(r *Rule) error {
	if strings.TrimSpace(r.Pattern) == readOnlyCommands {
		return errors.New("it can be allowed, not denied")
	}
	if err := compileCommand(r); err != nil {
		return err
	}
	r.command.open = true
	if words := r.command.words; len(words) > 0 {
		if strings.Contains(words[0], "=") {
			return errors.New("a deny rule names a command without assignments; it matches with any of them")
		}
		words[0] = program(words[0])
	}
	return nil
}

func compileCommand(r *Rule) error {
	words, open, err := splitRule(r.Pattern)
	if err != nil {
		return err
	}
	if len(words) == 0 && !open {
		return errors.New("it names no command")
	}
	r.command = &commandRule{words: words, open: open}
	return nil
}

// splitRule takes a rule apart as a shell would, but knows only words, quotes
// and a final *. What else a shell does has no meaning in a rule, which is
// compared with commands that have been taken apart already.
func splitRule(s string) (words []string, open bool, err error) {
	var word strings.Builder
	in, quoted, started, star := byte(0), false, false, false
	end := func() {
		if !started {
			return
		}
		if star {
			open = true
		} else {
			words = append(words, word.String())
		}
		word.Reset()
		quoted, started, star = false, false, false
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		if open && c != ' ' && c != '\t' {
			return nil, false, errors.New("* may only be the last word")
		}
		switch {
		case in != 0 && c == in:
			in = 0
		case in != 0:
			word.WriteByte(c)
		case c == '\'' || c == '"':
			in, quoted, started = c, true, true
		case c == ' ' || c == '\t':
			if star && (quoted || word.String() != "*") {
				return nil, false, errWildcard
			}
			end()
		case strings.IndexByte(";&|<>()$`\\\n\r#", c) >= 0:
			return nil, false, errors.New("a rule names one command, without operators, substitutions or redirections; quote what is meant literally")
		case strings.IndexByte("*?[", c) >= 0:
			star, started = true, true
			word.WriteByte(c)
		default:
			started = true
			word.WriteByte(c)
		}
	}
	if in != 0 {
		return nil, false, errors.New("a quotation mark is not closed")
	}
	if star && (quoted || word.String() != "*") {
		return nil, false, errWildcard
	}
	end()
	return words, open, nil
}

var errWildcard = errors.New("the only wildcard is a final * that stands for any further words; quote what is meant literally")

// allows reports whether an allow rule names exactly this command. Leading
// assignments count as words, since NODE_OPTIONS=… npm test is not npm test;
// only * alone covers whatever there is.
func (c *commandRule) allows(cmd *Command) bool {
	if c.open && len(c.words) == 0 {
		return true
	}
	if cmd.opaque() || len(cmd.Words) == 0 {
		return false
	}
	if c.readOnly {
		return isReadOnly(cmd)
	}
	given := len(cmd.Env) + len(cmd.Words)
	if given < len(c.words) || given > len(c.words) && !c.open {
		return false
	}
	named := len(c.words) - len(cmd.Env)
	if named < 0 {
		// Only a rule that spells the assignments out may allow them.
		return false
	}
	for _, g := range cmd.Globs {
		if g < named {
			return false // it may become any word
		}
	}
	return slices.Equal(c.words[:len(cmd.Env)], cmd.Env) && slices.Equal(c.words[len(cmd.Env):], cmd.Words[:named])
}

// denies reports whether a command begins with the rule's words. Options and
// the words behind them, which may be their values, are passed over on the way:
// git -C . push is git push. An option in the rule may stand anywhere. Of a
// command that is only partly known, or has a glob among its words, it is
// enough that it may match.
func (c *commandRule) denies(cmd *Command) bool {
	if len(c.words) == 0 {
		return true
	}
	if len(cmd.Words) == 0 {
		return cmd.Opaque
	}
	if cmd.isGlob(0) {
		// What follows may be pushed back by the names it expands to.
		may, err := doublestar.Match(program(cmd.Words[0]), c.words[0])
		return may || err != nil
	}
	return program(cmd.Words[0]) == c.words[0] && (cmd.Alias || c.deniesArguments(cmd))
}

// deniesArguments compares the words behind the program's name. from marks where
// the next word of the rule may stand.
func (c *commandRule) deniesArguments(cmd *Command) bool {
	n := len(cmd.Words)
	from := make([]bool, n+1)
	from[min(1, n)] = true
	for _, want := range c.words[1:] {
		option := strings.HasPrefix(want, "-")
		next, found, open := make([]bool, n+1), false, false
		for j := 1; j < n; j++ {
			if open = open || from[j]; !open {
				continue
			}
			given := cmd.Words[j]
			if cmd.isGlob(j) {
				// It may become any number of words.
				if may, err := doublestar.Match(given, want); may || err != nil || strings.ContainsAny(given[:1], wildcards) {
					return true
				}
			}
			if given == want {
				next[j+1], found = true, true
			}
			open = option || strings.HasPrefix(given, "-") || strings.HasPrefix(cmd.Words[j-1], "-")
		}
		if cmd.Opaque && (open || from[n]) {
			return true
		}
		if !found {
			return false
		}
		from = next
	}
	return true
}

// program is a command's name however it is called: by path, in another case
// or with a suffix that Windows adds itself.
func program(word string) string {
	name := fold(word[strings.LastIndexAny(word, `/\`)+1:])
	if name == "" {
		return fold(word)
	}
	for _, suffix := range []string{".exe", ".cmd", ".bat", ".com"} {
		if bare, ok := strings.CutSuffix(name, suffix); ok && bare != "" {
			return bare
		}
	}
	return name
}
