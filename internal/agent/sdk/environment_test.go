package sdk

import (
	"slices"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// The allocator's setting is for runtimes that start no programs, and never
// instead of the user's own.
func TestAllocator(t *testing.T) {
	set := func(p bridge.Profile, env ...string) []string {
		all := newHost(New(Options{Env: env}), p).environment()
		return slices.DeleteFunc(all, func(kv string) bool { return !strings.HasPrefix(kv, "GLIBC_TUNABLES=") })
	}
	if got := set(bridge.ProfileChat, "HOME=/h"); len(got) != 1 || !strings.Contains(got[0], "glibc.malloc.tcache_count=") {
		t.Errorf("a chat's runtime has %q", got)
	}
	if got := set(bridge.ProfileChat, "GLIBC_TUNABLES=glibc.malloc.check=3"); !slices.Equal(got, []string{"GLIBC_TUNABLES=glibc.malloc.check=3"}) {
		t.Errorf("the user's own setting became %q", got)
	}
	if got := set(bridge.ProfileAgent, "HOME=/h"); len(got) != 0 {
		t.Errorf("an agent's shells would inherit %q", got)
	}
}
