package policy

import (
	"slices"
	"strconv"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// Bounds on one rule set. A workspace's file is read before anybody has
// looked at it, so it must not be able to slow every decision down.
const (
	maxRules       = 2000 // in one rule set
	maxExpressions = 256  // regular expressions in one rule set
	maxRuleLength  = 1024 // bytes of one pattern
)

// Source is where a rule was written.
type Source struct {
	Name string // a file's path, "environment", "ABP work order", "built-in default", …
	Line int    // 0 where lines mean nothing
}

// String returns name:line, or the name alone.
func (s Source) String() string {
	if s.Line == 0 {
		return s.Name
	}
	return s.Name + ":" + strconv.Itoa(s.Line)
}

// Rule is one entry of one list. Key is the list under the name that its
// dialect has for it, such as tools.deny, blockedTools or disallowed_tools.
// Only the parsers of this package make rules that match anything.
type Rule struct {
	Key     string
	Pattern string
	Source  Source

	// One of these is set, by the kind of list.
	tool    *toolMatcher
	text    *expression
	glob    *pathGlob
	command *commandRule
	host    *hostRule
	place   string // an absolute path, and all below it
}

// String returns the rule as reasons name it: tools.deny "web_*" (file:7).
func (r Rule) String() string {
	var b strings.Builder
	b.WriteString(r.Key)
	if r.Pattern != "" {
		b.WriteString(" " + quoteRule(r.Pattern))
	}
	if r.Source.Name != "" {
		b.WriteString(" (" + r.Source.String() + ")")
	}
	return b.String()
}

// Rules is one source's rule set. The zero value has no rules. An empty allow
// list allows everything; the tools.ask of a layer counts as a part of its
// tools.allow. The sandbox and always lists only ease, so those of an untrusted
// layer do not count.
type Rules struct {
	// ReadOnly is nil where the source does not say.
	ReadOnly       *bool
	ReadOnlySource Source
	Lists          map[string][]Rule // by their name in the YAML dialect
}

// list is one of the lists of Rules, and how its entries are compiled.
type list struct {
	name    string // in the YAML dialect
	compile func(*Rule) error
}

var lists = []list{
	{"tools.allow", compileTool}, {"tools.deny", compileTool}, {"tools.ask", compileTool},
	{"patterns.deny", compileExpression},
	{"reads.allow", compileGlob(false)}, {"reads.deny", compileGlob(true)},
	{"writes.allow", compileGlob(false)}, {"writes.deny", compileGlob(true)},
	{"shell.allow", compileAllowCommand}, {"shell.deny", compileDenyCommand},
	{"network.allow", compileHost}, {"network.deny", compileHost},
	{"sandbox.read", compilePlace}, {"sandbox.write", compilePlace},
	{"sandbox.network", compileSandboxHost}, {"sandbox.shell", compileSandboxCommand},
	{"always.shell", compileLine},
}

// Eases says whether a list only eases: an untrusted layer has none of them.
func Eases(name string) bool {
	return strings.HasPrefix(name, "sandbox.") || strings.HasPrefix(name, "always.")
}

func isList(name string) bool {
	return slices.ContainsFunc(lists, func(l list) bool { return l.name == name })
}

// builder collects rules and everything that is wrong with them, so that a
// person can mend a file in one go.
type builder struct {
	rules  Rules
	count  int
	faults []fault
}

type fault struct {
	source Source
	text   string
}

func (b *builder) fault(source Source, text string) {
	b.faults = append(b.faults, fault{source, text})
}

// add compiles one entry of a list. key is what the dialect calls the list.
func (b *builder) add(name, key, pattern string, source Source) {
	b.count++
	switch {
	case b.count == maxRules+1:
		b.fault(source, "there are more than "+strconv.Itoa(maxRules)+" rules")
	case b.count > maxRules:
	case strings.TrimSpace(pattern) == "":
		b.fault(source, key+": an entry is empty")
	case len(pattern) > maxRuleLength:
		b.fault(source, key+": an entry is longer than "+strconv.Itoa(maxRuleLength)+" bytes")
	case strings.ContainsRune(pattern, 0):
		b.fault(source, key+": an entry holds a NUL character")
	case name == "patterns.deny" && len(b.rules.Lists[name]) >= maxExpressions:
		b.fault(source, key+": there are more than "+strconv.Itoa(maxExpressions)+" regular expressions")
	default:
		rule := Rule{Key: key, Pattern: pattern, Source: source}
		at := slices.IndexFunc(lists, func(l list) bool { return l.name == name })
		if err := lists[at].compile(&rule); err != nil {
			b.fault(source, key+" "+quoteRule(pattern)+": "+err.Error())
			return
		}
		if b.rules.Lists == nil {
			b.rules.Lists = map[string][]Rule{}
		}
		b.rules.Lists[name] = append(b.rules.Lists[name], rule)
	}
}

// finish returns the rules, or one error that names everything wrong. Nothing
// is half-loaded: rules that could not be understood might be the ones that
// matter.
func (b *builder) finish(remedy string) (Rules, error) {
	if len(b.faults) == 0 {
		return b.rules, nil
	}
	const most = 20
	var lines []string
	for i, f := range b.faults {
		if i == most {
			lines = append(lines, "and "+strconv.Itoa(len(b.faults)-most)+" more")
			break
		}
		lines = append(lines, f.source.String()+": "+f.text)
	}
	return Rules{}, &bridge.Error{Code: bridge.CodeInvalid, Message: strings.Join(lines, "\n"), Remedy: remedy}
}

// quoteRule shows a pattern as it was written where that is unambiguous:
// doubled backslashes would make a regular expression hard to find again.
func quoteRule(s string) string {
	s = shorten(s)
	if q := strconv.Quote(s); len(q) != len(s)+2+strings.Count(s, `\`) {
		return q
	}
	return `"` + s + `"`
}

// quote shows a name that comes from a tool call on one line.
func quote(s string) string { return strconv.Quote(shorten(s)) }

func shorten(s string) string { return text.Clip(s, 120) }
