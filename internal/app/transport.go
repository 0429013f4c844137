package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/acp"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/runner"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/sdk"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime"
	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/guard"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/task"
)

// Transport is one way to reach Copilot, and what became of it.
type Transport struct {
	Name   string
	InUse  bool
	Failed error
}

// Transports says which way is in use, and why others were passed over.
func (b *Bridge) Transports() []Transport {
	if b.agents == nil {
		return []Transport{{Name: b.Engine.Agent(), InUse: true}}
	}
	var out []Transport
	for _, t := range b.agents.Tried() {
		out = append(out, Transport(t))
	}
	return out
}

// ModuleWarnings are about settings that name Node modules.
func ModuleWarnings(environ []string) []string {
	var out []string
	for _, name := range []string{"ABP_COPILOT_ADAPTER_MODULE", "ABP_COPILOT_SDK_MODULE"} {
		if program.Variable(environ, name) != "" {
			out = append(out, name+" names a Node module, which this program cannot load, and is ignored; "+
				"put the module behind a program that reads a request and writes events, and name that with ABP_COPILOT_RUNNER")
		}
	}
	return out
}

// chooseAgent makes the agent that the transport names, or sets b.agents if the
// engine is to choose.
func (b *Bridge) chooseAgent(ctx context.Context) (engine.Agent, error) {
	if w := b.opts.Window; w != nil {
		return b.windowAgent(w), nil
	}
	switch b.opts.Config.ABP.Transport {
	case config.TransportSDK:
		return b.sdkAgent(ctx)
	case config.TransportACP:
		return b.acpAgent(ctx, !b.opts.FindOnly)
	case config.TransportLegacy:
		return b.runnerAgent()
	case config.TransportAuto:
	}
	started := false
	candidate := func(name string, build func(*Bridge, context.Context) (engine.Agent, error)) engine.Candidate {
		return engine.Candidate{Name: name, Make: func(ctx context.Context) (engine.Agent, error) {
			// What others read of the bridge does not change once it has started.
			made := &Bridge{opts: b.opts, model: b.model, wall: b.wall}
			agent, err := build(made, ctx)
			b.model = made.model
			if err == nil && !started {
				b.Runtime, b.Answers = made.Runtime, made.Answers
			}
			return agent, err
		}}
	}
	b.agents = engine.NewAgents(b.opts.Logger,
		candidate("sdk", (*Bridge).sdkAgent),
		// The CLI is not installed by surprise: it must be there already.
		candidate("acp", func(b *Bridge, ctx context.Context) (engine.Agent, error) { return b.acpAgent(ctx, false) }),
		candidate("legacy", func(b *Bridge, _ context.Context) (engine.Agent, error) {
			if c := b.opts.Config.ABP; c.Runner == "" && c.Cmd == "" {
				// One that only explains is no way to Copilot.
				return nil, &bridge.Error{Code: bridge.CodeNotFound, Message: "no runner is configured", Remedy: "name one with ABP_COPILOT_RUNNER"}
			}
			return b.runnerAgent()
		}))
	err := b.agents.Choose(ctx)
	started = true
	return nil, err
}

// sdkAgent finds or installs the runtime.
func (b *Bridge) sdkAgent(ctx context.Context) (engine.Agent, error) {
	at := copilotruntime.Options{Home: b.opts.Config.Home, CLIPath: b.opts.Config.CLIPath}
	rt, err := copilotruntime.Find(ctx, at)
	if !b.opts.FindOnly && bridge.CodeOf(err) == bridge.CodeNotFound {
		rt, err = copilotruntime.Install(ctx, at, b.opts.Progress)
	}
	if err != nil {
		return nil, err
	}
	b.Runtime = rt
	return b.copilotAgent(ctx, "", func(a account) probedAgent {
		o := b.opts.sdkOptions(rt.Path)
		if b.wall != nil {
			o.Bubblewrap = b.wall.Path() // not another one that PATH may lead to
		}
		o.Provider, o.Model, o.Token = a.provider, a.model, a.token
		if a.loginHome != "" {
			o.Home, o.UseLogin = a.loginHome, true
		}
		return sdk.New(o)
	})
}

