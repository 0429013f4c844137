package capabilities

import (
	"fmt"
	"slices"
	"strings"
)

// Mark says what the bridge does with something.
type Mark string

// The marks. What is used was found in the code; the rest is the word of the
// table in marks.go, and what is not in it is not done yet.
const (
	Used    Mark = "used"
	Passed  Mark = "passed through"
	Ignored Mark = "ignored on purpose"
	NotYet  Mark = "not yet"
)

// Coverage is a mark with its place or its reason.
type Coverage struct {
	Mark Mark   `json:"mark"`
	Note string `json:"note,omitempty"`
}

// String is how the document shows it.
func (c Coverage) String() string {
	if c.Note == "" {
		return string(c.Mark)
	}
	return string(c.Mark) + ": " + c.Note
}

func usedIn(files []string) Coverage {
	short := make([]string, len(files))
	for i, f := range files {
		short[i] = "`" + strings.TrimPrefix(f, "internal/") + "`"
	}
	return Coverage{Used, strings.Join(short, ", ")}
}

// judged looks a name up in a table: the entry with the longest match counts.
// An entry that ends with a dot or a star stands for all that begin with it.
func judged(table []judgement, name string) (Coverage, bool) {
	best := -1
	for i, j := range table {
		if j.matches(name) && (best < 0 || len(j.match) > len(table[best].match)) {
			best = i
		}
	}
	if best < 0 {
		return Coverage{}, false
	}
	return Coverage{table[best].mark, table[best].why}, true
}

type judgement struct {
	match string
	mark  Mark
	why   string
}

func (j judgement) matches(name string) bool {
	if rest, ok := strings.CutSuffix(j.match, "*"); ok {
		return strings.HasPrefix(name, rest)
	}
	return name == j.match
}

// ofEvent marks an event. What the code has no case for reaches every reader
// as bridge.Other, with its name and payload.
func (inv *Inventory) ofEvent(e Event) Coverage {
	i := slices.IndexFunc(inv.SDK.Events, func(u EventUse) bool { return u.Name == e.Name })
	note := ""
	if c, ok := judged(eventMarks, e.Name); ok {
		note = c.Note
	}
	switch {
	case i < 0:
		return Coverage{Passed, "the SDK has no type for it, and keeps it as it came"}
	case inv.SDK.Events[i].Dropped:
		return Coverage{Ignored, note}
	case len(inv.SDK.Events[i].Uses) > 0:
		return usedIn(inv.SDK.Events[i].Uses)
	}
	return Coverage{Passed, note}
}

func (inv *Inventory) ofPermission(v Variant) Coverage {
	i := slices.IndexFunc(inv.SDK.Permissions, func(u EventUse) bool { return u.Name == v.Kind })
	if i < 0 || len(inv.SDK.Permissions[i].Uses) == 0 {
		return Coverage{Mark: NotYet}
	}
	c := usedIn(inv.SDK.Permissions[i].Uses)
	if why, ok := judged(permissionMarks, v.Kind); ok {
		c.Note += "; " + why.Note
	}
	return c
}

// ofMethod marks a call of the protocol.
func (inv *Inventory) ofMethod(m Method) Coverage {
	needs, conditional := "", false
	for _, c := range conditions {
		if (judgement{match: c.match}).matches(m.Name) {
			needs, conditional = c.field, true
		}
	}
	if m.Side == SideClientSession || m.Side == SideClientGlobal {
		if conditional && inv.fieldUsed(needs) {
			return Coverage{Used, "answered by the SDK through `" + needs + "`"}
		}
	} else if i := slices.IndexFunc(inv.SDK.Calls, func(c Call) bool { return c.Method == m.Name }); i >= 0 {
		call := inv.SDK.Calls[i]
		switch {
		case len(call.Uses) > 0:
			return usedIn(call.Uses)
		case len(call.Through) > 0 && (!conditional || inv.fieldUsed(needs)):
			return Coverage{Used, "by the SDK, in `" + strings.Join(call.Through, "`, `") + "`"}
		}
	}
	if c, ok := judged(methodMarks, m.Name); ok {
		return c
	}
	return Coverage{Mark: NotYet}
}

