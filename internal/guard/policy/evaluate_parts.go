package policy

import (
	"slices"
	"strings"
)

// paths judges every path that the action touches, whatever its kind.
func (e *evaluation) paths() {
	for i := range e.a.Paths {
		e.path(&e.a.Paths[i])
		if e.denied() {
			return
		}
	}
}

func (e *evaluation) path(path *Path) {
	p := e.p
	shown := path.Name
	if shown == "" {
		shown = path.Rel
	}
	verb, kind, denied, allowed := "reading ", KindRead, p.rules["reads.deny"], p.allow["reads.allow"]
	if path.Write {
		verb, kind, denied, allowed = "writing ", KindWrite, p.rules["writes.deny"], p.allow["writes.allow"]
	}
	what := verb + quote(shown)
	settle := func(v Verdict, stage Stage, rule Rule, reason string) {
		e.settle(Outcome{Verdict: v, Stage: stage, Subject: shown, Rule: rule, Reason: what + reason})
	}
	switch {
	case path.Own:
		return
	case path.Problem != "":
		settle(Deny, StagePath, p.defaultRule(), " is denied: "+shorten(oneLine(path.Problem)))
		return
	case path.Outside && path.Doubt != "" && !path.Write:
		e.settle(Outcome{Verdict: Ask, Stage: StagePath, Subject: shown, Rule: p.defaultRule(), Reason: what + ", which is outside the workspace, needs consent: " + shorten(oneLine(path.Doubt)), Outside: true})
		return
	case path.Outside:
		e.outside(path, shown, what)
		return
	case !validRel(path.Rel):
		settle(Deny, StagePath, p.defaultRule(), " is denied: it is not a clean path inside the workspace")
		return
	case path.Write && p.readOnly && !p.readOnlyAsks:
		settle(Deny, StagePath, p.readOnlyRule(), " is denied by "+p.readOnlyReason())
		return
	}
	n := newNamed(path.Rel)
	if path.Write {
		if rule := p.protects(path); rule != nil {
			settle(Deny, StagePath, *rule, " is denied by "+rule.String())
			return
		}
	}
	if refused(denied, func(r *Rule) bool { return p.denies(r, &n) }, StagePath, settle) {
		return
	}
	if _, missing := lifting(allowed, func(r *Rule) bool { return p.allows(r, &n, path.Tree) }, StagePath, settle); missing {
		return
	}
	if path.Write {
		if rule := p.configures(path); rule != nil {
			e.firm = true
			e.change(path.Rel)
			settle(Ask, StagePath, *rule, " needs consent, since it configures programs or agents: "+rule.String())
			return
		}
	}
	if path.Doubt != "" && !e.lifted() {
		e.firm = e.firm || path.Write || e.a.Kind == KindMCP
		settle(Ask, StagePath, p.defaultRule(), " needs consent: "+shorten(oneLine(path.Doubt)))
		return
	}
	if path.Write && p.readOnlyAsks {
		e.change(".")
		settle(Ask, StagePath, p.readOnlyRule(), " needs consent: "+p.readOnlyReason())
		return
	}
	if path.Tree && (path.History || !e.lifted()) {
		if r := first(denied, func(r *Rule) bool { return p.reachesBelow(r, &n) }); r != nil {
			settle(Ask, StagePath, *r, " and all below may touch what is denied by "+r.String())
			return
		}
	}
	e.piece(kind, StagePath, nil, false, settle)
}

// settler records a verdict about one path, host or command.
type settler func(v Verdict, stage Stage, rule Rule, reason string)

// refused settles a denial if one of the rules fits.
func refused(rules []Rule, fits func(*Rule) bool, stage Stage, settle settler) bool {
	r := first(rules, fits)
	if r != nil {
		settle(Deny, stage, *r, " is denied by "+r.String())
	}
	return r != nil
}

// lifting returns the rule of a trusted layer that allows something, and
// settles a denial if it is missing on one of the lists.
func lifting(lists []allowList, fits func(*Rule) bool, stage Stage, settle settler) (lifts *Rule, missing bool) {
	for i := range lists {
		rule := lists[i].find(fits)
		if rule == nil {
			list := lists[i].missing()
			settle(Deny, stage, list, " is denied: not in "+list.String())
			return nil, true
		}
		if lists[i].trusted {
			lifts = rule
		}
	}
	return lifts, false
}

// as returns the name by which a glob knows a path. It is not known to an
// absolute glob where the root is not.
func (p *Policy) as(g *pathGlob, n *named) (at named, known bool) {
	switch {
	case !g.absolute:
		return *n, true
	case n.root:
		return newNamed(p.root), p.rooted
	}
	return newNamed(p.root + "/" + n.exact), p.rooted
}

