package capabilities

import (
	"fmt"
	"slices"
	"strings"
)

// Document renders the inventory and what the probes found as Markdown. The
// same input gives the same bytes.
func Document(inv *Inventory, record *Record) string {
	d := &page{inv: inv}
	d.line("<!-- Made by `make generate`: do not edit. `copilot-bridge capabilities --check` compares it with the pinned versions. -->")
	d.line("# What Copilot offers, and what the bridge does with it")
	d.line("")
	d.line("Read from the pinned runtime's own schemas, the Go SDK's code and the bridge's code, and, where those are silent, found by trying. Each row is marked:")
	d.line("**used** (in which file, found by the types), **passed through** (it reaches whoever listens, unchanged), **ignored on purpose** (why), **not yet**.")
	d.versions()
	d.figures()
	d.probes(record)
	d.members("Client", "2. Methods of the client")
	d.members("Session", "3. Methods of a session")
	d.events()
	d.contract("5. Tools", "A tool is declared when a session is opened. With a handler the SDK runs it; without one the call waits as `external_tool.requested` until `session.tools.handlePendingToolCall` answers it, which is how the bridge hands it to its caller. A built-in tool's name needs `OverridesBuiltInTool`. Results are one of the kinds below.",
		[]string{"ToolResultType"}, "Tool", "ToolInvocation", "ToolResult", "ToolBinaryResult")
	d.permissions()
	d.contract("7. Questions to the user", "Registering a handler is what offers the model the tool `ask_user`.", nil, "UserInputRequest", "UserInputResponse")
	d.contract("8. Elicitation", "An MCP server may ask for a form to be filled in, or for something to be done in a browser. Registering a handler is what says that somebody can.",
		[]string{"UIElicitationResponseAction"}, "ElicitationContext", "ElicitationResult")
	d.contract("9. Hooks", "Called in order: pre-tool-use, the permission request, the tool, post-tool-use. Hooks are one switch: with any of them the runtime asks at every point.", nil,
		"SessionHooks", "PreToolUseHookInput", "PreToolUseHookOutput", "PostToolUseHookInput", "PostToolUseHookOutput", "PostToolUseFailureHookInput",
		"UserPromptSubmittedHookOutput", "ErrorOccurredHookInput", "ErrorOccurredHookOutput")
	d.contract("10. Infinite sessions", "On by default: a conversation that fills its context is compacted in the background from the first threshold on, and waits for that at the second. `session.compaction_start` and `session.compaction_complete` tell of it; the notes are in `checkpoints/` of the session's directory.", nil, "InfiniteSessionConfig")
	d.contract("11. Reasoning effort", "A plain string; which values a model takes, and which is its default, `models.list` says (`SupportedReasoningEfforts`, `DefaultReasoningEffort`). It is set with the session and switched with the model.",
		[]string{"ReasoningSummary"}, "SetModelOptions")
	d.contract("12. Telemetry", "OpenTelemetry of the runtime's own process, set through its environment when it starts. A provider of one's own switches off what is sent to GitHub.", nil, "TelemetryConfig")
	d.contract("13. Who asks", "A token of the client, the user's login, a token of the session, or a provider of one's own; the probe auth-matrix says what comes of each combination. Illegal: a token or `UseLoggedInUser` with `URIConnection` (the SDK panics); a provider without a model.",
		[]string{"AuthInfoType"}, "ClientOptions", "ClientInfo", "StdioConnection", "TCPConnection", "URIConnection", "ProviderConfig", "AzureProviderOptions", "GetAuthStatusResponse", "GetStatusResponse")
	d.section("14. copilotHome", "`ClientOptions.BaseDirectory`, handed to the process as `COPILOT_HOME`; `~/.copilot` without it. The probes home-layout and shared-home say what is in it and who may share it.")
	d.contract("15. Opening and resuming", "Two structs with nearly the same fields, and no common type. What a resume keeps, the probe resume says.",
		[]string{"SendAgentMode", "SendMode", "SessionMode", "AbortReason"}, "SessionConfig", "ResumeSessionConfig", "SystemMessageConfig", "MCPStdioServerConfig", "MCPHTTPServerConfig",
		"rpc.SendRequest", "MessageOptions", "SessionListFilter", "SessionMetadata")
	d.contract("16. Models", "`models.list` through the client, which keeps the first answer. It needs a login: see the probe byok-models.", nil, "ModelInfo", "ModelCapabilities", "ModelSupports", "ModelLimits")
	d.contract("17. Errors", "The SDK returns plain errors; `agent/sdk/explain.go` is the one place that reads their texts. A turn that fails says so with `session.error`, each failed request to the model with `model.call_failure`, a tool with the error of `tool.execution_complete`. What is tried again, the probe retries says.", nil,
		"rpc.SessionErrorData", "rpc.ModelCallFailureData", "rpc.ToolExecutionCompleteError")
	d.methods()
	return d.b.String()
}

