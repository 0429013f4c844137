package openclaw

import (
	"net/http"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/openclawtest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/programtest"
)

// The other tests rely on this: the pinned OpenClaw version, a gateway that
// accepts only its token, and a clean stop.
func TestGatewayStartsAndStops(t *testing.T) {
	u := openclawtest.NewUser(t)
	if got := u.Run(t, "--version"); !strings.Contains(got, openclawtest.Version) {
		t.Errorf("openclaw --version says %q", got)
	}
	g := u.Start(t)
	if code, body, err := g.Do(t.Context(), http.MethodGet, "/health", nil); err != nil || code != http.StatusOK {
		t.Errorf("%d %s %v", code, body, err)
	}
	if _, err := g.Invoke(t.Context(), "nonesuch", nil); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("%v", err)
	}
	stranger := &openclawtest.Gateway{URL: g.URL, Token: "wrong"}
	if _, err := stranger.Invoke(t.Context(), "nonesuch", nil); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("%v", err)
	}
	g.Stop(t)
	programtest.NoneLeft(t, u.Home)
}
