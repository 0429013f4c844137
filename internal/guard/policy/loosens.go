package policy

import (
	"slices"
	"strings"
)

// Loosens says in words what the rules allow that would be asked about or
// denied without them, if their file is trusted. Rules that only restrict are
// not among them.
func (r *Rules) Loosens() (words []string) {
	if r.ReadOnly != nil && !*r.ReadOnly {
		words = append(words, "files may be written where the default is read-only, as in serve")
	}
	for _, l := range []struct{ list, all, some string }{
		{"tools.allow", "", "these tools of MCP servers are called without a question: "},
		{"shell.allow", "every command runs without a question", "these commands run without a question: "},
		{"network.allow", "every host is reached without a question", "these hosts are reached without a question: "},
		{"always.shell", "", "these command lines run without a question: "},
		{"sandbox.read", "", "programs in a sandbox may read, outside the workspace: "},
		{"sandbox.write", "", "programs in a sandbox may write, outside the workspace: "},
		{"sandbox.network", "programs in a sandbox may reach every host", "programs in a sandbox may reach: "},
		{"sandbox.shell", "", "these commands run in a sandbox without a question, with the network if they need it: "},
	} {
		var named []string
		all := false
		for _, rule := range r.Lists[l.list] {
			switch rule.Pattern {
			case readOnlyCommands: // they run anyway
			case "*":
				all = l.all != ""
			default:
				named = append(named, rule.Pattern)
			}
		}
		switch {
		case all:
			words = append(words, l.all)
		case len(named) > 0:
			words = append(words, l.some+strings.Join(named, ", "))
		}
	}
	return words
}

// ListNames are the lists that a policy file may have, as tools.deny.
func ListNames() (names []string) {
	for _, l := range lists {
		names = append(names, l.name)
	}
	return names
}

// Check says what is wrong with a rule that is to be written.
func (a Addition) Check() error {
	var b builder
	if b.add(a.List, a.List, a.Pattern, Source{Name: "this rule"}); len(b.faults) == 0 {
		return nil
	}
	_, err := b.finish("see docs/reference/policy-rules.md for what rules can say")
	return err
}

// Narrows says whether a list denies all that is not on it.
func (a Addition) Narrows() bool {
	return strings.HasSuffix(a.List, ".allow") && slices.Contains(ListNames(), a.List)
}
