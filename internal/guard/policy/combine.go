package policy

import (
	"maps"
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
	// AskIsDeny: nobody can be asked, so what would be asked is denied.
	AskIsDeny bool
	// ToolsFirst: the lists of tools are looked at before anything else, and
	// what is asked about must be on the list of what is allowed too.
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
// empty policy permits everything inside the workspace, and there is nobody
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

	readOnly       bool
	readOnlyAsks   bool
	readOnlySource Source

	toolsDeny, toolsAsk []Rule
	patterns            []Rule
	protected           protection
	readsDeny           []Rule
	writesDeny          []Rule
	shellDeny           []Rule
	networkDeny         []Rule

	tools, reads, writes, shell, network []allowList

	sandbox sandboxRules
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
	defaults.Verdicts = maps.Clone(defaults.Verdicts)
	p := &Policy{defaults: defaults, rooted: defaults.Root != ""}
	p.root = strings.TrimSuffix(strings.ReplaceAll(defaults.Root, `\`, "/"), "/")
	lifted := false
	for i := range layers {
		r, trusted := &layers[i].Rules, layers[i].Trusted
		p.toolsDeny = append(p.toolsDeny, r.ToolsDeny...)
		p.toolsAsk = append(p.toolsAsk, r.ToolsAsk...)
		p.patterns = append(p.patterns, r.PatternsDeny...)
		p.readsDeny = append(p.readsDeny, r.ReadsDeny...)
		p.writesDeny = append(p.writesDeny, r.WritesDeny...)
		p.shellDeny = append(p.shellDeny, r.ShellDeny...)
		p.networkDeny = append(p.networkDeny, r.NetworkDeny...)
		also := r.ToolsAsk
		if defaults.ToolsFirst {
			also = nil
		}
		p.tools = addAllowList(p.tools, r.ToolsAllow, also, trusted)
		p.reads = addAllowList(p.reads, r.ReadsAllow, nil, trusted)
		p.writes = addAllowList(p.writes, r.WritesAllow, nil, trusted)
		p.shell = addAllowList(p.shell, r.ShellAllow, nil, trusted)
		p.network = addAllowList(p.network, r.NetworkAllow, nil, trusted)
		if trusted {
			p.sandbox.add(r)
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

func addAllowList(to []allowList, rules, also []Rule, trusted bool) []allowList {
	if len(rules) == 0 {
		return to
	}
	return append(to, allowList{slices.Clone(rules), slices.Clone(also), trusted})
}

// ReadOnly reports whether nothing may be written, and who says so.
func (p *Policy) ReadOnly() (bool, Source) { return p.readOnly, p.readOnlySource }

// Rules returns every rule in force, for people to read.
func (p *Policy) Rules() []Rule {
	all := slices.Concat(p.toolsDeny, p.toolsAsk, p.patterns, p.readsDeny, p.writesDeny, p.protected.rules(), p.shellDeny, p.networkDeny,
		p.sandbox.read, p.sandbox.write, p.sandbox.network, p.sandbox.shell)
	for _, lists := range [][]allowList{p.tools, p.reads, p.writes, p.shell, p.network} {
		for i := range lists {
			all = append(all, lists[i].rules...)
		}
	}
	return all
}
