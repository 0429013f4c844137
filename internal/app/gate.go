package app

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/answers"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/guard"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/audit"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/paths"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/redact"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/repo"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace"
)

// guardParts are what the guards of all sessions share, made when the first
// of them is needed.
type guardParts struct {
	mu         sync.Mutex
	redactor   *redact.Redactor
	log        *audit.Log
	workspaces map[string]*paths.Workspace
	counts     guard.Counts
}

// workspace returns the workspace at a directory, the same one each time. The
// first time undo is called before: whatever command it is, nothing looks at
// a directory before an interrupted patch of it is undone.
func (p *guardParts) workspace(dir, home string, undo func(dir string)) (*paths.Workspace, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ws := p.workspaces[dir]; ws != nil {
		return ws, nil
	}
	ws, err := paths.New(dir, paths.WithHome(home))
	if err != nil {
		return nil, err
	}
	undo(dir)
	if p.workspaces == nil {
		p.workspaces = map[string]*paths.Workspace{}
	}
	p.workspaces[dir] = ws
	return ws, nil
}

// forget closes a workspace that is about to be removed.
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

// journal is where patches are recorded while they are applied, and where
// originals are saved that could not be put back.
func journal(c *config.Config) string { return c.Path("patches") }

// recoverPatch undoes a patch of a directory that was interrupted.
func (b *Bridge) recoverPatch(dir string) {
	if told := workspace.Recover(context.Background(), dir, journal(b.opts.Config)); told != "" {
		b.tellOf(dir)(told)
	}
}

// tellOf tells a person how an interrupted patch was undone.
func (b *Bridge) tellOf(dir string) func(string) {
	return func(told string) { b.opts.Logger.Warn("patch.interrupted: "+told, "workspace", dir) }
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
	log, err := openAudit(c, userDir, r, time.Duration(c.AuditKeepDays)*24*time.Hour)
	if err != nil {
		return nil, nil, err
	}
	p.redactor, p.log = r, log
	return r, log, nil
}

func openAudit(c *config.Config, userDir string, r *redact.Redactor, keep time.Duration) (*audit.Log, error) {
	witness, err := AuditWitness(c, userDir)
	if err != nil {
		return nil, err
	}
	return audit.Open(c.AuditLogDir, audit.Options{Witness: witness, Keep: keep, Redact: func(v any) any {
		clean, _ := r.Value(v)
		return clean
	}})
}

