package policy

import (
	"strconv"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
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
// list allows everything; a layer's own asks count as members of its own
// tools.allow.
type Rules struct {
	// ReadOnly is nil where the source does not say.
	ReadOnly       *bool
	ReadOnlySource Source

	ToolsAllow, ToolsDeny, ToolsAsk []Rule
	PatternsDeny                    []Rule
	ReadsAllow, ReadsDeny           []Rule
	WritesAllow, WritesDeny         []Rule
	ShellAllow, ShellDeny           []Rule
	NetworkAllow, NetworkDeny       []Rule
	// What programs inside a sandbox get without a question. They only ease,
	// so of a layer that is not trusted none of them counts.
	SandboxRead, SandboxWrite    []Rule
	SandboxNetwork, SandboxShell []Rule
}

// list says how one of the lists of Rules is compiled.
type list struct {
	name    string // in the YAML dialect
	of      func(*Rules) *[]Rule
	compile func(*Rule) error
}

func lists() []list {
	return []list{
		{"tools.allow", func(r *Rules) *[]Rule { return &r.ToolsAllow }, compileTool},
		{"tools.deny", func(r *Rules) *[]Rule { return &r.ToolsDeny }, compileTool},
		{"tools.ask", func(r *Rules) *[]Rule { return &r.ToolsAsk }, compileTool},
		{"patterns.deny", func(r *Rules) *[]Rule { return &r.PatternsDeny }, compileExpression},
		{"reads.allow", func(r *Rules) *[]Rule { return &r.ReadsAllow }, compileAllowGlob},
		{"reads.deny", func(r *Rules) *[]Rule { return &r.ReadsDeny }, compileDenyGlob},
		{"writes.allow", func(r *Rules) *[]Rule { return &r.WritesAllow }, compileAllowGlob},
		{"writes.deny", func(r *Rules) *[]Rule { return &r.WritesDeny }, compileDenyGlob},
		{"shell.allow", func(r *Rules) *[]Rule { return &r.ShellAllow }, compileAllowCommand},
		{"shell.deny", func(r *Rules) *[]Rule { return &r.ShellDeny }, compileDenyCommand},
		{"network.allow", func(r *Rules) *[]Rule { return &r.NetworkAllow }, compileHost},
		{"network.deny", func(r *Rules) *[]Rule { return &r.NetworkDeny }, compileHost},
		{"sandbox.read", func(r *Rules) *[]Rule { return &r.SandboxRead }, compilePlace},
		{"sandbox.write", func(r *Rules) *[]Rule { return &r.SandboxWrite }, compilePlace},
		{"sandbox.network", func(r *Rules) *[]Rule { return &r.SandboxNetwork }, compileSandboxHost},
		{"sandbox.shell", func(r *Rules) *[]Rule { return &r.SandboxShell }, compileSandboxCommand},
	}
}

func listNamed(name string) *list {
	all := lists()
	for i := range all {
		if all[i].name == name {
			return &all[i]
		}
	}
	return nil
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
func (b *builder) add(l *list, key, pattern string, source Source) {
	rule := Rule{Key: key, Pattern: pattern, Source: source}
	b.count++
	switch {
	case b.count == maxRules+1:
		b.fault(source, "there are more than "+strconv.Itoa(maxRules)+" rules")
		return
	case b.count > maxRules:
		return
	case strings.TrimSpace(pattern) == "":
		b.fault(source, key+": an entry is empty")
		return
	case len(pattern) > maxRuleLength:
		b.fault(source, key+": an entry is longer than "+strconv.Itoa(maxRuleLength)+" bytes")
		return
	case strings.ContainsRune(pattern, 0):
		b.fault(source, key+": an entry holds a NUL character")
		return
	case rule.isExpression(l) && len(b.rules.PatternsDeny) >= maxExpressions:
		b.fault(source, key+": there are more than "+strconv.Itoa(maxExpressions)+" regular expressions")
		return
	}
	if err := l.compile(&rule); err != nil {
		b.fault(source, key+" "+quoteRule(pattern)+": "+err.Error())
		return
	}
	to := l.of(&b.rules)
	*to = append(*to, rule)
}

func (Rule) isExpression(l *list) bool { return l.name == "patterns.deny" }

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

func shorten(s string) string {
	const most = 120
	if len(s) <= most {
		return s
	}
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