func (p *Policy) denies(r *Rule, n *named) bool {
	if r.glob == nil {
		return true
	}
	at, known := p.as(r.glob, n)
	return !known || r.glob.denies(&at)
}

func (p *Policy) allows(r *Rule, n *named, tree bool) bool {
	if r.glob == nil || tree && !r.glob.tree {
		return false
	}
	at, known := p.as(r.glob, n)
	return known && r.glob.allows(&at, p.defaults.CaseInsensitive)
}

func (p *Policy) reachesBelow(r *Rule, n *named) bool {
	at, _ := p.as(r.glob, n)
	return r.glob.reachesBelow(&at)
}

// ReadDenied returns the rule by which a path may not be read, if there is
// one. It is for those who list or search many files and leave out what is
// denied; rel is as in Path. Reading what it does not name may still be denied
// for other reasons than the path.
func (p *Policy) ReadDenied(rel string) (Rule, bool) {
	if !validRel(rel) {
		return p.defaultRule(), true
	}
	if !p.LimitsReads() {
		return Rule{}, false
	}
	return p.listed(p.rules["reads.deny"], p.allow["reads.allow"], rel)
}

// listed returns the rule by which a path is denied, or the allow list that it
// is not on.
func (p *Policy) listed(deny []Rule, allow []allowList, rel string) (Rule, bool) {
	n := newNamed(rel)
	if r := first(deny, func(r *Rule) bool { return p.denies(r, &n) }); r != nil {
		return *r, true
	}
	for i := range allow {
		if allow[i].find(func(r *Rule) bool { return p.allows(r, &n, false) }) == nil {
			return allow[i].missing(), true
		}
	}
	return Rule{}, false
}

// NamesBelow reports whether a rule by which something may not be read has rel
// for the beginning of its path: a file of today may have been a directory.
func (p *Policy) NamesBelow(rel string) bool {
	n := newNamed(rel)
	return slices.ContainsFunc(p.rules["reads.deny"], func(r Rule) bool {
		if r.glob == nil {
			return false
		}
		at, _ := p.as(r.glob, &n)
		return isWithin(r.glob.base, at.disguised)
	})
}

// LimitsReads reports whether there is anything inside the workspace that may
// not be read.
func (p *Policy) LimitsReads() bool {
	return len(p.rules["reads.deny"])+len(p.allow["reads.allow"]) > 0
}

// MayRead is whether Evaluate allows a tool to read a file, without a reason:
// for lists and searches, which ask it of every file.
func (p *Policy) MayRead(tool, rel string) bool {
	if p == nil || p.broken != "" || p.defaults.Verdicts[KindRead] != Allow ||
		len(p.rules["tools.deny"])+len(p.rules["tools.ask"])+len(p.allow["tools.allow"])+len(p.rules["patterns.deny"]) > 0 {
		return p.Evaluate(Action{Tool: tool, Kind: KindRead, Paths: []Path{{Rel: rel}}}).Verdict == Allow
	}
	_, denied := p.ReadDenied(rel)
	return !denied
}

// network judges every host that the action names.
func (e *evaluation) network() {
	for i := range e.a.Hosts {
		e.host(&e.a.Hosts[i])
		if e.denied() {
			return
		}
	}
	if e.a.Kind == KindNetwork && len(e.a.Hosts) == 0 {
		e.host(nil)
	}
}

// host judges a host, or with nil one that is not known: then only rules for
// all hosts are sure to match.
func (e *evaluation) host(h *Host) {
	p := e.p
	shown, t := "a host that is not known", target{}
	denies := func(r *Rule) bool { return r.host == nil || r.host.all }
	allows := func(r *Rule) bool { return r.host != nil && r.host.all && r.host.port == 0 }
	if h != nil {
		shown = quote(h.Name)
		denies = func(r *Rule) bool { return r.host == nil || r.host.denies(&t) }
		allows = func(r *Rule) bool { return r.host != nil && r.host.allows(&t) }
	}
	settle := func(v Verdict, stage Stage, rule Rule, reason string) {
		o := Outcome{Verdict: v, Stage: stage, Subject: strings.Trim(shown, `"`), Rule: rule, Reason: "reaching " + shown + reason}
		if v == Ask && e.lifted() {
			o.Lasting = hostAddition(h)
		}
		e.settle(o)
	}
	if h != nil {
		problem := h.Problem
		if problem == "" {
			var err error
			if t, err = newTarget(h); err != nil {
				problem = err.Error()
			}
		}
		if problem != "" {
			settle(Deny, StageNetwork, p.defaultRule(), " is denied: "+shorten(oneLine(problem)))
			return
		}
	}
	if refused(p.rules["network.deny"], denies, StageNetwork, settle) {
		return
	}
	lifts, missing := lifting(p.allow["network.allow"], allows, StageNetwork, settle)
	if missing {
		return
	}
	if e.a.Wall != NoWall && e.a.Kind == KindShell {
		if lifts == nil && e.lifted() {
			lifts = first(p.rules["sandbox.network"], allows)
		}
		e.reach(h, lifts != nil || p.defaults.Verdicts[KindNetwork] == Allow)
	}
	e.piece(KindNetwork, StageNetwork, lifts, h == nil && len(p.rules["network.deny"]) > 0, settle)
}

