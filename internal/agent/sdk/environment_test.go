package sdk

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
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

func TestShownPaths(t *testing.T) {
	read, write := shown(&bridge.Confinement{Write: []string{"/w", "/w/r", "/h", "/h/w"}, Read: []string{"/w/r", "/h", "/r"}, Hide: []string{"/h"}})
	if !slices.Equal(read, []string{"/w/r", "/r"}) || !slices.Equal(write, []string{"/w", "/h/w"}) {
		t.Errorf("read %q, write %q", read, write)
	}
}

func TestDeniedPaths(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"home/audit", "home/worktrees/one", "home/worktrees/two", "work"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	at := func(names ...string) (out []string) {
		for _, name := range names {
			out = append(out, filepath.Join(dir, name))
		}
		return out
	}
	for name, tt := range map[string]struct{ hidden, shown, want []string }{
		"apart":            {at("home"), at("work"), at("home")},
		"inside":           {at("work/secret"), at("work"), at("work/secret")},
		"both":             {at("work"), at("work"), at("work")},
		"around, not seen": {at("home"), at("home/worktrees/one"), nil},
		"around, seen":     {at("home"), append(at("home/worktrees/one"), dir), at("home/audit", "home/worktrees/two")},
		"a name's start":   {at("wo"), at("work"), at("wo")},
	} {
		if got := denied(tt.hidden, tt.shown); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
