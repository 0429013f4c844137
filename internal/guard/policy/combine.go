package policy

import (
	"maps"
	"path"
	"slices"
	"strings"
)

// Defaults are what holds where no rule speaks, and the frame that no rule
// can leave. Take them from DefaultsRun, DefaultsServe or DefaultsABP.
type Defaults struct {
	// Source is how reasons call them.
	Source Source
	// Verdicts by kind; a kind that is missing is denied.
	Verdicts map[Kind]Verdict
	// ReadOnly is the door's default; a trusted layer that says readOnly:
	// false lifts it.
	ReadOnly bool
	// ReadOnlyAsks: what ReadOnly forbids is asked about instead, where a
	// person can be. A layer that says readOnly: true still denies.
	ReadOnlyAsks bool
	// AskIsDeny: there is no person to ask, so a question becomes a denial.
	AskIsDeny bool
	// ToolsFirst: the lists of tools are looked at before anything else, and a
	// tool that is asked about must be on the allow list too.
	ToolsFirst bool
	// CaseInsensitive: the workspace's file system does not tell case apart,
	// so neither do allow globs. Deny globs never do.
	CaseInsensitive bool
	// Root is the workspace's absolute path with links followed. Absolute
	// globs and absolute Protected directories need it; without it a deny rule
	// that is absolute denies everything it could be about.
	Root string
	// Protected are directories that may never be written, absolute or
	// relative to the workspace: the bridge's own.
	Protected []string
}

const defaultSource = "built-in default"

// DefaultsRun are the defaults of run, orchestrate and the OpenClaw tools:
// files inside the workspace may be read and written, read-only commands run,
// and other commands, the network, MCP tools, memories and hooks are asked
// about.
func DefaultsRun() Defaults {
	return Defaults{Source: Source{Name: defaultSource}, Verdicts: map[Kind]Verdict{
		KindRead: Allow, KindWrite: Allow, KindOther: Allow,
		KindShell: Ask, KindNetwork: Ask, KindMCP: Ask, KindMemory: Ask, KindHook: Ask,
	}}
}

// DefaultsServe are the defaults of serve: those of run, but read-only.
func DefaultsServe() Defaults {
	d := DefaultsRun()
	d.ReadOnly = true
	return d
}

// DefaultsABP are the defaults of the ABP sidecar: the work order decides, an
// empty policy permits everything inside the workspace, and there is no person
// to ask.
func DefaultsABP() Defaults {
	return Defaults{Source: Source{Name: defaultSource}, AskIsDeny: true, ToolsFirst: true, Verdicts: map[Kind]Verdict{
		KindRead: Allow, KindWrite: Allow, KindOther: Allow,
		KindShell: Allow, KindNetwork: Allow, KindMCP: Allow, KindMemory: Ask, KindHook: Ask,
	}}
}

// Layer is one source of rules. Of an untrusted layer only what restricts
// counts: its allow lists narrow, but lift no default.
type Layer struct {
	Rules   Rules
	Trusted bool
}

// Policy is several layers combined, ready to decide. It does not change and
// may be used concurrently.
type Policy struct {
	defaults Defaults
	root     string // with slashes, without a final one
	rooted   bool   // root is known
	broken   string // why everything is denied; "" for nothing

	readOnly       bool
	readOnlyAsks   bool
	readOnlySource Source

	rules     map[string][]Rule      // the lists that unite: denials, asks, and what eases a sandbox
	allow     map[string][]allowList // the lists that intersect, one for each layer
	protected protection

	other *Policy // one that must agree; see Other. Nil for none
}

// allowList is one layer's list. Everything must be on every one of them.
type allowList struct {
	rules   []Rule
	also    []Rule // the layer's own tools.ask
	trusted bool   // being on it lifts a default
}

// Combine makes a policy of defaults and any number of layers, in the order
// in which their reasons are to be given; it makes no other difference.
// Denials and asks unite, allow lists intersect, read-only wins. Only a
// trusted layer may lift a default, and none lifts what another one says.
func Combine(defaults Defaults, layers ...Layer) *Policy {
	defaults.Verdicts, defaults.Protected = maps.Clone(defaults.Verdicts), slices.Clone(defaults.Protected)
	for i, dir := range defaults.Protected {
		defaults.Protected[i] = path.Clean(strings.ReplaceAll(dir, `\`, "/"))
	}
	p := &Policy{defaults: defaults, rooted: defaults.Root != "", rules: map[string][]Rule{}, allow: map[string][]allowList{}}
	p.root = strings.TrimSuffix(strings.ReplaceAll(defaults.Root, `\`, "/"), "/")
	lifted := false
	for i := range layers {
		r, trusted := &layers[i].Rules, layers[i].Trusted
		for name, rules := range r.Lists {
			switch {
			case !strings.HasSuffix(name, ".allow"):
				if trusted || !Eases(name) {
					p.rules[name] = slices.Concat(p.rules[name], rules)
				}
			case len(rules) > 0:
				l := allowList{rules: slices.Clone(rules), trusted: trusted}
				if name == "tools.allow" && !defaults.ToolsFirst {
					l.also = slices.Clone(r.Lists["tools.ask"])
				}
				p.allow[name] = append(p.allow[name], l)
			}
		}
		switch {
		case r.ReadOnly == nil:
		case *r.ReadOnly && !p.readOnly:
			p.readOnly, p.readOnlySource = true, r.ReadOnlySource
		case !*r.ReadOnly && trusted:
			lifted = true
		}
	}
	if !p.readOnly && defaults.ReadOnly && !lifted {
		p.readOnly, p.readOnlySource, p.readOnlyAsks = true, defaults.Source, defaults.ReadOnlyAsks
	}
	p.protected = newProtection(p)
	return p
}

// ReadOnly reports whether nothing may be written, and who says so.
func (p *Policy) ReadOnly() (bool, Source) {
	if !p.readOnly && p.other != nil {
		return p.other.ReadOnly()
	}
	return p.readOnly, p.readOnlySource
}
