package policy

import (
	"slices"
	"strings"
	"testing"
)

func TestFromABP(t *testing.T) {
	rules, err := FromABP(ABPPolicy{
		AllowedTools: []string{"view"}, DisallowedTools: []string{"Bash"}, DenyRead: []string{"**/.env"}, DenyWrite: []string{"dist/**", "/etc/**"},
		AllowNetwork: []string{"*.example.com"}, DenyNetwork: []string{"10.0.0.0/8"}, RequireApprovalFor: []string{"edit"}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{`allowed_tools "view" (ABP work order) as tools.allow`, `disallowed_tools "Bash" (ABP work order) as tools.deny`,
		`disallowed_tools "powershell" (ABP work order) as tools.deny`, `disallowed_tools "write_bash" (ABP work order) as tools.deny`,
		`disallowed_tools "read_bash" (ABP work order) as tools.deny`, `disallowed_tools "stop_bash" (ABP work order) as tools.deny`,
		`disallowed_tools "list_bash" (ABP work order) as tools.deny`,
		`require_approval_for "edit" (ABP work order) as tools.ask`,
		`require_approval_for "apply_patch" (ABP work order) as tools.ask`, `require_approval_for "str_replace_editor" (ABP work order) as tools.ask`,
		`deny_read "**/.env" (ABP work order) as reads.deny`,
		`deny_write "dist/**" (ABP work order) as writes.deny`, `deny_write "/etc/**" (ABP work order) as writes.deny`,
		`allow_network "*.example.com" (ABP work order) as network.allow`, `deny_network "10.0.0.0/8" (ABP work order) as network.deny`}
	if got := render(rules); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	for _, tt := range []struct {
		policy ABPPolicy
		want   string
	}{
		{ABPPolicy{DenyRead: []string{"~/.ssh"}}, `ABP work order: deny_read "~/.ssh": ~ is not expanded`},
		{ABPPolicy{AllowNetwork: []string{"https://x.com"}}, `ABP work order: allow_network "https://x.com": write a host`},
		{ABPPolicy{RequireApprovalFor: []string{"a b"}}, `ABP work order: require_approval_for "a b": names hold no white space`},
	} {
		if _, err := FromABP(tt.policy); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%v: %v", tt.policy, err)
		}
	}
}

// What an ABP work order may contain, end to end: an empty policy permits
// everything inside the workspace, and consent is refused.
func TestABPDefaults(t *testing.T) {
	full, err := FromABP(ABPPolicy{DisallowedTools: []string{"web_search"}, DenyRead: []string{"**/.env", "/ws/private/**", "/**/hidden"},
		DenyWrite: []string{"dist"}, AllowNetwork: []string{"example.com"}, RequireApprovalFor: []string{"task"}})
	if err != nil {
		t.Fatal(err)
	}
	defaults := DefaultsABP()
	defaults.Root = "/ws"
	empty, ordered := Combine(defaults), Combine(defaults, Layer{Rules: full, Trusted: true})
	read := func(rel string) Action { return Action{Tool: "view", Kind: KindRead, Paths: []Path{{Rel: rel}}} }
	for _, tt := range []struct {
		name           string
		a              Action
		empty, ordered string // "" is an allowance
	}{
		{"read", read("a.go"), "", ""},
		{"read .env", read("x/.env"), "", `reading "x/.env" is denied by deny_read "**/.env" (ABP work order)`},
		{"absolute", read("private/a"), "", `reading "private/a" is denied by deny_read "/ws/private/**" (ABP work order)`},
		{"absolute anywhere", read("a/hidden"), "", `reading "a/hidden" is denied by deny_read "/**/hidden" (ABP work order)`},
		{"write", Action{Tool: "create", Kind: KindWrite, Paths: []Path{{Rel: "dist/x", Write: true}}}, "",
			`writing "dist/x" is denied by deny_write "dist" (ABP work order)`},
		{"shell", Action{Tool: "bash", Kind: KindShell, Commands: []Command{{Words: []string{"make"}}}}, "", ""},
		{"opaque", Action{Tool: "bash", Kind: KindShell, Commands: []Command{{Words: []string{"make"}, Opaque: true}}},
			`denied: running "make" needs consent, since not all of it is known (built-in default), and there is nobody to ask`,
			`denied: running "make" needs consent, since not all of it is known (built-in default), and there is nobody to ask`},
		{"network", Action{Tool: "web_fetch", Kind: KindNetwork, Hosts: []Host{{Name: "other.org"}}}, "",
			`reaching "other.org" is denied: not in allow_network (ABP work order)`},
		{"allowed host", Action{Tool: "web_fetch", Kind: KindNetwork, Hosts: []Host{{Name: "example.com"}}}, "", ""},
		{"disallowed", Action{Tool: "web_search", Kind: KindNetwork}, "", `denied by disallowed_tools "web_search" (ABP work order)`},
		{"approval", Action{Tool: "task", Kind: KindOther}, "", `denied: require_approval_for "task" (ABP work order) wants consent, and there is nobody to ask`},
		{"mcp", Action{Tool: "search", Server: "s", Kind: KindMCP}, "", ""},
		{"outside", Action{Tool: "view", Kind: KindRead, Paths: []Path{{Name: "/etc/passwd", Outside: true}}},
			`reading "/etc/passwd" is denied: it is outside the workspace`, `reading "/etc/passwd" is denied: it is outside the workspace`},
		{"policy file", Action{Tool: "create", Kind: KindWrite, Paths: []Path{{Rel: ".agent-policy.yaml", Write: true}}},
			`writing ".agent-policy.yaml" is denied by protected "**/.agent-policy.yaml" (built-in)`,
			`writing ".agent-policy.yaml" is denied by protected "**/.agent-policy.yaml" (built-in)`},
		{"unknown", Action{Tool: "x", Kind: "teleport"}, `denied: unknown kind of action "teleport"`, `denied: unknown kind of action "teleport"`},
	} {
		for name, c := range map[string]struct {
			p    *Policy
			want string
		}{"empty": {empty, tt.empty}, "ordered": {ordered, tt.ordered}} {
			out := c.p.Evaluate(tt.a)
			if (out.Verdict == Allow) != (c.want == "") || out.Verdict == Ask || c.want != "" && out.Reason != c.want {
				t.Errorf("%s, %s: %s %s", tt.name, name, out.Verdict, out.Reason)
			}
		}
	}
}

// The names that ABP's back ends share stand for the runtime's own tools, and
// lists of tools are looked at before anything else.
func TestABPToolNamesAndOrder(t *testing.T) {
	rules, err := FromABP(ABPPolicy{AllowedTools: []string{"Read", "Write", "web*", "Task"}, DisallowedTools: []string{"write"}, RequireApprovalFor: []string{"WebFetch", "Bash"}})
	if err != nil {
		t.Fatal(err)
	}
	defaults := DefaultsABP()
	defaults.Root = "/ws"
	p := Combine(defaults, Layer{Rules: rules, Trusted: true})
	outside := []Path{{Name: "/etc/passwd", Outside: true}}
	for _, tt := range []struct {
		a    Action
		want string // "" is an allowance
	}{
		{Action{Tool: "view", Kind: KindRead, Paths: []Path{{Rel: "a"}}}, ""},
		{Action{Tool: "task", Kind: KindOther}, ""},
		{Action{Tool: "view", Kind: KindRead, Paths: outside}, "outside the workspace"},
		{Action{Tool: "create", Kind: KindWrite, Paths: outside}, `disallowed_tools "create"`},
		{Action{Tool: "grep", Kind: KindRead, Paths: outside}, "not in allowed_tools"},
		{Action{Tool: "bash", Kind: KindShell, Commands: []Command{{Words: []string{"ls"}}}}, "not in allowed_tools"},
		{Action{Tool: "web_fetch", Kind: KindNetwork, Hosts: []Host{{Name: "x", Problem: "odd"}}}, `require_approval_for "web_fetch"`},
		{Action{Tool: "Read", Server: "s", Kind: KindMCP}, "not in allowed_tools"},
	} {
		out := p.Evaluate(tt.a)
		if (out.Verdict == Allow) != (tt.want == "") || !strings.Contains(out.Reason, tt.want) {
			t.Errorf("%s: %s %s", tt.a.Tool, out.Verdict, out.Reason)
		}
		if wants := tt.want == "outside the workspace"; out.Outside != wants {
			t.Errorf("%s: outside %t", tt.a.Tool, out.Outside)
		}
	}
}
