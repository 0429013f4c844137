package guard

import (
	"context"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/sandbox"
)

// Wall is a sandbox that works on this machine. Where one stands, the guard
// asks less about the programs that run inside; see docs/guides/policy.md.
type Wall struct {
	// Plan says what the programs of a workspace may see and change.
	Plan func(ctx context.Context, s sandbox.Scope) (bridge.Confinement, error)
	// Watch remembers the files that configure agents, editors or git. What it
	// returns takes away those that are new, and says so: no sandbox keeps a
	// program from making a file in a place where it may write. May be nil.
	Watch func() func() (notice string, err error)
}

// plan is what the sandbox of a session holds.
type plan struct {
	conf bridge.Confinement
	// open is the confinement after consent to write in a read-only workspace;
	// protected files stay protected.
	open bridge.Confinement
	// protected are the files that configure agents or programs, relative to
	// the workspace.
	protected []string
	// gap says what of the policy the sandbox does not hold; "" for nothing.
	gap string
}

// Bounds of the files that are looked at for a plan, and that one may list.
const (
	maxPlanned = 20_000
	maxMounts  = 2_000
)

// Confinement is what the programs of the session may see and change now, or
// nil where there is no sandbox. It implements bridge.Confiner.
func (g *Guard) Confinement(ctx context.Context) (*bridge.Confinement, error) {
	if g.opts.Wall == nil {
		return nil, nil
	}
	if err := g.refresh(ctx); err != nil {
		return nil, err
	}
	version := g.version.Load()
	if p := g.lastPlan(); p != nil && version != nil && version.Err != nil {
		return &p.conf, nil // nothing is allowed, and what runs goes on
	}
	p, err := g.newPlan(ctx)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.version.Load() == version { // else the next call makes another
		g.plan = p
	}
	return &p.conf, nil
}

// Gap says what of the policy the sandbox does not hold, so that questions stay
// as without one; "" for nothing, also where there is no sandbox.
func (g *Guard) Gap() string {
	if p := g.lastPlan(); p != nil {
		return p.gap
	}
	return ""
}

func (g *Guard) lastPlan() *plan {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.plan
}

// wall says what the sandbox does about a call: nothing, unless the caller says
// that it is confined.
func (g *Guard) wall(confined bool) policy.Wall {
	if !confined || g.opts.Wall == nil {
		return policy.NoWall
	}
	p := g.planned()
	if p == nil || p.gap != "" {
		return policy.WallWithGaps
	}
	return policy.WholeWall
}

// planned is the last plan that was made; nil if none can be.
func (g *Guard) planned() *plan {
	if p := g.lastPlan(); p != nil {
		return p
	}
	if _, err := g.Confinement(context.Background()); err != nil {
		return nil
	}
	return g.lastPlan()
}

func (g *Guard) newPlan(ctx context.Context) (*plan, error) {
	pol, root := g.policy(), g.opts.Workspace.Root()
	at := func(rel string) string { return filepath.Join(root, filepath.FromSlash(rel)) }
	p := &plan{protected: g.configuration()}
	s := sandbox.Scope{Root: root}
	s.ReadOnly, _ = pol.ReadOnly()
	for _, rel := range p.protected {
		s.Protected = append(s.Protected, at(rel))
	}
	if rule, gap := pol.WriteGap(func(rel string) bool { _, err := os.Lstat(at(rel)); return err == nil }); gap {
		p.gap = "the sandbox cannot hold " + rule.String() + " for files that do not exist yet"
	}
	if pol.LimitsReads() || pol.LimitsWrites() {
		if why := g.mounts(&s); why != "" {
			p.gap = why
		}
	}
	var err error
	if p.conf, err = g.opts.Wall.Plan(ctx, s); err != nil {
		return nil, err
	}
	if pol.ReadOnlyAsks() {
		s.ReadOnly = false
		open, err := g.opts.Wall.Plan(ctx, s)
		if err != nil {
			return nil, err
		}
		outside := func(p string) bool { return !sandbox.Within(p, root) }
		p.open.Write, p.open.Read = slices.DeleteFunc(open.Write, outside), slices.DeleteFunc(open.Read, outside)
	}
	keepOwn(&p.conf, existing(pol.Own()))
	read, write := pol.Places()
	p.conf.Read = append(p.conf.Read, existing(read)...)
	p.conf.Write = append(p.conf.Write, existing(write)...)
	p.conf.Network = p.conf.Network || pol.AllHosts()
	return p, nil
}

