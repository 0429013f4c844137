package cli

import (
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/cli/view"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/redact"
	programs "github.com/copilot-bridge/copilot-bridge/internal/program"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

const serversKey = "mcp_servers"

func (p *program) mcpAddCommand() *cobra.Command {
	var env, headers []string
	cmd := p.command(&cobra.Command{
		Use:   "add NAME {URL | -- COMMAND [ARG]...}",
		Short: "Give Copilot's sessions an MCP server",
		Long: `Store an MCP server in config.yaml: a program on standard streams, or a URL. Every agent
session gets it from the next start on, except work orders (abp). The policy decides on
each call of its tools, which are named NAME/TOOL there.

${NAME} in arguments, variables, headers and the URL stands for a variable of the
environment, so that no secret has to be stored. --env NAME is short for
--env NAME='${NAME}'.`,
		Example: `  copilot-bridge mcp add docs https://example.com/mcp
  copilot-bridge mcp add github --env GITHUB_TOKEN -- npx -y @modelcontextprotocol/server-github
  copilot-bridge mcp add issues https://example.com/mcp --header 'Authorization: Bearer ${ISSUES_TOKEN}'`,
		Args: takes(cobra.MinimumNArgs(2), "a name, and a URL or a command"),
	}, func(ctx context.Context, c call) error { return p.addServer(ctx, c, env, headers) })
	f := flagsOf(cmd)
	f.StringArrayVarP(&env, "env", "e", nil, "`NAME[=VALUE]` of a variable for the program; may be repeated")
	f.complete("env", cobra.NoFileCompletions)
	f.StringArrayVarP(&headers, "header", "H", nil, "`'NAME: VALUE'` of an HTTP header; may be repeated")
	f.complete("header", cobra.NoFileCompletions)
	return cmd
}

func (p *program) addServer(ctx context.Context, c call, env, headers []string) error {
	name := c.args[0]
	given := map[string]any{}
	if isURL := regexp.MustCompile(`^https?://`).MatchString(c.args[1]); isURL && len(c.args) > 2 {
		return usage(c.cmd, "a URL takes no arguments; got %s", plural(len(c.args)-2, "argument"))
	} else if isURL {
		given["url"] = c.args[1]
	} else {
		given["command"] = c.args[1]
	}
	if len(c.args) > 2 {
		given["args"] = c.args[2:]
	}
	for _, field := range []struct {
		name, separator string
		list            []string
	}{{"env", "=", env}, {"headers", ":", headers}} {
		values := map[string]string{}
		for _, entry := range field.list {
			key, value, ok := strings.Cut(entry, field.separator)
			key, value = strings.TrimSpace(key), strings.TrimSpace(value)
			switch {
			case !ok && field.name == "env":
				value = "${" + key + "}"
			case !ok:
				return usage(c.cmd, "a header is given as --header 'NAME: VALUE'")
			case !config.IsReference(value) && isSecret(key+field.separator+" "+value):
				return secretArgument(key)
			}
			values[key] = value
		}
		if len(values) > 0 {
			given[field.name] = values
		}
	}
	if isSecret(strings.Join(c.args[1:], " ")) {
		return secretArgument("the command or URL")
	}
	data, err := json.Marshal(given)
	if err != nil {
		return err
	}
	server, err := config.ParseServer(name, data, p.env.Dir, p.env.HomeDir)
	if err != nil {
		return usage(c.cmd, "%s cannot be added: %s", text.Quote(name, 64), err)
	}
	if _, there := c.cfg.MCPServers[name]; there {
		return &bridge.Error{Code: bridge.CodeInvalid, Message: "there is an MCP server " + name + " already", Remedy: "remove it first with `copilot-bridge mcp remove " + name + "`"}
	}
	return p.storeServers(ctx, c.cmd, map[string]config.MCPServer{name: server})
}

// isSecret says whether a text has something that redaction would hide.
func isSecret(s string) bool {
	_, hits := redact.New(redact.Options{}).String(s)
	return hits > 0
}

func secretArgument(what string) error {
	return &bridge.Error{Code: bridge.CodeInvalid, Message: what + " holds a secret: others can see the arguments of a command, and the shell keeps them",
		Remedy: "put the secret into an environment variable and write '${NAME}' instead, in single quotes"}
}

// storeServers writes servers to config.yaml and says what is still missing.
func (p *program) storeServers(ctx context.Context, cmd *cobra.Command, servers map[string]config.MCPServer) error {
	file := ""
	cfg, err := config.Rewrite(ctx, p.loadOptions(cmd), func(path string, old []byte) ([]byte, error) {
		file = path
		return config.WithServers(path, old, servers)
	})
	if err != nil {
		return notWritten(err)
	}
	now := cfg.Servers()
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		p.console.Line("✓ added " + name + " to " + approval.Visible(p.short(file)))
		server, inForce := now[name]
		if !inForce {
			p.console.Warn("it has no effect here: " + cfg.Origin(serversKey).Where + " goes before the file")
			continue
		}
		if len(server.Missing) > 0 {
			p.console.Warn(name + " is left out of sessions until " + strings.Join(server.Missing, " and ") + " is set in the environment")
		}
		if command := server.Command; command != "" {
			if _, err := programs.Find(command, p.env.Environ); err != nil {
				p.console.Warn(command + " was not found; install it, or put its directory on PATH")
			}
		}
	}
	return nil
}

