package registration

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/openclaw/json5"
)

// plan is a change of OpenClaw's configuration in the making: in memory, until
// it is saved.
type plan struct {
	r        *Registrar
	rec      *record
	settings *settings
	method   Method
	entry    *entry // what is on record; nil if nothing is
	undo     []*json5.Undo
	adopted  bool // something of ours was there, without a record
	result   *Result
}

// set gives a value of the configuration, unless it has it.
func (p *plan) set(value any, path []string) error {
	return p.change(path, false, func() (*json5.Undo, error) { return p.settings.doc.Set(value, path...) })
}

// append adds to a list of the configuration, unless it is there.
func (p *plan) append(value string, path []string) error {
	return p.change(path, true, func() (*json5.Undo, error) { return p.settings.doc.Append(value, path...) })
}

// change makes a change and keeps how it is taken back, unless that is on record
// already: the record leads back to the first state.
func (p *plan) change(path []string, element bool, do func() (*json5.Undo, error)) error {
	if at, yes := p.settings.included(path); yes && p.method == Edit {
		return &bridge.Error{Code: bridge.CodeUnsupported,
			Message: "OpenClaw's configuration takes " + strings.Join(path, ".") + " from other files (" + at + "), which are not edited",
			Remedy:  "let OpenClaw's own command do it (--method command, with `openclaw` on the PATH), or add it there by hand"}
	}
	before := string(p.settings.doc.Bytes())
	u, err := do()
	if err != nil {
		return &bridge.Error{Code: bridge.CodeInvalid, Message: "OpenClaw's configuration " + p.settings.path + " is not as it should be", Cause: err,
			Remedy: "mend it there; `openclaw doctor` may say more"}
	}
	if u != nil {
		if !p.covered(path, element) {
			p.undo = append(p.undo, u)
		}
		p.result.Changes = append(p.result.Changes, Change{File: p.settings.path, What: strings.Join(path, "."),
			Lines: p.r.lines(before, string(p.settings.doc.Bytes()))})
	}
	return nil
}

// covered says whether the record takes a change back already.
func (p *plan) covered(path []string, element bool) bool {
	return slices.ContainsFunc(p.undo, func(u *json5.Undo) bool {
		if u.Element != nil {
			return element && slices.Equal(u.Path, path)
		}
		return len(u.Path) <= len(path) && slices.Equal(u.Path, path[:len(u.Path)])
	})
}

// adopt treats an existing value as ours, although no record says so.
func (p *plan) adopt(path []string) {
	if p.entry == nil {
		p.undo, p.adopted = append(p.undo, &json5.Undo{Path: path}), true
	}
}

// revert takes changes back, the last first.
func (p *plan) revert(all []*json5.Undo) error {
	for _, u := range slices.Backward(all) {
		before := string(p.settings.doc.Bytes())
		if err := p.settings.doc.Revert(u); err != nil {
			return &bridge.Error{Code: bridge.CodeInvalid, Message: "OpenClaw's configuration " + p.settings.path + " is not as it should be", Cause: err,
				Remedy: "take out " + strings.Join(u.Path, ".") + " by hand"}
		}
		if lines := p.r.lines(before, string(p.settings.doc.Bytes())); lines != nil {
			p.result.Changes = append(p.result.Changes, Change{File: p.settings.path, What: strings.Join(u.Path, "."), Lines: lines})
		}
	}
	return nil
}

// choose decides how the configuration is changed.
func (r *Registrar) choose(q Request, e *entry, s *settings) (Method, []string, error) {
	program := r.program()
	_, elsewhere := s.included(pluginEntry)
	secret := q.Secrets && (q.Target == Server || elsewhere) // it would stand on a command line
	switch {
	case q.Method == Edit:
		return Edit, nil, nil
	case q.Method == Command && program == "":
		return "", nil, &bridge.Error{Code: bridge.CodeNotFound, Message: "there is no `openclaw` on the PATH", Remedy: "add its directory to PATH, or use --method edit"}
	case q.Method == Command && secret:
		return "", nil, &bridge.Error{Code: bridge.CodeInvalid, Message: "OpenClaw's command would show the secrets to everybody on this machine", Remedy: "use --method edit"}
	case q.Method == Command:
		return Command, nil, nil
	case program == "":
		return Edit, nil, nil
	case e != nil && e.Method == Edit:
		return Edit, nil, nil // as it was begun
	case secret:
		return Edit, nil, nil
	case s.doc.Comments():
		return Edit, []string{"the configuration was edited in place, because OpenClaw's own command would have removed its comments"}, nil
	}
	return Command, nil, nil
}

func join(path []string, more ...string) []string { return append(slices.Clone(path), more...) }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// compact is a value as one line of JSON.
func compact(v any) string {
	out, err := json.Marshal(v)
	if err != nil { // strings and numbers always can be
		return "{}"
	}
	return string(out)
}
