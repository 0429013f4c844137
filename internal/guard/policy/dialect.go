package policy

import (
	"fmt"
	"slices"
)

// ABPPolicy is the policy of an ABP work order.
type ABPPolicy struct {
	AllowedTools       []string `json:"allowed_tools"`
	DisallowedTools    []string `json:"disallowed_tools"`
	DenyRead           []string `json:"deny_read"`
	DenyWrite          []string `json:"deny_write"`
	AllowNetwork       []string `json:"allow_network"`
	DenyNetwork        []string `json:"deny_network"`
	RequireApprovalFor []string `json:"require_approval_for"`
}

// FromABP returns the rules of a work order's policy. ABP knows tools by names
// that all of its back ends share (Read, Write, Bash …); such a name stands for
// the tools of the runtime that do the same.
func FromABP(p ABPPolicy) (Rules, error) {
	var b builder
	for _, l := range []struct {
		key, list string
		patterns  []string
	}{
		{"allowed_tools", "tools.allow", RuntimeTools(p.AllowedTools)},
		{"disallowed_tools", "tools.deny", RuntimeTools(p.DisallowedTools)},
		{"require_approval_for", "tools.ask", RuntimeTools(p.RequireApprovalFor)},
		{"deny_read", "reads.deny", p.DenyRead},
		{"deny_write", "writes.deny", p.DenyWrite},
		{"allow_network", "network.allow", p.AllowNetwork},
		{"deny_network", "network.deny", p.DenyNetwork},
	} {
		for _, pattern := range l.patterns {
			b.add(l.list, l.key, pattern, Source{Name: "ABP work order"})
		}
	}
	return b.finish("Correct the policy of the work order.")
}

// abpTools are the names that back ends share, and the runtime's own.
var abpTools = []struct {
	name  string
	tools []string
}{
	{"Read", []string{"view"}},
	{"Write", []string{"create"}},
	{"Edit", []string{"edit", "apply_patch", "str_replace_editor"}},
	{"MultiEdit", []string{"edit", "apply_patch", "str_replace_editor"}},
	{"Bash", []string{"bash", "powershell", "write_bash", "read_bash", "stop_bash", "list_bash"}},
	{"Glob", []string{"glob"}},
	{"Grep", []string{"grep", "rg", "semantic_code_search"}},
	{"WebFetch", []string{"web_fetch"}},
	{"WebSearch", []string{"web_search"}},
	{"AskUser", []string{"ask_user"}},
	{"AskUserQuestion", []string{"ask_user"}},
	{"Task", []string{"task", "read_agent", "write_agent", "list_agents"}},
}

// RuntimeTools adds to each pattern of tools the runtime's own names for what it
// means: create for Write, bash for Bash. A pattern that
// is wrong is left for the compiler to find.
func RuntimeTools(patterns []string) []string {
	var out []string
	for _, pattern := range patterns {
		out = append(out, pattern)
		rule := Rule{Pattern: pattern}
		if compileTool(&rule) != nil || rule.tool.all {
			continue
		}
		for _, t := range abpTools {
			if !rule.tool.match([]string{flat(fold(t.name))}) {
				continue
			}
			for _, own := range t.tools {
				if !rule.tool.match([]string{flat(fold(own))}) && !slices.Contains(out, own) {
					out = append(out, own)
				}
			}
		}
	}
	return out
}

// ABPReason words a denial as ABP's hosts do.
func ABPReason(tool string, o Outcome) string {
	switch {
	case o.Outside:
		return fmt.Sprintf("path escapes workspace root: '%s'", o.Subject)
	case o.Rule.Key == "disallowed_tools":
		return fmt.Sprintf("tool '%s' is disallowed", tool)
	case o.Rule.Key == "allowed_tools":
		return fmt.Sprintf("tool '%s' is not in allowed_tools", tool)
	case o.Rule.Key == "require_approval_for":
		return fmt.Sprintf("tool '%s' requires approval (%s)", tool, o.Rule)
	}
	return ""
}
