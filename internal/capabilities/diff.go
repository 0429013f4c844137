package capabilities

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// Change is a difference between two runtimes.
type Change struct {
	What string `json:"what"` // method, event, permission kind, …
	Name string `json:"name"`
	How  string `json:"how"` // added, removed, changed
	// Detail has an entry for each changed field.
	Detail []string `json:"detail,omitempty"`
}

// String is one line.
func (c Change) String() string {
	out := c.How + " " + c.What + " " + c.Name
	if len(c.Detail) > 0 {
		out += ": " + strings.Join(c.Detail, "; ")
	}
	return out
}

// entry is what two surfaces are compared by.
type entry struct {
	what, name string
	parts      map[string]string
}

// Diff lists the differences of another runtime.
func Diff(before, after *Surface) []Change {
	var out []Change
	if before.Version != after.Version {
		out = append(out, Change{What: "package", Name: after.Package, How: "changed", Detail: []string{before.Version + " → " + after.Version}})
	}
	was, is := before.entries(), after.entries()
	for _, b := range was {
		if a, ok := b.in(is); !ok {
			out = append(out, Change{What: b.what, Name: b.name, How: "removed"})
		} else if detail := b.compare(a); len(detail) > 0 {
			out = append(out, Change{What: b.what, Name: b.name, How: "changed", Detail: detail})
		}
	}
	for _, a := range is {
		if _, ok := a.in(was); !ok {
			out = append(out, Change{What: a.what, Name: a.name, How: "added"})
		}
	}
	return out
}

// in finds the entry of the same name.
func (e entry) in(list []entry) (entry, bool) {
	for _, x := range list {
		if x.what == e.what && x.name == e.name {
			return x, true
		}
	}
	return entry{}, false
}

func (e entry) compare(now entry) []string {
	var out []string
	for k, v := range e.parts {
		switch n, ok := now.parts[k]; {
		case !ok:
			out = append(out, "− "+k)
		case n != v && len(n)+len(v) < 120:
			out = append(out, fmt.Sprintf("%s: %s → %s", k, v, n))
		case n != v:
			out = append(out, k+" reads differently")
		}
	}
	for k, v := range now.parts {
		if _, ok := e.parts[k]; !ok {
			out = append(out, "+ "+k+" "+v)
		}
	}
	slices.Sort(out)
	return out
}

func (s *Surface) entries() []entry {
	var out []entry
	add := func(what, name, about string, st Status, lists map[string][]Field) {
		parts := map[string]string{"meaning": about, "status": st.words()}
		for prefix, list := range lists {
			for _, f := range list {
				need := "required "
				if f.Optional {
					need = "optional "
				}
				parts[prefix+f.Name] = need + f.Type
			}
		}
		out = append(out, entry{what, name, parts})
	}
	variants := func(what string, list []Variant) {
		for _, v := range list {
			add(what, v.Kind, v.About, v.Status, map[string][]Field{"field ": v.Fields})
		}
	}
	for _, m := range s.Methods {
		add("method", m.Name, m.About, m.Status, map[string][]Field{"parameter ": m.Params, "result ": m.Result})
	}
	for _, e := range s.Events {
		add("event", e.Name, e.About, e.Status, map[string][]Field{"field ": e.Fields})
	}
	variants("permission kind", s.Permissions)
	variants("permission decision", s.Decisions)
	variants("permission result", s.Results)
	for _, e := range s.Enums {
		out = append(out, entry{"enumeration", e.Name, map[string]string{"values": strings.Join(e.Values, ", ")}})
	}
	return out
}

// ReadAny reads a surface from a runtime's package directory, or from a file
// that `capabilities --json` wrote.
func ReadAny(path string) (*Surface, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, &bridge.Error{Code: bridge.CodeNotFound, Message: "there is no " + path, Cause: err,
			Remedy: "name the directory of a runtime's npm package, or a file that `copilot-bridge capabilities --json` wrote"}
	}
	if info.IsDir() {
		return ReadSurface(path)
	}
	b, err := readFile(path)
	if err != nil {
		return nil, err
	}
	var r Report
	if err := json.Unmarshal(b, &r); err != nil || r.Inventory == nil || len(r.Inventory.Runtime.Events) == 0 {
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: path + " is not what `copilot-bridge capabilities --json` writes", Cause: err}
	}
	return &r.Inventory.Runtime, nil
}

// Report is the JSON form: the inventory with a mark for each of its parts.
type Report struct {
	Figures   []Figures           `json:"figures"`
	Marks     map[string]Coverage `json:"marks"` // by "event NAME", "method NAME", …
	Inventory *Inventory          `json:"inventory"`
	Probes    *Record             `json:"probes"`
}

// NewReport marks everything.
func NewReport(inv *Inventory, record *Record) Report {
	r := Report{Figures: inv.Figures(), Marks: map[string]Coverage{}, Inventory: inv, Probes: record}
	inv.each(func(kind, name string, c Coverage) { r.Marks[kind+" "+name] = c })
	return r
}
