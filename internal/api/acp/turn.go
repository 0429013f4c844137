package acp

import (
	"cmp"
	"context"
	"errors"
	"io"
	"strings"
	"sync"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/acpwire"
	"github.com/copilot-bridge/copilot-bridge/internal/jsonrpc"
)

// turn translates the events of one turn, or of a history, into updates. see is
// called by one goroutine; questions come from others and use the mutex.
type turn struct {
	session *session
	ctx     context.Context
	cancel  context.CancelCauseFunc
	before  chan struct{} // closed when the turn before it has been answered; nil if there is none
	over    chan struct{} // closed when the turn has been answered
	past    bool          // it is a history

	// Only for see.
	said    map[string]string // what was sent of messages that are not finished
	thought bool              // thoughts were sent since the last message
	finish  string            // why the model stopped last
	end     *bridge.TurnEnded
	failed  *bridge.Error

	mu      sync.Mutex
	calls   map[string]*call
	order   []string          // of calls
	asked   map[string]string // questions, and the calls that they are about
	changed chan struct{}     // closed and replaced when calls or asked change
}

func newTurn(ctx context.Context, s *session) *turn {
	ctx, cancel := context.WithCancelCause(ctx)
	return &turn{session: s, ctx: ctx, cancel: cancel, over: make(chan struct{}), said: map[string]string{}, calls: map[string]*call{},
		asked: map[string]string{}, changed: make(chan struct{})}
}

// awaitBefore waits until it is the turn's turn, and says whether it is to run.
func (t *turn) awaitBefore() bool {
	if t.before == nil {
		return true
	}
	select {
	case <-t.before:
	case <-t.ctx.Done():
	}
	return t.ctx.Err() == nil
}

// see translates one event.
func (t *turn) see(ctx context.Context, ev bridge.Event) error {
	switch e := ev.(type) {
	case bridge.TextDelta:
		return t.text(ctx, e)
	case bridge.ReasoningDelta:
		t.thought = true
		return t.chunk(ctx, acpwire.UpdateAgentThought, "", e.Text)
	case bridge.MessageDone:
		return t.message(ctx, e)
	case bridge.MessageRetracted:
		if t.said[e.Message] == "" {
			return nil
		}
		delete(t.said, e.Message)
		// The client cannot take text back.
		return t.chunk(ctx, acpwire.UpdateAgentMessage, e.Message, "\n\n[The answer broke off here; it begins anew.]\n\n")
	case bridge.UserSaid:
		if t.past {
			return t.chunk(ctx, acpwire.UpdateUserMessage, "", e.Text)
		}
	case bridge.ToolStarted:
		return t.began(ctx, e.Call)
	case bridge.ToolProgress:
		return t.progress(ctx, e)
	case bridge.ToolFinished:
		return t.finished(ctx, e)
	case bridge.PermissionAsked:
		t.question(e.Request)
	case bridge.PermissionDecided:
		return t.decided(ctx, e)
	case bridge.PlanChanged:
		return t.plan(ctx, e)
	case bridge.ModeChanged:
		if mode, ok := modeOf(e.Mode); ok && !t.past {
			return t.session.enter(ctx, mode)
		}
	case bridge.ContextMeasured:
		return t.session.update(ctx, &acpwire.UsageUpdate{Type: acpwire.UpdateUsage, Used: max(0, e.Tokens), Size: max(0, e.Limit)})
	case bridge.Notice:
		if !t.past {
			return t.session.tell(ctx, e.Level, e.Text)
		}
	case bridge.ModelFailed:
		if !t.past {
			return t.session.tell(ctx, "info", "the model's provider failed, it is tried again: "+e.Error.Error())
		}
	case bridge.UsageReported:
		t.finish = e.Finish
	case bridge.Failed:
		t.failed = e.Error
	case bridge.TurnEnded:
		t.end = &e
	case bridge.SessionOpened, bridge.ModelCalled, bridge.ToolRequested, bridge.InputAsked, bridge.InputAnswered, bridge.Other:
	}
	return nil
}

func (t *turn) chunk(ctx context.Context, kind, message, text string) error {
	if text == "" {
		return nil
	}
	return t.session.update(ctx, &acpwire.Chunk{Type: kind, MessageID: message, Content: acpwire.Text(text)})
}

// text sends a piece of an answer. A sub-agent's text is a thought to the client.
func (t *turn) text(ctx context.Context, e bridge.TextDelta) error {
	if e.AgentID != "" {
		return t.chunk(ctx, acpwire.UpdateAgentThought, e.Message, e.Text)
	}
	t.said[e.Message] += e.Text
	return t.chunk(ctx, acpwire.UpdateAgentMessage, e.Message, e.Text)
}

// message sends the rest of a message that was not streamed, and its tool calls.
func (t *turn) message(ctx context.Context, e bridge.MessageDone) error {
	rest, streamed := strings.CutPrefix(e.Text, t.said[e.Message])
	if !streamed || e.AgentID != "" && !t.past {
		rest = ""
	}
	delete(t.said, e.Message)
	thought := t.thought
	t.thought = false
	if !thought && e.AgentID == "" {
		if err := t.chunk(ctx, acpwire.UpdateAgentThought, "", e.Reasoning); err != nil {
			return err
		}
	}
	kind := acpwire.UpdateAgentMessage
	if e.AgentID != "" {
		kind = acpwire.UpdateAgentThought
	}
	if err := t.chunk(ctx, kind, e.Message, rest); err != nil {
		return err
	}
	for _, c := range e.Calls {
		if err := t.started(ctx, c, acpwire.StatusPending); err != nil {
			return err
		}
	}
	return nil
}

func (t *turn) plan(ctx context.Context, e bridge.PlanChanged) error {
	if len(e.Entries) == 0 && (t.past || e.Text != "") {
		return nil // a plan in prose
	}
	u := &acpwire.Plan{Type: acpwire.UpdatePlan}
	for _, s := range e.Entries {
		u.Entries = append(u.Entries, acpwire.PlanEntry{Content: s.Text, Priority: cmp.Or(s.Priority, "medium"), Status: string(s.Status)})
	}
	return t.session.update(ctx, u)
}

// stopped is the answer to a prompt whose turn ended with err, if with one.
func (t *turn) stopped(err error) (*acpwire.PromptResponse, error) {
	out := &acpwire.PromptResponse{StopReason: acpwire.StopEndTurn}
	if t.end != nil {
		u := t.end.Usage
		out.Usage = &acpwire.Usage{Input: u.InputTokens, Output: u.OutputTokens, Total: u.InputTokens + u.OutputTokens, CachedRead: &u.CacheRead, CachedWrite: &u.CacheWrite}
		if u.ReasoningTokens > 0 {
			out.Usage.Thought = &u.ReasoningTokens
		}
	}
	if t.failed != nil && !errors.Is(err, jsonrpc.ErrClosed) {
		err = t.failed // the same, with its secrets hidden
	}
	switch code := bridge.CodeOf(err); {
	case errors.Is(context.Cause(t.ctx), errTurnCancelled), errors.Is(context.Cause(t.ctx), io.EOF), err == nil && t.end != nil && t.end.Reason == bridge.EndAborted:
		// The client wanted the turn to end, or has left.
		out.StopReason = acpwire.StopCancelled
		return out, nil
	case code == bridge.CodeBudget:
		out.StopReason = acpwire.StopMaxTurnRequests
		return out, nil
	case err != nil:
		return nil, err
	case t.finish == "length":
		out.StopReason = acpwire.StopMaxTokens
	case t.finish == "content_filter":
		out.StopReason = acpwire.StopRefusal
	}
	return out, nil
}
