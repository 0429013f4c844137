package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/acp"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/runner"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/sdk"
	"github.com/copilot-bridge/copilot-bridge/internal/answers"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime"
	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/guard"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/task"
)

// Transports says which way to reach Copilot is in use, and why others were passed
// over.
func (b *Bridge) Transports() []engine.Attempt { return b.agents.Tried() }

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

// chooseAgent makes the agent that the transport names, or the first that works.
func (b *Bridge) chooseAgent(ctx context.Context) error {
	var candidates []engine.Candidate
	transport := b.opts.Config.ABP.Transport
	for _, way := range []struct {
		name  config.Transport
		build func(*Bridge, context.Context) (engine.Agent, error)
	}{
		{config.TransportSDK, (*Bridge).sdkAgent}, {config.TransportACP, (*Bridge).acpAgent}, {config.TransportLegacy, (*Bridge).runnerAgent},
	} {
		if transport == way.name || transport == config.TransportAuto {
			c := b.candidate(string(way.name), way.build)
			c.Chosen = takesOver(b.opts.Config, way.name)
			candidates = append(candidates, c)
		}
	}
	b.agents = engine.NewAgents(b.opts.Logger, candidates...)
	err := b.agents.Choose(ctx)
	if b.opts.Patient && refusedByGitHub(err) {
		err = nil // every caller is told, until it is mended
	}
	b.started = true
	return err
}

// takesOver says whether the user has chosen a way with the others in mind: by
// setting the transport, or by naming a program or an address for this one. That
// Copilot's CLI is installed is no such choice.
func takesOver(c *config.Config, way config.Transport) bool {
	return c.Origin("abp.transport").Source != config.SourceDefault || way == config.TransportLegacy ||
		c.ABP.Cmd != "" || c.ABP.ACPURL != "" || c.ABP.ACPPort != 0
}

// refusedByGitHub says that nobody is logged in, or that the way to GitHub is at
// fault.
func refusedByGitHub(err error) bool {
	return bridge.CodeOf(err) == bridge.CodeUnauthenticated || bridge.AsError(err).Problem() != ""
}

// refusedFor is how long a login that was refused is not tried again.
const refusedFor = 10 * time.Second

func (b *Bridge) candidate(name string, build func(*Bridge, context.Context) (engine.Agent, error)) engine.Candidate {
	var refused error
	var until time.Time
	return engine.Candidate{Name: name, Make: func(ctx context.Context) (engine.Agent, error) {
		if time.Now().Before(until) {
			return nil, refused
		}
		// What others read of the bridge does not change once it has started.
		made := &Bridge{opts: b.opts, model: b.model, wall: b.wall, relay: b.relay}
		made.opts.DemoIfNone = b.opts.DemoIfNone && (!b.started || b.Answers.Kind == bridge.AnswersDemo)
		agent, err := build(made, ctx)
		b.model = made.model
		if refusedByGitHub(err) {
			refused, until = err, time.Now().Add(refusedFor)
		}
		if made.Runtime.Path != "" && !b.started {
			b.Runtime = made.Runtime
		}
		if err != nil {
			return nil, err
		}
		b.who.Store(agent.Name(), made.Answers.Answers)
		if a, ok := agent.(*sdk.Agent); ok {
			b.sdk.Store(a)
		}
		if !b.started {
			b.Answers = made.Answers
		}
		return agent, nil
	}}
}

// answers says who answers through an agent.
func (b *Bridge) answers(agent string) bridge.Answers {
	who, _ := b.who.Load(agent)
	out, _ := who.(bridge.Answers)
	return b.nowadays(out)
}

// Answering says who answers now, for people. A server may have started before
// that was known.
func (b *Bridge) Answering() string {
	return cmp.Or(b.answers(b.Engine.Agent()).Detail, b.nowadays(b.Answers.Answers).Detail, "nobody yet")
}

// nowadays names nobody where the login has changed since the start.
func (b *Bridge) nowadays(a bridge.Answers) bridge.Answers {
	if a.Kind == bridge.AnswersGitHub && b.Engine != nil && b.Engine.Logins() > 0 {
		a.Detail = answers.ByLogin
	}
	return a
}

// runtime finds or installs the runtime.
func (o Options) runtime(ctx context.Context) (copilotruntime.Runtime, error) {
	at := copilotruntime.Options{Home: o.Config.Home, CLIPath: o.Config.CLIPath}
	rt, err := copilotruntime.Find(ctx, at)
	if !o.FindOnly && bridge.CodeOf(err) == bridge.CodeNotFound {
		return copilotruntime.Install(ctx, at, o.Progress)
	}
	return rt, err
}

// sdkAgent reaches the native runtime.
func (b *Bridge) sdkAgent(ctx context.Context) (engine.Agent, error) {
	rt, err := b.opts.runtime(ctx)
	if err != nil {
		return nil, err
	}
	b.Runtime = rt
	return b.copilotAgent(ctx, "", func(a answers.Account) probedAgent {
		o := b.opts.sdkOptions(rt.Path)
		b.relayTraces(&o)
		if b.wall != nil {
			o.Bubblewrap = b.wall.Path() // not another one that PATH may lead to
		}
		o.Provider, o.Model, o.Token = a.Provider, a.Model, a.Token
		if a.LoginHome != "" {
			o.Home, o.UseLogin = a.LoginHome, true
		}
		return sdk.New(o)
	})
}

