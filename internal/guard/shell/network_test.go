package shell

import (
	"encoding/json"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

type hostCase struct {
	Raw    string
	Host   string
	Port   int
	Scheme string
	Error  string
}

func hostCases(t testing.TB) []hostCase {
	t.Helper()
	raw, err := os.ReadFile("testdata/hosts.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []hostCase
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

func TestParseHost(t *testing.T) {
	for _, tc := range hostCases(t) {
		got, err := ParseHost(tc.Raw)
		switch {
		case tc.Error != "":
			if err == nil || !strings.Contains(err.Error(), tc.Error) || bridge.CodeOf(err) != bridge.CodeInvalid {
				t.Errorf("%q: %+v, %v; want an error with %q", tc.Raw, got, err, tc.Error)
			}
			if got != (Host{}) {
				t.Errorf("%q: an error and %+v", tc.Raw, got)
			}
		case err != nil || got != (Host{tc.Host, tc.Port, tc.Scheme}):
			t.Errorf("%q: %+v, %v", tc.Raw, got, err)
		}
	}
}

func TestParseHostTooLong(t *testing.T) {
	if _, err := ParseHost("http://" + strings.Repeat("a.", 5000) + "com"); err == nil {
		t.Error("accepted")
	}
	if _, err := ParseHost("http://" + strings.Repeat("a", 64) + ".com"); err == nil {
		t.Error("accepted a label of 64")
	}
}

// FuzzParseHost holds that accepted addresses are unambiguous: another parser
// that accepts it too finds the same host.
func FuzzParseHost(f *testing.F) {
	for _, tc := range hostCases(f) {
		f.Add(tc.Raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		got, err := ParseHost(raw)
		if err != nil {
			return
		}
		if got.Name == "" || got.Name != strings.ToLower(got.Name) || strings.ContainsAny(got.Name, "/\\@?# \t\n[]") || got.Port < 0 || got.Port > 65535 {
			t.Fatalf("%q: %+v", raw, got)
		}
		again := got.Name // with a scheme before it, since a host may be called like one
		if strings.Contains(again, ":") {
			again = "[" + again + "]"
		}
		if got.Port != 0 {
			again += ":" + strconv.Itoa(got.Port)
		}
		if got.Port != 0 {
			again = "http://" + again
		}
		if second, err := ParseHost(again); err != nil || second.Name != got.Name || second.Port != got.Port {
			t.Fatalf("%q is %+v, which is %+v, %v", raw, got, second, err)
		}
		if got.Scheme == "" || !strings.Contains(raw, "://") {
			return
		}
		u, err := url.Parse(raw)
		if err != nil || u.Host == "" {
			return
		}
		name := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
		if addr, err := netip.ParseAddr(name); err == nil {
			name = addr.Unmap().String()
		}
		if _, err := netip.ParseAddr(got.Name); err == nil && !strings.Contains(name, ":") && name != got.Name {
			return // a number that net/url leaves alone
		}
		if name != got.Name {
			t.Fatalf("%q: %q, but net/url says %q", raw, got.Name, name)
		}
	})
}
