package policy

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// Evaluate decides about an action. The strictest of all that applies wins;
// among equals the reason is that of the earliest stage. It denies whatever
// it does not understand, and if it fails itself.
func (p *Policy) Evaluate(a Action) Outcome {
	out := p.evaluate(a)
	if p != nil && p.other != nil {
		out = stricter(out, p.other.evaluate(a))
	}
	return out
}

func (p *Policy) evaluate(a Action) (out Outcome) {
	defer func() {
		if r := recover(); r != nil {
			out = Outcome{Stage: StageDefault, Reason: fmt.Sprintf("denied: the policy failed: %v", r)}
		}
	}()
	if p == nil {
		return Outcome{Stage: StageDefault, Reason: "denied: there is no policy"}
	}
	if p.broken != "" {
		return Outcome{Stage: StageDefault, Reason: p.broken}
	}
	e := evaluation{p: p, a: &a, names: namesOf(a.Tool, a.Server)}
	stages := []func(*evaluation){
		(*evaluation).tool, (*evaluation).pattern, (*evaluation).shape, (*evaluation).paths, (*evaluation).network, (*evaluation).shell,
		(*evaluation).ask, (*evaluation).allowList, (*evaluation).byDefault,
	}
	if p.defaults.ToolsFirst {
		stages = []func(*evaluation){
			(*evaluation).tool, (*evaluation).allowList, (*evaluation).ask, (*evaluation).pattern, (*evaluation).shape, (*evaluation).paths,
			(*evaluation).network, (*evaluation).shell, (*evaluation).byDefault,
		}
	}
	for _, stage := range stages {
		stage(&e)
		if e.denied() && e.out.Stage != StageDefault {
			break
		}
		if p.defaults.ToolsFirst && p.defaults.AskIsDeny && e.decided && e.out.Stage == StageAsk {
			break // as good as denied
		}
	}
	if !e.decided {
		return Outcome{Stage: StageDefault, Reason: "denied: nothing allows it"}
	}
	e.out.Firm, e.out.Grant = e.firm, e.grant
	if e.out.Verdict == Ask && !e.unruled && a.Wall != WallWithGaps {
		e.out.Lasting = e.needs
		e.always()
	}
	if a.NoGrant && a.Wall != NoWall {
		if e.out.Verdict == Ask && (e.grant.Network || len(e.grant.Read)+len(e.grant.Write) > 0) {
			e.out.Verdict = Deny
			e.out.Reason = "denied: " + e.out.Reason + ", and what a sub-agent or a command in the background needs beyond the sandbox cannot be granted; let the agent itself do it"
		}
		e.out.Grant = Grant{}
	}
	if e.out.Verdict == Ask && p.defaults.AskIsDeny {
		e.out.Verdict = Deny
		e.out.Reason = "denied: " + e.out.Reason + ", and there is nobody to ask"
	}
	return e.out
}

// evaluation is one decision under way.
type evaluation struct {
	p     *Policy
	a     *Action
	names toolNames

	decided bool
	out     Outcome
	allowed Rule // what lifted a default, if anything did
	firm    bool // something would be written that needs consent by itself

	grant   Grant
	opened  bool       // the network is open to it, and nobody was asked
	needs   []Addition // the rules that would make an end of the questions
	unruled bool       // there is a question that no rule makes an end of
}

func (e *evaluation) denied() bool { return e.decided && e.out.Verdict == Deny }

// settle takes an outcome if it is stricter than what there is, or as strict
// and of an earlier stage: a default is the last to be named.
func (e *evaluation) settle(o Outcome) {
	if o.Verdict == Ask {
		e.unruled = e.unruled || o.Lasting == nil
		for _, a := range o.Lasting {
			if !slices.Contains(e.needs, a) {
				e.needs = append(e.needs, a)
			}
		}
	}
	o.Lasting = nil
	if e.decided && (o.Verdict > e.out.Verdict || o.Verdict == e.out.Verdict && o.Stage.rank() >= e.out.Stage.rank()) {
		return
	}
	e.decided, e.out = true, o
}

func (e *evaluation) tool() {
	if r := first(e.p.rules["tools.deny"], e.named); r != nil {
		e.settle(Outcome{Stage: StageTool, Subject: e.a.Called(), Rule: *r, Reason: "denied by " + r.String()})
	}
}

// named reports whether a rule of tools.deny or tools.ask is about the tool.
func (e *evaluation) named(r *Rule) bool { return r.tool == nil || r.tool.match(e.names.any) }

func (e *evaluation) pattern() {
	patterns := e.p.rules["patterns.deny"]
	if len(patterns) == 0 {
		return
	}
	h, err := newHaystack(e.a)
	if err != nil {
		list := Rule{Key: patterns[0].Key, Source: patterns[0].Source}
		e.settle(Outcome{Stage: StagePattern, Rule: patterns[0], Reason: "denied: " + err.Error() + " against " + list.String()})
		return
	}
	if r := first(patterns, func(r *Rule) bool { return r.text == nil || r.text.matches(h) }); r != nil {
		e.settle(Outcome{Stage: StagePattern, Rule: *r, Reason: "denied by " + r.String()})
	}
}