// piece settles a path, host or command that no rule denies. A rule that
// allows it lifts a default to ask, but not one to deny; and where not
// everything is known, nothing is better than to ask.
func (e *evaluation) piece(kind Kind, stage Stage, lifts *Rule, doubt bool, settle settler) {
	byDefault, source := e.p.defaultRule(), " ("+e.p.defaults.Source.String()+")"
	switch v := e.p.defaults.Verdicts[kind]; {
	case v == Deny:
		settle(Deny, StageDefault, byDefault, " is denied"+source)
	case doubt:
		settle(Ask, StageDefault, byDefault, " needs consent, since not all of it is known"+source)
	case lifts != nil:
		settle(Allow, stage, *lifts, " is allowed by "+lifts.String())
	case v == Ask:
		settle(Ask, StageDefault, byDefault, " needs consent"+source)
	default:
		settle(Allow, StageDefault, byDefault, " is allowed"+source)
	}
}

// shell judges every command that the action runs.
func (e *evaluation) shell() {
	for i := range e.a.Commands {
		e.command(&e.a.Commands[i])
		if e.denied() {
			return
		}
	}
}

func (e *evaluation) command(cmd *Command) {
	p := e.p
	name := "a command that is not known"
	if len(cmd.Words) > 0 {
		name = cmd.Words[0]
	}
	settle := func(v Verdict, stage Stage, rule Rule, reason string) {
		o := Outcome{Verdict: v, Stage: stage, Subject: name, Rule: rule, Reason: "running " + quote(name) + reason}
		if v == Ask && e.lifted() && !p.readOnly {
			o.Lasting = commandAddition(cmd)
		} else if v == Ask {
			o.Lasting = e.lineAddition(cmd)
		}
		e.settle(o)
	}
	if len(cmd.Words) == 0 && !cmd.Opaque {
		settle(Deny, StageShell, p.defaultRule(), " is denied: it has no words")
		return
	}
	if refused(p.rules["shell.deny"], func(r *Rule) bool { return r.command == nil || r.command.denies(cmd) }, StageShell, settle) {
		return
	}
	if cmd.Harmless && !cmd.opaque() {
		settle(Allow, StageShell, p.defaultRule(), " is allowed: it runs nothing of the workspace")
		return
	}
	readOnly, write := isReadOnly(cmd), ", which may write,"
	if cmd.Unsafe != "" {
		write = ", which may write (" + shorten(oneLine(cmd.Unsafe)) + "),"
	}
	if p.readOnly && !p.readOnlyAsks && !readOnly {
		settle(Deny, StageShell, p.readOnlyRule(), write+" is denied by "+p.readOnlyReason())
		return
	}
	lifts, missing := lifting(p.allow["shell.allow"], func(r *Rule) bool { return r.command != nil && r.command.allows(cmd) }, StageShell, settle)
	if missing {
		return
	}
	if p.readOnlyAsks && !readOnly {
		e.change(".")
		settle(Ask, StageShell, p.readOnlyRule(), write+" needs consent: "+p.readOnlyReason())
		return
	}
	if readOnly && lifts == nil {
		lifts = &Rule{Key: readOnlyCommands, Source: p.defaults.Source}
	}
	if e.a.Wall != NoWall && e.confined(cmd, lifts, settle) {
		return
	}
	if cmd.Unsafe != "" && lifts == nil && p.defaults.Verdicts[KindShell] == Ask {
		settle(Ask, StageShell, p.defaultRule(), " needs consent: "+shorten(oneLine(cmd.Unsafe)))
		return
	}
	e.piece(KindShell, StageShell, lifts, cmd.opaque(), settle)
}
