// Package app is the composition root: it builds, from a configuration, what
// a command needs, and takes it down again. It is the one package that sees
// all the others; it holds no logic of its own beyond who is connected to
// whom and who answers.
package app

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/agent/auto"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/sdk"
	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/guard"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/redact"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/sandbox"
	"github.com/copilot-bridge/copilot-bridge/internal/rehearsal"
	"github.com/copilot-bridge/copilot-bridge/internal/sessionstore"
	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
)

// Options are what a command knows.
type Options struct {
	Config  *config.Config
	Self    string // the executable that answers to supervise.Verb
	Version string
	Environ []string
	UserDir string // the user's home directory
	Logger  *slog.Logger
	// Progress hears of a first-run install.
	Progress copilotruntime.Progress
	// Demo asks for the rehearsal model by name.
	Demo bool
	// FindOnly installs nothing: what is not there does not work.
	FindOnly bool
	// Window is the editor's window in which the bridge runs: its models are
	// the way to Copilot then. Nil elsewhere.
	Window *Window
}

// Bridge is a running engine and what belongs to it.
type Bridge struct {
	Engine  *engine.Engine
	Runtime copilotruntime.Runtime // zero if the transport does not need it
	Answers Answers

	opts  Options
	ways  *auto.Auto // nil unless the transport is chosen by trying
	depth int
	model *rehearsal.Server // nil unless it answers
	guard guardParts
	wall  *sandbox.Wall // nil where programs are not confined
}

// prepare is a Bridge that has not been started: it can make guards, no
// sessions.
func prepare(o Options) (*Bridge, error) {
	depth := guard.DepthOf(o.Environ)
	if err := guard.CheckDepth(depth); err != nil {
		return nil, err
	}
	o.Environ = append(slices.Clone(o.Environ), guard.DepthVariable+"="+strconv.Itoa(depth+1))
	return &Bridge{opts: o, depth: depth}, nil
}

// Start finds or installs what the transport needs, decides who answers, and
// returns an engine that is ready for sessions. The runtime itself starts with
// the first of them.
func Start(ctx context.Context, o Options) (*Bridge, error) {
	b, err := prepare(o)
	if err != nil {
		return nil, err
	}
	o = b.opts
	if n, err := supervise.Reap(o.records()); err != nil {
		o.Logger.Warn("ending what a killed bridge left behind", "error", err)
	} else if n > 0 {
		o.Logger.Info("ended processes that a killed bridge left behind", "count", n)
	}
	for _, w := range ModuleWarnings(o.Environ) {
		o.Logger.Warn(w)
	}
	if err := b.raiseWall(ctx); err != nil {
		return nil, err
	}
	agent, err := b.chooseAgent(ctx)
	if err != nil {
		return nil, errors.Join(err, b.closeModel())
	}
	b.Answers.SetBy = setBy(o.Config, b.Answers.Kind)
	b.Engine = engine.New(engine.Options{
		Agent: agent, Store: Store(o.Config), Logger: o.Logger, Notice: b.Answers.Notice,
		ProjectContext: projectContext(o.Config),
		Limits: engine.Limits{
			IdleTimeout: o.Config.Engine.IdleTimeout, TotalTimeout: o.Config.Engine.TotalTimeout,
			ApprovalTimeout: o.Config.Engine.ApprovalTimeout, ParkTimeout: o.Config.Facade.ToolTTL,
			MaxConcurrent: o.Config.Engine.MaxConcurrent, QueueLimit: o.Config.Engine.QueueLimit,
			MaxRetries: o.Config.MaxRetries,
		},
	})
	return b, nil
}

// maxProjectContext is what of the project's context a session is told.
const maxProjectContext = 64 << 10

// projectContext is the configured text without secrets, shortened if need be.
func projectContext(c *config.Config) string {
	clean, _ := redact.New(redact.Options{Secrets: c.Secrets()}).String(c.ProjectContext)
	clean, _ = redact.Truncate(clean, maxProjectContext)
	return clean
}

// Store is the list of sessions of a configuration.
func Store(c *config.Config) *sessionstore.Store {
	s, mask := sessionstore.Open(c.Path("sessions.json")), redact.New(redact.Options{Secrets: c.Secrets()})
	s.Hide = func(text string) string {
		clean, _ := mask.String(text)
		return clean
	}
	return s
}

// Records is where the process records of a configuration are, see supervise.
func Records(c *config.Config) string { return c.Path("run") }

func (o Options) records() string { return Records(o.Config) }

// Close ends all that Start and the sessions have started.
func (b *Bridge) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	var err error
	if b.Engine != nil {
		err = b.Engine.Close(ctx)
	}
	return errors.Join(err, b.closeModel(), b.guard.close())
}

func (b *Bridge) closeModel() error {
	if b.model == nil {
		return nil
	}
	return b.model.Close()
}

// Spec is a session in a workspace as the configuration has it.
func (b *Bridge) Spec(p bridge.Profile, workspace string) bridge.SessionSpec {
	c := b.opts.Config
	spec := bridge.SessionSpec{Profile: p, WorkingDir: workspace, Model: c.Model, ReasoningEffort: c.ReasoningEffort}
	if b.Answers.Kind == AnswersRehearsal {
		spec.Model = "" // it has but one
	}
	if i := c.InfiniteSessions; i.Enabled != nil || i.BackgroundThreshold > 0 || i.BufferThreshold > 0 {
		spec.Infinite = &bridge.InfiniteSession{Enabled: i.Enabled == nil || *i.Enabled,
			BackgroundThreshold: i.BackgroundThreshold, BufferThreshold: i.BufferThreshold}
	}
	if p == bridge.ProfileAgent {
		spec.MCPServers = b.memoryServer(workspace)
	}
	return spec
}

func (o Options) sdkOptions(runtime string) sdk.Options {
	c := o.Config
	s := sdk.Options{Runtime: runtime, Home: c.Path("copilot"), Records: o.records(), Self: o.Self,
		LogLevel: string(c.LogLevel), Version: o.Version, Env: o.Environ, Logger: o.Logger}
	if c.LogLevel == config.LogInfo {
		s.LogLevel = "" // the runtime's own files need not repeat what we say
	}
	if t := c.Telemetry; t.ExporterType != "" {
		s.Telemetry = &sdk.Telemetry{OTLPEndpoint: t.OTLPEndpoint, FilePath: t.FilePath, ExporterType: string(t.ExporterType),
			SourceName: t.SourceName, CaptureContent: t.CaptureContent}
	}
	return s
}
