package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/cli/view"
	"github.com/copilot-bridge/copilot-bridge/internal/clientsettings"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/openclaw/registration"
	"github.com/copilot-bridge/copilot-bridge/internal/serves"
	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
)

type uninstallOptions struct{ all, yes, dryRun bool }

func (p *program) uninstallCommand() *cobra.Command {
	o := &uninstallOptions{}
	cmd := p.command(&cobra.Command{
		Use:   "uninstall",
		Short: "Remove what this program has put on this machine",
		Long: `List what this program has put on this machine, ask, and remove it: running servers, the
service, registrations with OpenClaw, Copilot's runtime, caches and state. Your
configuration, policies, sessions, audit log and runs of orchestrate are kept, unless --all
is given. How the program itself is removed is said at the end.`,
		Example: `  copilot-bridge uninstall --dry-run
  copilot-bridge uninstall
  copilot-bridge uninstall --all --yes`,
	}, func(ctx context.Context, c call) error { return p.uninstall(ctx, c, o) })
	f := flagsOf(cmd)
	f.BoolVar(&o.all, "all", false, "also remove your configuration, policies, sessions, audit log and runs")
	f.BoolVarP(&o.dryRun, "dry-run", "n", false, "show what would be removed, and remove nothing")
	f.yes(&o.yes, "do not ask")
	return cmd
}

// Files in the bridge's home, as patterns. Others are not this program's, and stay.
var (
	machineFiles = []string{"cache", "clients.json*", "config.lock*", "dashboard.key*", "live", "models.json*", "openclaw-plugin", "openclaw-registration.json*", "run", "runtime", "serve.token*", "servers", "serves", "state.json*", "vscode", "windows"}
	userFiles    = []string{"audit", "audit-witness*", "chat-history.jsonl*", "config.draft.yaml", "config.yaml", "copilot", "fleet", "openclaw-backups", "openclaw-device.json*", "patches", "policy*", "runs", "sessions*", "timelines", "trust*", "usage", "withheld", "worktrees*"}
)

// removal is something that uninstall removes.
type removal struct {
	what, name string
	do         func(context.Context) error
}

func (p *program) uninstall(ctx context.Context, c call, o *uninstallOptions) error {
	plan, err := p.removals(ctx, c.cfg)
	if err != nil {
		return err
	}
	kept, err := filesOf(c.cfg.Home, "file", userFiles)
	if err != nil {
		return err
	}
	if o.all {
		plan, kept = append(plan, kept...), nil
	}
	i, err := p.installation(ctx)
	if err != nil {
		return err
	}
	if err := p.print(p.planText(plan, kept)); err != nil {
		return err
	}
	after := "the program itself is " + i.How + "; remove it with: " + i.Remove + "\n"
	if len(plan) == 0 || o.dryRun {
		return p.print(after)
	}
	if !o.yes {
		if err := p.confirm(ctx, c, "uninstall", "Remove all this?", "nothing was removed"); err != nil {
			return err
		}
	}
	var failed error
	for _, r := range plan {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if err := r.do(ctx); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s %s was not removed: %w", r.what, p.short(r.name), err))
		}
	}
	_ = os.Remove(c.cfg.Home) // if nothing is left in it
	if failed != nil {
		return &exitError{code: exitPartly, err: failed}
	}
	return p.print("✓ removed\n" + after)
}

func (p *program) planText(plan, kept []removal) string {
	if len(plan) == 0 {
		return "there is nothing to remove\n"
	}
	rows := make([][]string, 0, len(plan))
	for _, r := range plan {
		rows = append(rows, []string{r.what, p.short(r.name)})
	}
	var b strings.Builder
	b.WriteString("to be removed:\n" + view.Table(rows, 0))
	if len(kept) > 0 {
		var names []string
		for _, r := range kept {
			names = append(names, filepath.Base(r.name))
		}
		b.WriteString("is kept, without --all: " + strings.Join(names, ", ") + " in " + p.short(filepath.Dir(kept[0].name)) + "\n")
	}
	return b.String()
}

// removals are the servers, the service, the registrations and the files, in the
// order in which they must go.
func (p *program) removals(ctx context.Context, cfg *config.Config) (plan []removal, err error) {
	if s, err := p.service(cfg); err == nil && s.installed() {
		plan = append(plan, removal{"service", s.file, func(ctx context.Context) error { return p.serviceUninstall(ctx, cfg, s) }})
	}
	list, err := serves.List(cfg.Home)
	if err != nil {
		return nil, err
	}
	for _, s := range list {
		plan = append(plan, removal{"server", s.URL, func(ctx context.Context) error {
			if !s.Alive() {
				return nil // it was the service's
			}
			return p.stopServers(ctx, cfg, []serves.Serve{s})
		}})
	}
	r := app.Registrar(p.options(cfg), p.waiting)
	state, err := r.State()
	if err != nil {
		return nil, err
	}
	for target, there := range map[registration.Target]bool{registration.Plugin: state.Plugin.Registered, registration.Server: state.Server.Registered && !state.Server.Foreign} {
		if there {
			plan = append(plan, removal{"registration", string(target), func(ctx context.Context) error {
				_, err := r.Unregister(ctx, registration.Request{Target: target, Method: registration.Auto})
				return err
			}})
		}
	}
	clients, err := p.registeredClients(ctx, cfg)
	if err != nil {
		return nil, err
	}
	plan = append(plan, clients...)
	files, err := filesOf(cfg.Home, "file", machineFiles)
	for i, f := range files {
		if filepath.Base(f.name) == "run" { // a runtime without its bridge may still write
			files[i].do = func(ctx context.Context) error {
				if _, err := supervise.Reap(app.Records(cfg)); err != nil {
					return err
				}
				return f.do(ctx)
			}
		}
	}
	return append(plan, files...), err
}

// registeredClients are the clients whose settings have the bridge.
func (p *program) registeredClients(ctx context.Context, cfg *config.Config) (out []removal, err error) {
	r := p.clientRegistrar(cfg)
	if _, err := os.Lstat(r.Record); err != nil {
		return nil, nil //nolint:nilerr // nothing was ever registered
	}
	for _, c := range clientsettings.Clients() {
		found, err := r.Unregister(ctx, c, true)
		if err != nil {
			return nil, err
		}
		if found.Outcome != clientsettings.Absent {
			out = append(out, removal{"registration", found.File, func(ctx context.Context) error {
				_, err := r.Unregister(ctx, c, false)
				return err
			}})
		}
	}
	return out, nil
}

// filesOf lists what is there of the patterns.
func filesOf(home, what string, patterns []string) (out []removal, err error) {
	for _, pattern := range patterns {
		names, err := filepath.Glob(filepath.Join(home, pattern))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			out = append(out, removal{what, name, func(context.Context) error { return os.RemoveAll(name) }})
		}
	}
	return out, nil
}
