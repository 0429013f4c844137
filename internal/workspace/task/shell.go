package task

import "strings"

// word is a command or an argument of tasks.json, with the quoting it asks
// for: escape, strong, weak, or none, which leaves it to us.
type word struct{ text, quoting string }

// words reads commands and arguments: strings, lists of them that stand for
// one (joined by blanks), or objects with value and quoting.
func words(list []any, vars variables) (found []word, reason string) {
	for _, v := range list {
		var w word
		switch v := v.(type) {
		case map[string]any:
			if s, ok := v["quoting"].(string); ok {
				w.quoting = s
			}
			text, ok := plain(v["value"])
			if !ok {
				return nil, "one of its arguments has no value"
			}
			w.text = text
		default:
			text, ok := plain(v)
			if !ok {
				return nil, "its command or one of its arguments is no text"
			}
			w.text = text
		}
		if w.text, reason = vars.expand(w.text); reason != "" {
			return nil, reason
		}
		if strings.ContainsRune(w.text, 0) {
			return nil, "it has a NUL byte in its command"
		}
		found = append(found, w)
	}
	return found, ""
}

func plain(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case []any:
		var parts []string
		for _, e := range v {
			s, ok := e.(string)
			if !ok {
				return "", false
			}
			parts = append(parts, s)
		}
		return strings.Join(parts, " "), len(parts) > 0
	default:
		return "", false
	}
}

// shellLine joins a command and its arguments as VS Code does for a POSIX
// shell: a lone command is a whole line; otherwise a word that has blanks in it and
// is not quoted yet gets quotes, and the rest means what the shell makes of it.
func shellLine(command word, args []word) string {
	if len(args) == 0 && command.quoting == "" {
		return command.text
	}
	parts := []string{command.shell()}
	for _, a := range args {
		parts = append(parts, a.shell())
	}
	return strings.Join(parts, " ")
}

func (w word) shell() string {
	switch w.quoting {
	case "escape":
		return escapeBlanks(w.text)
	case "strong":
		return singleQuoted(w.text)
	case "weak":
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(w.text) + `"`
	}
	if w.text == "" {
		return "''"
	}
	if needsQuotes(w.text) {
		return singleQuoted(w.text)
	}
	return w.text
}

func singleQuoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func escapeBlanks(s string) string {
	return strings.NewReplacer(`\`, `\\`, " ", `\ `, "\t", "\\\t", "'", `\'`, `"`, `\"`).Replace(s)
}

// needsQuotes says whether s has a blank that is neither quoted nor escaped.
func needsQuotes(s string) bool {
	var quote byte
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quote != 0:
			if c == '\\' && quote == '"' {
				i++
			} else if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == '\\':
			i++
		case c == ' ' || c == '\t' || c == '\n':
			return true
		}
	}
	return quote != 0
}
