//go:build unix

package sdk_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/sdk"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/githubtest"
)

// A runtime is replaced when the login has changed, or was refused in a turn:
// it would keep what it has. Other changes of the same file replace nothing.
func TestLoginChanges(t *testing.T) {
	t.Parallel()
	github := githubtest.Start(t)
	o := options(t, github.Model)
	o.Provider, o.Model, o.UseLogin = nil, "gpt-5", true
	o.Env = append(o.Env, append(github.Env(), "GITHUB_TOKEN="+github.Token())...)
	a := sdk.New(o)
	e := engine.New(engine.Options{Agent: a})
	t.Cleanup(func() {
		if err := e.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	turn := func(refused bool) (pid int) {
		t.Helper()
		s, err := e.Open(t.Context(), engine.Request{Door: "test", Spec: bridge.SessionSpec{Profile: bridge.ProfileChat, Model: "gpt-5", Gate: agenttest.AllowAll()}})
		if err != nil {
			t.Fatal(err)
		}
		pid = a.ProgramPID(bridge.ProfileChat)
		for _, turnErr := range s.Send(t.Context(), bridge.Prompt{Text: "hello"}) {
			err = turnErr
		}
		if (bridge.CodeOf(err) == bridge.CodeUnauthenticated) != refused || err != nil && !refused {
			t.Errorf("the turn: %v", err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		return pid
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(o.Home, "config.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first := turn(false)
	write(`{"trustedFolders":["/x"]}`)
	if again := turn(false); again != first || a.Logins() != 0 {
		t.Errorf("another setting: runtime %d, then %d; %d changes", first, again, a.Logins())
	}
	write("// a comment\n{\"loggedInUsers\":[{\"host\":\"h\",\"login\":\"l\"}]}")
	second := turn(false)
	if second == first || a.Logins() != 1 {
		t.Errorf("another login: runtime %d, then %d; %d changes", first, second, a.Logins())
	}
	token := github.Token()
	github.Accept("another")
	turn(true)
	github.Accept(token)
	if third := turn(false); third == second {
		t.Error("the runtime stays though its login was refused")
	}
}
