package registration

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/openclaw/json5"
)

// Unregister takes out what Register has put in, and nothing else. It works
// after OpenClaw itself was removed, too.
func (r *Registrar) Unregister(ctx context.Context, q Request) (result Result, err error) {
	unlock, err := r.lock(ctx)
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	p, err := r.begin(q)
	if err != nil {
		return Result{}, err
	}
	if p.entry != nil && p.entry.Method == Command && q.Method != Edit && r.program() != "" {
		p.method, p.result.Method, p.result.Notes = Command, Command, nil // as it was begun
	}
	if q.Target == Plugin {
		err = r.takeOutPlugin(ctx, q, p)
	} else {
		err = r.takeOutServer(ctx, q, p)
	}
	if err == nil {
		err = r.removePersona(q, p.entry, p.result)
	}
	if err != nil {
		return Result{}, err
	}
	p.result.Outcome = Absent
	if len(p.result.Changes) > 0 || len(p.result.Commands) > 0 {
		p.result.Outcome = Unregistered
	}
	if p.entry != nil && !q.DryRun {
		p.result.Outcome = Unregistered
		if err := p.keep(nil); err != nil {
			return Result{}, err
		}
	}
	return *p.result, nil
}

// undoing is how to take back a recorded change or, without a record, what
// looks like ours.
func (p *plan) undoing(path []string, element string) *json5.Undo {
	if u := p.entry.undoOf(path, element != ""); u != nil {
		return u
	}
	u := &json5.Undo{Path: path}
	if element != "" {
		u.Element = []byte(compact(element))
	}
	return u
}

func (r *Registrar) takeOutPlugin(ctx context.Context, q Request, p *plan) error {
	dir := r.directory()
	if p.entry != nil && p.entry.Method == Command && p.method == Edit {
		p.result.note("OpenClaw still has the plugin in its list of what was installed; `openclaw plugins uninstall --force " + pluginID + "` takes it out there")
	}
	_, elsewhere := p.settings.included(pluginEntry)
	elsewhere = elsewhere && p.entry != nil
	if p.method == Command && (p.settings.installed(dir) || elsewhere) {
		calls := [][]string{{"plugins", "uninstall", "--force", pluginID}}
		if elsewhere { // the mark that it leaves is in a file that we do not edit
			calls = append(calls, []string{"config", "unset", strings.Join(pluginEntry, ".")})
		}
		for _, call := range calls {
			p.result.Commands = append(p.result.Commands, shellLine(call))
		}
		if !q.DryRun {
			if err := r.uninstall(ctx, p, calls); err != nil {
				return err
			}
		}
	}
	undo := []*json5.Undo{p.undoing(pluginPaths, dir)}
	if u := p.entry.undoOf(pluginAllow, true); u != nil { // what is allowed by somebody else stays so
		undo = append(undo, u)
	}
	if p.pieces() {
		for _, u := range p.entry.Undo {
			if u.Element == nil {
				undo = append(undo, u)
			}
		}
	} else if _, ours := p.settings.doc.Get(join(pluginEntry, "config", "binary")...); ours || p.entry != nil {
		undo = append(undo, p.undoing(pluginEntry, ""))
	}
	if err := r.takeOut(q, p, undo); err != nil {
		return err
	}
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	p.result.Changes = append(p.result.Changes, Change{File: dir, What: "the plugin's files"})
	if q.DryRun {
		return nil
	}
	return r.removePlugin()
}

// pieces says whether the plugin's entry was there before us, so that only
// pieces of it are ours.
func (p *plan) pieces() bool {
	return p.entry != nil && p.entry.undoOf(pluginEntry, false) == nil && len(p.entry.Undo) > 0
}

// uninstall lets OpenClaw take the plugin out. It removes the plugin's whole
// entry and leaves a mark that it is disabled; if the entry was there before
// us it is put back, for its pieces to be taken out.
func (r *Registrar) uninstall(ctx context.Context, p *plan, calls [][]string) error {
	entry, had := p.settings.doc.Get(pluginEntry...)
	for _, call := range calls {
		if err := r.call(ctx, call...); err != nil {
			return err
		}
	}
	now, err := r.readSettings()
	if err != nil {
		return err
	}
	p.settings = now
	if had && p.pieces() {
		_, err = now.doc.Set(entry, pluginEntry...)
	}
	return err
}

func (r *Registrar) takeOutServer(ctx context.Context, q Request, p *plan) error {
	have, there := p.settings.registeredServer()
	_, elsewhere := p.settings.included(serverPath)
	if !there && (!elsewhere || p.entry == nil) {
		return nil
	}
	if p.entry == nil && !have.ours() {
		p.result.note("OpenClaw's MCP server " + serverName + " is not this program, and was left alone")
		return nil
	}
	u := p.undoing(serverPath, "")
	if p.method == Command && (u.Was != "" || p.halves(u)) {
		p.method, p.result.Method = Edit, Edit
	}
	if p.method == Command {
		call := []string{"mcp", "unset", serverName}
		p.result.Commands = append(p.result.Commands, shellLine(call))
		if q.DryRun {
			return nil
		}
		backup, err := r.backUp(p.settings)
		if err != nil {
			return err
		}
		p.result.Backup = backup
		return r.call(ctx, call...)
	}
	return r.takeOut(q, p, []*json5.Undo{u})
}

// halves says whether little of the configuration would be left. OpenClaw's
// command refuses to write less than half of what there was, and leaves a file
// with what it has refused.
func (p *plan) halves(u *json5.Undo) bool {
	d, err := json5.Parse(p.settings.before)
	return err == nil && d.Revert(u) == nil && len(d.Bytes()) < len(p.settings.before)*6/10
}

// takeOut takes changes back and saves. A file that only the bridge has written
// is given back as it was once nothing is registered in it; one that the bridge
// has made is removed if nothing else is in it.
func (r *Registrar) takeOut(q Request, p *plan, undo []*json5.Undo) error {
	if p.settings.missing {
		return nil
	}
	for _, u := range undo {
		if at, yes := p.settings.included(u.Path); yes && p.method == Edit {
			p.result.note("OpenClaw's configuration takes " + strings.Join(u.Path, ".") + " from other files (" + at + "), which are not edited")
			return nil
		}
	}
	config := p.result.Config
	o := p.rec.untouched(config, p.settings)
	if err := p.revert(undo); err != nil || q.DryRun || !p.settings.changed() {
		return err
	}
	if err := r.writable(p.settings); err != nil {
		return err
	}
	last := !slices.ContainsFunc(p.rec.Entries, func(e *entry) bool { return e != p.entry && e.Config == config })
	switch {
	case o != nil && last && o.Missing, p.entry != nil && p.entry.Created && string(p.settings.doc.Bytes()) == fresh:
		return p.settings.remove()
	case o != nil && last:
		var err error
		if p.settings.doc, err = json5.Parse([]byte(o.Text)); err != nil {
			return err
		}
	case o != nil:
		o.Written = sum(p.settings.doc.Bytes())
	}
	backup, err := r.save(p.settings)
	if backup != "" {
		p.result.Backup = backup
	}
	return err
}
