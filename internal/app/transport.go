package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/agent/acp"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/auto"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/runner"
	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime"
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
	if b.ways == nil {
		return []Transport{{Name: b.Engine.Agent(), InUse: true}}
	}
	var out []Transport
	for _, t := range b.ways.Tried() {
		out = append(out, Transport(t))
	}
	return out
}

// ModuleWarnings are about settings that name Node modules.
func ModuleWarnings(environ []string) []string {
	var out []string
	for _, name := range []string{"ABP_COPILOT_ADAPTER_MODULE", "ABP_COPILOT_SDK_MODULE"} {
		for _, kv := range environ {
			if v, ok := strings.CutPrefix(kv, name+"="); ok && v != "" {
				out = append(out, name+" names a Node module, which this program cannot load, and is ignored; "+
					"put the module behind a program that reads a request and writes events, and name that with ABP_COPILOT_RUNNER")
			}
		}
	}
	return out
}

// chooseAgent makes the agent that the transport names.
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
	candidate := func(name string, build func(*Bridge, context.Context) (engine.Agent, error)) auto.Candidate {
		return auto.Candidate{Name: name, Make: func(ctx context.Context) (auto.Agent, error) {
			// What others read of the bridge does not change once it has started.
			made := &Bridge{opts: b.opts, model: b.model}
			agent, err := build(made, ctx)
			b.model = made.model
			if err == nil && !started {
				b.Runtime, b.Answers = made.Runtime, made.Answers
			}
			return agent, err
		}}
	}
	b.ways = auto.New(b.opts.Logger,
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
	err := b.ways.Choose(ctx)
	started = true
	return b.ways, err
}

// acpAgent reaches an ACP agent: one that listens, the configured command, or
// Copilot's CLI.
func (b *Bridge) acpAgent(ctx context.Context, install bool) (engine.Agent, error) {
	c := b.opts.Config
	o := acp.Options{Home: c.Path("copilot"), Records: b.opts.records(), Self: b.opts.Self, Version: b.opts.Version, Env: b.opts.Environ,
		TerminalEnv: append(task.PlainEnviron(b.opts.Environ), guard.DepthVariable+"="+b.env(guard.DepthVariable)), Trusted: b.trusts, Logger: b.opts.Logger}
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
		return b.copilotOverACP(ctx, o)
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

// copilotOverACP decides who answers, as for the SDK.
func (b *Bridge) copilotOverACP(ctx context.Context, o acp.Options) (engine.Agent, error) {
	c := b.opts.Config
	why := "asked for with --demo"
	switch {
	case b.opts.Demo:
	case c.BYOK.Provider != "":
		o.Provider, o.Model = b.ownProvider()
		b.Answers.Detail += ", over ACP"
		return acp.New(o), nil
	case c.GitHubToken != "":
		o.Token = string(c.GitHubToken)
		b.Answers = Answers{Kind: AnswersGitHub, Detail: "GitHub's models, by COPILOT_GITHUB_TOKEN, over ACP"}
		return acp.New(o), nil
	default:
		why = "nobody is logged in"
		if home := b.copilotHome(); b.loginTraces(home) {
			in := o
			in.Home, in.UseLogin = home, true
			agent := acp.New(in)
			status, err := agent.Status(ctx)
			if err == nil && status.Authenticated {
				b.Answers = Answers{Kind: AnswersGitHub, Detail: "GitHub's models, by Copilot's own login, over ACP"}
				return agent, nil
			}
			if err := errors.Join(err, agent.Close(ctx)); err != nil {
				return nil, err
			}
		}
	}
	var err error
	if o.Provider, o.Model, err = b.rehearsalModel(ctx, why); err != nil {
		return nil, err
	}
	b.Answers.Detail += ", over ACP"
	return acp.New(o), nil
}

// runnerAgent runs the configured runner, or the command in its place.
func (b *Bridge) runnerAgent() (engine.Agent, error) {
	c := b.opts.Config.ABP
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
