package app

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/agent/sdk"
	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
	"github.com/copilot-bridge/copilot-bridge/internal/rehearsal"
)

// AnswersKind says whose words the model's are.
type AnswersKind string

// The kinds, in the order of preference.
const (
	AnswersProvider  AnswersKind = "provider"  // COPILOT_BYOK_*
	AnswersGitHub    AnswersKind = "github"    // a token, or the user's login
	AnswersRehearsal AnswersKind = "rehearsal" // the built-in model
	AnswersAgent     AnswersKind = "agent"     // another ACP agent, with models of its own
	AnswersRunner    AnswersKind = "runner"    // the user's own runner
	AnswersEditor    AnswersKind = "editor"    // the models of the editor that has started us
)

// Answers says who answers, and why.
type Answers struct {
	Kind   AnswersKind `json:"kind"`
	Detail string      `json:"detail"` // for people
	Notice string      `json:"notice,omitempty"`
	// SetBy names the settings that decided it and where they come from;
	// "" if all are defaults.
	SetBy string `json:"set_by,omitempty"`
}

// setBy says which settings made it that this kind answers.
func setBy(c *config.Config, kind AnswersKind) string {
	keys := []string{"abp.transport", "cli_path"}
	switch kind {
	case AnswersProvider:
		keys = append(keys, "byok.provider", "byok.base_url")
	case AnswersGitHub:
		keys = append(keys, "github_token")
	case AnswersAgent, AnswersRunner:
		keys = append(keys, "abp.runner", "abp.cmd", "abp.acp_url", "abp.acp_port")
	case AnswersEditor:
		return ""
	case AnswersRehearsal:
	}
	var parts []string
	for _, s := range c.Show() {
		if slices.Contains(keys, s.Key) && s.Origin.Source != config.SourceDefault {
			parts = append(parts, s.Env+" ("+s.Origin.String()+")")
		}
	}
	return strings.Join(parts, ", ")
}

// sdkAgent finds or installs the runtime and decides who answers: a configured
// provider, GitHub's models if there is a token or a login, else the rehearsal
// model, so that the first minute always works.
func (b *Bridge) sdkAgent(ctx context.Context) (engine.Agent, error) {
	c := b.opts.Config
	rt, err := copilotruntime.Find(ctx, copilotruntime.Options{Home: c.Home, CLIPath: c.CLIPath})
	if !b.opts.FindOnly && bridge.CodeOf(err) == bridge.CodeNotFound {
		rt, err = copilotruntime.Install(ctx, copilotruntime.Options{Home: c.Home, CLIPath: c.CLIPath}, b.opts.Progress)
	}
	if err != nil {
		return nil, err
	}
	b.Runtime = rt
	opts := b.opts.sdkOptions(rt.Path)
	switch {
	case b.opts.Demo:
		return b.rehearse(ctx, opts, "asked for with --demo")
	case c.BYOK.Provider != "":
		opts.Provider, opts.Model = b.ownProvider()
		return sdk.New(opts), nil
	case c.GitHubToken != "":
		opts.Token = string(c.GitHubToken)
		b.Answers = Answers{Kind: AnswersGitHub, Detail: "GitHub's models, by COPILOT_GITHUB_TOKEN"}
		return sdk.New(opts), nil
	}
	if agent, login := b.loggedIn(ctx, opts); agent != nil {
		b.Answers = Answers{Kind: AnswersGitHub, Detail: "GitHub's models, as " + login}
		return agent, nil
	}
	return b.rehearse(ctx, opts, "nobody is logged in")
}

// loggedIn returns an agent with the user's own login, or nil. Looking for a
// login makes the runtime start other programs, so it is done only if there
// is a trace of one.
func (b *Bridge) loggedIn(ctx context.Context, opts sdk.Options) (engine.Agent, string) {
	home := b.copilotHome()
	if !b.loginTraces(home) {
		return nil, ""
	}
	opts.Home, opts.UseLogin = home, true // the login lives there
	agent := sdk.New(opts)
	status, err := agent.Status(ctx)
	if err == nil && status.Authenticated {
		login := status.Login
		if login == "" {
			login = status.AuthType
		}
		return agent, login
	}
	if err := errors.Join(err, agent.Close(ctx)); err != nil {
		b.opts.Logger.Warn("looking for a login", "error", err)
	}
	return nil, ""
}

func (b *Bridge) env(name string) string {
	for _, kv := range slices.Backward(b.opts.Environ) {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

// copilotHome is where Copilot's own CLI keeps its state.
func (b *Bridge) copilotHome() string {
	if h := b.env("COPILOT_HOME"); h != "" {
		return h
	}
	return filepath.Join(b.opts.UserDir, ".copilot")
}

func (b *Bridge) loginTraces(copilotHome string) bool {
	if b.env("GH_TOKEN") != "" || b.env("GITHUB_TOKEN") != "" {
		return true
	}
	if _, err := os.Stat(copilotHome); err == nil {
		return true
	}
	_, err := program.Find("gh", b.opts.Environ)
	return err == nil
}

func (b *Bridge) rehearse(ctx context.Context, opts sdk.Options, why string) (engine.Agent, error) {
	var err error
	if opts.Provider, opts.Model, err = b.rehearsalModel(ctx, why); err != nil {
		return nil, err
	}
	return sdk.New(opts), nil
}

// ownProvider is the configured provider and its model.
func (b *Bridge) ownProvider() (*bridge.Provider, string) {
	c := b.opts.Config.BYOK
	b.Answers = Answers{Kind: AnswersProvider, Detail: string(c.Provider) + " at " + c.BaseURL + ", model " + c.Model}
	return &bridge.Provider{Kind: string(c.Provider), BaseURL: c.BaseURL, APIKey: string(c.APIKey),
		WireAPI: c.WireAPI, AzureAPIVersion: c.AzureAPIVersion}, c.Model
}

// rehearsalModel starts the built-in model, if it does not run yet.
func (b *Bridge) rehearsalModel(ctx context.Context, why string) (*bridge.Provider, string, error) {
	if b.model == nil {
		m := rehearsal.New(rehearsal.WithJournal(0), rehearsal.WithLogger(b.opts.Logger))
		if err := m.Start(ctx); err != nil {
			return nil, "", &bridge.Error{Code: bridge.CodeUnavailable, Message: "the rehearsal model did not start", Cause: err}
		}
		b.model = m
	}
	b.Answers = Answers{Kind: AnswersRehearsal, Detail: "the built-in rehearsal model (" + why + ")", Notice: rehearsal.Notice}
	return &bridge.Provider{Kind: "openai", BaseURL: b.model.URL(), APIKey: b.model.Key()}, b.model.Model(), nil
}
