package capabilities

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"

	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
)

// opaque is a chunk as a model sends it whose thoughts are sealed.
const opaque = `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"reasoning_opaque":"SEALED-THOUGHT"},"finish_reason":null}]}\n\n`

// resume looks at what a session still has after it was left and resumed: hot,
// in the runtime that has it in memory, and cold, in a new one.
func resume(r *rig) {
	rt := r.runtime("")
	var asked atomic.Int32
	forSession := approveForSession(&asked)
	s := r.open(rt, func(c *copilot.SessionConfig) {
		c.SystemMessage = &copilot.SystemMessageConfig{Mode: "append", Content: "OWN-SYSTEM-TEXT"}
		c.Tools, c.OnPermissionRequest = ownTool(nil), forSession
	})
	touch := shell("touch one")
	s.turn("reason VISIBLE-THOUGHT", "malformed "+opaque, "text FIRST-WORDS", touch, "next", "text ok")
	s.turn(touch, "next", "text ok")
	r.saw("live: asked for two equal commands, approved for the session", "%d times", asked.Load())
	r.remembered("live", s)
	check(s.Disconnect())
	bare := func(c *copilot.ResumeSessionConfig) { c.OnPermissionRequest = forSession }
	survived := func(how string, s *session) {
		if d := s.resumed(); d != nil {
			r.yesNo(how+": sessionWasActive", set(d.SessionWasActive))
		} else {
			r.saw(how+": sessionWasActive", "there is no session.resume event")
		}
		before := asked.Load()
		s.turn(touch, "next", "text ok")
		r.yesNo(how+": an approval for the session holds", asked.Load() == before)
		r.remembered(how, s)
	}
	survived("hot", r.reopen(rt, s.SessionID, s.dir, bare))
	// A second client of the same runtime while the session is still open.
	if d := r.reopen(rt, s.SessionID, s.dir, bare).resumed(); d != nil {
		r.yesNo("hot, without a disconnect before: sessionWasActive", set(d.SessionWasActive))
	}
	check(rt.kill())
	survived("cold", r.reopen(r.runtime(rt.home), s.SessionID, s.dir, bare))
}

// approveForSession approves a command for the rest of the session and counts
// how often it is asked.
func approveForSession(asked *atomic.Int32) copilot.PermissionHandlerFunc {
	return func(p copilot.PermissionRequest, i copilot.PermissionInvocation) (rpc.PermissionDecision, error) {
		asked.Add(1)
		d, ok := p.(*rpc.PermissionRequestShell)
		if !ok {
			return approve(p, i)
		}
		ids := []string{}
		for _, c := range d.Commands {
			ids = append(ids, c.Identifier)
		}
		return &rpc.PermissionDecisionApproveForSession{Approval: &rpc.PermissionDecisionApproveForSessionApprovalCommands{CommandIdentifiers: ids}}, nil
	}
}

// remembered looks at the last request to the model and at the stored events.
func (r *rig) remembered(how string, s *session) {
	reqs := r.model.Requests()
	r.yesNo(how+": the model is told what was said", r.lastAsked("FIRST-WORDS"))
	r.yesNo(how+": and the visible thoughts", r.lastAsked("VISIBLE-THOUGHT\""))
	r.yesNo(how+": and the sealed thoughts", r.lastAsked("\"SEALED-THOUGHT\""))
	r.yesNo(how+": the system text that was not given again", r.lastAsked("OWN-SYSTEM-TEXT"))
	r.yesNo(how+": the client's tool that was not declared again",
		slices.ContainsFunc(reqs[len(reqs)-1].Tools, func(t demomodel.Tool) bool { return t.Name == "own_tool" }))
	thought, sealed := false, false
	for _, m := range all[*rpc.AssistantMessageData](must(s.GetEvents(r.ctx))) {
		thought = thought || m.ReasoningText != nil && *m.ReasoningText != ""
		sealed = sealed || m.ReasoningOpaque != nil && *m.ReasoningOpaque != ""
	}
	r.yesNo(how+": reasoningText is in the history", thought)
	r.yesNo(how+": reasoningOpaque is in the history", sealed)
}

// pendingWork kills a runtime that waits for a client's tool, and resumes in a
// new one.
func pendingWork(r *rig) {
	modes := []struct {
		name          string
		suspend, goOn bool
	}{{"killed, continuePendingWork true", false, true}, {"killed, false", false, false}, {"suspended, continuePendingWork true", true, true}, {"suspended, false", true, false}}
	parts := make([]*rig, len(modes))
	together(len(modes), func(i int) {
		parts[i] = r.part(r.ctx)
		parts[i].pending(modes[i].suspend, modes[i].goOn)
	})
	for i, p := range parts {
		for _, f := range p.facts {
			r.saw(modes[i].name+": "+f.What, "%s", f.Seen)
		}
	}
}

func (r *rig) pending(suspend, goOn bool) {
	rt := r.runtime("")
	s := r.open(rt, func(c *copilot.SessionConfig) { c.Tools = ownTool(nil) })
	word, result := "WENT-ON-"+s.SessionID, "RESULT-"+s.SessionID
	from := s.say(tool("own_tool", args{}), "next", "text "+word)
	before, _ := s.await(from, is[*rpc.ExternalToolRequestedData]).Data.(*rpc.ExternalToolRequestedData)
	if suspend {
		must(s.RPC.Suspend(r.ctx))
	}
	check(rt.kill())
	next := r.runtime(rt.home)
	c := r.reopen(next, s.SessionID, s.dir, func(c *copilot.ResumeSessionConfig) { c.Tools, c.ContinuePendingWork = ownTool(nil), &goOn })
	id := before.RequestID
	e, again := c.within(silence, 0, is[*rpc.ExternalToolRequestedData])
	r.yesNo("external_tool.requested comes again", again)
	if d, ok := e.Data.(*rpc.ExternalToolRequestedData); ok {
		r.yesNo("under the same id", d.RequestID == id)
		id = d.RequestID
	}
	res, err := c.RPC.Tools.HandlePendingToolCall(r.ctx, &rpc.HandlePendingToolCallRequest{RequestID: id, Result: rpc.ExternalToolStringResult(result)})
	accepted := err == nil && res != nil && res.Success
	r.yesNo("session.tools.handlePendingToolCall is accepted", accepted)
	wait := silence
	if accepted {
		wait = expectation
	}
	_, ended := c.within(wait, 0, idle)
	r.yesNo("the turn goes on to its end by itself", ended && lastText(c.since(0)) == word)
	r.yesNo("the model gets the result", r.asked(0, result))
	if !ended {
		check(c.Abort(r.ctx))
	}
	var list []copilot.SessionEvent
	if err := try(func() { list = c.turn("text NEXT-TURN") }); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		check(err)
	}
	r.yesNo("the next turn works", lastText(list) == "NEXT-TURN")
	check(next.kill())
}
