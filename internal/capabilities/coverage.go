package capabilities

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/copilot-bridge/copilot-bridge/internal/guard/runtimecall"
)

// Mark says what the bridge does with something.
type Mark string

// The marks. Used comes from the code, Direct from the guard's table of direct
// calls, the others from reasons.txt. An entry that is in none of them is NotYet.
const (
	Used    Mark = "used"
	Passed  Mark = "passed through"
	Direct  Mark = "by direct call"
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

//go:embed reasons.txt
var reasonsText string

// reason is a line of reasons.txt.
type reason struct {
	match string
	Coverage
}

func (r reason) matches(name string) bool {
	prefix, open := strings.CutSuffix(r.match, "*")
	return name == r.match || open && strings.HasPrefix(name, prefix)
}

// reasons are the lines of reasons.txt by their kinds.
var reasons = sync.OnceValue(func() map[string][]reason {
	marks := map[string]Mark{"used": Used, "passed": Passed, "ignored": Ignored, "not-yet": NotYet}
	all := map[string][]reason{}
	for line := range strings.Lines(reasonsText) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		match, rest, _ := strings.Cut(strings.TrimSpace(rest), " ")
		mark, why, _ := strings.Cut(strings.TrimSpace(rest), " ")
		switch kind {
		case "", "#":
		case "needs":
			all[kind] = append(all[kind], reason{match, Coverage{Note: mark}})
		case "session":
			for _, owner := range []string{"SessionConfig.", "ResumeSessionConfig."} {
				all["field"] = append(all["field"], reason{owner + match, Coverage{marks[mark], strings.TrimSpace(why)}})
			}
		default:
			all[kind] = append(all[kind], reason{match, Coverage{marks[mark], strings.TrimSpace(why)}})
		}
	}
	return all
})

// reasonFor is the line with the longest match.
func reasonFor(kind, name string) Coverage {
	best := reason{Coverage: Coverage{Mark: NotYet}}
	for _, r := range reasons()[kind] {
		if r.matches(name) && len(r.match) > len(best.match) {
			best = r
		}
	}
	return best.Coverage
}

// coverage marks something that the given files of the bridge use.
func coverage(kind, name string, uses []string) Coverage {
	if len(uses) > 0 {
		return usedIn(uses)
	}
	return reasonFor(kind, name)
}

func useOf(list []EventUse, name string) (EventUse, bool) {
	i := slices.IndexFunc(list, func(u EventUse) bool { return u.Name == name })
	if i < 0 {
		return EventUse{}, false
	}
	return list[i], true
}

// ofEvent marks an event. One without a case in the code reaches every reader
// as bridge.Other, with its name and payload.
func (inv *Inventory) ofEvent(e Event) Coverage {
	u, known := useOf(inv.SDK.Events, e.Name)
	note := reasonFor("event", e.Name).Note
	switch {
	case !known:
		return Coverage{Passed, "the SDK has no type for it, and keeps it as it came"}
	case u.Dropped:
		return Coverage{Ignored, note}
	case len(u.Uses) > 0:
		return usedIn(u.Uses)
	}
	return Coverage{Passed, note}
}

func (inv *Inventory) ofPermission(v Variant) Coverage {
	u, _ := useOf(inv.SDK.Permissions, v.Kind)
	if len(u.Uses) == 0 {
		return Coverage{Mark: NotYet}
	}
	c := usedIn(u.Uses)
	if why := reasonFor("permission", v.Kind).Note; why != "" {
		c.Note += "; " + why
	}
	return c
}

// ofMethod marks a method of the protocol.
func (inv *Inventory) ofMethod(m Method) Coverage {
	needs := reasonFor("needs", m.Name).Note
	if m.Side == SideClientSession || m.Side == SideClientGlobal {
		if needs != "" && inv.fieldUsed(needs) {
			return Coverage{Used, "answered by the SDK through `" + needs + "`"}
		}
		return direct(m.Name)
	}
	var call Call
	if i := slices.IndexFunc(inv.SDK.Calls, func(c Call) bool { return c.Method == m.Name }); i >= 0 {
		call = inv.SDK.Calls[i]
	}
	switch {
	case len(call.Uses) == 0 && len(call.Through) > 0 && (needs == "" || inv.fieldUsed(needs)):
		return Coverage{Used, "by the SDK, in `" + strings.Join(call.Through, "`, `") + "`"}
	case len(call.Uses) > 0:
		return usedIn(call.Uses)
	}
	return direct(m.Name)
}

