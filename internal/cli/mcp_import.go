package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/mcpimport"
)

func (p *program) mcpImportCommand() *cobra.Command {
	yes := false
	cmd := p.command(&cobra.Command{
		Use:   "import",
		Short: "Add the MCP servers that Claude Code, VS Code and Cursor know",
		Long: `Show the MCP servers of Claude Code (~/.claude.json, .mcp.json), VS Code (its mcp.json, and
.vscode/mcp.json) and Cursor (~/.cursor/mcp.json, .cursor/mcp.json), and add them to
config.yaml if you say so. Servers that you have already stay as they are.

References to variables stay references; what VS Code asks for becomes one. A secret that
is also in the environment is stored as a reference to it.`,
		Example: `  copilot-bridge mcp import
  copilot-bridge mcp import --yes`,
	}, func(ctx context.Context, c call) error { return p.importServers(ctx, c, yes) })
	flagsOf(cmd).yes(&yes, "add them without asking")
	return cmd
}

func (p *program) importServers(ctx context.Context, c call, yes bool) error {
	place := mcpimport.Place{Dir: p.env.Dir, Home: p.env.HomeDir, Env: p.env.get}
	files, err := mcpimport.Find(place)
	if err != nil {
		return &bridge.Error{Code: bridge.CodeInvalid, Message: err.Error(), Remedy: "correct or move that file, and try again"}
	}
	if len(files) == 0 {
		var looked []string
		for _, f := range place.Files() {
			looked = append(looked, p.short(f[1]))
		}
		return p.print("No MCP servers were found. These files were looked for: " + strings.Join(looked, ", ") + ".\n")
	}
	add, notes := map[string]config.MCPServer{}, []string{}
	for _, f := range files {
		p.console.Line(f.Program + ", " + approval.Visible(p.short(f.File)) + ":")
		for _, name := range slices.Sorted(maps.Keys(f.Servers)) {
			s := f.Servers[name]
			if _, known := c.cfg.MCPServers[name]; known {
				p.console.Line("  " + name + ": you have a server of that name; it stays")
				continue
			}
			if _, twice := add[name]; twice {
				p.console.Line("  " + name + ": the one above is taken")
				continue
			}
			add[name] = s
			line := "  + " + name + ": " + serverLine(s)
			if values := serverValues(s, nil); values != "" {
				line += "  " + values
			}
			p.console.Line(line)
			for _, values := range []map[string]config.Secret{s.Env, s.Headers} {
				for _, key := range slices.Sorted(maps.Keys(values)) {
					if value := string(values[key]); !config.IsReference(value) && isSecret(key+"="+value) {
						notes = append(notes, fmt.Sprintf("the secret %s of %s is stored as it is, in a file that only you can read", key, name))
					}
				}
			}
		}
		for _, name := range slices.Sorted(maps.Keys(f.Refused)) {
			p.console.Line("  - " + approval.Visible(name) + " cannot be added: " + approval.Visible(f.Refused[name]))
		}
		notes = append(notes, f.Notes...)
	}
	if len(add) == 0 {
		return p.print("There is nothing to add.\n")
	}
	for _, note := range notes {
		p.console.Warn(note)
	}
	if !yes {
		if err := p.confirm(ctx, c, "mcp import", "Add "+plural(len(add), "server")+"?", "nothing was added"); err != nil {
			return err
		}
	}
	return p.storeServers(ctx, c.cmd, add)
}
