//go:build unix

package sdk_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/sdk"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
)

// Two bridges do not write one session: the second waits for the first, and
// then knows all that was said.
func TestOneBridgeASession(t *testing.T) {
	t.Parallel()
	m := model(t)
	opts := options(t, m)
	var agents [2]*sdk.Agent
	for i := range agents {
		agents[i] = sdk.New(opts)
		t.Cleanup(func() {
			if err := agents[i].Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	spec := bridge.SessionSpec{Profile: bridge.ProfileAgent, WorkingDir: t.TempDir()}
	first, err := agents[0].Open(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	if o := agenttest.Collect(ctx, first, agenttest.Say("one")); o.Err != nil {
		t.Fatal(o.Err)
	}
	hasty, give := context.WithTimeout(ctx, time.Second)
	defer give()
	if s, err := agents[1].Resume(hasty, first.ID(), spec); err == nil {
		t.Fatalf("session %s has two bridges", s.ID())
	}
	type resumed struct {
		session bridge.Session
		err     error
	}
	second := make(chan resumed, 1)
	go func() {
		s, err := agents[1].Resume(ctx, first.ID(), spec)
		second <- resumed{s, err}
	}()
	if o := agenttest.Collect(ctx, first, agenttest.Say("two")); o.Err != nil {
		t.Error(o.Err)
	}
	if err := first.Close(ctx); err != nil {
		t.Error(err)
	}
	r := <-second
	if r.err != nil {
		t.Fatal(r.err)
	}
	history, err := r.session.History(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, ev := range history {
		if d, ok := ev.(bridge.MessageDone); ok {
			said = append(said, d.Text)
		}
	}
	if got := strings.Join(said, ","); got != "one,two" {
		t.Errorf("the second bridge knows of %q", got)
	}
	if err := r.session.Close(ctx); err != nil {
		t.Error(err)
	}
}
