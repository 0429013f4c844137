// Package clientsettings writes into the settings of coding agents and editors
// how they reach the bridge, and takes that out again exactly. A record in the
// bridge's home knows what the files were. internal/cli calls it for `register`
// and `unregister`.
package clientsettings

import (
	"cmp"
	"path/filepath"
)

// Bridge is what the settings say.
type Bridge struct {
	URL     string // of serve
	Token   bool   // clients need the one in COPILOT_BRIDGE_TOKEN
	Program string // the path of this program
	Model   string // "" if it is not known
}

// Client is a program with settings.
type Client struct {
	Name, Title string
	// Next is what the person has to do for it to work.
	Next string

	file    func(p Places) string
	members func(b Bridge) []member          // of settings in JSON
	codex   func(b Bridge) (top, end string) // of settings in TOML
}

// Places are where settings are looked for.
type Places struct {
	Home string                   // the user's
	Env  func(name string) string // a variable
}

// member is a value in a JSON document.
type member struct {
	path  []string
	value any
}

const (
	startServe = "start `copilot-bridge serve`; it has to run while you work"
	withToken  = "COPILOT_BRIDGE_TOKEN"
)

// Clients returns all of them.
func Clients() []Client {
	return []Client{
		{Name: "claude-code", Title: "Claude Code", Next: startServe, file: claudeFile, members: claude},
		{Name: "codex", Title: "Codex", Next: startServe, file: codexFile, codex: codex},
		{Name: "opencode", Title: "OpenCode", Next: startServe, file: opencodeFile, members: opencode},
		{Name: "zed", Title: "Zed", Next: "choose Copilot Bridge for a new thread in the agent panel", file: zedFile, members: zed},
		{Name: "cursor", Title: "Cursor", Next: "switch the MCP server copilot on in Cursor's settings", file: cursorFile, members: cursor},
	}
}

// in is a file below the directory of a variable or, if that is not set, of the home.
func (p Places) in(variable, usual, file string) string {
	if dir := p.Env(variable); dir != "" {
		return filepath.Join(dir, file)
	}
	return filepath.Join(p.Home, usual, file)
}

func claudeFile(p Places) string { return p.in("CLAUDE_CONFIG_DIR", ".claude", "settings.json") }

// claude needs a helper for the token, which must not be in the file.
func claude(b Bridge) []member {
	out := []member{{[]string{"env", "ANTHROPIC_BASE_URL"}, b.URL}, {[]string{"env", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"}, "1"}}
	if b.Token {
		return append(out, member{[]string{"apiKeyHelper"}, "printenv " + withToken})
	}
	return append(out, member{[]string{"env", "ANTHROPIC_AUTH_TOKEN"}, "any"})
}

func codexFile(p Places) string { return p.in("CODEX_HOME", ".codex", "config.toml") }

func codex(b Bridge) (top, end string) {
	end = "[model_providers.copilot-bridge]\nname = \"Copilot Bridge\"\nbase_url = \"" + b.URL + "/v1\"\nwire_api = \"responses\"\n"
	if b.Token {
		end += "env_key = \"" + withToken + "\"\n"
	}
	top = "model_provider = \"copilot-bridge\"\n"
	if b.Model != "" { // otherwise its own names mean the default model
		top = "model = \"" + b.Model + "\"\n" + top
	}
	return top, end
}

func opencodeFile(p Places) string {
	return p.in("XDG_CONFIG_HOME", ".config", filepath.Join("opencode", "opencode.json"))
}

func opencode(b Bridge) []member {
	key := "any"
	if b.Token {
		key = "{env:" + withToken + "}"
	}
	model := cmp.Or(b.Model, "default") // an unknown name is the default model
	return []member{
		{[]string{"model"}, "copilot-bridge/" + model},
		{[]string{"provider", "copilot-bridge"}, map[string]any{
			"npm": "@ai-sdk/openai-compatible", "name": "Copilot Bridge",
			"options": map[string]any{"baseURL": b.URL + "/v1", "apiKey": key}, "models": map[string]any{model: map[string]any{}},
		}},
	}
}

func zedFile(p Places) string {
	return p.in("XDG_CONFIG_HOME", ".config", filepath.Join("zed", "settings.json"))
}

func zed(b Bridge) []member {
	return []member{{[]string{"agent_servers", "Copilot Bridge"}, map[string]any{"type": "custom", "command": b.Program, "args": []any{"acp"}, "env": map[string]any{}}}}
}

func cursorFile(p Places) string { return filepath.Join(p.Home, ".cursor", "mcp.json") }

func cursor(b Bridge) []member {
	return []member{{[]string{"mcpServers", "copilot"}, map[string]any{"command": b.Program, "args": []any{"mcp"}}}}
}
