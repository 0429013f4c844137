// Package runtimecall says how a direct call of a method of Copilot's runtime is
// judged. The guard obeys it, and the inventory shows it. The table is
// methods.txt; a method that it does not name is refused.
package runtimecall

import (
	_ "embed"
	"strings"
	"sync"
)

// Kind is how a method is judged.
type Kind string

// The kinds; see methods.txt.
const (
	Read    Kind = "read"
	Change  Kind = "change"
	Ask     Kind = "ask"
	Command Kind = "command"
	Refuse  Kind = "refuse"
)

// Rule is how one method is judged.
type Rule struct {
	Kind Kind
	// Note is why a method is refused, or which command one runs: the name of a
	// parameter, or the command itself in quotes.
	Note string
}

//go:embed methods.txt
var table string

type line struct {
	match string
	Rule
}

var lines = sync.OnceValue(func() (out []line) {
	for text := range strings.Lines(table) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
		match, note, _ := strings.Cut(strings.TrimSpace(rest), " ")
		if kind != "" && kind != "#" {
			out = append(out, line{match, Rule{Kind(kind), strings.TrimSpace(note)}})
		}
	}
	return out
})

// Of is the rule for a method.
func Of(method string) Rule {
	match, best := "", Rule{Refuse, "the bridge does not know it"}
	for _, l := range lines() {
		prefix, open := strings.CutSuffix(l.match, "*")
		if (method == l.match || open && strings.HasPrefix(method, prefix)) && len(l.match) > len(match) {
			match, best = l.match, l.Rule
		}
	}
	return best
}

// CommandOf is the command that a call runs, of a method whose kind is Command.
func (r Rule) CommandOf(params map[string]any) (command string, ok bool) {
	if text, quoted := strings.CutPrefix(r.Note, `"`); quoted {
		return strings.TrimSuffix(text, `"`), true
	}
	command, ok = params[r.Note].(string)
	return command, ok
}
