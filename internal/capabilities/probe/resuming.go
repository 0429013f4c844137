package probe

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"
)

// opaque is a chunk as a model sends it whose thoughts are sealed.
const opaque = `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"reasoning_opaque":"SEALED-THOUGHT"},"finish_reason":null}]}\n\n`

// resume looks at what a session still has after it was left and resumed: hot,
// in the runtime that has it in memory, and cold, in a new one.
func resume(ctx context.Context, r *rig) error {
	rt, err := r.runtime(ctx, "")
	if err != nil {
		return err
	}
	var asked atomic.Int32
	forSession := approveForSession(&asked)
	s, err := r.open(ctx, rt, func(c *copilot.SessionConfig) {
		c.SystemMessage = &copilot.SystemMessageConfig{Mode: "append", Content: "OWN-SYSTEM-TEXT"}
		c.Tools = []copilot.Tool{{Name: "own_tool", Description: "x", Parameters: map[string]any{"type": "object", "properties": map[string]any{}}, SkipPermission: true}}
		c.OnPermissionRequest = forSession
	})
	if err != nil {
		return err
	}
	touch := tool("bash", map[string]any{"command": "touch one", "description": "x"})
	if _, err := s.turn(ctx, "reason VISIBLE-THOUGHT", "malformed "+opaque, "text FIRST-WORDS", touch, "next", "text ok"); err != nil {
		return err
	}
	if _, err := s.turn(ctx, touch, "next", "text ok"); err != nil {
		return err
	}
	r.saw("live: asked for two equal commands, approved for the session", "%d times", asked.Load())
	if err := r.remembered("live", s); err != nil {
		return err
	}
	if err := s.Disconnect(); err != nil {
		return err
	}
	bare := func(c *copilot.ResumeSessionConfig) { c.OnPermissionRequest = forSession }
	hot, err := r.reopen(ctx, rt, s.SessionID, s.dir, bare)
	if err != nil {
		return err
	}
	if err := r.survived(ctx, "hot", hot, &asked); err != nil {
		return err
	}
	// A second client of the same runtime while the session is still open.
	again, err := r.reopen(ctx, rt, s.SessionID, s.dir, bare)
	if err != nil {
		return err
	}
	if e, ok := again.soon(ctx, 0, is[*rpc.SessionResumeData]); ok {
		d, _ := e.Data.(*rpc.SessionResumeData)
		r.yesNo("hot, without a disconnect before: sessionWasActive", d.SessionWasActive != nil && *d.SessionWasActive)
	}
	if err := rt.kill(); err != nil {
		return err
	}
	next, err := r.runtime(ctx, rt.home)
	if err != nil {
		return err
	}
	cold, err := r.reopen(ctx, next, s.SessionID, s.dir, bare)
	if err != nil {
		return err
	}
	return r.survived(ctx, "cold", cold, &asked)
}

// approveForSession approves a command for good, as far as the session goes,
// and counts how often it is asked.
func approveForSession(asked *atomic.Int32) copilot.PermissionHandlerFunc {
	return func(p copilot.PermissionRequest, _ copilot.PermissionInvocation) (rpc.PermissionDecision, error) {
		asked.Add(1)
		d, ok := p.(*rpc.PermissionRequestShell)
		if !ok {
			return &rpc.PermissionDecisionApproveOnce{}, nil
		}
		ids := []string{}
		for _, c := range d.Commands {
			ids = append(ids, c.Identifier)
		}
		return &rpc.PermissionDecisionApproveForSession{Approval: &rpc.PermissionDecisionApproveForSessionApprovalCommands{CommandIdentifiers: ids}}, nil
	}
}

func (r *rig) survived(ctx context.Context, how string, s *session, asked *atomic.Int32) error {
	if e, ok := s.soon(ctx, 0, is[*rpc.SessionResumeData]); ok {
		d, _ := e.Data.(*rpc.SessionResumeData)
		r.yesNo(how+": sessionWasActive", d.SessionWasActive != nil && *d.SessionWasActive)
	} else {
		r.saw(how+": sessionWasActive", "there is no session.resume event")
	}
	before := asked.Load()
	if _, err := s.turn(ctx, tool("bash", map[string]any{"command": "touch one", "description": "x"}), "next", "text ok"); err != nil {
		return err
	}
	r.yesNo(how+": an approval for the session holds", asked.Load() == before)
	return r.remembered(how, s)
}

