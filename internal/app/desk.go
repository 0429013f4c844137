package app

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/door/toolbus"
	"github.com/copilot-bridge/copilot-bridge/internal/git"
	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/files"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/language"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/search"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/task"
)

// desk is what the tool bus works on: the served directory, or the folders of
// an editor's window.
type desk struct {
	ws     *workspace.Folders
	window bool
	engine search.Engine
	status func(context.Context) toolbus.Status

	mu        sync.Mutex
	readWrite bool            // as was asked for, where there is no directory
	readOnly  map[string]bool // by directory
	policies  map[string][]string
}

// ReadOnly says whether nothing may be written without consent, anywhere.
func (d *desk) ReadOnly() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	folders := d.ws.List()
	for _, f := range folders {
		if ro, known := d.readOnly[f.Dir]; known && !ro {
			return false
		}
	}
	return len(folders) > 0 || !d.readWrite
}

func (d *desk) Read(ctx context.Context, p toolbus.ReadParams) (toolbus.Content, error) {
	c, err := d.ws.Read(ctx, p.Path, files.ReadOptions{Offset: int(p.Offset), Limit: int(p.Limit)})
	return toolbus.Content(c), err
}

func (d *desk) List(ctx context.Context, p toolbus.ListParams) (files.Listing, error) {
	return d.ws.Files(ctx, files.ListOptions{Scope: files.Scope{Glob: p.Glob, Exclude: p.Exclude, Hidden: p.Hidden}, Limit: int(p.Limit)})
}

func (d *desk) Search(ctx context.Context, p toolbus.SearchParams, take search.Taker) (search.Result, error) {
	return d.ws.Search(ctx, search.Options{Scope: files.Scope{Glob: p.Glob, Exclude: p.Exclude, Hidden: p.Hidden}, Query: p.Query, Regex: p.Regex,
		CaseSensitive: p.CaseSensitive, Word: p.Word, Context: int(p.Context), MaxResults: int(p.MaxResults)}, take)
}

func (d *desk) Symbols(ctx context.Context, p toolbus.PathParams) (toolbus.Symbols, error) {
	s, err := d.ws.Symbols(ctx, p.Path)
	return toolbus.Symbols{Symbols: s}, err
}

func (d *desk) ApplyPatch(ctx context.Context, p toolbus.PatchParams) (toolbus.Patched, error) {
	r, err := d.ws.ApplyPatch(ctx, p.UnifiedDiff, workspace.PatchOptions{Verify: p.Verify, DryRun: p.DryRun, Format: p.Format, Organize: p.OrganizeImports})
	return toolbus.Patched(r), err
}

func (d *desk) Format(ctx context.Context, p toolbus.PathParams) (toolbus.Rewritten, error) {
	r, err := d.ws.Format(ctx, p.Path)
	return toolbus.Rewritten(r), err
}

func (d *desk) Organize(ctx context.Context, p toolbus.PathParams) (toolbus.Rewritten, error) {
	r, err := d.ws.Organize(ctx, p.Path)
	return toolbus.Rewritten(r), err
}

// Tasks lists what there is even if a file cannot be understood.
func (d *desk) Tasks(ctx context.Context) (toolbus.Tasks, error) {
	tasks, err := d.ws.Tasks(ctx)
	out := toolbus.Tasks{Tasks: tasks}
	if out.Tasks == nil {
		out.Tasks = []task.Task{}
	}
	if err != nil {
		out.Problems = append(out.Problems, err.Error())
	}
	return out, ctx.Err()
}

func (d *desk) RunTask(ctx context.Context, p toolbus.TaskParams, progress toolbus.Progress) (task.Result, error) {
	return d.ws.RunTask(ctx, p.Name, workspace.RunOptions{Timeout: time.Duration(p.TimeoutMs) * time.Millisecond, Args: p.Args, OnOutput: progress})
}