// PruneAudit deletes the closed segments of the audit log whose entries are
// all from before a time.
func PruneAudit(ctx context.Context, c *config.Config, userDir string, before time.Time) (old audit.Old, err error) {
	log, err := openAudit(c, userDir, redact.New(redact.Options{Secrets: c.Secrets()}), 0)
	if err != nil {
		return old, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	return log.Prune(ctx, before)
}

// Trust is the record of the files that the user trusts, of a configuration.
func Trust(c *config.Config) policy.Trust { return TrustIn(c.Home) }

// TrustIn is that record in a bridge's home.
func TrustIn(home string) policy.Trust { return policy.TrustIn(home) }

// trusts says whether the user has trusted the policy file of a workspace.
func (b *Bridge) trusts(dir string) bool {
	file, trusted, err := policy.LoadTrusted(b.opts.Config.Home, dir)
	return err == nil && file != nil && trusted
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
	// Client is the program that uses the API, in the record; see guard.Options.
	Client string
	Asker  approval.Asker
	// Defaults decide where no rule speaks.
	Defaults policy.Defaults
	// Tools are the caller's own, which run on its side.
	Tools []bridge.ToolSpec
	// Layers are rules of the caller's, besides the policy files.
	Layers []policy.Layer
	// Source names them on record.
	Source string
	// Other is a policy of another machine that must agree to everything.
	Other *policy.Other
	// Protected are more directories that may not be written.
	Protected []string
	// Servers are the MCP servers that the caller brings along.
	Servers []string
	// Lenient: a policy file that cannot be understood denies everything until
	// it is mended, as it does later on, instead of being an error.
	Lenient bool
	// Whole and Reason are those of guard.Options.
	Whole  func(call bridge.ToolCall, result any)
	Reason func(tool string, o policy.Outcome) string
}

// Gate is a guard for one session. A policy file that cannot be understood is
// an error: it might forbid something.
func (b *Bridge) Gate(g Guarding) (*guard.Guard, error) {
	c := b.opts.Config
	g.Servers = b.serverNames(g)
	ws, err := b.guard.workspace(g.Workspace, b.opts.UserDir, b.recoverPatch)
	if err != nil {
		return nil, err
	}
	rules := ws.Root()
	if g.Rules != "" {
		rules = g.Rules
	}
	redactor, log, err := b.guard.shared(c, b.opts.UserDir)
	if err != nil {
		return nil, err
	}
	d := g.Defaults
	d.Root, d.CaseInsensitive = ws.Root(), ws.CaseFolding()
	d.Protected = slices.Concat([]string{c.Home, c.AuditLogDir}, g.Protected, repo.Stores(ws.Root()))
	if below(orchestrate.WorktreesDir(c.Home), ws.Root()) || below(memberDir(c, fleet.RoleWorker), ws.Root()) {
		// A worktree of ours lies in our home. It is all that can be reached
		// from there, so the rest of the home is as safe as ever.
		d.Protected = d.Protected[1:]
	}
	keys, err := unreadableKeys(c, ws.Root())
	if err != nil {
		return nil, err
	}
	live := &policy.Live{Home: c.Home, Root: rules, Defaults: d, Layers: append(keys, g.Layers...), Source: g.Source, Other: g.Other}
	switch now := live.Now(); {
	case now.Err != nil && !g.Lenient:
		return nil, now.Err
	case now.Untrusted != "":
		b.opts.Logger.Warn("policy.untrusted: only its restrictions count until you run `copilot-bridge trust`", "file", now.Untrusted)
	}
	var theirs []string
	for _, t := range g.Tools {
		theirs = append(theirs, t.Name)
	}
	wall, err := b.guardWall(ws.Root(), rules)
	if err != nil {
		return nil, err
	}
	personal := answers.CopilotHome(b.opts.Environ, b.opts.UserDir)
	allowTools := c.ABP.AllowAlwaysTools
	if g.Other != nil {
		allowTools = nil // they would answer the other machine's question
	}
	var watcher guard.Observer
	if b.observer != nil {
		watcher = b.observer
	}
	return guard.New(guard.Options{
		Observer:  watcher,
		Sessions:  []string{c.Path("copilot", "session-state"), filepath.Join(personal, "session-state")},
		Workspace: ws, Wall: wall, Dir: g.Dir, Live: live, Redactor: redactor, Audit: log, Asker: b.inbox(g.Asker), Caller: g.Caller, Door: g.Door, Client: g.Client,
		AskTimeout: c.Engine.ApprovalTimeout, AllowTools: allowTools, MaxRetries: c.MaxRetries, ClientTools: theirs,
		Home: c.Home, Personal: personal, OwnTools: b.memoryTools(g), Servers: g.Servers, Whole: g.Whole, Reason: g.Reason, Counts: &b.guard.counts,
	}), nil
}

// below says whether a path is in a directory, and not that itself.
func below(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel) && rel != "."
}

// TestPolicy says what the policy would say to a tool call of a session in a
// directory, and whether a sandbox would hold it. Nothing is started for it.
func TestPolicy(ctx context.Context, o Options, dir string, call bridge.ToolCall) (out policy.Outcome, confined bool, err error) {
	b := &Bridge{opts: o}
	if err := b.raiseWall(ctx); err != nil {
		return out, false, err
	}
	return b.testPolicy(dir, call)
}

// testPolicy is TestPolicy on a bridge that is used for nothing else.
func (b *Bridge) testPolicy(dir string, call bridge.ToolCall) (out policy.Outcome, confined bool, err error) {
	gate, err := b.Gate(Guarding{Workspace: dir, Door: "cli", Defaults: policy.DefaultsRun()})
	if err != nil {
		return out, false, err
	}
	defer func() { err = errors.Join(err, b.guard.close()) }()
	call.Confined = b.wall != nil
	return gate.Test(call), call.Confined, nil
}

// permitServers judges the MCP servers that a caller brings along, before the
// runtime starts or reaches any of them. The user's policy and the workspace's
// decide; rules of the caller's own have no say, and silence is no consent,
// whatever it means for the caller's other work.
func (b *Bridge) permitServers(ctx context.Context, g Guarding, servers map[string]bridge.MCPServer) error {
	if len(servers) == 0 {
		return nil
	}
	var denied policy.Outcome
	g.Layers, g.Source, g.Servers = nil, "", nil
	g.Reason = func(_ string, o policy.Outcome) string { denied = o; return "" }
	g.Defaults.Verdicts = maps.Clone(g.Defaults.Verdicts)
	g.Defaults.Verdicts[policy.KindShell], g.Defaults.Verdicts[policy.KindNetwork] = policy.Ask, policy.Ask
	gate, err := b.Gate(g)
	if err != nil {
		return err
	}
	return gate.PermitServers(ctx, g.Workspace, servers, &denied, b.opts.Config.Path(policy.UserFile))
}
