package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// requestTimeout bounds a request whose context has no deadline.
const requestTimeout = 10 * time.Second

// Request sends v and waits for the answer. An answer with a refusal comes back
// as its error.
func Request[T any](ctx context.Context, nc *nats.Conn, subject string, v any) (T, error) {
	var answer T
	data, err := json.Marshal(v)
	if err != nil {
		return answer, err
	}
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, requestTimeout)
		defer cancel()
	}
	msg, err := nc.RequestWithContext(ctx, subject, data)
	if err != nil {
		return answer, unanswered(subject, err)
	}
	var refusal struct {
		Refused *bridge.Error `json:"refused"`
	}
	if err := Decode(msg.Data, &refusal); err != nil {
		return answer, err
	}
	if refusal.Refused != nil {
		return answer, refusal.Refused
	}
	return answer, Decode(msg.Data, &answer)
}

func unanswered(subject string, err error) error {
	who, remedy := "the coordinator of the run", "It may have ended; another one can go on with the run."
	for _, prefix := range []string{"fleet.admin.", "fleet.hello.", "fleet.join.", "fleet.renew."} {
		if strings.HasPrefix(subject, prefix) {
			who, remedy = "the hub of the fleet", "Look on its machine whether `copilot-bridge fleet up` is running, and start it."
		}
	}
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		return &bridge.Error{Code: bridge.CodeDenied, Message: "what was to be sent is too long for the fleet", Cause: err}
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, context.DeadlineExceeded):
		return &bridge.Error{Code: bridge.CodeUnavailable, Message: who + " does not answer", Remedy: remedy, Cause: err}
	case errors.Is(err, context.Canceled):
		return err
	}
	return &bridge.Error{Code: bridge.CodeUnavailable, Message: "the fleet cannot be reached", Cause: err}
}

// Decode reads a message. One of another schema is refused with a sentence.
func Decode(data []byte, v any) error {
	var version struct {
		Schema int `json:"schema"`
	}
	if err := json.Unmarshal(data, &version); err != nil {
		return &bridge.Error{Code: bridge.CodeInvalid, Message: "a message of the fleet cannot be read", Cause: err}
	}
	if version.Schema != Schema {
		return &bridge.Error{Code: bridge.CodeUnsupported,
			Message: fmt.Sprintf("the other side speaks version %d of the fleet's messages, this one version %d", version.Schema, Schema),
			Remedy:  "Update copilot-bridge on all machines of the fleet to the same version."}
	}
	if err := json.Unmarshal(data, v); err != nil {
		return &bridge.Error{Code: bridge.CodeInvalid, Message: "a message of the fleet cannot be read", Cause: err}
	}
	return nil
}

// CheckReply refuses a request that wants its answer elsewhere than in the
// member's inbox. Check before anything else is done for the request: with another
// reply subject, a worker could put words in our mouth; and what the server sends
// at a worker's bidding, such as tickets, has a reply subject of the server's. Such
// a message also keeps its own subject, whatever was subscribed to.
func CheckReply(msg *nats.Msg, member string) error {
	if member == "" || !strings.HasPrefix(msg.Reply, Inbox(member)+".") {
		return &bridge.Error{Code: bridge.CodeDenied, Message: fmt.Sprintf("a request to %s wants its answer at %q, which is not its sender's inbox", msg.Subject, msg.Reply)}
	}
	return nil
}

// Respond answers a request of a member, which CheckReply lets pass.
func Respond(msg *nats.Msg, member string, v any) error {
	if err := CheckReply(msg, member); err != nil {
		return err
	}
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return msg.Respond(data)
}

// Refusal is err as it can travel: without its cause, which is ours alone.
func Refusal(err error) *bridge.Error {
	var known *bridge.Error
	if errors.As(err, &known) {
		return &bridge.Error{Code: known.Code, Message: known.Message, Remedy: known.Remedy, RetryAfter: known.RetryAfter}
	}
	return &bridge.Error{Code: bridge.CodeOf(err), Message: err.Error()}
}
