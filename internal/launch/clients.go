// Package launch knows the coding agents that `copilot-bridge launch` starts:
// which program each one is, how it is installed, and which variables, arguments
// or files make it use a bridge. It also finds a bridge that serves and the
// model to use. internal/cli starts the program.
package launch

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// Client is a coding agent.
type Client struct {
	Name    string // as it is given to launch, and the name of the program
	Title   string
	Install string // the command that installs it

	prefers string // how the names of the models begin that it works best with
	setUp   func(s *Setup, at Server, m Model)
}

// Setup is what makes a client use a bridge.
type Setup struct {
	Args  []string // before the user's own
	Set   []Variable
	Unset []string // variables that would lead the client elsewhere
	// File, if there is one, is written to a temporary directory; the variable
	// FileVariable names it.
	File, FileVariable string
}

// Variable is an environment variable.
type Variable struct {
	Name, Value string
	Secret      bool // the value is the token
}

func (s *Setup) set(name, value string) { s.Set = append(s.Set, Variable{Name: name, Value: value}) }

// key sets a variable to the token, or to anything where none is needed: most
// clients insist on a key.
func (s *Setup) key(name string, at Server) {
	v := Variable{Name: name, Value: at.Token, Secret: true}
	if v.Value == "" {
		v.Value, v.Secret = "any", false
	}
	s.Set = append(s.Set, v)
}

// SetUp makes the client use a model of a bridge.
func (c Client) SetUp(at Server, m Model) Setup {
	var s Setup
	c.setUp(&s, at, m)
	return s
}

// tokenVariable is where Codex and OpenCode look for the token.
const tokenVariable = "COPILOT_BRIDGE_TOKEN"

// Clients returns all of them, those that most people use first.
func Clients() []Client {
	return []Client{
		{Name: "claude", Title: "Claude Code", Install: "npm install -g @anthropic-ai/claude-code", prefers: "claude-", setUp: claude},
		{Name: "codex", Title: "Codex", Install: "npm install -g @openai/codex", prefers: "gpt-", setUp: codex},
		{Name: "opencode", Title: "OpenCode", Install: "npm install -g opencode-ai", setUp: opencode},
		{Name: "qwen", Title: "Qwen Code", Install: "npm install -g @qwen-code/qwen-code", setUp: qwen},
		{Name: "cline", Title: "Cline", Install: "npm install -g cline", setUp: cline},
	}
}

// Find returns the client with a name.
func Find(name string) (Client, error) {
	all := Clients()
	if i := slices.IndexFunc(all, func(c Client) bool { return c.Name == name }); i >= 0 {
		return all[i], nil
	}
	var names []string
	for _, c := range all {
		names = append(names, c.Name)
	}
	e := &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("there is no client %.64q", name), Remedy: "the clients are " + strings.Join(names, ", ")}
	if near := text.Nearest(name, names); near != "" {
		e.Remedy = "did you mean " + near + "? " + e.Remedy
	}
	return Client{}, e
}

func claude(s *Setup, at Server, m Model) {
	s.set("ANTHROPIC_BASE_URL", at.URL)
	s.key("ANTHROPIC_AUTH_TOKEN", at)
	// The second model is for titles and other small tasks.
	s.set("ANTHROPIC_MODEL", m.ID)
	s.set("ANTHROPIC_DEFAULT_HAIKU_MODEL", m.ID)
	if m.ContextLength > 0 {
		s.set("CLAUDE_CODE_MAX_CONTEXT_TOKENS", strconv.Itoa(m.ContextLength))
	}
	s.set("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
	s.Unset = []string{"ANTHROPIC_API_KEY", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"}
}

func codex(s *Setup, at Server, m Model) {
	provider := "{name='Copilot Bridge',base_url='" + at.URL + "/v1',wire_api='responses'"
	if at.Token != "" {
		provider += ",env_key='" + tokenVariable + "'"
		s.key(tokenVariable, at)
	}
	s.Args = []string{"-c", "model_provider=copilot-bridge", "-c", "model_providers.copilot-bridge=" + provider + "}", "-c", "model=" + m.ID}
	if m.ContextLength > 0 {
		s.Args = append(s.Args, "-c", "model_context_window="+strconv.Itoa(m.ContextLength))
	}
}

func opencode(s *Setup, at Server, m Model) {
	limit := map[string]any{}
	if m.ContextLength > 0 && m.Output() > 0 { // it wants both
		limit["limit"] = map[string]int{"context": m.ContextLength, "output": m.Output()}
	}
	s.key(tokenVariable, at)
	s.set("OPENCODE_CONFIG_CONTENT", marshal(map[string]any{
		"model": "copilot-bridge/" + m.ID, "small_model": "copilot-bridge/" + m.ID,
		"provider": map[string]any{"copilot-bridge": map[string]any{
			"npm": "@ai-sdk/openai-compatible", "name": "Copilot Bridge",
			"options": map[string]string{"baseURL": at.URL + "/v1", "apiKey": "{env:" + tokenVariable + "}"},
			"models":  map[string]any{m.ID: limit},
		}},
	}))
}

func qwen(s *Setup, at Server, m Model) {
	s.Args = []string{"--auth-type", "openai"}
	s.set("OPENAI_BASE_URL", at.URL+"/v1")
	s.key("OPENAI_API_KEY", at)
	s.set("OPENAI_MODEL", m.ID)
}

// cline gets its provider from a file; the rest of its settings stay the user's.
// Without the local backend it would leave a daemon behind.
func cline(s *Setup, at Server, m Model) {
	s.set("CLINE_SESSION_BACKEND_MODE", "local")
	s.key("OPENAI_API_KEY", at)
	s.FileVariable = "CLINE_PROVIDER_SETTINGS_PATH"
	s.File = marshal(map[string]any{
		"version": 1, "lastUsedProvider": "openai-compatible", "modes": map[string]any{},
		"providers": map[string]any{"openai-compatible": map[string]any{
			"settings":  map[string]any{"provider": "openai-compatible", "model": m.ID, "baseUrl": at.URL + "/v1"},
			"updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual",
		}},
	})
}

// marshal is JSON of maps and strings, which cannot fail.
func marshal(v any) string {
	data, _ := json.Marshal(v)
	return string(data)
}