type page struct {
	inv *Inventory
	b   strings.Builder
}

func (d *page) line(format string, args ...any) {
	if len(args) > 0 {
		format = fmt.Sprintf(format, args...)
	}
	d.b.WriteString(format + "\n")
}

func (d *page) section(title, text string) {
	d.line("")
	d.line("%s", "## "+title)
	if text != "" {
		d.line("%s", text)
	}
}

func (d *page) table(columns ...string) {
	d.line("")
	d.row(columns...)
	d.row(slices.Repeat([]string{"---"}, len(columns))...)
}

var cell = strings.NewReplacer("|", `\|`, "\n", " ")

// plain keeps text from being taken for HTML. What is code is left alone.
func plain(s string) string {
	parts := strings.Split(s, "`")
	for i := 0; i < len(parts); i += 2 {
		parts[i] = strings.ReplaceAll(parts[i], "<", "&lt;")
	}
	return strings.Join(parts, "`")
}

func (d *page) row(cells ...string) {
	clean := make([]string, len(cells))
	for i, c := range cells {
		clean[i] = plain(cell.Replace(c))
	}
	d.b.WriteString("| " + strings.Join(clean, " | ") + " |\n")
}

func code(s string) string { return "`" + strings.ReplaceAll(s, "`", "'") + "`" }

func (s Status) note() string {
	var out []string
	for _, n := range []struct {
		on   bool
		name string
	}{{s.Experimental, "experimental"}, {s.Internal, "internal"}, {s.Deprecated, "deprecated"}} {
		if n.on {
			out = append(out, n.name)
		}
	}
	if len(out) == 0 {
		return ""
	}
	return " *" + strings.Join(out, ", ") + "*"
}

func (d *page) versions() {
	d.section("1. Packages and versions", "")
	d.table("what", "version", "SHA-256")
	rt, sdk := d.inv.Runtime, d.inv.SDK
	d.row("npm "+code(rt.Package), rt.Version, "")
	for _, f := range []string{apiFile, eventsFile} {
		d.row("its "+code(schemaFolder+"/"+f), "", code(rt.Digests[f]))
	}
	d.row("Go module "+code(sdk.Module), sdk.Version, "")
	d.row("protocol of the SDK", fmt.Sprint(sdk.Protocol), "")
}

// FiguresTable is the table of the coverage, as the README shows it too.
func FiguresTable(inv *Inventory) string {
	d := &page{inv: inv}
	d.row("of the pinned runtime "+inv.Runtime.Version+" and SDK "+inv.SDK.Version, "in all", "used", "passed through", "ignored on purpose", "not yet")
	d.row("---", "---:", "---:", "---:", "---:", "---:")
	for _, f := range inv.Figures() {
		d.row(f.What, fmt.Sprint(f.Total), fmt.Sprint(f.Used), fmt.Sprint(f.Passed), fmt.Sprint(f.Ignored), fmt.Sprint(f.NotYet))
	}
	return d.b.String()
}

func (d *page) figures() {
	d.section("Coverage", "")
	d.line("")
	d.b.WriteString(FiguresTable(d.inv))
}

func (d *page) probes(r *Record) {
	d.section("Found by trying", fmt.Sprintf("On %s, with runtime %s, SDK %s and the rehearsal model, on %s, by `copilot-bridge capabilities probe`. A test makes every experiment again and fails if one of these facts has changed.", r.Date, r.Runtime, r.SDK, r.Platform))
	for i, q := range Questions {
		d.line("")
		d.line("### %d. %s", i+1, q.Ask)
		d.line("%s", q.Answer)
		if q.Hazard != "" {
			d.line("")
			d.line("%s", "*Hazard:* "+q.Hazard)
		}
		if q.Safe != "" {
			d.line("")
			d.line("%s", "*The bridge:* "+q.Safe)
		}
		f, _ := r.Finding(q.Probe)
		d.line("")
		d.line("<details><summary>Facts of the probe %s</summary>", q.Probe)
		d.table("what", "seen")
		for _, x := range f.Facts {
			d.row(x.What, x.Seen)
		}
		d.line("")
		d.line("</details>")
	}
}

