package capabilities

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// addAPI takes the methods, and the enumerations that the contract sections
// show, from the API's schema.
func (s *Surface) addAPI(b []byte) error {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(b, &top); err != nil {
		return err
	}
	defs := book{}
	if err := json.Unmarshal(top["definitions"], &defs); err != nil {
		return fmt.Errorf("definitions: %w", err)
	}
	for _, side := range []Side{SideServer, SideSession, SideClientSession, SideClientGlobal} {
		s.addMethods(defs, side, top[string(side)], 0)
	}
	sortMethods(s.Methods)
	if len(s.Methods) == 0 {
		return fmt.Errorf("it describes no method")
	}
	s.Decisions = variants(defs, "PermissionDecision")
	for _, name := range slices.Sorted(maps.Keys(defs)) {
		d := defs[name]
		if d == nil || len(d.Enum) == 0 || !slices.Contains(shownEnums, name) {
			continue
		}
		e := Enum{Name: name, About: sentence(d.Description)}
		for _, v := range d.Enum {
			e.Values = append(e.Values, fmt.Sprint(v))
		}
		s.Enums = append(s.Enums, e)
	}
	return nil
}

// shownEnums belong to the sections of the document.
var shownEnums = []string{"AbortReason", "AuthInfoType", "AutoModeSwitchResponse", "ElicitationCompletedAction", "ModelCallFailureKind", "ModelCallFailureSource",
	"ProviderType", "ProviderWireApi", "ReasoningSummary", "SendAgentMode", "SendMode", "SessionMode", "ToolResultType", "UIElicitationResponseAction"}

func sortMethods(all []Method) {
	slices.SortStableFunc(all, func(x, y Method) int {
		return cmp.Or(strings.Compare(string(x.Side), string(y.Side)), strings.Compare(x.Name, y.Name))
	})
}

// addMethods walks the tree of namespaces.
func (s *Surface) addMethods(defs book, side Side, b json.RawMessage, depth int) {
	if len(b) == 0 || depth > 8 {
		return
	}
	var n node
	if err := json.Unmarshal(b, &n); err == nil && n.RPCMethod != "" {
		s.Methods = append(s.Methods, Method{Name: n.RPCMethod, Side: side, About: sentence(n.Description), Status: status(&n),
			Params: defs.fields(n.Params, "sessionId"), Result: defs.fields(n.Result)})
		return
	}
	var children map[string]json.RawMessage
	_ = json.Unmarshal(b, &children) // a leaf such as a description has none
	for _, child := range children {
		s.addMethods(defs, side, child, depth+1)
	}
}

// addEvents takes the events and the permission requests from the events'
// schema.
func (s *Surface) addEvents(b []byte) error {
	var top node
	if err := json.Unmarshal(b, &top); err != nil {
		return err
	}
	defs := book(top.Definitions)
	for _, ref := range defs.find(&top).AnyOf {
		if ref == nil {
			return fmt.Errorf("an event is null")
		}
		n := defs.find(ref)
		data := defs.find(n.Properties["data"])
		var name, ephemeral string
		if t := n.Properties["type"]; t != nil {
			_ = json.Unmarshal(t.Const, &name) // an event without a name is refused below
		}
		if e := n.Properties["ephemeral"]; e != nil {
			ephemeral = string(e.Const)
		}
		if name == "" {
			return fmt.Errorf("an event has no name: %s", ref.Ref)
		}
		s.Events = append(s.Events, Event{Name: name, About: sentence(data.Description), Status: status(n, data),
			Ephemeral: ephemeral == "true", Fields: defs.fields(data)})
	}
	if len(s.Events) == 0 {
		return fmt.Errorf("it describes no event")
	}
	slices.SortStableFunc(s.Events, func(x, y Event) int { return strings.Compare(x.Name, y.Name) })
	s.Permissions = variants(defs, "PermissionRequest")
	s.Results = variants(defs, "PermissionResult")
	if len(s.Permissions) == 0 {
		return fmt.Errorf("it describes no permission request")
	}
	return nil
}

// variants lists the shapes of a union whose members have a constant "kind".
func variants(defs book, union string) []Variant {
	var out []Variant
	for _, ref := range defs.find(&node{Ref: union}).AnyOf {
		n := defs.find(ref)
		kind := n.Properties["kind"]
		if kind == nil {
			continue
		}
		var name string
		if json.Unmarshal(kind.Const, &name) != nil || name == "" {
			continue
		}
		out = append(out, Variant{Kind: name, About: sentence(n.Description), Status: status(n), Fields: defs.fields(n, "kind")})
	}
	slices.SortStableFunc(out, func(x, y Variant) int { return strings.Compare(x.Kind, y.Kind) })
	return out
}