func (p *program) mcpRemoveCommand() *cobra.Command {
	return p.command(&cobra.Command{
		Use:     "remove NAME",
		Aliases: []string{"rm"},
		Short:   "Remove an MCP server from config.yaml",
		Example: "  copilot-bridge mcp remove docs",
		Args:    takes(cobra.ExactArgs(1), "one name"),
		ValidArgsFunction: p.completions(func(_ context.Context, cfg *config.Config) (out []cobra.Completion, _ error) {
			return slices.Sorted(maps.Keys(cfg.MCPServers)), nil
		}),
	}, func(ctx context.Context, c call) error {
		name := c.args[0]
		if _, there := c.cfg.MCPServers[name]; !there {
			err := &bridge.Error{Code: bridge.CodeNotFound, Message: "there is no MCP server " + text.Quote(name, 64), Remedy: "see `copilot-bridge mcp list`"}
			if near := text.Nearest(name, slices.Sorted(maps.Keys(c.cfg.MCPServers))); near != "" {
				err.Remedy = "did you mean " + near + "?"
			}
			return err
		}
		if at := c.cfg.Origin(serversKey); at.Source != config.SourceFile {
			return &bridge.Error{Code: bridge.CodeInvalid, Message: name + " comes from " + at.Where + ", not from config.yaml", Remedy: "change it there"}
		}
		_, err := config.Rewrite(ctx, p.loadOptions(c.cmd), func(path string, old []byte) ([]byte, error) {
			return config.WithoutServer(path, old, name)
		})
		if err == nil {
			p.console.Line("✓ removed " + name)
		}
		return err
	})
}

// listedServer is a line of `mcp list --json`.
type listedServer struct {
	Name string `json:"name"`
	config.MCPServer
	Missing []string `json:"missing,omitempty"` // variables that are not set
}

func (p *program) mcpListCommand() *cobra.Command {
	cmd := p.command(&cobra.Command{
		Use:   "list",
		Short: "List the MCP servers of Copilot's sessions",
		Example: `  copilot-bridge mcp list
  copilot-bridge mcp list --json | jq -r '.[].name'`,
	}, func(_ context.Context, c call) error {
		now := c.cfg.Servers()
		list := []listedServer{}
		rows := [][]string{{"NAME", "COMMAND OR URL", "VARIABLES AND HEADERS"}}
		for _, name := range slices.Sorted(maps.Keys(c.cfg.MCPServers)) {
			s := c.cfg.MCPServers[name]
			list = append(list, listedServer{name, s, now[name].Missing})
			rows = append(rows, []string{name, serverLine(s), serverValues(s, now[name].Missing)})
		}
		if len(list) == 0 && !p.json {
			return p.print("There are no MCP servers yet. Add one with `copilot-bridge mcp add`, or those of other programs with `copilot-bridge mcp import`.\n")
		}
		return p.show(list, view.Table(rows, 0))
	})
	flagsOf(cmd).json("write JSON; values of variables and headers are masked")
	return cmd
}

// serverLine is what a server is, on one line and without secrets.
func serverLine(s config.MCPServer) string {
	line := s.URL
	if s.Command != "" {
		line = strings.Join(append([]string{s.Command}, s.Args...), " ")
	}
	clean, _ := redact.New(redact.Options{}).String(line)
	return view.Fit(approval.Visible(clean), 60)
}

// serverValues names a server's variables and headers. Of their values only
// references are shown.
func serverValues(s config.MCPServer, missing []string) string {
	var out []string
	for _, values := range []map[string]config.Secret{s.Env, s.Headers} {
		for _, name := range slices.Sorted(maps.Keys(values)) {
			value := values[name].String()
			if text := string(values[name]); config.IsReference(text) {
				value = text
			}
			out = append(out, name+"="+value)
		}
	}
	if len(missing) > 0 {
		out = append(out, "(not set: "+strings.Join(missing, ", ")+")")
	}
	return approval.Visible(strings.Join(out, " "))
}