// keepOwn keeps programs from changing the directories that are not the
// workspace's own. Those that the plan names are the repository of a linked
// worktree: git needs to read it, and it is more than this worktree's. The rest
// is hidden.
func keepOwn(c *bridge.Confinement, own []string) {
	named := slices.Concat(c.Read, c.Write)
	for _, dir := range own {
		if slices.Contains(c.Hide, dir) || !slices.Contains(named, dir) {
			c.Hide = append(c.Hide, dir)
			continue
		}
		c.Write = slices.DeleteFunc(c.Write, func(path string) bool { return sandbox.Within(path, dir) })
		c.Read = append(c.Read, dir)
	}
}

// existing are the real names of the paths that are there.
func existing(paths []string) []string {
	var out []string
	for _, p := range paths {
		if at, err := filepath.EvalSymlinks(filepath.FromSlash(p)); err == nil {
			out = append(out, at)
		}
	}
	return out
}

// configuration are the files that may not be written without consent: at the
// root, on the way to where the session works, and in the directories that
// hold some. Those deeper down are left to the guard's judgement.
func (g *Guard) configuration() []string {
	pol, found := g.policy(), []string{}
	dirs := append([]string{"."}, policy.ConfigDirs...)
	if rel, err := filepath.Rel(g.opts.Workspace.Root(), g.here.Base()); err == nil && filepath.IsLocal(rel) {
		for rel = filepath.ToSlash(rel); rel != "."; rel = path.Dir(rel) {
			dirs = append(dirs, rel)
		}
	}
	for _, dir := range dirs {
		entries, err := fs.ReadDir(g.opts.Workspace.FS().FS(), dir)
		if err != nil {
			continue // there is none
		}
		for _, e := range entries {
			rel := path.Join(dir, e.Name())
			if e.Name() == ".git" || !pol.Protected(rel) {
				continue
			}
			// The target of a link is protected, since that is read.
			res, err := g.opts.Workspace.Resolve(filepath.Join(g.opts.Workspace.Root(), filepath.FromSlash(rel)))
			if err == nil && res.Inside && res.Exists && res.Rel != "." && !slices.Contains(found, res.Rel) {
				found = append(found, res.Rel)
			}
		}
	}
	return found
}

// mounts lists the existing files that rules speak of. It says why the list is
// not all there is to hold.
func (g *Guard) mounts(s *sandbox.Scope) (gap string) {
	pol, root, seen := g.policy(), s.Root, 0
	readOnly := "" // the directory that is listed as a whole
	err := fs.WalkDir(g.opts.Workspace.FS().FS(), ".", func(rel string, d fs.DirEntry, err error) error {
		switch seen++; {
		case err != nil:
			return err
		case seen > maxPlanned || len(s.Hidden)+len(s.Protected) > maxMounts:
			return errTooMany
		case rel == ".":
			return nil
		case d.Name() == ".git":
			return skip(d)
		case d.Type()&fs.ModeSymlink != 0:
			return nil // what it leads to has a name of its own
		}
		abs := filepath.Join(root, filepath.FromSlash(rel))
		if rule, denied := pol.ReadDenied(rel); denied && (!d.IsDir() || rule.Below()) {
			s.Hidden = append(s.Hidden, abs)
			return skip(d)
		}
		if rule, denied := pol.WriteDenied(rel); denied && (!d.IsDir() || rule.Below()) && !sandbox.Within(rel, readOnly) {
			if readOnly = rel; !slices.Contains(s.Protected, abs) {
				s.Protected = append(s.Protected, abs)
			}
		}
		return nil
	})
	if err != nil {
		return "the workspace has too many files for the sandbox to hold the rules about them"
	}
	if !pol.LimitsReads() {
		return ""
	}
	r, err := g.repos.Find(root)
	if err == nil && r == nil {
		return ""
	}
	if err != nil || g.tracksDenied(place{repo: r, top: "."}) {
		return "the history of the repository may hold what may not be read"
	}
	return ""
}

