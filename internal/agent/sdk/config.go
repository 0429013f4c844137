package sdk

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"path/filepath"
	"strings"
	"time"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

const clientName = "copilot-bridge"

// create opens a new session in the runtime.
func (s *session) create(ctx context.Context) error {
	if err := s.enclose(ctx); err != nil {
		return err
	}
	c, err := s.config()
	if err == nil {
		err = s.proc.call(func(client *copilot.Client) error { return s.attached(client.CreateSession(ctx, c)) })
	}
	if err != nil {
		return errors.Join(err, s.raze())
	}
	if err := s.hold(ctx); err != nil {
		return errors.Join(err, s.Remove(ctx))
	}
	if s.stored() {
		return s.host.agent.claim(ctx, s.ID())
	}
	return nil
}

// resume attaches to a stored session under the same configuration.
func (s *session) resume(ctx context.Context, id string) error {
	if err := s.enclose(ctx); err != nil {
		return err
	}
	c, err := s.config()
	if err == nil && s.stored() {
		err = s.host.agent.claim(ctx, id)
	}
	if err != nil {
		return errors.Join(err, s.raze())
	}
	s.older = true
	err = s.attach(ctx, id, resumed(c))
	if err == nil {
		// The runtime does not store the sandbox with the session.
		if err = s.hold(ctx); err == nil {
			return nil
		}
		return errors.Join(err, s.Close(ctx))
	}
	if s.stored() {
		err = errors.Join(err, s.host.agent.release(id))
	}
	return errors.Join(err, s.raze())
}

