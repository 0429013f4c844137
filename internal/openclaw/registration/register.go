package registration

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/openclaw/json5"
)

// Register makes the bridge known to OpenClaw. An existing registration is
// brought up to date.
func (r *Registrar) Register(ctx context.Context, q Request) (result Result, err error) {
	if err := r.present(); err != nil {
		return Result{}, err
	}
	if q.Persona { // before anything is changed
		if _, _, err := r.personaFor(q.Target); err != nil {
			return Result{}, err
		}
	}
	unlock, err := r.lock(ctx)
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	p, err := r.begin(q)
	if err != nil {
		return Result{}, err
	}
	if q.Target == Plugin {
		err = p.plugin(q)
	} else {
		err = p.server(q)
	}
	if err != nil {
		return Result{}, err
	}
	var files []string
	if q.Target == Plugin {
		if files, err = r.stale(); err != nil {
			return Result{}, err
		}
		if len(files) > 0 {
			p.result.Changes = append(p.result.Changes, Change{File: r.directory(), What: strings.Join(files, ", ")})
		}
	}
	e := p.record()
	missing := q.Target == Plugin && !p.settings.installed(r.directory()) // from the list of paths
	other := p.entry != nil && p.entry.Method == Edit && p.method == Command
	install := len(files) > 0 || missing || other
	p.result.Outcome = Already
	if install || p.settings.changed() {
		if p.result.Outcome = Registered; p.entry != nil {
			p.result.Outcome = Updated
		}
	}
	if !q.DryRun && (p.result.Outcome != Already || p.entry == nil) {
		// On record first: if the process is killed, the change is known.
		p.rec.remember(p)
		if err := p.keep(e); err != nil {
			return Result{}, err
		}
	}
	if p.result.Outcome != Already {
		if err := r.carryOut(ctx, q, p, install); err != nil {
			if !q.DryRun {
				err = errors.Join(err, p.keep(p.entry), r.dropPlugin(p))
			}
			return Result{}, err
		}
	}
	if q.Persona {
		return *p.result, r.persona(q, p, e)
	}
	return *p.result, nil
}

// record is what will be on record.
func (p *plan) record() *entry {
	e := &entry{Target: p.result.Target, Config: p.result.Config, Method: p.method, Undo: p.undo, Created: p.settings.missing}
	if old := p.entry; old != nil {
		e.Persona, e.Created = old.Persona, e.Created || old.Created
		if old.Method == Command { // OpenClaw has it in its own books
			e.Method = Command
		}
	}
	return e
}

// keep puts an entry on record; nil takes it off.
func (p *plan) keep(e *entry) error {
	p.rec.put(p.result.Target, p.result.Config, e)
	return p.r.writeRecord(p.rec)
}

// persona comes last: a registration without it is whole.
func (r *Registrar) persona(q Request, p *plan, e *entry) error {
	n := len(p.result.Changes)
	if err := r.addPersona(q, e, p.result, func() error { return p.keep(e) }); err != nil {
		return err
	}
	if p.result.Outcome == Already && len(p.result.Changes) > n {
		p.result.Outcome = Updated
	}
	return nil
}

// begin reads what there is.
func (r *Registrar) begin(q Request) (*plan, error) {
	rec, err := r.readRecord()
	if err != nil {
		return nil, err
	}
	s, err := r.readSettings()
	if err != nil {
		return nil, err
	}
	p := &plan{r: r, rec: rec, settings: s, entry: rec.find(q.Target, r.opts.Places.Config)}
	p.result = &Result{Target: q.Target, DryRun: q.DryRun, Config: r.opts.Places.Config, Changes: []Change{}}
	var notes []string
	if p.method, notes, err = r.choose(q, p.entry, s); err != nil {
		return nil, err
	}
	p.result.Method, p.result.Notes = p.method, notes
	if p.entry != nil {
		p.undo = slices.Clone(p.entry.Undo)
	}
	return p, nil
}

// carryOut carries out a plan. install says whether OpenClaw has to look at
// the plugin anew.
func (r *Registrar) carryOut(ctx context.Context, q Request, p *plan, install bool) error {
	calls := r.calls(q, p, install)
	for _, call := range calls {
		p.result.Commands = append(p.result.Commands, shellLine(call))
	}
	if q.Target == Plugin && install && p.method == Edit && p.entry != nil {
		p.result.note("a gateway that runs has the plugin as it was: restart it, or run `openclaw plugins reload " + pluginID + "`")
	}
	if q.DryRun {
		return nil
	}
	if p.settings.changed() {
		if err := r.writable(p.settings); err != nil {
			return err
		}
	}
	if q.Target == Plugin {
		if err := r.writePlugin(); err != nil {
			return err
		}
	}
	if p.method == Command && q.Target == Server {
		// The command writes the file itself.
		backup, err := r.backUp(p.settings)
		if err != nil {
			return err
		}
		p.result.Backup = backup
		return r.call(ctx, calls[0]...)
	}
	before := *p.settings
	backup, err := r.save(p.settings)
	if err != nil {
		return err
	}
	p.result.Backup = backup
	for _, call := range calls {
		if err := r.call(ctx, call...); err != nil {
			return errors.Join(err, r.giveBack(&before, p))
		}
	}
	return nil
}

// calls are those of OpenClaw's command that a registration takes.
func (r *Registrar) calls(q Request, p *plan, install bool) [][]string {
	switch {
	case p.method != Command:
		return nil
	case q.Target == Server:
		return [][]string{{"mcp", "set", serverName, compact(r.definition(q))}}
	}
	var calls [][]string
	if install {
		calls = append(calls, []string{"plugins", "install", "--link", "--force", "--accept-capabilities", r.directory()})
	}
	if _, yes := p.settings.included(pluginEntry); yes {
		calls = append(calls, []string{"config", "set", strings.Join(join(pluginEntry, "config"), "."), compact(r.pluginConfig(q)), "--strict-json"})
	}
	return calls
}

// giveBack undoes the changes made before a command that failed, so that a
// registration is whole or not there.
func (r *Registrar) giveBack(before *settings, p *plan) error {
	now, err := r.readSettings()
	if err != nil {
		return err
	}
	if slices.Equal(now.before, p.settings.before) && !before.missing {
		now.doc, err = json5.Parse(before.before)
		if err != nil {
			return err
		}
	} else {
		back := &plan{r: r, settings: now, result: &Result{}}
		added := p.undo
		if p.entry != nil {
			added = added[len(p.entry.Undo):] // the rest belongs to what stands
		}
		if err := back.revert(added); err != nil {
			return err
		}
		if before.missing && strings.TrimSpace(string(now.doc.Bytes())) == "{}" {
			return now.remove()
		}
	}
	_, err = r.save(now)
	return err
}

// dropPlugin deletes the plugin's files, unless they belong to a registration
// that stands.
func (r *Registrar) dropPlugin(p *plan) error {
	if p.entry != nil || p.result.Target != Plugin {
		return nil
	}
	return r.removePlugin()
}