func skip(d fs.DirEntry) error {
	if d.IsDir() {
		return fs.SkipDir
	}
	return nil
}

// seen says whether programs inside may do with a path outside what they want.
func (g *Guard) seen(abs string, write bool) bool {
	p := g.planned()
	return p != nil && sandbox.Allows(p.conf, abs, write)
}

// confine sets what the sandbox means for the paths of an action.
func (g *Guard) confine(a *policy.Action) {
	if a.Wall != policy.WholeWall {
		return
	}
	for i := range a.Paths {
		if p := &a.Paths[i]; p.Outside && p.Abs != "" {
			p.Seen = g.seen(p.Abs, p.Write)
			_, err := os.Lstat(p.Abs)
			p.Missing = err != nil
			if a.Tool == "write_bash" && !p.Seen {
				p.Abs = "" // what runs already is granted nothing more
			}
		}
	}
}

// granted is what an allowed action gets beyond the sandbox; nil for nothing.
func (g *Guard) granted(a policy.Action, grant policy.Grant) *bridge.Confinement {
	if a.Wall == policy.NoWall || len(grant.Read)+len(grant.Write) == 0 && !grant.Network {
		return nil
	}
	out := &bridge.Confinement{Read: grant.Read, Write: grant.Write, Network: grant.Network, Hosts: webHosts(a, grant)}
	if p := g.planned(); p != nil && slices.Contains(grant.Write, g.opts.Workspace.Root()) {
		named := func(path string) bool { return slices.Contains(grant.Write, path) }
		out.Read = slices.Concat(grant.Read, slices.DeleteFunc(slices.Clone(p.open.Read), named))
		out.Write = slices.Concat(grant.Write, slices.DeleteFunc(slices.Clone(p.open.Write), named))
	}
	return out
}

// webHosts are all the hosts that an action is granted, if all are named and
// spoken to over HTTP: a sandbox can hold programs to those, by a proxy.
func webHosts(a policy.Action, grant policy.Grant) []string {
	if slices.ContainsFunc(a.Hosts, func(h policy.Host) bool { return h.Port != 80 && h.Port != 443 }) {
		return nil
	}
	unnamed := len(grant.Hosts)
	for _, c := range a.Commands {
		if c.Network {
			unnamed--
		}
	}
	if unnamed < 0 {
		return nil
	}
	return slices.Compact(slices.Sorted(slices.Values(grant.Hosts)))
}

// wants are what an action needs beyond the sandbox, a line each.
func wants(grant policy.Grant) []string {
	var out []string
	for _, p := range grant.Read {
		out = append(out, "read "+p)
	}
	for _, p := range grant.Write {
		out = append(out, "change "+p)
	}
	if grant.Network {
		line := "the network: while it runs, all of it can reach every host"
		if len(grant.Hosts) > 0 {
			line += ", not only " + strings.Join(slices.Compact(slices.Sorted(slices.Values(grant.Hosts))), ", ")
		}
		out = append(out, line)
	}
	return out
}

// confined is what the record says of the second wall about a call.
func confined(a policy.Action, d bridge.Decision) string {
	if a.Wall == policy.NoWall || d.Verdict != bridge.Allow {
		return ""
	}
	if d.Grant == nil {
		return "confined"
	}
	return "confined, but for: " + strings.Join(wants(policy.Grant{Read: d.Grant.Read, Write: d.Grant.Write, Network: d.Grant.Network}), "; ")
}