// direct marks a method that only a direct call can reach, if any can.
func direct(method string) Coverage {
	switch rule := runtimecall.Of(method); rule.Kind {
	case runtimecall.Read:
		return Coverage{Direct, "it only reads"}
	case runtimecall.Change:
		return Coverage{Direct, "it changes the session alone"}
	case runtimecall.Ask:
		return Coverage{Direct, "with consent"}
	case runtimecall.Command:
		return Coverage{Direct, "judged as a command"}
	default:
		return Coverage{Ignored, rule.Note}
	}
}

func (inv *Inventory) fieldUsed(name string) bool {
	for _, t := range inv.SDK.Types {
		for _, f := range t.Fields {
			if t.Name+"."+f.Name == name {
				return len(f.Uses) > 0
			}
		}
	}
	return false
}

func ofMember(m Member) Coverage { return coverage("member", m.Owner+"."+m.Name, m.Uses) }

func ofField(t Type, f TypeField) Coverage { return coverage("field", t.Name+"."+f.Name, f.Uses) }

// Figures counts the marks of one kind of things.
type Figures struct {
	What    string `json:"what"`
	Total   int    `json:"total"`
	Used    int    `json:"used"`
	Passed  int    `json:"passed_through"`
	Direct  int    `json:"by_direct_call"`
	Ignored int    `json:"ignored"`
	NotYet  int    `json:"not_yet"`
}

// each calls f with every thing of the inventory: its kind, its name and what
// the bridge does with it.
func (inv *Inventory) each(f func(kind, name string, c Coverage)) {
	for _, m := range inv.SDK.Members {
		f("member", m.Owner+"."+m.Name, ofMember(m))
	}
	for _, m := range inv.methods() {
		f("method", m.Name, inv.ofMethod(m))
	}
	for _, e := range inv.Runtime.Events {
		f("event", e.Name, inv.ofEvent(e))
	}
	for _, v := range inv.Runtime.Permissions {
		f("permission", v.Kind, inv.ofPermission(v))
	}
	for _, t := range inv.SDK.Types {
		for _, x := range t.Fields {
			f("field", t.Name+"."+x.Name, ofField(t, x))
		}
	}
}

// Figures counts everything.
func (inv *Inventory) Figures() []Figures {
	counts := map[string]map[Mark]int{}
	inv.each(func(kind, _ string, c Coverage) {
		if counts[kind] == nil {
			counts[kind] = map[Mark]int{}
		}
		counts[kind][c.Mark]++
	})
	var out []Figures
	for _, k := range [][2]string{{"member", "methods of the SDK's client and session"}, {"method", "methods of the runtime's protocol"}, {"event", "event types"},
		{"permission", "permission kinds"}, {"field", "fields of the SDK's options and contracts"}} {
		n := counts[k[0]]
		out = append(out, Figures{k[1], n[Used] + n[Passed] + n[Direct] + n[Ignored] + n[NotYet], n[Used], n[Passed], n[Direct], n[Ignored], n[NotYet]})
	}
	return out
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
	sortMethods(out)
	return out
}

// carriers are fields that show what an event carries, the most important kind
// first.
var carriers = []struct {
	kind   string
	fields []string
}{
	{"error", []string{"error", "errorMessage", "errorReason", "errorType", "errors", "warnings", "remediation"}},
	{"tool", []string{"toolCallId", "toolName", "toolNames", "tools", "toolRequests", "arguments"}},
	{"text", []string{"content", "deltaContent", "message", "text", "summary", "summaryContent", "question", "answer", "chunk", "prompt", "planContent",
		"partialOutput", "progressMessage", "intent", "title", "initialMessage", "feedback", "inputDelta", "command"}},
}

// Carries says which data an event has that a reader must not miss: "error",
// "tool" or "text", or "".
func (e Event) Carries() string {
	for _, c := range carriers {
		if slices.ContainsFunc(e.Fields, func(f Field) bool { return slices.Contains(c.fields, f.Name) }) {
			return c.kind
		}
	}
	return ""
}
