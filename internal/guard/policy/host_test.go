package policy

import (
	"strings"
	"testing"
)

func TestNetworkRules(t *testing.T) {
	const (
		both  = "both"
		deny  = "deny only"
		never = "never"
	)
	for _, tt := range []struct {
		rule, host string
		port       int
		matches    string
	}{
		{"example.com", "example.com", 443, both},
		{"example.com", "EXAMPLE.com", 443, both},
		{"Example.COM", "example.com", 0, both},
		{"example.com", "example.com.", 443, both},
		{"example.com.", "example.com", 443, both},
		{"example.com", "a.example.com", 443, never},
		{"example.com", "example.com.evil.org", 443, never},
		{"example.com", "badexample.com", 443, never},
		{"*.example.com", "a.example.com", 443, both},
		{"*.example.com", "a.b.example.com", 443, both},
		{"*.example.com", "example.com", 443, deny},
		{"*.example.com", "badexample.com", 443, never},
		{"*.example.com", "a.example.com.evil.org", 443, never},
		{"api-*.example.com", "api-1.example.com", 443, both},
		{"api-*.example.com", "api-1.x.example.com", 443, never},
		{"api-*.example.com", "api-x.evil.com", 443, never},
		{"*.api-*.example.com", "a.b.api-1.example.com", 443, both},
		{"*.api-*.example.com", "api-1.example.com", 443, never},
		{"example.*", "example.org", 443, both},
		{"example.*", "example.co.uk", 443, never},
		{"*", "example.com", 443, both},
		{"*", "192.0.2.1", 0, both},
		{"*", "::1", 0, both},
		{"*:443", "example.com", 443, both},
		{"*:443", "example.com", 80, never},
		{"*:443", "example.com", 0, deny},
		{"example.com:8443", "example.com", 8443, both},
		{"example.com:8443", "example.com", 443, never},
		{"example.com:8443", "example.com", 0, deny},
		{"example.com:*", "example.com", 1, both},
		{"*.example.com:80", "a.example.com", 80, both},
		{"192.0.2.7", "192.0.2.7", 80, both},
		{"192.0.2.7", "192.0.2.8", 80, never},
		{"192.0.2.7:80", "192.0.2.7", 81, never},
		{"192.0.2.7", "::ffff:192.0.2.7", 80, both},
		{"::ffff:192.0.2.7", "192.0.2.7", 80, both},
		{"::1", "::1", 443, both},
		{"::1", "[::1]", 443, both},
		{"[::1]:443", "::1", 443, both},
		{"[::1]:443", "::1", 80, never},
		{"[::1]", "0:0:0:0:0:0:0:1", 80, both},
		{"fe80::/10", "fe80::1%eth0", 80, both},
		{"10.0.0.0/8", "10.1.2.3", 80, both},
		{"10.0.0.0/8", "11.1.2.3", 80, never},
		{"10.0.0.0/8", "::ffff:10.1.2.3", 80, both},
		{"::ffff:10.0.0.0/104", "10.1.2.3", 80, both},
		{"fd00::/8", "fd12::1", 80, both},
		{"fd00::/8", "fe00::1", 80, never},
		{"0.0.0.0/0", "example.com", 80, never},
		{"127.0.0.1", "localhost", 80, never},
		{"localhost", "localhost", 80, both},
		{"localhost:3000", "localhost", 3000, both},
		{"xn--bcher-kva.example", "xn--bcher-kva.example", 443, both},
		{"my_host", "my_host", 0, both},
		{"*.0.2.7", "192.0.2.7", 0, "bad rule"},
	} {
		rule := Rule{Pattern: tt.rule}
		if err := compileHost(&rule); err != nil {
			if tt.matches != "bad rule" {
				t.Errorf("%q: %v", tt.rule, err)
			}
			continue
		}
		host, err := newTarget(&Host{Name: tt.host, Port: tt.port})
		if err != nil {
			t.Errorf("%q: %v", tt.host, err)
			continue
		}
		got := never
		switch a, d := rule.host.allows(&host), rule.host.denies(&host); {
		case a && d:
			got = both
		case d:
			got = deny
		case a:
			got = "allow only"
		}
		if got != tt.matches {
			t.Errorf("%q on %s:%d: %s, want %s", tt.rule, tt.host, tt.port, got, tt.matches)
		}
	}
}

func TestBadNetworkRules(t *testing.T) {
	for rule, want := range map[string]string{
		"https://example.com": "not a URL", "user@example.com": "not a URL", "example.com/path": "without a path", "example.com:0": "port",
		"example.com:70000": "port", "example.com:x": "port", "[::1": "not closed", "[::1]x": "only be :port", "10.0.0.1/8": "write 10.0.0.0/8",
		"1.2.3": "valid address", "1.2.3.4.5": "valid address", "0x7f.1": "valid address", "bücher.example": "xn--", "a..b": "not a host",
		".example.com": "not a host", "a b": "not a URL", "fe80::1%eth0": "zone", "{a,b}.example": "not a host", "!x.com": "not a host",
	} {
		if err := compileHost(&Rule{Pattern: rule}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", rule, err, want)
		}
	}
}

// Whatever a resolver might read in its own way is refused before any rule is
// looked at, also where everything is allowed.
func TestOddHosts(t *testing.T) {
	rules, err := ParseYAML("p", []byte("network: {allow: ['*']}"))
	if err != nil {
		t.Fatal(err)
	}
	p := Combine(DefaultsABP(), Layer{Rules: rules, Trusted: true})
	for _, h := range []Host{
		{Name: ""}, {Name: "."}, {Name: "2130706433"}, {Name: "0x7f000001"}, {Name: "127.1"}, {Name: "0177.0.0.1"}, {Name: "1.2.3.4.5"},
		{Name: "0x7f.0.0.0x1"}, {Name: "a..b"}, {Name: "user@host"}, {Name: "host/path"}, {Name: "host:80"}, {Name: "exa mple.com"},
		{Name: "ex\u0430mple.com"}, {Name: "a%2eb"}, {Name: "[::1"}, {Name: "a\x00b"}, {Name: strings.Repeat("a.", 200) + "b"},
		{Name: "example.com", Port: -1}, {Name: "example.com", Port: 65536}, {Name: "example.com", Problem: "it cannot be parsed"},
		{Name: "$HOST"}, {Name: "*"},
	} {
		out := p.Evaluate(Action{Tool: "web_fetch", Kind: KindNetwork, Hosts: []Host{h}})
		if out.Verdict != Deny || out.Stage != StageNetwork {
			t.Errorf("%+v: %+v", h, out)
		}
	}
	if out := p.Evaluate(Action{Tool: "web_fetch", Kind: KindNetwork, Hosts: []Host{{Name: "example.com", Port: 443}}}); out.Verdict != Allow {
		t.Errorf("%+v", out)
	}
}
