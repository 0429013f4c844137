//go:build unix

package sdk_test

import (
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
)

// When a model runs out of tokens the runtime has it go on; that is one
// message to the reader. (The model echoes the runtime's request here.)
func TestAContinuedMessageIsOne(t *testing.T) {
	t.Parallel()
	ctx, a, _ := start(t, nil)
	s := openSession(t, ctx, a, bridge.SessionSpec{Profile: bridge.ProfileChat})
	o := agenttest.Collect(ctx, s, agenttest.Script("text Once upon", "finish length"))
	if o.Err != nil {
		t.Fatal(o.Err)
	}
	done := agenttest.Find[bridge.MessageDone](o)
	streamed := ""
	for _, d := range agenttest.Find[bridge.TextDelta](o) {
		streamed += d.Text
		if d.Message != done[0].Message {
			t.Errorf("a piece belongs to %s, the message is %s", d.Message, done[0].Message)
		}
	}
	if len(done) != 1 || done[0].Text != streamed || !strings.HasPrefix(streamed, "Once upon") || !strings.Contains(streamed, "Please continue") {
		t.Errorf("streamed %q, done %+v", streamed, done)
	}
	if u := agenttest.Find[bridge.UsageReported](o); len(u) != 2 || u[0].Finish != "length" || u[1].Finish != "stop" {
		t.Errorf("usage %+v", u)
	}
}
