package contract

// WorkOrder is what is to be done, where, and under which rules.
type WorkOrder struct {
	ID           UUID
	Task         string
	Lane         Lane
	Workspace    Workspace
	Context      Context
	Policy       Policy
	Requirements []Requirement
	Config       Config
}

// Lane says whether the agent changes files or proposes changes.
type Lane string

// The lanes.
const (
	PatchFirst     Lane = "patch_first"
	WorkspaceFirst Lane = "workspace_first"
)

// WorkspaceMode says what the root is.
type WorkspaceMode string

// The modes: the user's own directory, or a copy that was made for the run.
const (
	PassThrough WorkspaceMode = "pass_through"
	Staged      WorkspaceMode = "staged"
)

// The parts of a work order.
type (
	Workspace struct {
		Root    string
		Mode    WorkspaceMode
		Include []string
		Exclude []string
	}
	Context struct {
		Files    []string
		Snippets []Snippet
	}
	Snippet struct{ Name, Content string }
	// Policy is judged by the guard; see policy.FromABP.
	Policy struct {
		AllowedTools, DisallowedTools []string
		DenyRead, DenyWrite           []string
		AllowNetwork, DenyNetwork     []string
		RequireApprovalFor            []string
	}
	Requirement struct {
		Capability Capability
		Min        Minimum
	}
	Config struct {
		Model        *string
		Vendor       Object
		Env          map[string]string
		MaxBudgetUSD *float64
		MaxTurns     *uint32
	}
)

func (r reader) workOrder(to *WorkOrder) func(any) error {
	return func(v any) error {
		if r.lenient {
			to.Lane, to.Workspace.Mode = WorkspaceFirst, PassThrough
		}
		return r.structure(v, "WorkOrder",
			field{"id", always, uuid(&to.ID)},
			field{"task", always, text(&to.Task)},
			field{"lane", required, variant(&to.Lane, []Lane{PatchFirst, WorkspaceFirst})},
			field{"workspace", required, func(v any) error {
				w := &to.Workspace
				return r.structure(v, "WorkspaceSpec", field{"root", required, text(&w.Root)},
					field{"mode", required, variant(&w.Mode, []WorkspaceMode{PassThrough, Staged})},
					field{"include", required, list(&w.Include, text)}, field{"exclude", required, list(&w.Exclude, text)})
			}},
			field{"context", required, func(v any) error {
				c := &to.Context
				return r.structure(v, "ContextPacket", field{"files", required, list(&c.Files, text)}, field{"snippets", required, list(&c.Snippets, r.snippet)})
			}},
			field{"policy", required, func(v any) error {
				p := &to.Policy
				return r.structure(v, "PolicyProfile", field{"allowed_tools", required, list(&p.AllowedTools, text)},
					field{"disallowed_tools", required, list(&p.DisallowedTools, text)}, field{"deny_read", required, list(&p.DenyRead, text)},
					field{"deny_write", required, list(&p.DenyWrite, text)}, field{"allow_network", required, list(&p.AllowNetwork, text)},
					field{"deny_network", required, list(&p.DenyNetwork, text)}, field{"require_approval_for", required, list(&p.RequireApprovalFor, text)})
			}},
			field{"requirements", required, func(v any) error {
				return r.structure(v, "CapabilityRequirements", field{"required", required, list(&to.Requirements, r.requirement)})
			}},
			field{"config", required, func(v any) error {
				c := &to.Config
				return r.structure(v, "RuntimeConfig", field{"model", optional, maybe(&c.Model, text)}, field{"vendor", required, mapping(&c.Vendor)},
					field{"env", required, environment(&c.Env)}, field{"max_budget_usd", optional, maybe(&c.MaxBudgetUSD, float)},
					field{"max_turns", optional, maybe(&c.MaxTurns, small)})
			}},
		)
	}
}

func (r reader) snippet(to *Snippet) func(any) error {
	return func(v any) error {
		return r.structure(v, "ContextSnippet", field{"name", required, text(&to.Name)}, field{"content", required, text(&to.Content)})
	}
}

func (r reader) requirement(to *Requirement) func(any) error {
	return func(v any) error {
		if r.lenient {
			to.Min = MinNative
		}
		return r.structure(v, "CapabilityRequirement", field{"capability", always, variant(&to.Capability, capabilities)},
			field{"min_support", required, variant(&to.Min, []Minimum{MinNative, MinEmulated, MinAny})})
	}
}

func environment(to *map[string]string) func(any) error {
	return func(v any) error {
		o, ok := v.(Object)
		if !ok {
			return unexpected(v, "a map")
		}
		*to = make(map[string]string, len(o))
		for _, m := range o {
			var s string
			if err := text(&s)(m.Value); err != nil {
				return in(m.Key, err)
			}
			(*to)[m.Key] = s
		}
		return nil
	}
}

// JSON is the order as ABP writes it.
func (w *WorkOrder) JSON() []byte { return AppendValue(nil, w.value()) }

func (w *WorkOrder) value() any {
	snippets := make([]any, len(w.Context.Snippets))
	for i, s := range w.Context.Snippets {
		snippets[i] = record{{"name", s.Name}, {"content", s.Content}}
	}
	needs := make([]any, len(w.Requirements))
	for i, r := range w.Requirements {
		needs[i] = record{{"capability", string(r.Capability)}, {"min_support", string(r.Min)}}
	}
	env := Object{}
	for k, v := range w.Config.Env {
		env = append(env, Member{k, v})
	}
	vendor := w.Config.Vendor
	if vendor == nil {
		vendor = Object{}
	}
	p, c := w.Policy, w.Config
	return record{
		{"id", string(w.ID)}, {"task", w.Task}, {"lane", string(w.Lane)},
		{"workspace", record{{"root", w.Workspace.Root}, {"mode", string(w.Workspace.Mode)}, {"include", texts(w.Workspace.Include)}, {"exclude", texts(w.Workspace.Exclude)}}},
		{"context", record{{"files", texts(w.Context.Files)}, {"snippets", snippets}}},
		{"policy", record{{"allowed_tools", texts(p.AllowedTools)}, {"disallowed_tools", texts(p.DisallowedTools)}, {"deny_read", texts(p.DenyRead)},
			{"deny_write", texts(p.DenyWrite)}, {"allow_network", texts(p.AllowNetwork)}, {"deny_network", texts(p.DenyNetwork)},
			{"require_approval_for", texts(p.RequireApprovalFor)}}},
		{"requirements", record{{"required", needs}}},
		{"config", record{{"model", orNull(c.Model)}, {"vendor", vendor}, {"env", env}, {"max_budget_usd", orNull(c.MaxBudgetUSD)}, {"max_turns", orNull(c.MaxTurns)}}},
	}
}
