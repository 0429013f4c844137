package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/sessionstore"
)

// Secrets are hidden in every field of a session that is recorded.
func TestStoredSessionsHoldNoSecrets(t *testing.T) {
	token := "ghp_" + strings.Repeat("a1B2c3", 6)
	c := &config.Config{Home: t.TempDir()}
	e := sessionstore.Entry{ID: "1", Profile: sessionstore.ProfileAgent, State: sessionstore.StateIdle,
		Title: "use " + token, Model: token, WorkingDirectory: "/src/" + token}
	if err := Store(c).Put(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(c.Path("sessions", "*", "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), token) || !strings.Contains(string(data), `/src/[REDACTED]`) {
		t.Errorf("%s", data)
	}
}
