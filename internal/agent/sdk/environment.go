package sdk

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/agent/environ"
	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// environment is the runtime's: without the bridge's own secrets, which the
// runtime would hand on to every shell, and without what the user may have
// set for another runtime.
func (h *host) environment() []string {
	login := ""
	env := slices.DeleteFunc(environ.Plain(h.opts.Env, h.opts.UseLogin), func(kv string) bool {
		name, value, _ := strings.Cut(kv, "=")
		if name == "GH_TOKEN" || name == "GITHUB_TOKEN" && login == "" {
			login = value
		}
		return slices.Contains(hidden, name) || strings.HasPrefix(name, "COPILOT_PROVIDER_")
	})
	if login != "" {
		env = append(env, tokenVariable+"="+login)
	}
	if p := h.opts.Provider; p != nil && h.opts.Token == "" && !h.opts.UseLogin {
		// The real key goes with each session, not through the environment.
		env = append(env, "COPILOT_OFFLINE=true", "COPILOT_PROVIDER_TYPE="+providerType(p.Kind),
			"COPILOT_PROVIDER_BASE_URL="+p.BaseURL, "COPILOT_PROVIDER_API_KEY=unused", "COPILOT_MODEL="+h.opts.Model)
	}
	own := slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, tunables+"=") })
	if h.profile == bridge.ProfileChat && !own {
		env = append(env, tunables+"="+allocator())
	}
	return env
}

const tunables = "GLIBC_TUNABLES" // another C library does not look at it

// allocator sets the C library's for a runtime. That makes and drops small
// objects by the hundred thousand and spends more than a quarter of its time
// on it. With room for many of them in each thread's cache most are had
// without a lock or a search, and a heap that threads share grows by more than
// a page at a time, which one of a thread's own does not: together 1.5 ms less
// to the first word, for some 20 MB. With a cache of 2,000 the memory grew by
// a fifth in 2,000 turns; with 100 little was gained. Agents go without: their
// shells would inherit it.
func allocator() string {
	return fmt.Sprintf("glibc.malloc.tcache_count=500:glibc.malloc.mxfast=0:glibc.malloc.arena_max=%d", max(1, runtime.NumCPU()/2))
}

// tokenVariable is one that the runtime reads but keeps from what it starts.
const tokenVariable = "COPILOT_GITHUB_TOKEN"

// hidden are tokens, which go to the runtime by tokenVariable, and what the
// user may have set for another runtime.
var hidden = []string{tokenVariable, "GH_TOKEN", "GITHUB_TOKEN", "COPILOT_OFFLINE", "COPILOT_MODEL"}