func (d *page) members(owner, title string) {
	d.section(title, "")
	d.table("method", "meaning", "bridge")
	for _, m := range d.inv.SDK.Members {
		if m.Owner == owner {
			d.row(code(m.Name+m.Signature), m.About, d.inv.ofMember(m).String())
		}
	}
}

func fields(list []Field) string {
	parts := make([]string, len(list))
	for i, f := range list {
		name := f.Name
		if f.Optional {
			name += "?"
		}
		parts[i] = name + ": " + f.Type
	}
	if len(parts) == 0 {
		return ""
	}
	return code(strings.Join(parts, ", "))
}

func (d *page) events() {
	d.section("4. Events", fmt.Sprintf("%d types. *Stored* ones are in a session's history; the others are only seen live. *Has* says whether an event carries text, tool or error data.", len(d.inv.Runtime.Events)))
	d.table("event", "meaning", "payload", "stored", "has", "bridge")
	for _, e := range d.inv.Runtime.Events {
		stored := "yes"
		if e.Ephemeral {
			stored = ""
		}
		d.row(code(e.Name)+e.Status.note(), e.About, fields(e.Fields), stored, e.Carries(), d.inv.ofEvent(e).String())
	}
	if lost := d.inv.lost(); len(lost) > 0 {
		d.line("")
		d.line("Fields that the schema has and the SDK's types have not, so that nobody who uses the SDK sees them:")
		d.table("event", "fields")
		for _, l := range lost {
			d.row(code(l.Name), strings.Join(l.Fields, ", "))
		}
	}
}

// lost are the fields of events that the SDK's types leave out.
func (inv *Inventory) lost() []EventUse {
	var out []EventUse
	for _, e := range inv.Runtime.Events {
		for _, u := range inv.SDK.Events {
			if u.Name != e.Name {
				continue
			}
			l := EventUse{Name: e.Name}
			for _, f := range e.Fields {
				if !slices.Contains(u.Fields, f.Name) {
					l.Fields = append(l.Fields, f.Name)
				}
			}
			if len(l.Fields) > 0 {
				out = append(out, l)
			}
		}
	}
	return out
}

func (d *page) permissions() {
	d.section("6. Permissions", "The handler of a session is asked for each of these, after the pre-tool-use hook. The bridge answers with `approve-once` or `reject`, and never with a decision that outlives the request.")
	d.table("kind", "meaning", "fields", "bridge")
	for _, v := range d.inv.Runtime.Permissions {
		d.row(code(v.Kind)+v.Status.note(), v.About, fields(v.Fields), d.inv.ofPermission(v).String())
	}
	d.line("")
	d.line("Decisions that can be given:")
	d.table("decision", "meaning", "fields")
	for _, v := range d.inv.Runtime.Decisions {
		d.row(code(v.Kind)+v.Status.note(), v.About, fields(v.Fields))
	}
	d.line("")
	d.line("Results that `permission.completed` tells of; only the approvals count as one, everything else as a denial:")
	d.table("result", "meaning", "fields")
	for _, v := range d.inv.Runtime.Results {
		d.row(code(v.Kind)+v.Status.note(), v.About, fields(v.Fields))
	}
}

func (d *page) contract(title, text string, enums []string, names ...string) {
	d.section(title, text)
	for _, name := range enums {
		for _, e := range d.inv.Runtime.Enums {
			if e.Name == name {
				d.line("")
				d.line("%s", code(e.Name)+": "+code(strings.Join(e.Values, ", ")))
			}
		}
	}
	for _, name := range names {
		for _, t := range d.inv.SDK.Types {
			if t.Name != name {
				continue
			}
			d.line("")
			d.line("%s", "**"+code(t.Name)+"** "+plain(t.About))
			d.table("field", "meaning", "bridge")
			for _, f := range t.Fields {
				d.row(code(f.Name+" "+f.Type), f.About, d.inv.ofField(t, f).String())
			}
		}
	}
}

func (d *page) methods() {
	titles := map[Side]string{SideServer: "of the server", SideSession: "of a session", SideClientSession: "of a session's client, called by the runtime", SideClientGlobal: "of the client, called by the runtime"}
	d.section("18. Methods of the protocol", "All that the runtime's schema has, and what the SDK calls beside it. `sessionId` is left out.")
	last := Side("")
	for _, m := range d.inv.methods() {
		if m.Side != last {
			last = m.Side
			d.line("")
			d.line("### Methods %s", titles[m.Side])
			d.table("method", "meaning", "parameters", "result", "bridge")
		}
		d.row(code(m.Name)+m.Status.note(), m.About, fields(m.Params), fields(m.Result), d.inv.ofMethod(m).String())
	}
}
