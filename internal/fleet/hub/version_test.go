package hub

import (
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

func TestCheckVersion(t *testing.T) {
	for version, want := range map[string]bridge.Code{"2.12.0": "", "2.15.2-beta.1": "", "3.0.0": "", "2.11.9": bridge.CodeUnsupported, "1.99.0": bridge.CodeUnsupported, "": bridge.CodeUnsupported} {
		if got := bridge.CodeOf(checkVersion(version)); got != want {
			t.Errorf("%q: %q", version, got)
		}
	}
}
