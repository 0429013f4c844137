package abp

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/abp/contract"
)

// usdPerCredit is what GitHub charges for an AI credit.
const usdPerCredit = 0.01

// vendor is config.vendor, as far as it is for us.
type vendor struct {
	Copilot copilotFields `json:"copilot"`
	ABP     struct {
		Mode string `json:"mode"`
	} `json:"abp"`
	FlatMode string `json:"abp.mode"`
}

// copilotFields are config.vendor.copilot.
type copilotFields struct {
	Model           string               `json:"model"`
	ReasoningEffort string               `json:"reasoningEffort"`
	SystemMessage   systemMessage        `json:"systemMessage"`
	AvailableTools  []string             `json:"availableTools"`
	ExcludedTools   []string             `json:"excludedTools"`
	MCPServers      map[string]mcpServer `json:"mcpServers"`
	MCPServersSnake map[string]mcpServer `json:"mcp_servers"`
	SessionID       string               `json:"sessionId"`
	ForkSession     bool                 `json:"forkSession"`
	ResponseFormat  *bridge.ResponseFormat
	Price           *price `json:"price"`
}

// systemMessage is a text, or one with a mode.
type systemMessage struct{ Mode, Content string }

func (m *systemMessage) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, &m.Content) == nil {
		return nil
	}
	var form struct {
		Mode    string `json:"mode"`
		Content string `json:"content"`
	}
	if err := json.Unmarshal(b, &form); err != nil {
		return err
	}
	if form.Mode != "" && form.Mode != "append" && form.Mode != "replace" {
		return fmt.Errorf("its mode is %q, neither append nor replace", form.Mode)
	}
	*m = systemMessage(form)
	return nil
}

