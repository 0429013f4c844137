// Package app is the composition root: it builds, from a configuration, what
// a command needs, and takes it down again. It is the one package that sees
// all the others; it holds no logic beyond the connections between
// them and the choice of who answers.
package app

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/sdk"
	"github.com/copilot-bridge/copilot-bridge/internal/answers"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime"
	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/guard"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/redact"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/repo"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/sandbox"
	"github.com/copilot-bridge/copilot-bridge/internal/live"
	"github.com/copilot-bridge/copilot-bridge/internal/sessionstore"
	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
	"github.com/copilot-bridge/copilot-bridge/internal/traces"
	"github.com/copilot-bridge/copilot-bridge/internal/upkeep"
	"github.com/copilot-bridge/copilot-bridge/internal/usagelog"
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
	// DemoIfNone lets the demo model answer unasked where nothing hints at an
	// account: for people, who are told.
	DemoIfNone bool
	// Patient starts although a login is missing. Every caller gets an error that
	// says so, until somebody has logged in.
	Patient bool
	// NoTurns: sessions are only read or removed, so no account is needed.
	NoTurns bool
	// FindOnly installs nothing: a missing runtime is an error.
	FindOnly bool
	// Command and Workspace are what other processes are told of this one.
	Command   string
	Workspace string
	// Window is the editor's window in which the bridge runs: its models are
	// the way to Copilot then. Nil elsewhere.
	Window *Window
}

// Bridge is a running engine and what belongs to it.
type Bridge struct {
	Engine  *engine.Engine
	Runtime copilotruntime.Runtime // zero if the transport does not need it
	Answers answers.Who

	opts        Options
	agents      *engine.Agents
	started     bool                      // agents were chosen from
	who         sync.Map                  // bridge.Answers by the name of the agent
	sdk         atomic.Pointer[sdk.Agent] // nil if Copilot is reached in another way
	depth       int
	model       *demomodel.Server // nil unless it answers
	guard       guardParts
	live        *live.Local // this process as others see it; nil if it is not shown
	asking      asking
	userServers userServers
	tracer      *traces.Tracer // nil without traces
	relay       *traces.Relay  // nil if the runtime's own spans are not wanted
	wall        *sandbox.Wall  // nil where programs are not confined
	noWall      error          // why they are not, though they should be
	tidy        *upkeep.Upkeep // nil before Start has succeeded
	observer    *observer      // nil where nothing is observed
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
		o.Logger.Warn("supervise.reap_failed", "error", err)
	} else if n > 0 {
		o.Logger.Info("supervise.reaped", "count", n)
	}
	for _, w := range ModuleWarnings(o.Environ) {
		o.Logger.Warn(w)
	}
	if err := b.raiseWall(ctx); err != nil {
		return nil, err
	}
	b.startTraces(ctx)
	var agent engine.Agent
	if w := o.Window; w != nil {
		agent = b.windowAgent(w)
	} else if err := b.chooseAgent(ctx); err != nil {
		b.closeTraces(ctx)
		return nil, errors.Join(err, b.closeModel())
	}
	store := Store(o.Config)
	store.Tell = func(told string) { o.Logger.Warn("sessions.damaged: " + told) }
	var ledger engine.Ledger
	if b.Answers.Kind != bridge.AnswersDemo { // which costs nobody anything
		ledger = Usage(o.Config)
	}
	var watcher engine.Observer
	if !o.NoTurns {
		if b.observe(); b.observer != nil {
			watcher = b.observer
		}
	}
	b.Engine = engine.New(engine.Options{
		Ledger: ledger, Observer: watcher,
		Agent: agent, Agents: b.agents, Store: store, Logger: o.Logger, Notice: b.Answers.Notice, Origin: repo.Origin, Answers: b.answers, Tracer: b.tracer,
		ProjectContext: projectContext(o.Config),
		Limits: engine.Limits{
			IdleTimeout: o.Config.Engine.IdleTimeout, TotalTimeout: o.Config.Engine.TotalTimeout,
			ApprovalTimeout: o.Config.Engine.ApprovalTimeout, ParkTimeout: o.Config.Facade.ToolTTL,
			MaxConcurrent: o.Config.Engine.MaxConcurrent, QueueLimit: o.Config.Engine.QueueLimit,
			MaxRetries: o.Config.MaxRetries,
		},
	})
	b.tidy = upkeep.Start(o.Upkeep())
	return b, nil
}

