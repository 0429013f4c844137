package contract

import "reflect"

// WorkOrder is a task, its workspace and its rules.
type WorkOrder struct {
	ID           UUID         `abp:"id"`
	Task         string       `abp:"task"`
	Lane         Lane         `abp:"lane,host=workspace_first"`
	Workspace    Workspace    `abp:"workspace,host"`
	Context      Context      `abp:"context,host"`
	Policy       Policy       `abp:"policy,host"`
	Requirements Requirements `abp:"requirements,host"`
	Config       Config       `abp:"config,host"`
}

// Lane says whether the agent changes files or proposes changes.
type Lane string

// The lanes.
const (
	PatchFirst     Lane = "patch_first"
	WorkspaceFirst Lane = "workspace_first"
)

func (Lane) values() []string { return []string{string(PatchFirst), string(WorkspaceFirst)} }

// WorkspaceMode says what the root is.
type WorkspaceMode string

// The modes: the user's own directory, or a copy that was made for the run.
const (
	PassThrough WorkspaceMode = "pass_through"
	Staged      WorkspaceMode = "staged"
)

func (WorkspaceMode) values() []string { return []string{string(PassThrough), string(Staged)} }

// The parts of a work order.
type (
	Workspace struct {
		Root    string        `abp:"root,host"`
		Mode    WorkspaceMode `abp:"mode,host=pass_through"`
		Include []string      `abp:"include,host"`
		Exclude []string      `abp:"exclude,host"`
	}
	Context struct {
		Files    []string  `abp:"files,host"`
		Snippets []Snippet `abp:"snippets,host"`
	}
	Snippet struct {
		Name    string `abp:"name,host"`
		Content string `abp:"content,host"`
	}
	// Policy is judged by the guard; see policy.FromABP.
	Policy struct {
		AllowedTools       []string `abp:"allowed_tools,host"`
		DisallowedTools    []string `abp:"disallowed_tools,host"`
		DenyRead           []string `abp:"deny_read,host"`
		DenyWrite          []string `abp:"deny_write,host"`
		AllowNetwork       []string `abp:"allow_network,host"`
		DenyNetwork        []string `abp:"deny_network,host"`
		RequireApprovalFor []string `abp:"require_approval_for,host"`
	}
	Requirements struct {
		Required []Requirement `abp:"required,host"`
	}
	Requirement struct {
		Capability Capability `abp:"capability"`
		Min        Minimum    `abp:"min_support,host=native"`
	}
	Config struct {
		Model        *string     `abp:"model"`
		Vendor       Object      `abp:"vendor,host"`
		Env          Environment `abp:"env,host"`
		MaxBudgetUSD *float64    `abp:"max_budget_usd"`
		MaxTurns     *uint32     `abp:"max_turns"`
	}
	// Environment is variables by name.
	Environment map[string]string
)

func (e *Environment) read(_ reader, v any) error {
	o, ok := v.(Object)
	if !ok {
		return unexpected(v, "a map")
	}
	*e = make(Environment, len(o))
	for _, m := range o {
		s, ok := m.Value.(string)
		if !ok {
			return in(m.Key, unexpected(m.Value, "a string"))
		}
		(*e)[m.Key] = s
	}
	return nil
}

func (e Environment) object() Object {
	out := Object{}
	for k, v := range e {
		out = append(out, Member{k, v})
	}
	return out
}

// JSON is the order as ABP writes it.
func (w *WorkOrder) JSON() []byte { return appendAny(nil, reflect.ValueOf(w), true) }
