package policy

// Lists is the dialect of the environment and of plugins. Entries mean the
// same as in the file: tools.allow, tools.deny, tools.ask and patterns.deny.
type Lists struct {
	AllowedTools    []string `json:"allowedTools,omitempty"`
	BlockedTools    []string `json:"blockedTools,omitempty"`
	AskTools        []string `json:"askTools,omitempty"`
	BlockedPatterns []string `json:"blockedPatterns,omitempty"`
}

// FromLists returns the rules of lists; source is how reasons call them, such
// as "environment".
func FromLists(source string, l Lists) (Rules, error) {
	return fromTable(source, "Correct the lists in the "+source+".", []entry{
		{"allowedTools", "tools.allow", l.AllowedTools},
		{"blockedTools", "tools.deny", l.BlockedTools},
		{"askTools", "tools.ask", l.AskTools},
		{"blockedPatterns", "patterns.deny", l.BlockedPatterns},
	})
}

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

// FromABP returns the rules of a work order's policy.
func FromABP(p ABPPolicy) (Rules, error) {
	const source = "ABP work order"
	return fromTable(source, "Correct the policy of the work order.", []entry{
		{"allowed_tools", "tools.allow", p.AllowedTools},
		{"disallowed_tools", "tools.deny", p.DisallowedTools},
		{"require_approval_for", "tools.ask", p.RequireApprovalFor},
		{"deny_read", "reads.deny", p.DenyRead},
		{"deny_write", "writes.deny", p.DenyWrite},
		{"allow_network", "network.allow", p.AllowNetwork},
		{"deny_network", "network.deny", p.DenyNetwork},
	})
}

// entry is one list of a dialect.
type entry struct {
	key      string // in the dialect
	list     string
	patterns []string
}

func fromTable(source, remedy string, entries []entry) (Rules, error) {
	var b builder
	for _, e := range entries {
		l := listNamed(e.list)
		for _, pattern := range e.patterns {
			b.add(l, e.key, pattern, Source{Name: source})
		}
	}
	return b.finish(remedy)
}
