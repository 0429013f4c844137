package app

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
)

type askedFor func(context.Context, approval.Question) (approval.Answer, error)

func (f askedFor) Ask(ctx context.Context, q approval.Question) (approval.Answer, error) {
	return f(ctx, q)
}

// A question crosses to the coordinator whole, and only this time or this
// session comes back.
func TestQuestionsAcross(t *testing.T) {
	q := approval.Question{Request: bridge.PermissionRequest{Kind: bridge.PermissionShell, Command: "make", Agents: []string{"helper"}}, Session: "s1", Reason: "why", Rule: "rule",
		Summary: "run: make", Detail: "all of it\nline two", Says: "trust me", SHA256: "ab", Outside: []string{"/data"}, Rules: []string{"shell.allow: make"}}
	for consent, want := range map[approval.Consent]approval.Consent{
		approval.No: approval.No, approval.Once: approval.Once, approval.Session: approval.Session, approval.Always: approval.Once,
	} {
		var shown approval.Question
		worker := fleetAsker{func(ctx context.Context, question json.RawMessage, until time.Time) (json.RawMessage, error) {
			return answerWorker(ctx, askedFor(func(ctx context.Context, q approval.Question) (approval.Answer, error) {
				if at, ok := ctx.Deadline(); !ok || !at.Equal(until) {
					t.Errorf("the worker says %v, and its own limit is %v", until, at)
				}
				shown = q
				return approval.Answer{Consent: consent, Reason: "because", By: "terminal"}, nil
			}), "Copilot, for part-1 on build2", "/w", question)
		}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		got, err := worker.Ask(ctx, q)
		cancel()
		if err != nil || got.Consent != want || got.Reason != "because" || got.By != "terminal" {
			t.Errorf("%v: %+v %v", consent, got, err)
		}
		lead, body, err := shown.Whole(approval.MaxShown)
		if err != nil || lead != "Copilot, for part-1 on build2 (sub-agent helper) wants to run: make" || !strings.Contains(body, "line two") || strings.Contains(body, "always") {
			t.Errorf("%q %q %v", lead, body, err)
		}
		if len(shown.Outside) != 1 || shown.Rule != "rule" || shown.SHA256 != "ab" || shown.Request.Command != "make" {
			t.Errorf("%+v", shown)
		}
	}
}

// What is no clear yes is a no.
func TestAnswersAcross(t *testing.T) {
	for _, reply := range []string{`{}`, `{"consent":"always"}`, `{"consent":"Once"}`, `null`} {
		a := fleetAsker{func(context.Context, json.RawMessage, time.Time) (json.RawMessage, error) {
			return json.RawMessage(reply), nil
		}}
		if got, err := a.Ask(t.Context(), approval.Question{Summary: "x"}); err != nil || got.Consent != approval.No {
			t.Errorf("%s: %+v %v", reply, got, err)
		}
	}
	never := fleetAsker{func(context.Context, json.RawMessage, time.Time) (json.RawMessage, error) {
		t.Error("a question was sent that cannot be shown whole")
		return nil, nil
	}}
	if _, err := never.Ask(t.Context(), approval.Question{Summary: "x", Detail: strings.Repeat("a", approval.MaxShown)}); err == nil {
		t.Error("a question that is too long was put")
	}
}

// A worker does nothing without the coordinator's policy as it was sent.
func TestPolicyAcross(t *testing.T) {
	c, dir := &config.Config{Home: t.TempDir()}, t.TempDir()
	if err := os.WriteFile(filepath.Join(c.Home, policy.UserFile), []byte("tools: {deny: [bash]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	data, digest, err := sentPolicy(c, dir)
	if err != nil {
		t.Fatal(err)
	}
	other, err := receivedPolicy(&fleet.Assignment{Policy: data, PolicyDigest: digest})
	if err != nil || len(other.Layers) != 1 || len(other.Layers[0].Rules.Lists["tools.deny"]) != 1 {
		t.Fatalf("%+v %v", other, err)
	}
	altered := json.RawMessage(strings.Replace(string(data), "bash", "basf", 1))
	for name, a := range map[string]fleet.Assignment{"none": {}, "altered": {Policy: altered, PolicyDigest: digest}, "no digest": {Policy: data},
		"another version": {Policy: json.RawMessage(`{"schema":9}`), PolicyDigest: digestOf([]byte(`{"schema":9}`))}} {
		if _, err := receivedPolicy(&a); err == nil {
			t.Errorf("%s: it was taken", name)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, policy.WorkspaceFile), []byte("tools: {deny: [\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := sentPolicy(c, dir); err == nil {
		t.Error("a broken policy was sent")
	}
}
