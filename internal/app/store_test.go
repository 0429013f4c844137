package app

import (
	"os"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/sessionstore"
)

// Whoever records a session, and whatever stood where a model or a directory
// belongs.
func TestStoredSessionsHoldNoSecrets(t *testing.T) {
	token := "ghp_" + strings.Repeat("a1B2c3", 6)
	c := &config.Config{Home: t.TempDir()}
	e := sessionstore.Entry{ID: "1", Profile: sessionstore.ProfileAgent, State: sessionstore.StateIdle,
		Title: "use " + token, Model: token, WorkingDirectory: "/src/" + token}
	if err := Store(c).Put(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(c.Path("sessions.json"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), token) || !strings.Contains(string(data), `/src/[REDACTED]`) {
		t.Errorf("%s", data)
	}
}
