package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
)

// sentPolicy is the policy of a directory, as it goes to a worker with a task,
// and its digest.
func sentPolicy(c *config.Config, dir string) (layers json.RawMessage, digest string, err error) {
	files, err := policy.FileLayers(c.Home, dir)
	if err != nil {
		return nil, "", err
	}
	data, err := policy.EncodeLayers(files)
	return data, digestOf(data), err
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// receivedPolicy is the policy that came with a task. A task without one, or with
// another one than its digest says, is not done.
func receivedPolicy(a *fleet.Assignment) (*policy.Other, error) {
	if len(a.Policy) == 0 || digestOf(a.Policy) != a.PolicyDigest {
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: "the policy that came with the task is not whole", Remedy: "give the task again"}
	}
	layers, err := policy.DecodeLayers("the coordinator's", a.Policy)
	return &policy.Other{Source: "the coordinator's policy (" + a.PolicyDigest[:12] + ")", Layers: layers}, err
}

// sentQuestion is a question of a worker's guard on its way to the coordinator's
// person. It has no secrets.
type sentQuestion struct {
	Request bridge.PermissionRequest `json:"request"`
	Session string                   `json:"session,omitempty"`
	Reason  string                   `json:"reason,omitempty"`
	Rule    string                   `json:"rule,omitempty"`
	Summary string                   `json:"summary"`
	Detail  string                   `json:"detail,omitempty"`
	Says    string                   `json:"says,omitempty"`
	SHA256  string                   `json:"sha256,omitempty"`
	Outside []string                 `json:"outside,omitempty"`
}

// sentAnswer is the person's.
type sentAnswer struct {
	Consent string `json:"consent"` // once or session; anything else is a no
	Reason  string `json:"reason,omitempty"`
	By      string `json:"by,omitempty"`
}

const (
	sentOnce    = "once"
	sentSession = "session"
	sentNo      = "deny"
)

// maxSentQuestion bounds a question on its way.
const maxSentQuestion = 512 << 10

// fleetAsker puts the questions of a worker's guard to the coordinator's person.
// They are not shown on the worker's own machine.
type fleetAsker struct {
	ask func(ctx context.Context, question json.RawMessage, until time.Time) (json.RawMessage, error)
}

// Ask implements approval.Asker. Consent is for this time or the session, never
// for ever: a rule would be written on one machine for the policies of two.
func (a fleetAsker) Ask(ctx context.Context, q approval.Question) (approval.Answer, error) {
	q.Rules = nil
	if _, _, err := q.Whole(approval.MaxShown); err != nil {
		return approval.Answer{}, err
	}
	q.Request.Args = nil // which Detail shows
	data, err := json.Marshal(sentQuestion{q.Request, q.Session, q.Reason, q.Rule, q.Summary, q.Detail, q.Says, q.SHA256, q.Outside})
	if err != nil {
		return approval.Answer{}, err
	}
	if len(data) > maxSentQuestion {
		return approval.Answer{}, &bridge.Error{Code: bridge.CodeDenied, Message: fmt.Sprintf("the question has %d bytes, which is too long to be sent", len(data)),
			Remedy: "do it in smaller parts"}
	}
	until, _ := ctx.Deadline()
	reply, err := a.ask(ctx, data, until)
	if err != nil {
		return approval.Answer{}, err
	}
	var said sentAnswer
	if err := json.Unmarshal(reply, &said); err != nil {
		return approval.Answer{}, fmt.Errorf("read the answer: %w", err)
	}
	out := approval.Answer{Reason: said.Reason, By: said.By}
	switch said.Consent {
	case sentOnce:
		out.Consent = approval.Once
	case sentSession:
		out.Consent = approval.Session
	}
	return out, nil
}

// answerWorker puts a worker's question to a person here. who says whose it is.
func answerWorker(ctx context.Context, asker approval.Asker, who, dir string, question json.RawMessage) (json.RawMessage, error) {
	var in sentQuestion
	if err := json.Unmarshal(question, &in); err != nil {
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: "the worker's question cannot be read", Cause: err}
	}
	q := approval.Question{Request: in.Request, Who: who, Session: in.Session, Door: fleetDoor, Client: "copilot-bridge", Dir: dir, Reason: in.Reason, Rule: in.Rule,
		Summary: in.Summary, Detail: in.Detail, Says: in.Says, SHA256: in.SHA256, Outside: in.Outside}
	answer, err := asker.Ask(ctx, q)
	if err != nil {
		return nil, err
	}
	said := sentAnswer{Consent: sentNo, Reason: answer.Reason, By: answer.By}
	switch answer.Consent {
	case approval.Once, approval.Always:
		said.Consent = sentOnce
	case approval.Session:
		said.Consent = sentSession
	case approval.No:
	}
	return json.Marshal(said)
}
