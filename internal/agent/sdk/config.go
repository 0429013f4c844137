package sdk

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"time"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/environ"
	common "github.com/copilot-bridge/copilot-bridge/internal/agent/session"
)

const clientName = "copilot-bridge"

// unlimited is more tokens than any request can have.
const unlimited = 1 << 30

// create opens a new session in the runtime.
func (s *session) create(ctx context.Context) error {
	if err := s.prepareSandbox(ctx); err != nil {
		return err
	}
	id := cmp.Or(s.Spec.ID, common.NewID())
	c, err := s.config()
	if err == nil {
		c.SessionID = id
		s.noteOpen(id)
		err = s.proc.call(func(client *copilot.Client) error { return s.attached(client.CreateSession(ctx, c)) })
	}
	if err != nil {
		if _, statErr := os.Lstat(stateOf(s.proc.home, id)); errors.Is(statErr, fs.ErrNotExist) {
			err = errors.Join(err, s.host.agent.notes.remove(id))
		}
		return errors.Join(err, s.removeSandboxDir())
	}
	if err := s.applySandbox(ctx); err != nil {
		return errors.Join(err, s.Remove(ctx))
	}
	if s.stored() {
		return s.host.agent.claim(ctx, s.ID())
	}
	return nil
}

// resume attaches to a stored session under the same configuration.
func (s *session) resume(ctx context.Context, id string) error {
	if err := s.prepareSandbox(ctx); err != nil {
		return err
	}
	c, err := s.config()
	if err == nil && s.stored() {
		err = s.host.agent.claim(ctx, id)
	}
	if err != nil {
		return errors.Join(err, s.removeSandboxDir())
	}
	s.mayHaveEarlier = true
	s.noteOpen(id)
	err = s.attach(ctx, id, resumed(c))
	if err == nil {
		// The runtime does not store the sandbox with the session.
		if err = s.applySandbox(ctx); err == nil {
			return nil
		}
		return errors.Join(err, s.Close(ctx))
	}
	if s.stored() {
		err = errors.Join(err, s.host.agent.release(id))
	}
	return errors.Join(err, s.removeSandboxDir())
}