type mcpServer struct {
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
	Cwd     string            `json:"cwd"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	Tools   []string          `json:"tools"`
	Timeout int64             `json:"timeout"` // milliseconds
}

// price is a provider's price in US dollars for a million tokens.
type price struct {
	Input  float64 `json:"input"`
	Output float64 `json:"output"`
	Cached float64 `json:"cached"`
}

// plan is a work order as it will be done.
type plan struct {
	order    Order
	mode     contract.Mode
	format   *bridge.ResponseFormat
	price    *price
	maxTurns *uint32
	maxCost  *float64
	warnings []string
}

func invalid(format string, args ...any) error {
	return &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf(format, args...), Remedy: "correct the work order"}
}

// newPlan reads a work order.
func newPlan(w *contract.WorkOrder, dir string) (*plan, error) {
	var v vendor
	if err := json.Unmarshal(contract.AppendValue(nil, w.Config.Vendor), &v); err != nil && w.Config.Vendor != nil {
		return nil, invalid("config.vendor cannot be understood: %v", err)
	}
	if strings.TrimSpace(w.Task) == "" {
		return nil, invalid("the task is empty")
	}
	p := &plan{mode: contract.Mapped, price: v.Copilot.Price, maxTurns: w.Config.MaxTurns, maxCost: w.Config.MaxBudgetUSD}
	switch mode := cmp.Or(v.ABP.Mode, v.FlatMode); mode {
	case "", string(contract.Mapped):
	case string(contract.Passthrough):
		p.mode = contract.Passthrough
	default:
		return nil, invalid("config.vendor.abp.mode is %q, neither mapped nor passthrough", mode)
	}
	if p.maxCost != nil && *p.maxCost < 0 {
		return nil, invalid("config.max_budget_usd is negative")
	}
	root, err := workspaceRoot(w.Workspace.Root, dir)
	if err != nil {
		return nil, err
	}
	c := v.Copilot
	o := &p.order
	*o = Order{Title: w.Task, Text: w.JSON(), Root: root, Policy: w.Policy, Model: c.Model, Effort: c.ReasoningEffort, Resume: c.SessionID, Fork: c.ForkSession, Raw: p.mode == contract.Passthrough,
		System: bridge.SystemText{Text: c.SystemMessage.Content, Replace: c.SystemMessage.Mode == "replace"}, MCPServers: servers(c, root)}
	if o.Fork && o.Resume == "" {
		return nil, invalid("config.vendor.copilot.forkSession needs a sessionId to copy")
	}
	if o.Model == "" && w.Config.Model != nil {
		o.Model = *w.Config.Model
	}
	if w.Workspace.Mode == contract.Staged {
		o.Hidden = w.Workspace.Exclude
	} else if w.Lane == contract.PatchFirst {
		o.ReadOnly = true
		o.System.Text = strings.TrimSpace(o.System.Text + "\n\n" + proposeOnly)
	}
	o.AvailableTools, o.ExcludedTools = qualified(c.AvailableTools, o.MCPServers), qualified(c.ExcludedTools, o.MCPServers)
	if p.maxCost != nil {
		o.MaxCredits = *p.maxCost / usdPerCredit
	}
	o.Env = w.Config.Env
	if f := c.ResponseFormat; f != nil {
		if len(f.Schema) == 0 {
			return nil, invalid("config.vendor.copilot.responseFormat has no schema")
		}
		p.format = f
		f.Name = cmp.Or(f.Name, "answer")
	}
	return p, nil
}

const proposeOnly = "Do not change any file. Propose the changes as one unified diff, with paths relative to the workspace, in your last message."

// workspaceRoot resolves and checks the directory to work in.
func workspaceRoot(root, dir string) (string, error) {
	if strings.ContainsRune(root, 0) {
		return "", invalid("workspace.root holds a NUL character")
	}
	if !filepath.IsAbs(root) {
		root = filepath.Join(dir, root)
	}
	root, err := filepath.EvalSymlinks(root)
	if err == nil {
		var info os.FileInfo
		if info, err = os.Stat(root); err == nil && !info.IsDir() {
			err = fmt.Errorf("%s is not a directory", root)
		}
	}
	if err != nil {
		return "", &workspaceError{err}
	}
	return root, nil
}

// workspaceError says that there is no place to work in.
type workspaceError struct{ err error }

func (e *workspaceError) Error() string { return "the workspace cannot be used: " + e.err.Error() }
func (e *workspaceError) Unwrap() error { return e.err }

func servers(c copilotFields, root string) map[string]bridge.MCPServer {
	out := map[string]bridge.MCPServer{}
	for _, all := range []map[string]mcpServer{c.MCPServersSnake, c.MCPServers} {
		for name, s := range all {
			server := bridge.MCPServer{Command: s.Command, Args: s.Args, Env: s.Env, Dir: s.Cwd, URL: s.URL, Headers: s.Headers, Tools: s.Tools,
				Timeout: time.Duration(s.Timeout) * time.Millisecond}
			if server.Command != "" && !filepath.IsAbs(server.Dir) {
				server.Dir = filepath.Join(root, server.Dir)
			}
			out[name] = server
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// qualified puts the source of a tool before its name, as the runtime wants it.
func qualified(names []string, servers map[string]bridge.MCPServer) []string {
	if names == nil {
		return nil
	}
	out := []string{}
	for _, n := range names {
		switch {
		case strings.Contains(n, ":"):
			out = append(out, n)
		case n == "*":
			out = append(out, "builtin:*", "mcp:*")
		default:
			source := "builtin:"
			for s := range servers {
				if strings.HasPrefix(n, s+"-") {
					source = "mcp:"
				}
			}
			out = append(out, source+n)
		}
	}
	return out
}

// manifest is the agent's capabilities, less those that a sidecar cannot offer. It
// names every capability of the contract.
func manifest(of map[bridge.Capability]bridge.Support) contract.Manifest {
	out := contract.Manifest{}
	for _, c := range bridge.AllCapabilities() {
		s := of[c]
		if c == bridge.CapToolAskUser && s.Level > bridge.SupportRestricted {
			s = bridge.Support{Level: bridge.SupportRestricted, Reason: "a sidecar has nobody to ask"}
		}
		out[contract.Capability(c)] = support(s)
	}
	return out
}

func support(s bridge.Support) contract.Support {
	switch s.Level {
	case bridge.SupportNative:
		return contract.Support{Level: contract.Native}
	case bridge.SupportEmulated:
		return contract.Support{Level: contract.Emulated}
	case bridge.SupportRestricted:
		return contract.Support{Level: contract.Restricted, Reason: s.Reason}
	case bridge.SupportNone:
	}
	return contract.Support{Level: contract.Unsupported}
}

// unmet lists the requirements that the manifest does not meet, or is "".
func unmet(m contract.Manifest, needs []contract.Requirement) string {
	var out []string
	for _, n := range needs {
		s, ok := m[n.Capability]
		if !ok {
			s = contract.Support{Level: contract.Unsupported}
		}
		if s.Meets(n.Min) {
			continue
		}
		is := string(s.Level)
		if s.Reason != "" {
			is += ": " + s.Reason
		}
		out = append(out, fmt.Sprintf("%s is needed as %s and is %s", n.Capability, n.Min, is))
	}
	return strings.Join(out, "; ")
}