// chatRuntimes is how many runtimes many chats are spread over: a runtime does
// part of its work one thing after another. See docs/decisions/0001-chat-pool.md.
func chatRuntimes() int {
	const most, memory = 4, 512 << 20
	cores := runtime.GOMAXPROCS(0)
	if cores == 1 {
		return 1
	}
	return max(1, min(most, cores+1, int(engine.MachineMemory()/memory)))
}

// maxProjectContext is what of the project's context a session is told.
const maxProjectContext = 64 << 10

// projectContext is the configured text without secrets, shortened if need be.
func projectContext(c *config.Config) string {
	clean, _ := redact.New(redact.Options{Secrets: c.Secrets()}).String(c.ProjectContext)
	clean, _ = redact.Truncate(clean, maxProjectContext)
	return clean
}

// Usage is what turns have used.
func Usage(c *config.Config) *usagelog.Log { return usagelog.Open(c.Path("usage")) }

// Store is the list of sessions of a configuration.
func Store(c *config.Config) *sessionstore.Store {
	s, mask := sessionstore.Open(c.Path("sessions")), redact.New(redact.Options{Secrets: c.Secrets()})
	s.Hide = func(text string) string {
		clean, _ := mask.String(text)
		return clean
	}
	return s
}

// Records is where the process records of a configuration are, see supervise.
func Records(c *config.Config) string { return c.Path("run") }

func (o Options) records() string { return Records(o.Config) }

// Upkeep is where the upkeep of a configuration finds things.
func (o Options) Upkeep() upkeep.Options {
	return upkeep.Options{Config: o.Config, Store: Store(o.Config), Records: o.records(), Personal: answers.CopilotHome(o.Environ, o.UserDir), Logger: o.Logger}
}

// Close ends all that Start and the sessions have started.
func (b *Bridge) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	var err error
	if b.observer != nil {
		b.observer.stopTurns()
	}
	b.relay.Settle(ctx)
	if b.Engine != nil {
		err = b.Engine.Close(ctx)
	}
	if b.observer != nil {
		err = errors.Join(err, b.observer.close(ctx))
	}
	b.closeTraces(ctx)
	err = errors.Join(err, b.asking.close(), b.closeModel(), b.guard.close())
	if b.tidy != nil {
		b.tidy.Close()
	}
	return err
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
	spec := bridge.SessionSpec{Profile: p, WorkingDir: workspace, Model: c.Model, ReasoningEffort: c.ReasoningEffort, Headers: config.Plain(c.RequestHeaders)}
	if b.Answers.Kind == bridge.AnswersDemo {
		spec.Model = "" // it has but one
	}
	if i := c.InfiniteSessions; i.Enabled != nil || i.BackgroundThreshold > 0 || i.BufferThreshold > 0 {
		spec.Infinite = &bridge.InfiniteSession{Enabled: i.Enabled == nil || *i.Enabled,
			BackgroundThreshold: i.BackgroundThreshold, BufferThreshold: i.BufferThreshold}
	}
	if p == bridge.ProfileAgent {
		spec.MCPServers = b.WithServers(workspace, nil)
		spec.MCPServers = withServers(b.memoryServer(workspace), spec.MCPServers)
	}
	return spec
}

func (o Options) sdkOptions(path string) sdk.Options {
	c := o.Config
	s := sdk.Options{Runtime: path, Runtimes: chatRuntimes(), Home: c.Path("copilot"), Records: o.records(), Self: o.Self,
		LogLevel: string(c.LogLevel), Version: o.Version, Env: o.Environ, Logger: o.Logger, MemoryLimit: engine.MachineMemory() / 8, GitHubTools: c.GitHubMCP}
	if c.LogLevel == config.LogInfo {
		s.LogLevel = "" // the runtime's own files need not repeat what we say
	}
	if t := c.Telemetry; t.ExporterType != "" {
		s.Telemetry = &sdk.Telemetry{OTLPEndpoint: t.OTLPEndpoint, FilePath: t.FilePath, ExporterType: string(t.ExporterType),
			SourceName: t.SourceName, CaptureContent: t.CaptureContent}
	}
	return s
}
