package policy

import (
	"errors"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// compilePlace compiles a path outside: that path, and all below it.
func compilePlace(r *Rule) error {
	switch p := r.Pattern; {
	case strings.ContainsAny(p, `*?[]{}`):
		return errors.New("it names one path and all below it, without wildcards")
	case !isAbsolute(p):
		return errors.New("write an absolute path; ~ and variables are not expanded")
	case strings.ContainsFunc(p, func(c rune) bool { return c < ' ' || c == 0x7f }):
		return errors.New("it holds a control character")
	case path.Clean(p) != p:
		return errors.New("write it as " + path.Clean(p))
	case path.Dir(p) == p:
		return errors.New("it is the whole file system; name what is needed")
	}
	r.place = r.Pattern
	return nil
}

// compileSandboxHost takes what can be told from a command: a name, all below
// one, or everything.
func compileSandboxHost(r *Rule) error {
	if err := compileHost(r); err != nil {
		return err
	}
	if h := r.host; h.glob != "" || h.prefix.IsValid() && h.prefix.Bits() < h.prefix.Addr().BitLen() {
		return errors.New("the sandbox cannot hold ranges and wildcards within a name; write a host, host:port, *.name or *")
	}
	return nil
}

func compileSandboxCommand(r *Rule) error {
	if err := compileCommand(r); err != nil {
		return err
	}
	if len(r.command.words) == 0 {
		return errors.New("it would allow every command; name one")
	}
	return nil
}

// covers returns the rule by which a path may be used inside a sandbox.
func (p *Policy) covers(path *Path) *Rule {
	within := func(r *Rule) bool { return isWithin(path.Abs, r.place) }
	if r := first(p.rules["sandbox.write"], within); r != nil || path.Write {
		return r
	}
	return first(p.rules["sandbox.read"], within)
}

// lifted reports whether the sandbox holds the whole policy for an action, so
// that unknown parts of it need no question.
func (e *evaluation) lifted() bool { return e.a.Wall == WholeWall && e.a.Kind == KindShell }

// outside judges a path outside the workspace.
func (e *evaluation) outside(path *Path, shown, what string) {
	p := e.p
	settle := func(v Verdict, rule Rule, reason string, lasting ...Addition) {
		e.settle(Outcome{Verdict: v, Stage: StagePath, Subject: shown, Rule: rule, Reason: what + reason, Outside: true, Lasting: lasting})
	}
	denied, list := p.rules["reads.deny"], "sandbox.read"
	if path.Write {
		denied, list = p.rules["writes.deny"], "sandbox.write"
	}
	if !e.lifted() || path.Abs == "" || !isAbsolute(path.Abs) {
		settle(Deny, p.defaultRule(), " is denied: it is outside the workspace")
		return
	}
	n := newNamed(path.Abs)
	if r := first(denied, func(r *Rule) bool { return r.glob == nil || r.glob.absolute && r.glob.denies(&n) }); r != nil {
		settle(Deny, *r, " is denied by "+r.String())
		return
	}
	if slices.ContainsFunc(p.Own(), func(dir string) bool { return isWithin(path.Abs, dir) }) {
		settle(Deny, p.defaultRule(), " is denied: it is outside the workspace, and the bridge's own")
		return
	}
	if path.Seen {
		return
	}
	if path.Write && p.readOnly && !p.readOnlyAsks {
		settle(Deny, p.readOnlyRule(), " is denied by "+p.readOnlyReason())
		return
	}
	e.grant.Outside = append(e.grant.Outside, path.Abs)
	if path.Write {
		e.grant.Write = append(e.grant.Write, path.Abs)
	} else {
		e.grant.Read = append(e.grant.Read, path.Abs)
	}
	if p.covers(path) != nil {
		return
	}
	if path.Write && path.Missing {
		settle(Deny, p.defaultRule(), " is denied: it is outside the workspace and does not exist, so the sandbox cannot open it; make it first, or name its directory in sandbox.write")
		return
	}
	e.firm = true
	settle(Ask, p.defaultRule(), " needs consent: it is outside the workspace, and the sandbox does not show it", compiling(Addition{list, path.Abs})...)
}

// change notes that a path of the workspace is to be written that the sandbox
// keeps as it is.
func (e *evaluation) change(rel string) {
	if abs := path.Join(e.p.root, rel); e.a.Wall != NoWall && e.p.rooted && !slices.Contains(e.grant.Write, abs) {
		e.grant.Write = append(e.grant.Write, abs)
	}
}

// reach notes that the network is to be opened.
func (e *evaluation) reach(h *Host, unasked bool) {
	if e.p.AllHosts() {
		return
	}
	e.grant.Network = true
	e.opened = e.opened || unasked
	if h != nil {
		e.grant.Hosts = append(e.grant.Hosts, h.Name)
	}
}

// confined settles a command that runs inside a sandbox, if there is more to
// say of it than without one.
func (e *evaluation) confined(cmd *Command, lifts *Rule, settle settler) bool {
	p := e.p
	if lifts == nil && e.lifted() {
		lifts = first(p.rules["sandbox.shell"], func(r *Rule) bool { return r.command != nil && r.command.allows(cmd) })
	}
	if cmd.Network && len(e.a.Hosts) == 0 && !p.AllHosts() {
		// Which hosts it reaches is not known, so the network is open or not.
		switch {
		case lifts != nil:
			e.reach(nil, true)
		case p.defaults.Verdicts[KindNetwork] == Ask:
			e.reach(nil, false)
			if !e.lifted() {
				return false
			}
			settle(Ask, StageNetwork, p.defaultRule(), " needs consent: it uses the network, which the sandbox has shut")
			return true
		}
	}
	byDefault := p.defaults.Verdicts[KindShell]
	switch {
	case lifts != nil:
		e.piece(KindShell, StageShell, lifts, cmd.opaque() && !e.lifted(), settle)
	case byDefault == Deny || !e.lifted() || e.opened && !fetches(cmd):
		// With the network open it could send the workspace's files anywhere.
		return false
	case cmd.Destroys != "" && byDefault == Ask:
		settle(Ask, StageShell, p.defaultRule(), " needs consent: "+shorten(oneLine(cmd.Destroys)))
	default:
		settle(Allow, StageShell, p.defaultRule(), " is allowed: it runs inside the sandbox")
	}
	return true
}

// fetches knows the programs that reach the hosts which they are given, and no
// others.
func fetches(cmd *Command) bool {
	return len(cmd.Words) > 0 && !cmd.opaque() && slices.Contains([]string{"curl", "wget"}, program(cmd.Words[0]))
}

// compiling returns an addition if a policy file can hold it.
func compiling(a Addition) []Addition {
	var b builder
	if b.add(a.List, a.List, a.Pattern, Source{}); len(b.faults) > 0 {
		return nil
	}
	return []Addition{a}
}

// hostAddition is the rule that allows a host.
func hostAddition(h *Host) []Addition {
	if h == nil {
		return nil
	}
	name := h.Name
	if strings.Contains(name, ":") {
		name = "[" + name + "]"
	}
	if h.Port != 0 {
		name += ":" + strconv.Itoa(h.Port)
	}
	return compiling(Addition{"sandbox.network", name})
}

// commandAddition is the rule that allows a command with exactly these words.
func commandAddition(cmd *Command) []Addition {
	if cmd.opaque() || len(cmd.Globs) > 0 {
		return nil
	}
	var words []string
	for _, w := range slices.Concat(cmd.Env, cmd.Words) {
		switch {
		case w != "" && !strings.ContainsAny(w, " \t;&|<>()$`\\\n\r#*?['\""):
		case !strings.ContainsAny(w, "'\n\r"):
			w = "'" + w + "'"
		default:
			return nil
		}
		words = append(words, w)
	}
	a := Addition{"sandbox.shell", strings.Join(words, " ")}
	r := Rule{Pattern: a.Pattern}
	if compileSandboxCommand(&r) != nil || r.command.open || !r.command.allows(cmd) {
		return nil
	}
	return compiling(a)
}

// Lift returns the policy with more rules for what runs inside a sandbox.
// Additions that no file could hold are left out.
func (p *Policy) Lift(source string, additions ...Addition) *Policy {
	var b builder
	for _, a := range additions {
		if isList(a.List) && strings.HasPrefix(a.List, "sandbox.") {
			b.add(a.List, a.List, a.Pattern, Source{Name: source})
		}
	}
	out := *p
	out.rules = maps.Clone(p.rules)
	for name, rules := range b.rules.Lists {
		out.rules[name] = slices.Concat(out.rules[name], rules)
	}
	return &out
}

// AllHosts reports whether every host may be reached without a question.
func (p *Policy) AllHosts() bool {
	if p.other != nil && !p.other.AllHosts() {
		return false
	}
	all := func(r *Rule) bool { return r.host != nil && r.host.all && r.host.port == 0 }
	if len(p.rules["network.deny"]) > 0 || slices.ContainsFunc(p.allow["network.allow"], func(l allowList) bool { return l.find(all) == nil }) {
		return false
	}
	return p.defaults.Verdicts[KindNetwork] == Allow || first(p.rules["sandbox.network"], all) != nil ||
		slices.ContainsFunc(p.allow["network.allow"], func(l allowList) bool { return l.trusted })
}

// Places are the paths outside that programs inside a sandbox get.
func (p *Policy) Places() (read, write []string) {
	for _, r := range p.rules["sandbox.read"] {
		read = append(read, r.place)
	}
	for _, r := range p.rules["sandbox.write"] {
		write = append(write, r.place)
	}
	if p.other != nil {
		r, w := p.other.Places()
		read, write = inBoth(slices.Concat(read, write), slices.Concat(r, w)), inBoth(write, w)
	}
	return read, write
}

// Own are the absolute directories of the bridge's own that the workspace does
// not lie in.
func (p *Policy) Own() []string {
	return slices.DeleteFunc(slices.Clone(p.defaults.Protected), func(dir string) bool {
		return !isAbsolute(dir) || p.rooted && isWithin(p.root, dir)
	})
}

// Below reports whether a rule that denies a directory denies all that is in
// it.
func (r Rule) Below() bool { return r.glob != nil && r.glob.tree }

// WriteDenied returns the rule of the policy by which an existing path may not
// be written, if there is one. Built-in protection is not among them.
func (p *Policy) WriteDenied(rel string) (Rule, bool) {
	return p.listed(p.rules["writes.deny"], nil, rel)
}

// WriteGap returns a rule about writing that is also about files which do not
// exist yet: what exists can be kept as it is, the others cannot.
func (p *Policy) WriteGap(exists func(rel string) bool) (Rule, bool) {
	for _, r := range p.rules["writes.deny"] {
		if path, ok := r.path(); !ok || !exists(path) {
			return r, true
		}
	}
	for _, l := range p.allow["writes.allow"] {
		if l.find(func(r *Rule) bool { return r.glob != nil && r.glob.root && r.glob.tree }) == nil {
			return l.missing(), true
		}
	}
	return Rule{}, false
}

// LimitsWrites reports whether rules speak of what may be written.
func (p *Policy) LimitsWrites() bool {
	return len(p.rules["writes.deny"])+len(p.allow["writes.allow"]) > 0
}

// path is the one that a rule is about, with or without all below.
func (r *Rule) path() (string, bool) {
	if r.glob == nil || r.glob.absolute {
		return "", false
	}
	m := r.glob.exact
	return m.literal, m.shape == shapeLiteral || m.shape == shapeBelow
}

// ReadOnlyAsks reports whether a read-only workspace may be written with consent.
func (p *Policy) ReadOnlyAsks() bool { return p.readOnly && p.readOnlyAsks }
