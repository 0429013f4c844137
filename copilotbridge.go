// Package copilotbridge runs GitHub Copilot's agent inside a Go program: it
// finds or installs the official runtime, opens sessions on it, and puts every
// prompt and tool call through the same policy, approvals, redaction and audit
// log as the copilot-bridge command.
//
// Open a Client, start a Session, and range over what Send returns:
//
//	client, err := copilotbridge.Open(ctx, copilotbridge.Options{})
//	if err != nil {
//		return err
//	}
//	defer client.Close()
//	session, err := client.NewSession(ctx, copilotbridge.SessionOptions{})
//	if err != nil {
//		return err
//	}
//	for event, err := range session.Send(ctx, bridge.Prompt{Text: "fix the failing test"}) {
//		…
//	}
//
// Package bridge has the events, prompts and errors. The user's configuration
// and policy files count as they do for the command. Where nothing hints at
// a GitHub account or a provider of one's own, a built-in demo model answers; see
// Client.Notice.
//
// A program that imports this package also supervises the runtime: it starts
// itself with a hidden argument, and such a process never reaches main. That is
// how nothing is left running even if the program is killed.
package copilotbridge

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
)

// The supervisor has to run before the program's own main, which knows nothing
// of it.
//
//nolint:gochecknoinits // there is no other place before main
func init() {
	if len(os.Args) > 1 && os.Args[1] == supervise.Verb {
		os.Exit(supervise.Main(os.Args[2:], os.Stderr))
	}
}

// Options say where a Client works and whom it asks. The zero value works in
// the current directory with the user's configuration, and denies what would
// need a person's consent.
type Options struct {
	// Dir is the workspace; the current directory if empty.
	Dir string
	// Home holds the bridge's state: configuration, sessions, audit log, the
	// installed runtime. If empty it is COPILOT_BRIDGE_HOME or ~/.copilot-bridge.
	Home string
	// Model answers where a session names none.
	Model string
	// Demo lets the built-in demo model answer, which needs no account.
	Demo bool
	// ReadOnly lets sessions read in the workspace, and not write.
	ReadOnly bool
	// Approve is asked for consent. It may be called concurrently. If nil,
	// everything that needs consent is denied.
	Approve func(ctx context.Context, a Approval) (Consent, error)
	// Settings are the settings of config.yaml by key, such as "sandbox" or
	// "engine.idle_timeout"; they win over files and environment.
	Settings map[string]string
	// Progress is told about the installation of the runtime, which happens
	// once and takes up to a minute.
	Progress func(text string)
	// Logger gets warnings; nil drops them.
	Logger *slog.Logger
}

// Client is a running bridge. Its methods may be called concurrently.
type Client struct {
	bridge *app.Bridge
	opts   Options

	handler func() http.Handler

	mu     sync.Mutex
	closes []func(context.Context) error // before the bridge's own
}

// Open reads the configuration, finds or installs the runtime, and decides who
// answers. The runtime starts with the first session. The caller must call
// Close.
func Open(ctx context.Context, o Options) (*Client, error) {
	program.KeepFiles()
	cfg, err := o.config()
	if err != nil {
		return nil, err
	}
	if o.Dir, err = directory(o.Dir); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, &bridge.Error{Code: bridge.CodeUnavailable, Message: "the path of this program is not known", Cause: err}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	home, _ := os.UserHomeDir() // "" if there is none
	b, err := app.Start(ctx, app.Options{Config: cfg, Self: self, Version: "library", Environ: os.Environ(), UserDir: home, Logger: o.Logger, DemoIfNone: true, Command: "library", Workspace: o.Dir,
		Progress: func(s copilotruntime.Step) {
			if o.Progress != nil {
				o.Progress(s.Text)
			}
		}})
	if err != nil {
		return nil, err
	}
	c := &Client{bridge: b, opts: o}
	c.handler = sync.OnceValue(func() http.Handler {
		h, end := b.Handler(app.Serving{Workspace: o.Dir, Asker: c.asker()})
		c.mu.Lock()
		defer c.mu.Unlock()
		c.closes = append(c.closes, end)
		return h
	})
	return c, nil
}

// config loads the user's configuration with the options over it.
func (o Options) config() (*config.Config, error) {
	// The memory of OpenClaw is a server that the command itself is; this
	// program is another one.
	flags := map[string]string{"openclaw.memory": "off"}
	if o.Demo {
		flags["demo"] = "true"
	}
	for key, value := range o.Settings {
		flags[key] = value
	}
	for key, value := range map[string]string{"home": o.Home, "model": o.Model} {
		if value != "" {
			flags[key] = value
		}
	}
	home, _ := os.UserHomeDir() // "" if there is none
	return config.Load(config.Options{Flags: flags, Environ: os.Environ(), HomeDir: home,
		Trusted: func(home, file string, data []byte) (bool, error) { return app.TrustIn(home).Trusted(file, data) }})
}

func directory(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return "", &bridge.Error{Code: bridge.CodeInvalid, Message: "the working directory cannot be used", Cause: err, Remedy: "name an existing directory"}
	}
	return dir, nil
}

// Close ends all sessions and the runtime, within half a minute.
func (c *Client) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c.mu.Lock()
	closes := c.closes
	c.closes = nil
	c.mu.Unlock()
	var errs []error
	for _, end := range closes {
		errs = append(errs, end(ctx))
	}
	return errors.Join(append(errs, c.bridge.Close(ctx))...)
}

// Notice says that the answers are not Copilot's, and how to change that. It is
// empty if they are.
func (c *Client) Notice() string { return c.bridge.Answers.Notice }

// Models lists the models that can answer.
func (c *Client) Models(ctx context.Context) ([]bridge.Model, error) {
	return c.bridge.Engine.Models(ctx)
}

// Handler answers the APIs of OpenAI and Anthropic below /v1/, for a server of
// the caller's own. That server decides who may call; the handler asks for no
// token. Models named agent/… work in Options.Dir and may only read, unless
// the policy allows more or Options.Approve consents.
func (c *Client) Handler() http.Handler { return c.handler() }
