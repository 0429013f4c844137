package cli

import (
	"cmp"
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/cli/view"
	"github.com/copilot-bridge/copilot-bridge/internal/clientsettings"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/launch"
)

// clientCommands are those of register, or of unregister, for the clients whose
// settings are a file.
func (p *program) clientCommands(verb string) (out []*cobra.Command) {
	for _, client := range clientsettings.Clients() {
		dryRun := false
		short, long := "Write to the settings of "+client.Title+" how it reaches the bridge",
			"Write to the settings of "+client.Title+" how it reaches the bridge. The rest of the file stays as it is,\nand no token is written: clients take it from COPILOT_BRIDGE_TOKEN."
		if verb == "unregister" {
			short, long = "Take the bridge out of the settings of "+client.Title, "Take the bridge out of the settings of "+client.Title+". The file becomes what it was; what has been changed\nsince is left alone."
		}
		cmd := p.command(&cobra.Command{Use: client.Name, Short: short, Long: long,
			Example: "  copilot-bridge " + verb + " " + client.Name + "\n  copilot-bridge " + verb + " " + client.Name + " --dry-run",
		}, func(ctx context.Context, c call) error { return p.changeClient(ctx, c.cfg, verb, client, dryRun) })
		f := flagsOf(cmd)
		f.BoolVar(&dryRun, "dry-run", false, "show what would change, and change nothing")
		f.json("write JSON")
		out = append(out, cmd)
	}
	return out
}

func (p *program) changeClient(ctx context.Context, cfg *config.Config, verb string, client clientsettings.Client, dryRun bool) error {
	r := p.clientRegistrar(cfg)
	var result clientsettings.Result
	err := p.requireExecutable()
	switch {
	case err != nil:
	case verb == "unregister":
		result, err = r.Unregister(ctx, client, dryRun)
	default:
		result, err = r.Register(ctx, client, p.clientBridge(ctx, cfg), dryRun)
	}
	if err != nil {
		return err
	}
	var b strings.Builder
	file := p.short(result.File)
	switch {
	case result.Outcome == clientsettings.Absent:
		writeln(&b, "✓ "+client.Title+" does not have the bridge; nothing was changed")
	case len(result.Lines) == 0:
		writeln(&b, "✓ nothing has to be changed in "+file)
	case dryRun:
		writeln(&b, "This would be changed in "+file+", and was not:")
		for _, l := range result.Lines {
			writeln(&b, "  "+view.Harmless(l))
		}
	case verb == "unregister":
		writeln(&b, "✓ the bridge was taken out of "+file)
	default:
		writeln(&b, "✓ "+client.Title+" has the bridge now, in "+file)
		writeln(&b, "→ "+client.Next)
	}
	return p.show(struct {
		Type string `json:"type"`
		clientsettings.Result
	}{"registration", result}, b.String())
}

// clientBridge is what clients are told of the bridge: where serve is configured to
// listen and, if one runs, a model that it has.
func (p *program) clientBridge(ctx context.Context, cfg *config.Config) clientsettings.Bridge {
	b := clientsettings.Bridge{Token: cfg.Serve.Token != "", Program: p.env.Executable, Model: cmp.Or(cfg.BYOK.Model, cfg.Model)}
	urls := app.ServeURLs(cfg)
	if len(urls) > 0 {
		b.URL = urls[0]
	}
	if at, _, ok := launch.Running(ctx, urls, string(cfg.Serve.Token)); ok {
		b.URL = at.URL
		if m, err := at.Model(ctx, launch.Client{}, "", b.Model); err == nil {
			b.Model = m.ID
		}
	}
	return b
}

func (p *program) clientRegistrar(cfg *config.Config) clientsettings.Registrar {
	return clientsettings.Registrar{Record: cfg.Path("clients.json"), Places: clientsettings.Places{Home: p.env.HomeDir, Env: p.env.get}}
}
