package app

import (
	"context"
	"path/filepath"
	"slices"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/git"
	"github.com/copilot-bridge/copilot-bridge/internal/guard"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/repo"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/sandbox"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace"
)

// Wall finds and tries the sandbox. Nil without an error: it is switched off.
func Wall(ctx context.Context, c *config.Config, environ []string) (*sandbox.Wall, error) {
	switch sandbox.Mode(c.Sandbox) {
	case sandbox.Auto, sandbox.Require:
		return sandbox.Find(ctx, environ)
	case sandbox.Off:
	}
	return nil, nil
}

// raiseWall finds the sandbox. Without one nothing starts that requires it.
func (b *Bridge) raiseWall(ctx context.Context) (err error) {
	b.wall, err = Wall(ctx, b.opts.Config, b.opts.Environ)
	if b.noWall = err; err == nil || b.mayDoWithout(err) {
		return nil
	}
	return required(err)
}

// mayDoWithout says whether what cannot be confined may run all the same: the
// guard is as strict then as it is without a sandbox.
func (b *Bridge) mayDoWithout(err error) bool {
	if sandbox.Mode(b.opts.Config.Sandbox) == sandbox.Require {
		return false
	}
	b.opts.Logger.Info("sandbox.off", "reason", err, "remedy", bridge.AsError(err).Remedy)
	return true
}

func required(err error) error {
	e := *bridge.AsError(err)
	e.Message = "the sandbox is required (COPILOT_BRIDGE_SANDBOX): " + e.Message
	return &e
}

// confinable refuses an agent that starts programs outside of every sandbox,
// where one is required.
func (b *Bridge) confinable(agent string) error {
	if sandbox.Mode(b.opts.Config.Sandbox) != sandbox.Require {
		return nil
	}
	return required(&bridge.Error{Code: bridge.CodeUnsupported, Message: agent + " runs programs of its own, which cannot be confined",
		Remedy: "Set ABP_COPILOT_TRANSPORT=sdk, or sandbox: auto."})
}

// confined is the sandbox for the programs of a workspace; nil where there is
// none.
func (b *Bridge) confined(ctx context.Context, root string, gate bridge.Gate) (workspace.Sandbox, error) {
	g, ok := gate.(bridge.Confiner)
	if b.wall == nil || !ok {
		return nil, nil
	}
	if conf, err := g.Confinement(ctx); conf == nil || err != nil {
		return nil, err
	}
	return &sandbox.Cell{Wall: b.wall, Plan: g.Confinement, Files: watch(root), Withheld: b.opts.Config.Path("withheld")}, nil
}

// guardWall is the sandbox as a guard knows it; nil where there is none. Build
// caches are kept for the directory whose policy counts: worktrees share those
// of their repository.
func (b *Bridge) guardWall(root, rules string) (*guard.Wall, error) {
	if b.wall == nil {
		return nil, nil
	}
	plan := func(_ context.Context, s sandbox.Scope) (bridge.Confinement, error) {
		s.Hidden = append(b.hidden(), s.Hidden...)
		return sandbox.Plan(s, b.opts.Environ, sandbox.Kept(b.opts.Config.Home, rules))
	}
	if _, err := plan(context.Background(), sandbox.Scope{Root: root}); err != nil {
		if b.mayDoWithout(err) {
			return nil, nil
		}
		return nil, required(err)
	}
	if err := sandbox.NoteWorkspace(b.opts.Config.Home, rules); err != nil {
		b.opts.Logger.Debug("cache.note_failed: it stays when the workspace is gone", "error", err)
	}
	c := &sandbox.Cell{Files: watch(root), Withheld: b.opts.Config.Path("withheld")}
	return &guard.Wall{Plan: plan, Watch: c.Watch}, nil
}

// hidden is what no program of a workspace may read, wherever it is.
func (b *Bridge) hidden() []string {
	return slices.Concat([]string{b.opts.Config.Home, b.opts.Config.AuditLogDir}, b.wall.Private())
}

// watch looks after what configures something in a workspace.
func watch(root string) sandbox.Watch {
	names := policy.Combine(policy.Defaults{Root: root})
	return sandbox.Watch{Root: root, Holders: policy.ConfigDirs, Protects: names.Protected, Plain: func() bool {
		r, err := new(repo.Finder).Find(root)
		return err == nil && r != nil && r.Runs(true) == "" && !r.HasHooks()
	}}
}

// confineTerminal puts a command that an ACP agent asks for in the sandbox of
// its session.
func (b *Bridge) confineTerminal(ctx context.Context, spec bridge.SessionSpec, made program.Command, grant *bridge.Confinement) (program.Command, error) {
	root, err := filepath.EvalSymlinks(spec.WorkingDir)
	if err != nil {
		return made, err
	}
	in, err := b.confined(ctx, root, spec.Gate)
	if err != nil || in == nil {
		return made, err
	}
	return in.Wrap(ctx, made, grant)
}

// confineGit is the sandbox of the git that the bridge runs on repositories of
// others. It sees the user's own configuration, whose filters it may run.
func (b *Bridge) confineGit() git.Confine {
	if b.wall == nil {
		return nil
	}
	return func(_ context.Context, made program.Command, write ...string) (program.Command, error) {
		conf, err := sandbox.Plan(sandbox.Scope{Root: write[0], Write: write[1:], Hidden: b.hidden(),
			Read: []string{filepath.Join(b.opts.UserDir, ".gitconfig"), filepath.Join(b.opts.UserDir, ".config", "git")}},
			b.opts.Environ, sandbox.Kept(b.opts.Config.Home, "git"))
		if err != nil {
			return made, err
		}
		conf.Env = nil                                        // the user's own is what counts
		if len(made.Args) > 1 && made.Args[1] == "worktree" { // which runs no filters
			conf.Read = slices.DeleteFunc(conf.Read, func(path string) bool { return filepath.Base(path) == "worktrees" })
		}
		return b.wall.Wrap(made, conf)
	}
}
