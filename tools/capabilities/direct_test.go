package capabilities

import (
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/agent/sdk"
	"github.com/copilot-bridge/copilot-bridge/internal/capabilities"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/runtimecall"
)

// The table of direct calls names every method of the pinned runtime, and allows
// only what the SDK can call.
func TestDirectCallsFitTheRuntime(t *testing.T) {
	inv, err := capabilities.Pinned()
	if err != nil {
		t.Fatal(err)
	}
	unknown := runtimecall.Of("a method that nobody knows")
	counts := map[runtimecall.Kind]int{}
	for _, m := range inv.Runtime.Methods {
		rule := runtimecall.Of(m.Name)
		counts[rule.Kind]++
		called := m.Side == capabilities.SideServer || m.Side == capabilities.SideSession
		switch {
		case rule == unknown:
			t.Errorf("%s is not in the table", m.Name)
		case rule.Kind == runtimecall.Refuse:
		case !called:
			t.Errorf("%s is %s, and the runtime calls it", m.Name, rule.Kind)
		case !sdk.Callable(m.Name):
			t.Errorf("%s is %s, and the SDK has no call for it", m.Name, rule.Kind)
		}
	}
	t.Logf("%v", counts)
	for _, method := range []string{"session.nosuch", "session", "session.common.client", "nosuch", "", "session.rpc.name.get"} {
		if sdk.Callable(method) {
			t.Errorf("%q can be called", method)
		}
	}
}