// shape denies what the analysis could not make sense of, and actions that
// name nothing of what their kind is about.
func (e *evaluation) shape() {
	refuse := func(stage Stage, reason string) {
		e.settle(Outcome{Stage: stage, Rule: e.p.defaultRule(), Reason: "denied: " + reason})
	}
	if e.a.Unparsable != "" {
		refuse(StagePath, shorten(oneLine(e.a.Unparsable)))
		return
	}
	switch e.a.Kind {
	case KindRead:
		if len(e.a.Paths) == 0 {
			refuse(StagePath, "no path is known that it would read")
		}
	case KindWrite:
		if !slices.ContainsFunc(e.a.Paths, func(p Path) bool { return p.Write }) {
			refuse(StagePath, "no path is known that it would write")
		}
	case KindShell:
		if len(e.a.Commands) == 0 {
			refuse(StageShell, "no command is known that it would run")
		}
	case KindNetwork, KindMemory, KindHook, KindOther:
	case KindMCP:
		if e.p.readOnly && !e.p.readOnlyAsks && !e.a.ReadOnly {
			e.settle(Outcome{Stage: StagePath, Subject: e.a.Called(), Rule: e.p.readOnlyRule(),
				Reason: "calling " + quote(e.a.Called()) + ", which may write, is denied by " + e.p.readOnlyReason()})
		}
	default:
		refuse(StageDefault, "unknown kind of action "+quote(string(e.a.Kind)))
	}
}

func (e *evaluation) ask() {
	if r := first(e.p.rules["tools.ask"], e.named); r != nil {
		e.settle(Outcome{Verdict: Ask, Stage: StageAsk, Subject: e.a.Called(), Rule: *r, Reason: r.String() + " wants consent"})
	}
}

func (e *evaluation) allowList() {
	for _, l := range e.p.allow["tools.allow"] {
		rule := l.find(func(r *Rule) bool { return r.tool != nil && r.tool.match(e.names.own) })
		if rule == nil {
			missing := l.missing()
			e.settle(Outcome{Stage: StageAllowList, Subject: e.a.Called(), Rule: missing, Reason: "denied: not in " + missing.String()})
			return
		}
		// A rule for all tools names none, so it lifts nothing.
		if l.trusted && !rule.tool.all {
			e.allowed = *rule
		}
	}
}

// byDefault applies the defaults to what no rule has spoken about. The paths,
// hosts and commands have had theirs.
func (e *evaluation) byDefault() {
	verdict, known := e.p.defaults.Verdicts[e.a.Kind]
	source := e.p.defaults.Source
	rule := e.p.defaultRule()
	switch {
	case !known:
		e.settle(Outcome{Stage: StageDefault, Rule: rule, Reason: "denied: " + string(e.a.Kind) + " actions (" + source.String() + ")"})
		return
	case e.a.Kind == KindRead || e.a.Kind == KindWrite || e.a.Kind == KindShell || e.a.Kind == KindNetwork:
		// What they are about has been settled piece by piece.
	case e.a.Kind == KindMCP && verdict == Ask && e.allowed.Key != "":
		e.settle(Outcome{Verdict: Allow, Stage: StageAllowList, Subject: e.a.Called(), Rule: e.allowed, Reason: "allowed by " + e.allowed.String()})
	case verdict == Ask:
		e.settle(Outcome{Verdict: Ask, Stage: StageDefault, Subject: e.a.Called(), Rule: rule,
			Reason: e.describe() + " needs consent (" + source.String() + ")"})
	case verdict == Deny:
		e.settle(Outcome{Stage: StageDefault, Subject: e.a.Called(), Rule: rule, Reason: e.describe() + " is denied (" + source.String() + ")"})
	}
	e.settle(Outcome{Verdict: Allow, Stage: StageDefault, Rule: rule, Reason: "allowed: no rule speaks against it (" + source.String() + ")"})
}

func (e *evaluation) describe() string {
	switch e.a.Kind {
	case KindMemory:
		return "remembering something"
	case KindHook:
		return "what a hook asks about"
	default:
		return "calling " + quote(e.a.Called())
	}
}

// first returns the first rule that fits, or nil.
func first(rules []Rule, fits func(*Rule) bool) *Rule {
	for i := range rules {
		if fits(&rules[i]) {
			return &rules[i]
		}
	}
	return nil
}

// find returns the first rule of the list that fits, or nil.
func (l *allowList) find(fits func(*Rule) bool) *Rule {
	if r := first(l.rules, fits); r != nil {
		return r
	}
	return first(l.also, fits)
}

// missing is the rule to name when nothing on the list fits: the list itself.
func (l *allowList) missing() Rule {
	return Rule{Key: l.rules[0].Key, Source: l.rules[0].Source}
}

func (p *Policy) defaultRule() Rule { return Rule{Key: "default", Source: p.defaults.Source} }

func (p *Policy) readOnlyRule() Rule { return Rule{Key: "readOnly", Source: p.readOnlySource} }

// readOnlyReason is that rule for people. Where it is a server's default, they
// are told what lifts it.
func (p *Policy) readOnlyReason() string {
	if p.readOnlySource == p.defaults.Source {
		return "readOnly (" + p.readOnlySource.String() + "; --read-write lifts it)"
	}
	return p.readOnlyRule().String()
}

// validRel reports whether a path has the one form that globs can be trusted
// on.
func validRel(rel string) bool {
	return fs.ValidPath(rel) && !strings.ContainsAny(rel, "\\\x00")
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
