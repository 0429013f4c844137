// Package registration makes the bridge known to OpenClaw, as a plugin or as an
// MCP server, and takes it out again exactly. It uses OpenClaw's own command
// where that loses nothing, otherwise it edits the configuration in place. It
// starts no bridge and serves nothing. internal/cli calls it for `register`,
// `unregister` and `validate`, with what internal/app finds.
package registration

import (
	"context"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	openclawplugin "github.com/copilot-bridge/copilot-bridge/extensions/openclaw"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/redact"
	"github.com/copilot-bridge/copilot-bridge/internal/openclaw"
)

// Target is what the bridge is for OpenClaw.
type Target string

// The targets.
const (
	Plugin Target = "openclaw"
	Server Target = "openclaw-mcp"
)

// Method is how OpenClaw's configuration is changed.
type Method string

// The methods. Auto prefers the command, unless that would lose comments or
// show a secret.
const (
	Auto    Method = "auto"
	Command Method = "command"
	Edit    Method = "edit"
)

// The names by which OpenClaw knows the bridge.
const (
	pluginID   = openclawplugin.ID
	serverName = "copilot"
)

// Options say where everything is.
type Options struct {
	Home       string // the bridge's
	Executable string // this program
	Places     openclaw.Places
	Environ    []string // in which OpenClaw's command runs, and with whose PATH it is found
	Token      string   // secret; of the gateway, "" for what OpenClaw itself knows
	Port       int      // of the gateway; 0 for what OpenClaw itself knows
	Files      fs.FS    // the plugin; nil for that of this program
	// Progress, if set, hears what takes long.
	Progress func(text string)
}

// Request says what to do.
type Request struct {
	Target    Target
	Method    Method
	Workspace string            // where Copilot works
	Env       map[string]string // what the bridge needs besides HOME and PATH
	Secrets   bool              // Env holds some
	Persona   bool              // tell OpenClaw's agent, too
	Force     bool              // replace an entry that is not the bridge's
	DryRun    bool
}

// Outcome is what became of a request.
type Outcome string

// The outcomes.
const (
	Registered   Outcome = "registered"
	Updated      Outcome = "updated"
	Already      Outcome = "already"
	Unregistered Outcome = "unregistered"
	Absent       Outcome = "absent" // there was nothing to unregister
)

// Change is one change of a file.
type Change struct {
	File  string   `json:"file"`
	What  string   `json:"what"`            // a path in the configuration, or a few words
	Lines []string `json:"lines,omitempty"` // "+ new" and "- old", without secrets
}

// Result lists the changes that were made, or would be.
type Result struct {
	Target   Target   `json:"target"`
	Outcome  Outcome  `json:"outcome"`
	DryRun   bool     `json:"dry_run,omitempty"`
	Method   Method   `json:"method,omitempty"`
	Config   string   `json:"config"`
	Backup   string   `json:"backup,omitempty"`
	Changes  []Change `json:"changes"`
	Commands []string `json:"commands,omitempty"`
	Notes    []string `json:"notes,omitempty"`
}

func (r *Result) note(text string) { r.Notes = append(r.Notes, text) }

// Registrar registers with one OpenClaw. Its methods may be called
// concurrently, and by several processes.
type Registrar struct {
	opts   Options
	redact *redact.Redactor
}

// New returns a registrar.
func New(opts Options) *Registrar {
	if opts.Progress == nil {
		opts.Progress = func(string) {}
	}
	if opts.Files == nil {
		opts.Files = openclawplugin.Files()
	}
	r := &Registrar{opts: opts, redact: redact.New(redact.Options{})}
	if opts.Token != "" {
		r.redact.AddSecrets(opts.Token)
	}
	return r
}

// directory is where the plugin's files are.
func (r *Registrar) directory() string { return filepath.Join(r.opts.Home, "openclaw-plugin") }

// lockWait is how long another bridge may be registering.
const lockWait = 30 * time.Second

// lock keeps other bridges from registering at the same time.
func (r *Registrar) lock(ctx context.Context) (unlock func() error, err error) {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	return durable.Lock(ctx, r.recordPath()+".lock")
}

// present refuses if there is no OpenClaw.
func (r *Registrar) present() error {
	if r.opts.Places.Present || r.program() != "" {
		return nil
	}
	return &bridge.Error{Code: bridge.CodeNotFound,
		Message: "OpenClaw was not found: there is no " + r.opts.Places.State + ", and no `openclaw` on the PATH",
		Remedy:  "install OpenClaw, or say where it is with OPENCLAW_STATE_DIR or OPENCLAW_CONFIG_PATH"}
}
