package toolbus

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

// consent answers the questions about a client's own requests.
type consent struct {
	client *Client
	asker  approval.Asker
	ctx    context.Context // ends with the connection

	mu     sync.Mutex
	open   map[string]context.CancelFunc // questions under way, by id
	asking sync.WaitGroup
}

func newConsent(ctx context.Context, c *Client, asker approval.Asker) *consent {
	return &consent{client: c, asker: asker, ctx: ctx, open: map[string]context.CancelFunc{}}
}

func (q *consent) subscribe(ctx context.Context) error {
	_, err := q.client.Call(ctx, "bridge.approvals.subscribe", subscribeParams{Own: true}, nil)
	return err
}

// wait returns when all questions have ended. The connection has ended before.
func (q *consent) wait() { q.asking.Wait() }

// hears takes a notification about a question. It is called by the reader,
// which must not wait for a person.
func (q *consent) hears(method string, params json.RawMessage) bool {
	switch method {
	case "bridge.approval.requested":
		var a Approval
		if json.Unmarshal(params, &a) != nil {
			return true
		}
		ctx, cancel := context.WithCancel(q.ctx)
		q.mu.Lock()
		q.open[a.ID] = cancel
		q.mu.Unlock()
		q.asking.Go(func() {
			defer cancel()
			q.ask(ctx, a)
		})
	case "bridge.approval.closed":
		var c closedParams
		if json.Unmarshal(params, &c) == nil {
			q.mu.Lock()
			if cancel := q.open[c.ID]; cancel != nil {
				cancel()
			}
			q.mu.Unlock()
		}
	default:
		return false
	}
	return true
}

// ask puts one question. An error counts as a no, unless the question has been
// answered elsewhere or has expired.
func (q *consent) ask(ctx context.Context, a Approval) {
	defer func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.open, a.ID)
	}()
	said, err := q.asker.Ask(ctx, approval.Question{Who: "This request", Summary: a.Summary, Detail: a.Detail, Says: a.Says, SHA256: a.SHA256, Rules: a.Rules,
		Request: bridge.PermissionRequest{Kind: a.Kind}})
	if ctx.Err() != nil {
		return
	}
	answer := "no"
	switch {
	case err != nil:
	case said.Consent == approval.Once:
		answer = "once"
	case said.Consent == approval.Session:
		answer = "session"
	case said.Consent == approval.Always:
		answer = "always"
	}
	// If it does not arrive the bridge takes that for a no.
	_, _ = q.client.Call(ctx, "bridge.approval.answer", answerParams{ID: a.ID, Answer: answer, SHA256: a.SHA256}, nil)
}