func (inv *Inventory) fieldUsed(name string) bool {
	owner, field, _ := strings.Cut(name, ".")
	for _, t := range inv.SDK.Types {
		for _, f := range t.Fields {
			if t.Name == owner && f.Name == field {
				return len(f.Uses) > 0
			}
		}
	}
	return false
}

func (inv *Inventory) ofMember(m Member) Coverage {
	if len(m.Uses) > 0 {
		return usedIn(m.Uses)
	}
	if c, ok := judged(memberMarks, m.Owner+"."+m.Name); ok {
		return c
	}
	return Coverage{Mark: NotYet}
}

func (inv *Inventory) ofField(t Type, f TypeField) Coverage {
	if len(f.Uses) > 0 {
		return usedIn(f.Uses)
	}
	if c, ok := judged(fieldMarks, t.Name+"."+f.Name); ok {
		return c
	}
	return Coverage{Mark: NotYet}
}

// Figures counts the marks of one kind of things.
type Figures struct {
	What    string `json:"what"`
	Total   int    `json:"total"`
	Used    int    `json:"used"`
	Passed  int    `json:"passed_through"`
	Ignored int    `json:"ignored"`
	NotYet  int    `json:"not_yet"`
}

func (f *Figures) add(c Coverage) {
	f.Total++
	switch c.Mark {
	case Used:
		f.Used++
	case Passed:
		f.Passed++
	case Ignored:
		f.Ignored++
	case NotYet:
		f.NotYet++
	}
}

// Figures counts everything.
func (inv *Inventory) Figures() []Figures {
	members := Figures{What: "methods of the SDK's client and session"}
	for _, m := range inv.SDK.Members {
		members.add(inv.ofMember(m))
	}
	methods := Figures{What: "methods of the runtime's protocol"}
	for _, m := range inv.methods() {
		methods.add(inv.ofMethod(m))
	}
	events := Figures{What: "event types"}
	for _, e := range inv.Runtime.Events {
		events.add(inv.ofEvent(e))
	}
	permissions := Figures{What: "permission kinds"}
	for _, v := range inv.Runtime.Permissions {
		permissions.add(inv.ofPermission(v))
	}
	fields := Figures{What: "fields of the SDK's options and contracts"}
	for _, t := range inv.SDK.Types {
		for _, f := range t.Fields {
			fields.add(inv.ofField(t, f))
		}
	}
	return []Figures{members, methods, events, permissions, fields}
}

// methods are those of the schema, and those that the SDK calls though the
// schema does not have them.
func (inv *Inventory) methods() []Method {
	out := slices.Clone(inv.Runtime.Methods)
	for _, c := range inv.SDK.Calls {
		if !slices.ContainsFunc(out, func(m Method) bool { return m.Name == c.Method }) {
			out = append(out, Method{Name: c.Method, Side: SideServer, About: fmt.Sprintf("Not in the schema; called by `%s`.", c.Func)})
		}
	}
	slices.SortStableFunc(out, func(x, y Method) int { return strings.Compare(string(x.Side)+" "+x.Name, string(y.Side)+" "+y.Name) })
	return out
}

// Carries says what kind of thing an event has that a reader must not miss:
// text, tool or error data, or "".
func (e Event) Carries() string {
	for _, f := range e.Fields {
		switch f.Name {
		case "error", "errorMessage", "errorReason", "errorType", "errors", "warnings", "remediation":
			return "error"
		}
	}
	for _, f := range e.Fields {
		switch f.Name {
		case "toolCallId", "toolName", "toolNames", "tools", "toolRequests", "arguments":
			return "tool"
		}
	}
	for _, f := range e.Fields {
		switch f.Name {
		case "content", "deltaContent", "message", "text", "summary", "summaryContent", "question", "answer", "chunk", "prompt", "planContent",
			"partialOutput", "progressMessage", "intent", "title", "initialMessage", "feedback", "inputDelta", "command":
			return "text"
		}
	}
	return ""
}