// attach resumes a session that no other program has open: two runtimes would
// each go on from what it knows. The claim keeps bridges apart, and this all
// others, such as Copilot's own program in the same home.
func (s *session) attach(ctx context.Context, id string, c *copilot.ResumeSessionConfig) error {
	for began := time.Now(); ; {
		err := s.proc.call(func(client *copilot.Client) error { return s.attached(client.ResumeSession(ctx, id, c)) })
		if err != nil || s.Spec.Shared || !s.inUse(ctx) {
			return err
		}
		s.proc.detach(s)()
		if err := s.sdk.Disconnect(); err != nil {
			return err
		}
		// A runtime that was ended a moment ago may still be there.
		if time.Since(began) > inUseWithin {
			return &bridge.Error{Code: bridge.CodeConflict, Message: "session " + id + " is open in another program",
				Remedy: "close it there, or start a new session"}
		}
		select {
		case <-time.After(inUseWithin / 8):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// inUse says whether another runtime has the session that was just resumed.
// The runtime tells so in an event that comes with its answer.
func (s *session) inUse(ctx context.Context) bool {
	late := time.NewTimer(inUseWithin)
	defer late.Stop()
	select {
	case used := <-s.resumed:
		return used
	case <-late.C:
	case <-ctx.Done():
	}
	return false
}

// stored says that the session may be resumed later. Chats are never resumed,
// and a session opened for reading belongs to another process.
func (s *session) stored() bool { return s.Spec.Profile == bridge.ProfileAgent && !s.Spec.Shared }

func (s *session) attached(sdk *copilot.Session, err error) error {
	if err == nil {
		s.sdk = sdk
		s.SetID(sdk.SessionID)
		s.proc.attach(s)
	}
	return err
}

// resumed carries over every field that both of the SDK's configurations have;
// they share no type.
func resumed(c *copilot.SessionConfig) *copilot.ResumeSessionConfig {
	out := &copilot.ResumeSessionConfig{}
	from, to := reflect.ValueOf(c).Elem(), reflect.ValueOf(out).Elem()
	for i := range from.NumField() {
		if f := to.FieldByName(from.Type().Field(i).Name); f.IsValid() {
			f.Set(from.Field(i))
		}
	}
	return out
}

func (s *session) config() (*copilot.SessionConfig, error) {
	spec := s.Spec
	c := &copilot.SessionConfig{
		SessionID:           spec.ID,
		ClientName:          clientName,
		Model:               spec.Model,
		ReasoningEffort:     spec.ReasoningEffort,
		Streaming:           copilot.Bool(true),
		WorkingDirectory:    spec.WorkingDir,
		AvailableTools:      spec.AvailableTools,
		ExcludedTools:       spec.ExcludedTools,
		OnPermissionRequest: s.permit,
		OnEvent:             s.onEvent,
	}
	if spec.Gate != nil {
		c.Hooks = s.reach.hooks()
	}
	if spec.Profile == bridge.ProfileChat && c.AvailableTools == nil {
		c.AvailableTools = []string{}
		if len(spec.Tools) > 0 {
			c.AvailableTools = []string{"custom:*"}
		}
		// A tool of the caller's named like one of the runtime's own brings that
		// one in under another name: grep and rg.
		c.ExcludedTools = []string{"builtin:*"}
	}
	for _, t := range spec.Tools {
		// Without a handler the call is parked until Resolve; it runs in the
		// caller, so the permission is the caller's business too. A chat has no
		// built-in tools, so the caller may use their names; and it is offered
		// every tool, however many there are.
		c.Tools = append(c.Tools, copilot.Tool{Name: t.Name, Description: t.Description, Parameters: t.Schema, SkipPermission: true,
			OverridesBuiltInTool: spec.Profile == bridge.ProfileChat, Defer: copilot.ToolDeferNever})
	}
	system := joined(spec.System.Text, spec.Instructions)
	switch {
	case spec.System.Replace:
		c.SystemMessage = &copilot.SystemMessageConfig{Mode: "replace", Content: spec.System.Text}
	case system != "":
		c.SystemMessage = &copilot.SystemMessageConfig{Mode: "append", Content: system}
	}
	loadNothing(c, spec)
	if s.confined() {
		c.LargeOutput = &copilot.LargeToolOutputConfig{OutputDirectory: s.wallTemp()}
	}
	if err := s.provide(c); err != nil {
		return nil, err
	}
	c.MCPServers = mcpServers(spec.MCPServers)
	s.chooseGitHubTools(c)
	if spec.Profile == bridge.ProfileChat {
		// A chat's client keeps its history, and shortens it itself when the
		// provider says that it has become too long. Past a model's limit, as
		// far as the runtime knows it, the runtime would leave messages out.
		most := int64(unlimited)
		c.ModelCapabilities = &rpc.ModelCapabilitiesOverride{Limits: &rpc.ModelCapabilitiesOverrideLimits{MaxContextWindowTokens: &most, MaxPromptTokens: &most}}
	}
	switch i := spec.Infinite; {
	case i != nil:
		c.InfiniteSessions = &copilot.InfiniteSessionConfig{Enabled: &i.Enabled,
			BackgroundCompactionThreshold: positive(i.BackgroundThreshold), BufferExhaustionThreshold: positive(i.BufferThreshold)}
	case spec.Profile == bridge.ProfileChat:
		c.InfiniteSessions = &copilot.InfiniteSessionConfig{Enabled: copilot.Bool(false)}
	}
	if spec.MaxAICredits > 0 {
		c.SessionLimits = &rpc.SessionLimitsConfig{MaxAiCredits: &spec.MaxAICredits}
	}
	if p := spec.Person; p != nil {
		c.OnUserInputRequest = s.reach.ask
		c.OnElicitationRequest = s.elicit
	}
	return c, nil
}

// provide sets who answers: the session's provider, the agent's, or GitHub.
func (s *session) provide(c *copilot.SessionConfig) error {
	p := s.Spec.Provider
	if p == nil {
		p = s.host.opts.Provider
		if c.Model == "" {
			c.Model = s.host.opts.Model
		}
	}
	if p == nil {
		return nil
	}
	if c.Model == "" {
		return &bridge.Error{Code: bridge.CodeInvalid, Message: "a provider needs a model", Remedy: "set COPILOT_BYOK_MODEL or pass --model"}
	}
	c.Provider = &copilot.ProviderConfig{Type: providerType(p.Kind), BaseURL: p.BaseURL, APIKey: p.APIKey, BearerToken: p.BearerToken, WireAPI: p.WireAPI,
		Headers: p.Headers, WireModel: p.WireModel, MaxOutputTokens: p.MaxOutputTokens}
	if s.Spec.Profile == bridge.ProfileAgent {
		c.Provider.MaxPromptTokens = p.MaxInputTokens
	}
	if p.AzureAPIVersion != "" {
		c.Provider.Azure = &copilot.AzureProviderOptions{APIVersion: p.AzureAPIVersion}
	}
	return nil
}

// providerType: Ollama speaks OpenAI's protocol.
func providerType(kind string) string {
	if kind == "ollama" {
		return "openai"
	}
	return kind
}

func mcpServers(servers map[string]bridge.MCPServer) map[string]copilot.MCPServerConfig {
	if len(servers) == 0 {
		return nil
	}
	out := make(map[string]copilot.MCPServerConfig, len(servers))
	for name, m := range servers {
		tools := m.Tools
		if tools == nil {
			tools = []string{"*"}
		}
		if m.URL != "" {
			out[name] = copilot.MCPHTTPServerConfig{URL: m.URL, Headers: m.Headers, Tools: tools, Timeout: int(m.Timeout / time.Millisecond)}
			continue
		}
		out[name] = copilot.MCPStdioServerConfig{Command: m.Command, Args: m.Args, Env: m.Env, WorkingDirectory: m.Dir,
			Tools: tools, Timeout: int(m.Timeout / time.Millisecond)}
	}
	return out
}

func (s *session) elicit(r copilot.ElicitationContext) (copilot.ElicitationResult, error) {
	e := bridge.Elicitation{Message: r.Message, Source: str(r.ElicitationSource), URL: str(r.URL)}
	if r.RequestedSchema != nil {
		schema := map[string]any{"type": "object", "properties": r.RequestedSchema.Properties}
		if len(r.RequestedSchema.Required) > 0 {
			schema["required"] = r.RequestedSchema.Required
		}
		raw, err := json.Marshal(schema)
		if err != nil {
			return copilot.ElicitationResult{}, err
		}
		e.Schema = raw
	}
	a, err := s.Spec.Person.Elicit(s.GateContext(), e)
	if err != nil {
		return copilot.ElicitationResult{}, err
	}
	return copilot.ElicitationResult{Action: copilot.ElicitationAction(a.Action), Content: maps.Clone(a.Content)}, nil
}

// joined makes one text of two.
func joined(a, b string) string { return strings.TrimSpace(a + "\n\n" + b) }

func opt(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func positive(f float64) *float64 {
	if f <= 0 {
		return nil
	}
	return &f
}

// loadNothing keeps the runtime from loading or running anything by itself
// that is not the user's own: what it reads on its own passes no gate. The
// probe workspace-loading shows what each option does. The user's hooks and
// MCP servers in Copilot's home stay; its skills and agents cannot be had
// without the workspace's.
func loadNothing(c *copilot.SessionConfig, spec bridge.SessionSpec) {
	no, yes, inMemory := copilot.Bool(false), copilot.Bool(true), "in-memory"
	c.EnableFileHooks = no                    // commands in a workspace's files
	c.SkipCustomInstructions = yes            // the gate reads them: see bridge.SessionSpec.Instructions
	c.EnableOnDemandInstructionDiscovery = no // the same, beside files that are viewed
	c.EnableConfigDiscovery = no              // skills, agents, commands, MCP servers, extensions
	c.EnableSkills = no
	c.RequestExtensions = no
	c.CustomAgentsLocalOnly = yes // no agents of an organisation
	c.EnableSessionStore = no     // what other sessions said, in other workspaces
	c.Memory = &copilot.MemoryConfiguration{Enabled: false}
	c.SkipEmbeddingRetrieval = yes
	c.EmbeddingCacheStorage = &inMemory
	c.ManageScheduleEnabled = no  // prompts that come by themselves
	c.EnableExperimentalMode = no // features that no probe has tried
	c.EnableHostGitOperations = no
	if spec.Profile != bridge.ProfileAgent {
		return
	}
	// All that it starts is `git remote -v`, without a file system monitor and
	// not in a bare repository. The model is told the branch and the root.
	c.EnableHostGitOperations = yes
	// The tool starts whatever command .github/lsp.json names for a file, and
	// neither its call nor its permission request says which.
	c.ExcludedTools = append(slices.Clone(c.ExcludedTools), lspTool)
	// The runtime's own general-purpose sub-agent loads instruction files
	// whatever the options of its session say. Ours takes its place.
	c.ExcludedBuiltInAgents = []string{builtInAgent}
	c.CustomAgents = []copilot.CustomAgentConfig{{Name: generalAgent, DisplayName: "General purpose",
		Description: "General-purpose agent with all tools, in a context of its own: for complex tasks of several steps, to keep the main conversation short.",
		Prompt:      joined(generalPrompt, spec.Instructions)}}
}

const (
	builtInAgent = "general-purpose"
	generalAgent = "general"

	generalPrompt = `You are a sub-agent of GitHub Copilot, an AI coding agent. Another agent has given you a task, and only it sees your answer.

Complete the task yourself, from beginning to end, with the tools that you have; nobody can answer questions, so make reasonable assumptions. Start another agent only if the task asks for one.

Make precise and complete changes, and no unrelated ones. Use the project's own builds, tests and linters to check that they work. Make independent tool calls in one response. Remove temporary files.

Answer with what you found or changed, with paths and line numbers, in few words.`
)

// rerouted gives a call of the built-in general-purpose sub-agent to ours.
func rerouted(name string, args any) (any, bool) {
	m, ok := args.(map[string]any)
	if !ok || name != "task" || m["agent_type"] != builtInAgent {
		return args, false
	}
	m = maps.Clone(m)
	m["agent_type"] = generalAgent
	return m, true
}

// environment is the runtime's: without the bridge's own secrets, which the
// runtime would hand on to every shell, and without what the user may have
// set for another runtime.
func (h *host) environment() []string {
	login := ""
	env := slices.DeleteFunc(environ.Plain(h.opts.Env, h.opts.UseLogin), func(kv string) bool {
		name, value, _ := strings.Cut(kv, "=")
		if name == "GH_TOKEN" || name == "GITHUB_TOKEN" && login == "" {
			login = value
		}
		return slices.Contains(hidden, name) || strings.HasPrefix(name, "COPILOT_PROVIDER_")
	})
	if login != "" {
		env = append(env, tokenVariable+"="+login)
	}
	if p := h.opts.Provider; p != nil && h.opts.Token == "" && !h.opts.UseLogin {
		// The real key goes with each session, not through the environment.
		env = append(env, "COPILOT_OFFLINE=true", "COPILOT_PROVIDER_TYPE="+providerType(p.Kind),
			"COPILOT_PROVIDER_BASE_URL="+p.BaseURL, "COPILOT_PROVIDER_API_KEY=unused", "COPILOT_MODEL="+h.opts.Model)
	}
	own := slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, tunables+"=") })
	if h.profile == bridge.ProfileChat && !own {
		env = append(env, tunables+"="+allocator())
	}
	return env
}

const tunables = "GLIBC_TUNABLES" // another C library does not look at it

// allocator sets the C library's for a runtime. That makes and drops small
// objects by the hundred thousand and spends more than a quarter of its time
// on it. With room for many of them in each thread's cache most are had
// without a lock or a search, and a heap that threads share grows by more than
// a page at a time, which one of a thread's own does not: together 1.5 ms less
// to the first word, for some 20 MB. With a cache of 2,000 the memory grew by
// a fifth in 2,000 turns; with 100 little was gained. Agents go without: their
// shells would inherit it.
func allocator() string {
	return fmt.Sprintf("glibc.malloc.tcache_count=500:glibc.malloc.mxfast=0:glibc.malloc.arena_max=%d", max(1, runtime.NumCPU()/2))
}

// tokenVariable is one that the runtime reads but keeps from what it starts.
const tokenVariable = "COPILOT_GITHUB_TOKEN"

// hidden are tokens, which go to the runtime by tokenVariable, and what the
// user may have set for another runtime.
var hidden = []string{tokenVariable, "GH_TOKEN", "GITHUB_TOKEN", "COPILOT_OFFLINE", "COPILOT_MODEL"}

// lspTool is excluded from every session. Where the runtime does not offer it,
// it sends the message lspExcluded, which is not shown to users.
const (
	lspTool     = "builtin:lsp"
	lspExcluded = `Unknown tool name in the tool excludedlist: "` + lspTool + `"`
)
