package app

import (
	"errors"
	"path/filepath"
	"slices"
	"sync"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/guard"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/audit"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/paths"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/redact"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/repo"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
)

// guardParts are what the guards of all sessions share, made when the first
// of them is needed.
type guardParts struct {
	mu         sync.Mutex
	redactor   *redact.Redactor
	log        *audit.Log
	workspaces map[string]*paths.Workspace
}

// workspace returns the workspace at a directory, the same one each time.
func (p *guardParts) workspace(dir, home string) (*paths.Workspace, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ws := p.workspaces[dir]; ws != nil {
		return ws, nil
	}
	ws, err := paths.New(dir, paths.WithHome(home))
	if err != nil {
		return nil, err
	}
	if p.workspaces == nil {
		p.workspaces = map[string]*paths.Workspace{}
	}
	p.workspaces[dir] = ws
	return ws, nil
}

// forget lets go of a workspace that is about to be removed.
func (p *guardParts) forget(dir string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	ws := p.workspaces[dir]
	if ws == nil {
		return nil
	}
	delete(p.workspaces, dir)
	return ws.Close()
}

func (p *guardParts) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, w := range p.workspaces {
		errs = append(errs, w.Close())
	}
	if p.log != nil {
		errs = append(errs, p.log.Close())
	}
	p.workspaces, p.log = nil, nil
	return errors.Join(errs...)
}

// AuditWitness is the file that knows how far the audit log has come. It lies
// in the bridge's home or, where that is inside the log's own directory, with
// the user's other state.
func AuditWitness(c *config.Config, userDir string) (string, error) {
	state := c.Home
	if rel, err := filepath.Rel(c.AuditLogDir, c.Home); err == nil && filepath.IsLocal(rel) {
		state = filepath.Join(userDir, ".local", "state", "copilot-bridge")
	}
	return audit.WitnessFile(state, c.AuditLogDir)
}

func (p *guardParts) shared(c *config.Config, userDir string) (*redact.Redactor, *audit.Log, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.log != nil {
		return p.redactor, p.log, nil
	}
	r := redact.New(redact.Options{Secrets: c.Secrets()})
	witness, err := AuditWitness(c, userDir)
	if err != nil {
		return nil, nil, err
	}
	log, err := audit.Open(c.AuditLogDir, audit.Options{Witness: witness, Redact: func(v any) any {
		clean, _ := r.Value(v)
		return clean
	}})
	if err != nil {
		return nil, nil, err
	}
	p.redactor, p.log = r, log
	return r, log, nil
}

// Trust is the record of the files that the user trusts, of a configuration.
func Trust(c *config.Config) policy.Trust { return TrustIn(c.Home) }

// TrustIn is that record in a bridge's home.
func TrustIn(home string) policy.Trust {
	return policy.Trust{Path: filepath.Join(home, policy.TrustFile)}
}

// trusts says whether the user has trusted the policy file of a workspace.
func (b *Bridge) trusts(dir string) bool {
	file, err := policy.LoadWorkspace(dir)
	if err != nil || file == nil {
		return false
	}
	trusted, err := Trust(b.opts.Config).Trusted(file.Path, file.Data)
	return err == nil && trusted
}

// Guarding says for whom a guard stands.
type Guarding struct {
	Workspace string
	// Dir is the directory of the workspace in which the session works, absolute
	// and with links followed; "" for the workspace itself. What may be touched
	// stays the same.
	Dir string
	// Rules is the directory whose policy file counts, if it is not the
	// workspace: a worktree is a copy, and trust is given to the original.
	Rules  string
	Door   string
	Caller string // in questions; "" for Copilot
	Asker  approval.Asker
	// Defaults decide where no rule speaks.
	Defaults policy.Defaults
	// Tools are the caller's own, which run on its side.
	Tools []bridge.ToolSpec
	// Layers are rules of the caller's, besides the policy files.
	Layers []policy.Layer
	// Source names them on record.
	Source string
	// Protected are more directories that nobody may write.
	Protected []string
	// Servers are the session's MCP servers.
	Servers []string
	// Whole and Reason are those of guard.Options.
	Whole  func(call bridge.ToolCall, result any)
	Reason func(tool string, o policy.Outcome) string
}

// Gate is a guard for one session. A policy file that cannot be understood is
// an error: it might forbid something.
func (b *Bridge) Gate(g Guarding) (bridge.Gate, error) {
	c := b.opts.Config
	ws, err := b.guard.workspace(g.Workspace, b.opts.UserDir)
	if err != nil {
		return nil, err
	}
	rules := ws.Root()
	if g.Rules != "" {
		rules = g.Rules
	}
	layers, sources, err := b.layers(rules)
	if err != nil {
		return nil, err
	}
	redactor, log, err := b.guard.shared(c, b.opts.UserDir)
	if err != nil {
		return nil, err
	}
	d := g.Defaults
	d.Root, d.CaseInsensitive = ws.Root(), ws.CaseFolding()
	d.Protected = slices.Concat([]string{c.Home, c.AuditLogDir}, g.Protected, repo.Stores(ws.Root()))
	if rel, err := filepath.Rel(orchestrate.WorktreesDir(c.Home), ws.Root()); err == nil && filepath.IsLocal(rel) && rel != "." {
		// A worktree of ours lies in our home. It is all that can be reached
		// from there, so the rest of the home is as safe as ever.
		d.Protected = d.Protected[1:]
	}
	if len(g.Layers) > 0 {
		layers, sources = append(layers, g.Layers...), append(sources, g.Source)
	}
	var theirs []string
	for _, t := range g.Tools {
		theirs = append(theirs, t.Name)
	}
	wall, err := b.guardWall(ws.Root(), rules)
	if err != nil {
		return nil, err
	}
	return guard.New(guard.Options{
		Workspace: ws, Wall: wall, Dir: g.Dir, Policy: policy.Combine(d, layers...), Redactor: redactor, Audit: log, Asker: g.Asker, Caller: g.Caller, Door: g.Door, Sources: sources,
		AskTimeout: c.Engine.ApprovalTimeout, AllowTools: c.ABP.AllowAlwaysTools, MaxRetries: c.MaxRetries, ClientTools: theirs,
		Home: c.Home, Personal: b.copilotHome(), OwnTools: b.memoryTools(g), Servers: g.Servers, Whole: g.Whole, Reason: g.Reason,
	}), nil
}

// layers are the policy files in force, and what to call them on record: the
// user's own, and the workspace's, of which only the restrictions count until
// the user has trusted it.
func (b *Bridge) layers(root string) (out []policy.Layer, sources []string, err error) {
	c := b.opts.Config
	user, err := policy.LoadUser(c.Home)
	if err != nil {
		return nil, nil, err
	}
	if user != nil {
		out, sources = append(out, user.Layer(true)), append(sources, user.Path)
	}
	local, err := policy.LoadWorkspace(root)
	if err != nil || local == nil {
		return out, sources, err
	}
	trusted, err := Trust(c).Trusted(local.Path, local.Data)
	if err != nil {
		return nil, nil, err
	}
	source := local.Path
	if !trusted {
		source += " (not trusted: restrictions only)"
		b.opts.Logger.Warn("only the restrictions of this workspace's policy count until you trust it: copilot-bridge trust", "file", local.Path)
	}
	return append(out, local.Layer(trusted)), append(sources, source), nil
}
