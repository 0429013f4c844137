package app

import (
	"context"
	"path/filepath"
	"slices"
	"sync"

	"github.com/copilot-bridge/copilot-bridge/internal/api/toolbus"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/git"
	"github.com/copilot-bridge/copilot-bridge/internal/guard"
	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/lsp"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/search"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/task"
)

// toolbusBackend is the toolbus.Workspace of a bridge: the served directory, or the
// folders of an editor's window.
type toolbusBackend struct {
	*workspace.Folders
	window bool
	engine search.Engine
	status func(context.Context) toolbus.Status

	readWrite bool // as was asked for, where there is no directory

	mu     sync.Mutex
	guards map[string]*guard.Guard // by directory
}

// ReadOnly says whether nothing may be written without consent, anywhere.
func (d *toolbusBackend) ReadOnly() bool {
	if slices.ContainsFunc(d.inUse(), func(g *guard.Guard) bool { return !g.ReadOnly() }) {
		return false
	}
	return len(d.List()) > 0 || !d.readWrite
}

// inUse are the guards of the directories that are open.
func (d *toolbusBackend) inUse() (out []*guard.Guard) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range d.List() {
		if g := d.guards[f.Dir]; g != nil {
			out = append(out, g)
		}
	}
	return out
}

func (d *toolbusBackend) Status(ctx context.Context) (toolbus.Status, error) {
	s := d.status(ctx)
	s.Search, s.Languages = d.engine, d.Languages()
	for i, f := range d.List() {
		if i == 0 {
			s.Workspace = f.Dir
		}
		if d.window {
			s.Folders = append(s.Folders, f)
		}
	}
	return s, ctx.Err()
}

// newBackend makes a backend without directories. gate makes the guard of each
// directory that is opened.
func (b *Bridge) newBackend(o Serving, gate func(dir string) (*guard.Guard, error), status func(context.Context) toolbus.Status) *toolbusBackend {
	beside := "" // the runtime brings one along
	if b.Runtime.Path != "" {
		beside = filepath.Dir(b.Runtime.Path)
	}
	rg := search.FindRipgrep(beside, b.find)
	c := b.opts.Config
	d := &toolbusBackend{engine: search.Scanner, status: status, readWrite: o.ReadWrite, guards: map[string]*guard.Guard{}}
	if rg != "" {
		d.engine = search.Ripgrep
	}
	var ed workspace.Editor
	if w := b.opts.Window; w != nil {
		d.window, ed = true, w.conn
	}
	d.Folders = workspace.NewFolders(ed, func(ctx context.Context, dir string) (*workspace.Workspace, error) {
		g, err := gate(dir)
		if err != nil {
			return nil, err
		}
		confined, err := b.confined(ctx, dir, g)
		if err != nil {
			return nil, err
		}
		d.mu.Lock()
		d.guards[dir] = g
		d.mu.Unlock()
		return workspace.Open(dir, workspace.Options{Guard: g, Sandbox: confined, Journal: journal(c), Tell: b.tellOf(dir), Ripgrep: rg, Servers: servers(c), Tasks: c.Tasks,
			Env: git.SafeEnviron(task.PlainEnviron(b.opts.Environ)), Editor: ed,
			Trees: func() (*supervise.Tree, error) { return supervise.NewTree(b.opts.records(), b.opts.Self) }})
	})
	return d
}

// policy are the policy files in force.
func (d *toolbusBackend) policy() []string {
	out := []string{}
	for _, g := range d.inUse() {
		for _, p := range g.Sources() {
			if !slices.Contains(out, p) {
				out = append(out, p)
			}
		}
	}
	return out
}

// servers are the configured languages.
func servers(c *config.Config) map[string]lsp.Server {
	out := map[string]lsp.Server{}
	for name, l := range c.Languages {
		s := lsp.Server{Command: l.Command, Extensions: l.Extensions, LanguageID: l.LanguageID, Formatter: l.Formatter,
			FormatterFirst: l.FormatterFirst, Settings: l.Settings, TabSize: l.TabSize, RunsCode: l.RunsCode}
		if l.InitializationOptions != nil {
			s.InitializationOptions = l.InitializationOptions
		}
		out[name] = s
	}
	return out
}