// acpAgent reaches an ACP agent: one that listens, the configured command, or
// Copilot's CLI.
func (b *Bridge) acpAgent(ctx context.Context, install bool) (engine.Agent, error) {
	c := b.opts.Config
	if err := b.confinable("an ACP agent"); err != nil {
		return nil, err
	}
	o := acp.Options{Home: c.Path("copilot"), Records: b.opts.records(), Self: b.opts.Self, Version: b.opts.Version, Env: b.opts.Environ,
		TerminalEnv: append(task.PlainEnviron(b.opts.Environ), guard.DepthVariable+"="+b.opts.env(guard.DepthVariable)), Trusted: b.trusts, Logger: b.opts.Logger}
	if b.wall != nil {
		o.Confine = b.confineTerminal
	}
	o.Args = c.ABP.ACPArgs
	switch {
	case c.ABP.ACPURL != "":
		o.Address = strings.TrimPrefix(c.ABP.ACPURL, "tcp://")
	case c.ABP.Cmd != "":
		path, err := b.named(c.ABP.Cmd, "ABP_COPILOT_CMD")
		if err != nil {
			return nil, err
		}
		o.Program = path
		o.Copilot = strings.TrimSuffix(filepath.Base(path), ".exe") == "copilot"
		if o.Args == nil {
			o.Args = c.ABP.Args
		}
	default:
		at := copilotruntime.Options{Home: c.Home, CLIPath: c.CLIPath}
		rt, err := copilotruntime.FindCLI(ctx, at)
		if install && bridge.CodeOf(err) == bridge.CodeNotFound {
			rt, err = copilotruntime.InstallCLI(ctx, at, b.opts.Progress)
		}
		if err != nil {
			return nil, err
		}
		o.Program, o.Copilot = rt.Path, true
	}
	if port := strconv.Itoa(c.ABP.ACPPort); c.ABP.ACPPort != 0 && o.Address == "" {
		o.Address = "127.0.0.1:" + port
		if o.Args == nil && o.Copilot {
			o.Args = []string{"--acp", "--port", port}
		}
	}
	if o.Args == nil && o.Copilot {
		o.Args = []string{"--acp", "--stdio"}
	}
	if o.Copilot {
		return b.copilotAgent(ctx, ", over ACP", func(a account) probedAgent {
			with := o
			with.Provider, with.Model, with.Token = a.provider, a.model, a.token
			if a.loginHome != "" {
				with.Home, with.UseLogin = a.loginHome, true
			}
			return acp.New(with)
		})
	}
	if b.opts.Demo {
		return nil, demoNeedsCopilot("an ACP agent of its own")
	}
	b.Answers = Answers{Kind: AnswersAgent, Detail: "the ACP agent " + strings.TrimSpace(strings.Join(append([]string{o.Program}, o.Args...), " "))}
	if o.Program == "" {
		b.Answers.Detail = "the ACP agent at " + o.Address
	}
	return acp.New(o), nil
}

// runnerAgent runs the configured runner, or the command in its place.
func (b *Bridge) runnerAgent() (engine.Agent, error) {
	c := b.opts.Config.ABP
	if err := b.confinable("a legacy runner"); err != nil {
		return nil, err
	}
	if b.opts.Demo {
		return nil, demoNeedsCopilot("a legacy runner")
	}
	o := runner.Options{Records: b.opts.records(), Self: b.opts.Self, Env: b.opts.Environ, Trusted: b.trusts, Logger: b.opts.Logger}
	name, setting := c.Runner, "ABP_COPILOT_RUNNER"
	if name == "" {
		name, setting, o.Args = c.Cmd, "ABP_COPILOT_CMD", c.Args
	}
	b.Answers = Answers{Kind: AnswersRunner, Detail: "nobody: no runner is configured"}
	if name == "" {
		return runner.New(o), nil
	}
	path, err := b.named(name, setting)
	if err != nil {
		return nil, err
	}
	o.Program = path
	b.Answers.Detail = "the runner " + path
	return runner.New(o), nil
}

// find finds a program in the user's environment.
func (b *Bridge) find(name string) (string, error) { return program.Find(name, b.opts.Environ) }

// named finds a program that a setting names.
func (b *Bridge) named(name, setting string) (string, error) {
	path, err := b.find(name)
	if err != nil {
		return "", &bridge.Error{Code: bridge.CodeUnavailable, Message: fmt.Sprintf("%s names %s, which cannot be run", setting, name), Cause: err,
			Remedy: "correct " + setting + ", and see that the file is there and may be executed"}
	}
	return path, nil
}

func demoNeedsCopilot(what string) error {
	return &bridge.Error{Code: bridge.CodeInvalid, Message: "--demo scripts Copilot's own runtime and has no effect on " + what,
		Remedy: "leave --demo out, or unset ABP_COPILOT_TRANSPORT"}
}

