package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// Other is the policy of another machine, as of a fleet's coordinator, under
// which a session works besides this machine's own. Each decides by itself, and
// the stricter of the two answers counts: neither eases what the other says.
type Other struct {
	Source string // how the record calls it
	Layers []Layer
}

// under returns p under another policy as well. Its rules that restrict are put
// among p's, so that p alone knows all that may not be read or written. What it
// does not ease is asked of it in Evaluate, Places and AllHosts.
func under(defaults Defaults, layers []Layer, other *Other) *Policy {
	all := slices.Clone(layers)
	for _, l := range other.Layers {
		all = append(all, Layer{Rules: l.Rules})
	}
	p := Combine(defaults, all...)
	p.other = Combine(defaults, other.Layers...)
	return p
}

// stricter puts the answers of two policies together. What either needs beyond
// the sandbox is granted with consent to both.
func stricter(a, b Outcome) Outcome {
	out := a
	if b.Verdict < a.Verdict {
		out = b
	}
	out.Firm, out.Lasting = a.Firm || b.Firm, nil // no rule of one policy makes an end of the other's question
	out.Grant = Grant{
		Read: union(a.Grant.Read, b.Grant.Read), Write: union(a.Grant.Write, b.Grant.Write), Outside: union(a.Grant.Outside, b.Grant.Outside),
		Hosts: union(a.Grant.Hosts, b.Grant.Hosts), Network: a.Grant.Network || b.Grant.Network,
	}
	return out
}

func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// inBoth returns the places that lie within places of both lists.
func inBoth(a, b []string) (out []string) {
	for _, x := range a {
		for _, y := range b {
			switch {
			case isWithin(x, y):
				out = union(out, []string{x})
			case isWithin(y, x):
				out = union(out, []string{y})
			}
		}
	}
	return out
}

// layerSchema is the version of the form that EncodeLayers writes.
const layerSchema = 1

type encodedLayers struct {
	Schema int            `json:"schema"`
	Layers []encodedLayer `json:"layers"`
}

type encodedLayer struct {
	Source   string                   `json:"source"` // without its directory
	Trusted  bool                     `json:"trusted,omitempty"`
	ReadOnly *bool                    `json:"read_only,omitempty"`
	Line     int                      `json:"read_only_line,omitempty"`
	Lists    map[string][]encodedRule `json:"lists,omitempty"`
}

type encodedRule struct {
	Pattern string `json:"pattern"`
	Line    int    `json:"line,omitempty"`
}

// FileLayers are the layers of the policy files: the user's own in the bridge's
// home and the one of a workspace, as they are in force there.
func FileLayers(home, root string) (layers []Layer, err error) {
	user, err := LoadUser(home)
	if err != nil {
		return nil, err
	}
	if user != nil {
		layers = append(layers, user.Layer(true))
	}
	local, trusted, err := LoadTrusted(home, root)
	if err != nil {
		return nil, err
	}
	if local != nil {
		layers = append(layers, local.Layer(trusted))
	}
	return layers, nil
}

// EncodeLayers writes the rules of layers for another machine. Comments, and
// the directories of the files, are not among them.
func EncodeLayers(layers []Layer) ([]byte, error) {
	out := encodedLayers{Schema: layerSchema, Layers: []encodedLayer{}}
	for _, l := range layers {
		e := encodedLayer{Trusted: l.Trusted, ReadOnly: l.Rules.ReadOnly}
		note := func(s Source) int {
			e.Source = path.Base(filepath.ToSlash(s.Name))
			return s.Line
		}
		if e.ReadOnly != nil {
			e.Line = note(l.Rules.ReadOnlySource)
		}
		for _, name := range slices.Sorted(maps.Keys(l.Rules.Lists)) {
			for _, r := range l.Rules.Lists[name] {
				if e.Lists == nil {
					e.Lists = map[string][]encodedRule{}
				}
				e.Lists[name] = append(e.Lists[name], encodedRule{r.Pattern, note(r.Source)})
			}
		}
		out.Layers = append(out.Layers, e)
	}
	return json.Marshal(out)
}

// maxLayers is how many layers another machine may send.
const maxLayers = 8

// DecodeLayers reads what EncodeLayers has written on another machine; owner
// begins the names of its files in reasons. It is as strict as ParseYAML:
// rules that are not understood might be the ones that matter.
func DecodeLayers(owner string, data []byte) ([]Layer, error) {
	fail := func(err error) ([]Layer, error) {
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: owner + " policy cannot be read", Cause: err,
			Remedy: "use the same version of copilot-bridge on both machines"}
	}
	if len(data) > maxLayers*MaxFileSize {
		return fail(fmt.Errorf("it has %d bytes", len(data)))
	}
	var in encodedLayers
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return fail(err)
	}
	if _, err := d.Token(); err != io.EOF {
		return fail(fmt.Errorf("something follows it"))
	}
	switch {
	case in.Schema != layerSchema:
		return fail(fmt.Errorf("it has version %d, and this program knows version %d", in.Schema, layerSchema))
	case len(in.Layers) > maxLayers:
		return fail(fmt.Errorf("it has %d layers", len(in.Layers)))
	}
	layers := []Layer{}
	for _, e := range in.Layers {
		rules, err := e.rules(owner + " " + e.Source)
		if err != nil {
			return nil, err
		}
		layers = append(layers, Layer{Rules: rules, Trusted: e.Trusted})
	}
	return layers, nil
}

func (e *encodedLayer) rules(name string) (Rules, error) {
	var b builder
	for _, list := range slices.Sorted(maps.Keys(e.Lists)) {
		for _, r := range e.Lists[list] {
			at := Source{Name: name, Line: r.Line}
			if !isList(list) {
				b.fault(at, "there is no list "+quote(list))
				break
			}
			b.add(list, list, r.Pattern, at)
		}
	}
	if e.ReadOnly != nil {
		b.rules.ReadOnly, b.rules.ReadOnlySource = e.ReadOnly, Source{Name: name, Line: e.Line}
	}
	return b.finish("use the same version of copilot-bridge on both machines")
}
