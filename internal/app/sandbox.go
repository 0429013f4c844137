package app

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
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
	if b.wall, err = Wall(ctx, b.opts.Config, b.opts.Environ); err == nil || b.mayDoWithout(err) {
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
	b.opts.Logger.Info("programs are not confined", "reason", err, "remedy", bridge.AsError(err).Remedy)
	return true
}

func required(err error) error {
	e := *bridge.AsError(err)
	e.Message = "the sandbox is required (COPILOT_BRIDGE_SANDBOX): " + e.Message
	return &e
}

// cell is the sandbox of a workspace's programs.
type cell struct {
	wall     *sandbox.Wall
	plan     func(context.Context) (*bridge.Confinement, error)
	watch    sandbox.Watch
	withheld string
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
	return &cell{wall: b.wall, plan: g.Confinement, withheld: b.opts.Config.Path("withheld"), watch: watch(root)}, nil
}

// guardWall is the sandbox as a guard knows it; nil where there is none. Build
// caches are kept for the directory whose policy counts: worktrees share those
// of their repository.
func (b *Bridge) guardWall(root, rules string) (*guard.Wall, error) {
	if b.wall == nil {
		return nil, nil
	}
	plan := func(_ context.Context, s guard.Scope) (bridge.Confinement, error) {
		home := b.opts.Config.Home
		hidden := slices.Concat(s.Hidden, []string{home, b.opts.Config.AuditLogDir}, b.wall.Private())
		return sandbox.Plan(sandbox.Scope{Root: s.Root, ReadOnly: s.ReadOnly, Hidden: hidden, Protected: s.Protected}, b.opts.Environ, sandbox.Kept(home, rules))
	}
	if _, err := plan(context.Background(), guard.Scope{Root: root}); err != nil {
		if b.mayDoWithout(err) {
			return nil, nil
		}
		return nil, required(err)
	}
	c := &cell{withheld: b.opts.Config.Path("withheld"), watch: watch(root)}
	return &guard.Wall{Plan: plan, Watch: c.Watch}, nil
}

// watch looks after what configures something in a workspace.
func watch(root string) sandbox.Watch {
	names := policy.Combine(policy.Defaults{Root: root})
	return sandbox.Watch{Root: root, Protects: names.Protected, Plain: func() bool {
		r, err := new(repo.Finder).Find(root)
		return err == nil && r != nil && r.Runs(true) == "" && !r.HasHooks()
	}}
}

// Wrap puts a command in the sandbox.
func (c *cell) Wrap(ctx context.Context, made program.Command, grant *bridge.Confinement) (program.Command, error) {
	conf, err := c.plan(ctx)
	switch {
	case err != nil:
		return made, err
	case conf == nil: // the guard judged it as one that is confined
		return made, &bridge.Error{Code: bridge.CodeUnavailable, Message: "the sandbox is gone", Remedy: "Restart copilot-bridge."}
	case grant != nil:
		wider := conf.With(*grant)
		conf = &wider
	}
	return c.wall.Wrap(made, *conf)
}

// Watch lists the configuration files of the workspace. The function it returns
// moves away those that were added since.
func (c *cell) Watch() func() (string, error) {
	before := c.watch.Now()
	return func() (string, error) {
		moved, err := c.watch.Withhold(before, c.withheld)
		if len(moved) == 0 {
			return "", err
		}
		return fmt.Sprintf("copilot-bridge: %s would configure agents, editors or git, and nobody agreed to that. It was moved to %s.",
			strings.Join(moved, ", "), c.withheld), err
	}
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
		conf, err := sandbox.Plan(sandbox.Scope{Root: write[0], Write: write[1:],
			Read: []string{filepath.Join(b.opts.UserDir, ".gitconfig"), filepath.Join(b.opts.UserDir, ".config", "git")}},
			b.opts.Environ, sandbox.Kept(b.opts.Config.Home, "git"))
		if err != nil {
			return made, err
		}
		conf.Env = nil // the user's own is what counts
		return b.wall.Wrap(made, conf)
	}
}