// AnswersKind says whose words the model's are.
type AnswersKind string

// The kinds, in the order of preference.
const (
	AnswersProvider  AnswersKind = "provider"  // COPILOT_BYOK_*
	AnswersGitHub    AnswersKind = "github"    // a token, or the user's login
	AnswersRehearsal AnswersKind = "rehearsal" // the built-in model
	AnswersAgent     AnswersKind = "agent"     // another ACP agent, with its own models
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

// copilotAgent makes an agent of Copilot's own program and decides who answers:
// a configured provider, GitHub's models if there is a token or a login, else
// the rehearsal model, so that the first minute always works. via is added to
// what people are told of it.
func (b *Bridge) copilotAgent(ctx context.Context, via string, build func(account) probedAgent) (engine.Agent, error) {
	c, why := b.opts.Config, "nobody is logged in"
	switch byok := c.BYOK; {
	case b.opts.Demo:
		why = "asked for with --demo"
	case byok.Provider != "":
		b.Answers = Answers{Kind: AnswersProvider, Detail: string(byok.Provider) + " at " + byok.BaseURL + ", model " + byok.Model + via}
		return build(account{model: byok.Model, provider: &bridge.Provider{Kind: string(byok.Provider), BaseURL: byok.BaseURL,
			APIKey: string(byok.APIKey), BearerToken: string(byok.BearerToken), Headers: config.Plain(byok.Headers), WireAPI: byok.WireAPI, AzureAPIVersion: byok.AzureAPIVersion,
			WireModel: byok.WireModel, MaxInputTokens: byok.MaxInputTokens, MaxOutputTokens: byok.MaxOutputTokens}}), nil
	case c.GitHubToken != "":
		b.Answers = Answers{Kind: AnswersGitHub, Detail: "GitHub's models, by COPILOT_GITHUB_TOKEN" + via}
		return build(account{token: string(c.GitHubToken)}), nil
	default:
		agent, login, err := b.loggedIn(ctx, build)
		if agent != nil {
			b.Answers = Answers{Kind: AnswersGitHub, Detail: "GitHub's models, " + login + via}
			return agent, nil
		}
		if err != nil && via != "" {
			return nil, err // another transport may work
		}
		if err != nil {
			b.opts.Logger.Warn("login.check_failed", "error", err)
		}
	}
	if b.model == nil {
		m := demomodel.New(demomodel.WithJournal(0), demomodel.WithLogger(b.opts.Logger))
		if err := m.Start(ctx); err != nil {
			return nil, &bridge.Error{Code: bridge.CodeUnavailable, Message: "the rehearsal model did not start", Cause: err}
		}
		b.model = m
	}
	b.Answers = Answers{Kind: AnswersRehearsal, Detail: "the built-in rehearsal model (" + why + ")" + via, Notice: demomodel.Notice}
	return build(account{model: b.model.Model(), provider: &bridge.Provider{Kind: "openai", BaseURL: b.model.URL(), APIKey: b.model.Key()}}), nil
}

// account is how Copilot's own program gets its answers.
type account struct {
	provider  *bridge.Provider
	model     string
	token     string
	loginHome string // where the user's own login lives; "" to leave it alone
}

// probedAgent is an agent that can tell whether a user is logged in.
type probedAgent interface {
	engine.Agent
	engine.Prober
}

// loggedIn returns an agent with the user's own login and whose it is, or nil.
// Looking for a login makes the runtime start other programs, so it is done only
// if there is a trace of one.
func (b *Bridge) loggedIn(ctx context.Context, build func(account) probedAgent) (engine.Agent, string, error) {
	home := copilotHome(b.opts)
	if !b.loginTraces(home) {
		return nil, "", nil
	}
	agent := build(account{loginHome: home})
	status, err := agent.Status(ctx)
	if err == nil && status.Authenticated {
		if login := cmp.Or(status.Login, status.AuthType); login != "" {
			return agent, "as " + login, nil
		}
		return agent, "by Copilot's own login", nil
	}
	return nil, "", errors.Join(err, agent.Close(ctx))
}

func (o Options) env(name string) string { return program.Variable(o.Environ, name) }

func (b *Bridge) loginTraces(copilotHome string) bool {
	if b.opts.env("GH_TOKEN") != "" || b.opts.env("GITHUB_TOKEN") != "" {
		return true
	}
	if _, err := os.Stat(copilotHome); err == nil {
		return true
	}
	_, err := program.Find("gh", b.opts.Environ)
	return err == nil
}