func (d *desk) Shell(ctx context.Context, p toolbus.ShellParams, progress toolbus.Progress) (task.Result, error) {
	return d.ws.Shell(ctx, p.Folder, p.Cmd, workspace.RunOptions{Timeout: time.Duration(p.TimeoutMs) * time.Millisecond, OnOutput: progress})
}

func (d *desk) Status(ctx context.Context) (toolbus.Status, error) {
	s := d.status(ctx)
	s.Search, s.Languages = d.engine, d.ws.Languages()
	for i, f := range d.ws.List() {
		if i == 0 {
			s.Workspace = f.Dir
		}
		if d.window {
			s.Folders = append(s.Folders, toolbus.Folder{Name: f.Name, Path: f.Dir})
		}
	}
	return s, ctx.Err()
}

// openDesk makes a desk for directories, each under a guard of its own that
// gate makes. There are none on it yet.
func (b *Bridge) openDesk(o Serving, gate func(dir string) (bridge.Gate, error), status func(context.Context) toolbus.Status) *desk {
	beside := "" // the runtime brings one along
	if b.Runtime.Path != "" {
		beside = filepath.Dir(b.Runtime.Path)
	}
	rg := search.FindRipgrep(beside, b.find)
	c := b.opts.Config
	d := &desk{engine: search.Scanner, status: status, readWrite: o.ReadWrite, readOnly: map[string]bool{}, policies: map[string][]string{}}
	if rg != "" {
		d.engine = search.Ripgrep
	}
	var ed workspace.Editor
	if w := b.opts.Window; w != nil {
		d.window, ed = true, w.documents
	}
	d.ws = workspace.NewFolders(ed, func(ctx context.Context, dir string) (*workspace.Workspace, error) {
		made, err := gate(dir)
		if err != nil {
			return nil, err
		}
		g, ok := made.(workspace.Guard)
		if !ok {
			return nil, &bridge.Error{Code: bridge.CodeInternal, Message: "the guard cannot stand before a workspace"}
		}
		confined, err := b.confined(ctx, dir, made)
		if err != nil {
			return nil, err
		}
		d.mu.Lock()
		d.readOnly[dir] = readOnly(made, o)
		if s, ok := made.(interface{ Sources() []string }); ok {
			d.policies[dir] = s.Sources()
		}
		d.mu.Unlock()
		return workspace.Open(ctx, dir, workspace.Options{Guard: g, Sandbox: confined, Journal: c.Path("patches"), Ripgrep: rg, Servers: servers(c), Tasks: c.Tasks,
			Env: git.SafeEnviron(task.PlainEnviron(b.opts.Environ)), Editor: ed,
			Trees: func() (*supervise.Tree, error) { return supervise.NewTree(b.opts.records(), b.opts.Self) }})
	})
	return d
}

// policy are the policy files in force.
func (d *desk) policy() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := []string{}
	for _, f := range d.ws.List() {
		for _, p := range d.policies[f.Dir] {
			if !slices.Contains(out, p) {
				out = append(out, p)
			}
		}
	}
	return out
}

// servers are the configured languages.
func servers(c *config.Config) map[string]language.Server {
	out := map[string]language.Server{}
	for name, l := range c.Languages {
		s := language.Server{Command: l.Command, Extensions: l.Extensions, LanguageID: l.LanguageID, Formatter: l.Formatter,
			FormatterFirst: l.FormatterFirst, Settings: l.Settings, TabSize: l.TabSize, RunsCode: l.RunsCode}
		if l.InitializationOptions != nil {
			s.InitializationOptions = l.InitializationOptions
		}
		out[name] = s
	}
	return out
}

// readOnly says what a guard does about writing; a policy file may have
// decided otherwise than the flag.
func readOnly(gate bridge.Gate, o Serving) bool {
	if g, ok := gate.(interface{ ReadOnly() bool }); ok {
		return g.ReadOnly()
	}
	return !o.ReadWrite
}