// acpAgent reaches an ACP agent: one that listens, the configured command, or
// Copilot's CLI.
func (b *Bridge) acpAgent(ctx context.Context) (engine.Agent, error) {
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
		// It is large, so it is never installed unasked.
		rt, err := copilotruntime.FindCLI(ctx, copilotruntime.Options{Home: c.Home, CLIPath: c.CLIPath})
		if c.ABP.Transport == config.TransportACP && bridge.CodeOf(err) == bridge.CodeNotFound {
			err = &bridge.Error{Code: bridge.CodeUnavailable, Message: "ABP_COPILOT_TRANSPORT is acp, and " + err.Error(),
				Remedy: "run `copilot-bridge setup --acp`, which installs it (190 MB), or name another agent with ABP_COPILOT_CMD or ABP_COPILOT_ACP_URL"}
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
		return b.copilotAgent(ctx, ", over ACP", func(a answers.Account) probedAgent {
			with := o
			with.Provider, with.Model, with.Token = a.Provider, a.Model, a.Token
			if a.LoginHome != "" {
				with.Home, with.UseLogin = a.LoginHome, true
			}
			return acp.New(with)
		})
	}
	if b.opts.Config.Demo {
		return nil, demoNeedsCopilot("an ACP agent of its own")
	}
	detail := "the ACP agent at " + o.Address
	if o.Program != "" {
		detail = "the ACP agent " + strings.TrimSpace(strings.Join(append([]string{o.Program}, o.Args...), " "))
	}
	b.Answers = answers.OfAgent(c, bridge.AnswersAgent, detail)
	return acp.New(o), nil
}

// runnerAgent runs the configured runner, or the command in its place.
func (b *Bridge) runnerAgent(context.Context) (engine.Agent, error) {
	c := b.opts.Config.ABP
	if c.Transport == config.TransportAuto && c.Runner == "" && c.Cmd == "" {
		// One that only explains is no way to Copilot.
		return nil, &bridge.Error{Code: bridge.CodeNotFound, Message: "no runner is configured", Remedy: "name one with ABP_COPILOT_RUNNER"}
	}
	if err := b.confinable("a legacy runner"); err != nil {
		return nil, err
	}
	if b.opts.Config.Demo {
		return nil, demoNeedsCopilot("a legacy runner")
	}
	o := runner.Options{Records: b.opts.records(), Self: b.opts.Self, Env: b.opts.Environ, Trusted: b.trusts, Logger: b.opts.Logger}
	name, setting := c.Runner, "ABP_COPILOT_RUNNER"
	if name == "" {
		name, setting, o.Args = c.Cmd, "ABP_COPILOT_CMD", c.Args
	}
	if name == "" {
		b.Answers = answers.OfAgent(b.opts.Config, bridge.AnswersRunner, "nobody: no runner is configured")
		return runner.New(o), nil
	}
	path, err := b.named(name, setting)
	if err != nil {
		return nil, err
	}
	o.Program = path
	b.Answers = answers.OfAgent(b.opts.Config, bridge.AnswersRunner, "the runner "+path)
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

// copilotAgent decides who answers, and starts Copilot's own program with that
// account. via names the transport in what people are shown, such as ", over ACP".
func (b *Bridge) copilotAgent(ctx context.Context, via string, build func(answers.Account) probedAgent) (engine.Agent, error) {
	var probed probedAgent
	who, account, err := answers.Question{Config: b.opts.Config, Environ: b.opts.Environ, UserDir: b.opts.UserDir, DemoIfNone: b.opts.DemoIfNone, NoTurns: b.opts.NoTurns,
		Status: func(ctx context.Context, a answers.Account) (bridge.AgentStatus, error) {
			probed = build(a)
			return probed.Status(ctx)
		}}.Decide(ctx)
	if err == nil && probed != nil && account.LoginHome != "" {
		b.Answers = who.Via(via)
		return probed, nil
	}
	if probed != nil {
		err = errors.Join(err, probed.Close(ctx))
	}
	if err != nil {
		return nil, err
	}
	if who.Kind == bridge.AnswersDemo {
		if b.model == nil {
			m := demomodel.New(demomodel.WithJournal(0), demomodel.WithLogger(b.opts.Logger))
			if err := m.Start(ctx); err != nil {
				return nil, &bridge.Error{Code: bridge.CodeUnavailable, Message: "the demo model did not start", Cause: err}
			}
			b.model = m
		}
		who.Notice = demomodel.Notice
		account = answers.Account{Model: b.model.Model(), Provider: &bridge.Provider{Kind: "openai", BaseURL: b.model.URL(), APIKey: b.model.Key()}}
	}
	b.Answers = who.Via(via)
	return build(account), nil
}

// probedAgent is an agent that can tell whether a user is logged in.
type probedAgent interface {
	engine.Agent
	engine.Prober
}

func (o Options) env(name string) string { return program.Variable(o.Environ, name) }