// remembered looks at the last request to the model and at the stored events.
func (r *rig) remembered(how string, s *session) error {
	reqs := r.model.Requests()
	last := reqs[len(reqs)-1]
	has := func(word string) bool { return bytes.Contains(last.Raw, []byte(word)) }
	r.yesNo(how+": the model is told what was said", has("FIRST-WORDS"))
	r.yesNo(how+": and the visible thoughts", has("VISIBLE-THOUGHT\""))
	r.yesNo(how+": and the sealed thoughts", has("\"SEALED-THOUGHT\""))
	r.yesNo(how+": the system text that was not given again", has("OWN-SYSTEM-TEXT"))
	offered := false
	for _, t := range last.Tools {
		offered = offered || t.Name == "own_tool"
	}
	r.yesNo(how+": the client's tool that was not declared again", offered)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	stored, err := s.GetEvents(ctx)
	if err != nil {
		return err
	}
	thought, sealed := false, false
	for _, m := range all[*rpc.AssistantMessageData](stored) {
		thought = thought || m.ReasoningText != nil && *m.ReasoningText != ""
		sealed = sealed || m.ReasoningOpaque != nil && *m.ReasoningOpaque != ""
	}
	r.yesNo(how+": reasoningText is in the history", thought)
	r.yesNo(how+": reasoningOpaque is in the history", sealed)
	return nil
}

// pendingWork kills a runtime that waits for a client's tool, and goes on in
// a new one.
func pendingWork(ctx context.Context, r *rig) error {
	yes, no := copilot.Bool(true), copilot.Bool(false)
	modes := []struct {
		name    string
		suspend bool
		goOn    *bool
	}{{"killed, continuePendingWork true", false, yes}, {"killed, false", false, no}, {"suspended, continuePendingWork true", true, yes}, {"suspended, false", true, no}}
	facts := make([][]fact, len(modes))
	errs := make([]error, len(modes))
	var wg sync.WaitGroup
	for i, mode := range modes {
		wg.Go(func() {
			facts[i], errs[i] = r.pending(ctx, mode.suspend, mode.goOn)
			for n := range facts[i] {
				facts[i][n].What = mode.name + ": " + facts[i][n].What
			}
		})
	}
	wg.Wait()
	r.facts = slices.Concat(facts...)
	return errors.Join(errs...)
}

func (r *rig) pending(ctx context.Context, suspend bool, goOn *bool) (seen []fact, err error) {
	yesNo := func(what string, is bool) {
		seen = append(seen, fact{What: what, Seen: map[bool]string{true: "yes", false: "no"}[is]})
	}
	declared := []copilot.Tool{{Name: "own_tool", Description: "x", Parameters: map[string]any{"type": "object", "properties": map[string]any{}}, SkipPermission: true}}
	rt, err := r.runtime(ctx, "")
	if err != nil {
		return nil, err
	}
	s, err := r.open(ctx, rt, func(c *copilot.SessionConfig) { c.Tools = declared })
	if err != nil {
		return nil, err
	}
	word := "WENT-ON-" + s.SessionID
	from, err := s.say(ctx, tool("own_tool", map[string]any{}), "next", "text "+word)
	if err != nil {
		return nil, err
	}
	e, err := s.await(ctx, from, is[*rpc.ExternalToolRequestedData])
	if err != nil {
		return nil, err
	}
	before, _ := e.Data.(*rpc.ExternalToolRequestedData)
	if suspend {
		if _, err := s.RPC.Suspend(ctx); err != nil {
			return nil, err
		}
	}
	if err := rt.kill(); err != nil {
		return nil, err
	}
	next, err := r.runtime(ctx, rt.home)
	if err != nil {
		return nil, err
	}
	c, err := r.reopen(ctx, next, s.SessionID, s.dir, func(c *copilot.ResumeSessionConfig) { c.Tools, c.ContinuePendingWork = declared, goOn })
	if err != nil {
		return nil, err
	}
	id := before.RequestID
	e, again := c.within(ctx, 0, is[*rpc.ExternalToolRequestedData])
	yesNo("external_tool.requested comes again", again)
	if again {
		d, _ := e.Data.(*rpc.ExternalToolRequestedData)
		yesNo("under the same id", d.RequestID == id)
		id = d.RequestID
	}
	result := "RESULT-" + s.SessionID
	res, err := c.RPC.Tools.HandlePendingToolCall(ctx, &rpc.HandlePendingToolCallRequest{RequestID: id, Result: rpc.ExternalToolStringResult(result)})
	accepted := err == nil && res != nil && res.Success
	yesNo("session.tools.handlePendingToolCall is accepted", accepted)
	wait := c.within
	if accepted {
		wait = c.soon
	}
	_, ended := wait(ctx, 0, idle)
	yesNo("the turn goes on to its end by itself", ended && lastText(c.since(0)) == word)
	yesNo("the model gets the result", r.modelSaw(0, result))
	if !ended {
		if err := c.Abort(ctx); err != nil {
			return nil, err
		}
	}
	list, err := c.turn(ctx, "text NEXT-TURN")
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return nil, err
	}
	yesNo("the next turn works", lastText(list) == "NEXT-TURN")
	return seen, next.kill()
}

// modelSaw says whether a request after the first n has the text.
func (r *rig) modelSaw(n int, text string) bool {
	reqs := r.model.Requests()
	for _, q := range reqs[min(n, len(reqs)):] {
		if bytes.Contains(q.Raw, []byte(text)) {
			return true
		}
	}
	return false
}
