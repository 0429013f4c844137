package dashboard

import (
	"encoding/json"
	"net/http"
)

// Policy is the policy in force in a directory.
type Policy struct {
	Dir string `json:"dir"`
	// Defaults are the verdicts where no rule speaks, by kind of call.
	Defaults map[string]string `json:"defaults"`
	// ReadOnly: clients of this server may not write.
	ReadOnly bool         `json:"read_only"`
	Rules    []PolicyRule `json:"rules"`
	Files    []PolicyFile `json:"files"`
	// Error says why the files cannot be used: everything is denied until then.
	Error string `json:"error,omitempty"`
}

// PolicyRule is one rule. List is default, readOnly, protected, the list of a
// policy file, or the key of a setting.
type PolicyRule struct {
	List    string       `json:"list"`
	Rule    string       `json:"rule"`
	Verdict string       `json:"verdict"` // allow, ask or deny
	Source  PolicySource `json:"source"`
	// Ignored: it would ease something, but its file is not trusted.
	Ignored bool `json:"ignored,omitempty"`
}

// PolicySource is where a rule is written.
type PolicySource struct {
	// Kind is default, user file, workspace file, configuration, environment,
	// command line or other.
	Kind    string `json:"kind"`
	File    string `json:"file,omitempty"` // or the name of a variable
	Line    int    `json:"line,omitempty"`
	Trusted bool   `json:"trusted"`
}

// PolicyFile is a policy file, or where one would be.
type PolicyFile struct {
	Kind    string `json:"kind"` // user file or workspace file
	Path    string `json:"path"`
	Exists  bool   `json:"exists"`
	Trusted bool   `json:"trusted"`
	Rules   int    `json:"rules"`
	Error   string `json:"error,omitempty"`
}

// PolicyCall is a call to be tested: a tool with its arguments, or words such as
// bash: npm test, a path or an address.
type PolicyCall struct {
	Words string         `json:"-"`
	Tool  string         `json:"tool"`
	Args  map[string]any `json:"args"`
}

// PolicyVerdict is what would happen to a call.
type PolicyVerdict struct {
	Tool     string       `json:"tool"`
	Args     any          `json:"args"`
	Verdict  string       `json:"verdict"`
	Reason   string       `json:"reason"`
	Rule     string       `json:"rule"` // its list
	Pattern  string       `json:"pattern,omitempty"`
	Source   PolicySource `json:"source"`
	Confined bool         `json:"confined"`         // where the tool runs a program
	Always   []string     `json:"always,omitempty"` // the rules that would allow it from now on
}

// policy is GET /policy?dir=.
func (a *API) policy(_ http.ResponseWriter, r *http.Request) (any, error) {
	return a.opts.Records.Policy(r.Context(), r.URL.Query().Get("dir"))
}

// testPolicy is POST /policy/test.
func (a *API) testPolicy(w http.ResponseWriter, r *http.Request) (any, error) {
	in, err := decode[struct {
		Call json.RawMessage `json:"call"`
		Dir  string          `json:"dir"`
	}](w, r)
	if err != nil {
		return nil, err
	}
	call := PolicyCall{}
	if in.Call == nil || json.Unmarshal(in.Call, &call.Words) != nil && json.Unmarshal(in.Call, &call) != nil || call.Words == "" && call.Tool == "" {
		return nil, invalid("call is neither a text nor a tool with its arguments", `Write {"call": "bash: npm test"} or {"call": {"tool": "view", "args": {"path": "x"}}}.`)
	}
	return a.opts.Records.TestPolicy(r.Context(), in.Dir, call)
}