// attach resumes a session that no other program has open: two runtimes would
// each go on from what it knows. The claim keeps bridges apart, and this all
// others, such as Copilot's own program in the same home.
func (s *session) attach(ctx context.Context, id string, c *copilot.ResumeSessionConfig) error {
	for began := time.Now(); ; {
		err := s.proc.call(func(client *copilot.Client) error { return s.attached(client.ResumeSession(ctx, id, c)) })
		if err != nil || s.spec.Shared || !s.inUse(ctx) {
			return err
		}
		s.proc.detach(s.sdk)()
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

// stored says that others may come back to the session: chats are nobody's but
// ours, and one that is only read is somebody else's.
func (s *session) stored() bool { return s.spec.Profile == bridge.ProfileAgent && !s.spec.Shared }

func (s *session) attached(sdk *copilot.Session, err error) error {
	if err == nil {
		s.sdk = sdk
		s.proc.attach(sdk)
	}
	return err
}

// resumed carries over every field that config sets: the SDK's two
// configurations share no type. A test holds them together.
func resumed(c *copilot.SessionConfig) *copilot.ResumeSessionConfig {
	return &copilot.ResumeSessionConfig{
		ClientName:       c.ClientName,
		Model:            c.Model,
		ReasoningEffort:  c.ReasoningEffort,
		Streaming:        c.Streaming,
		WorkingDirectory: c.WorkingDirectory,
		Tools:            c.Tools,
		AvailableTools:   c.AvailableTools,
		ExcludedTools:    c.ExcludedTools,
		SystemMessage:    c.SystemMessage,

		EnableConfigDiscovery:              c.EnableConfigDiscovery,
		EnableFileHooks:                    c.EnableFileHooks,
		SkipCustomInstructions:             c.SkipCustomInstructions,
		EnableOnDemandInstructionDiscovery: c.EnableOnDemandInstructionDiscovery,
		EnableSkills:                       c.EnableSkills,
		EnableHostGitOperations:            c.EnableHostGitOperations,
		EnableSessionStore:                 c.EnableSessionStore,
		SkipEmbeddingRetrieval:             c.SkipEmbeddingRetrieval,
		EmbeddingCacheStorage:              c.EmbeddingCacheStorage,
		EnableExperimentalMode:             c.EnableExperimentalMode,
		CustomAgentsLocalOnly:              c.CustomAgentsLocalOnly,
		ManageScheduleEnabled:              c.ManageScheduleEnabled,
		RequestExtensions:                  c.RequestExtensions,
		Memory:                             c.Memory,
		ExcludedBuiltInAgents:              c.ExcludedBuiltInAgents,
		CustomAgents:                       c.CustomAgents,
		LargeOutput:                        c.LargeOutput,

		Provider:             c.Provider,
		MCPServers:           c.MCPServers,
		InfiniteSessions:     c.InfiniteSessions,
		SessionLimits:        c.SessionLimits,
		OnPermissionRequest:  c.OnPermissionRequest,
		Hooks:                c.Hooks,
		OnEvent:              c.OnEvent,
		OnUserInputRequest:   c.OnUserInputRequest,
		OnElicitationRequest: c.OnElicitationRequest,
	}
}

func (s *session) config() (*copilot.SessionConfig, error) {
	spec := s.spec
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
		Hooks:               s.hooks(),
		OnEvent:             s.onEvent,
	}
	if spec.Profile == bridge.ProfileChat && c.AvailableTools == nil {
		c.AvailableTools = []string{}
		if len(spec.Tools) > 0 {
			c.AvailableTools = []string{"custom:*"}
		}
	}
	for _, t := range spec.Tools {
		// Without a handler the call is parked until Resolve; it runs in the
		// caller, so the permission is the caller's business too. A chat has no
		// built-in tools, so the caller may use their names; and it is offered
		// every tool, however many there are.
		c.Tools = append(c.Tools, copilot.Tool{Name: t.Name, Description: t.Description, Parameters: t.Schema, SkipPermission: true,
			OverridesBuiltInTool: spec.Profile == bridge.ProfileChat, Defer: copilot.ToolDeferNever})
	}
	system := join(spec.System.Text, spec.Instructions)
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
	switch i := spec.Infinite; {
	case i != nil:
		c.InfiniteSessions = &copilot.InfiniteSessionConfig{Enabled: &i.Enabled,
			BackgroundCompactionThreshold: positive(i.BackgroundThreshold), BufferExhaustionThreshold: positive(i.BufferThreshold)}
	case spec.Profile == bridge.ProfileChat:
		// A chat's client keeps its history, and shortens it itself when it is
		// told that it has become too long. It would not know of a summary.
		c.InfiniteSessions = &copilot.InfiniteSessionConfig{Enabled: copilot.Bool(false)}
	}
	if spec.MaxAICredits > 0 {
		c.SessionLimits = &rpc.SessionLimitsConfig{MaxAiCredits: &spec.MaxAICredits}
	}
	if p := spec.Person; p != nil {
		c.OnUserInputRequest = s.ask
		c.OnElicitationRequest = s.elicit
	}
	return c, nil
}

// provide sets who answers: the session's provider, the agent's, or GitHub.
func (s *session) provide(c *copilot.SessionConfig) error {
	p := s.spec.Provider
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
	c.Provider = &copilot.ProviderConfig{Type: providerType(p.Kind), BaseURL: p.BaseURL, APIKey: p.APIKey, WireAPI: p.WireAPI, Headers: p.Headers}
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

func sendRequest(p bridge.Prompt) (*rpc.SendRequest, error) {
	wait := true
	req := &rpc.SendRequest{Prompt: p.Text, RequestHeaders: p.Headers, Wait: &wait}
	if p.Mode != "" {
		mode := rpc.SendAgentMode(p.Mode)
		req.AgentMode = &mode
	}
	for _, a := range p.Attachments {
		att, err := attachment(a)
		if err != nil {
			return nil, err
		}
		req.Attachments = append(req.Attachments, att)
	}
	if f := p.ResponseFormat; f != nil {
		var schema map[string]any
		if err := json.Unmarshal(f.Schema, &schema); err != nil {
			return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: "the response format's schema is not a JSON object", Cause: err}
		}
		req.ResponseFormat = &rpc.ResponseFormat{Type: rpc.ResponseFormatTypeJSONSchema,
			JSONSchema: rpc.JSONSchemaResponseFormat{Name: f.Name, Schema: schema, Strict: &f.Strict}}
		if f.Description != "" {
			req.ResponseFormat.JSONSchema.Description = &f.Description
		}
	}
	return req, nil
}

func attachment(a bridge.Attachment) (rpc.Attachment, error) {
	name := a.Name
	switch {
	case len(a.Data) > 0 && a.Path == "":
		data := base64.StdEncoding.EncodeToString(a.Data)
		return &rpc.AttachmentBlob{Data: &data, MIMEType: a.MIME, DisplayName: opt(name)}, nil
	case a.Path == "":
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: "an attachment needs a path or data"}
	}
	if name == "" {
		name = filepath.Base(a.Path)
	}
	if a.Directory {
		return &rpc.AttachmentDirectory{Path: a.Path, DisplayName: name}, nil
	}
	return &rpc.AttachmentFile{Path: a.Path, DisplayName: name}, nil
}

func (s *session) ask(r copilot.UserInputRequest, _ copilot.UserInputInvocation) (copilot.UserInputResponse, error) {
	a, err := s.spec.Person.Ask(s.gateContext(), bridge.Question{Text: r.Question, Choices: r.Choices,
		Freeform: r.AllowFreeform == nil || *r.AllowFreeform})
	return copilot.UserInputResponse{Answer: a.Text, WasFreeform: a.Freeform}, err
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
	a, err := s.spec.Person.Elicit(s.gateContext(), e)
	if err != nil {
		return copilot.ElicitationResult{}, err
	}
	return copilot.ElicitationResult{Action: copilot.ElicitationAction(a.Action), Content: maps.Clone(a.Content)}, nil
}

// join makes one text of two.
func join(a, b string) string { return strings.TrimSpace(a + "\n\n" + b) }

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
