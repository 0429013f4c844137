package app

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/guard"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/paths"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/live"
)

// askHere is an asker in place of a terminal or a client.
type askHere func(ctx context.Context, q approval.Question) (approval.Answer, error)

func (f askHere) Ask(ctx context.Context, q approval.Question) (approval.Answer, error) {
	return f(ctx, q)
}

func newInbox(t *testing.T, here approval.Asker) (i inbox, home string) {
	t.Helper()
	home = t.TempDir()
	l, err := live.Start(home, live.Process{Command: "run"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return inbox{home, func() (*live.Local, error) { return l, nil }, slog.New(slog.DiscardHandler), here}, home
}

// markWatched marks a home as a page of the dashboard does.
func markWatched(t *testing.T, home string, at time.Time) {
	t.Helper()
	mark := filepath.Join(live.Dir(home), "watched")
	if err := errors.Join(os.MkdirAll(filepath.Dir(mark), 0o700), os.WriteFile(mark, nil, 0o600), os.Chtimes(mark, at, at)); err != nil {
		t.Fatal(err)
	}
	if live.Watched(home) != (time.Since(at) < time.Minute) {
		t.Fatal("the mark is not understood")
	}
}

// opened waits for the one open question of a home.
func opened(t *testing.T, home string) live.Question {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; {
		list, err := live.Questions(home)
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("no question: %v", err)
		}
		if len(list) == 1 {
			return list[0]
		}
	}
}

func nothingOpen(t *testing.T, home string) {
	t.Helper()
	if list, err := live.Questions(home); err != nil || len(list) != 0 {
		t.Errorf("still open: %+v, %v", list, err)
	}
}

var makeIt = approval.Question{Summary: "run: make", Detail: "because of a rule", Session: "s1", Door: "cli", Client: "me", Dir: "/w", Reason: "a rule", Rule: `shell.ask "make"`,
	Rules:   []string{`shell.allow: "make"`},
	Request: bridge.PermissionRequest{ID: "gate-1", Kind: bridge.PermissionShell, Tool: "bash", Command: "make", Agents: []string{"tester"}}}

type outcome struct {
	answer approval.Answer
	err    error
}

func put(ctx context.Context, i inbox, q approval.Question) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		a, err := i.Ask(ctx, q)
		done <- outcome{a, err}
	}()
	return done
}

func TestAnAnswerElsewhereTakesTheQuestionBackHere(t *testing.T) {
	t.Parallel()
	for reply, want := range map[string]approval.Answer{
		live.Once: {Consent: approval.Once, By: "dashboard"}, live.Session: {Consent: approval.Session, By: "dashboard"},
		live.Always: {Consent: approval.Always, By: "dashboard"}, live.Deny: {Reason: "use ninja", By: "dashboard"},
	} {
		taken := make(chan *approval.ElsewhereError, 1)
		i, home := newInbox(t, askHere(func(ctx context.Context, _ approval.Question) (approval.Answer, error) {
			<-ctx.Done()
			taken <- approval.Elsewhere(ctx)
			return approval.Answer{}, ctx.Err()
		}))
		done := put(t.Context(), i, makeIt)
		q := opened(t, home)
		if q.Session != "s1" || q.Door != "cli" || q.Client != "me" || q.Dir != "/w" || q.Command != "make" || q.Rule != makeIt.Rule || q.Reason != "a rule" || q.Request != "gate-1" ||
			!reflect.DeepEqual(q.Agents, []string{"tester"}) || !reflect.DeepEqual(q.Always, makeIt.Rules) ||
			!strings.Contains(q.Lead, "sub-agent tester") || !strings.Contains(q.Lead, "run: make") || !strings.Contains(q.Body, "because of a rule") {
			t.Fatalf("shown: %+v", q)
		}
		r := live.Reply{Answer: reply, Reason: want.Reason, By: "dashboard"}
		if err := live.Answer(home, q.ID, r); err != nil {
			t.Fatal(err)
		}
		if got := <-done; got.err != nil || got.answer != want {
			t.Errorf("%s: got %+v", reply, got)
		}
		if e := <-taken; e == nil || e.By != "dashboard" || e.Said != r.Said() {
			t.Errorf("%s: taken back because of %v", reply, e)
		}
		nothingOpen(t, home)
	}
}

func TestAnAnswerHereEndsTheQuestionElsewhere(t *testing.T) {
	t.Parallel()
	say := make(chan approval.Answer)
	i, home := newInbox(t, askHere(func(context.Context, approval.Question) (approval.Answer, error) { return <-say, nil }))
	done := put(t.Context(), i, makeIt)
	q := opened(t, home)
	say <- approval.Answer{Consent: approval.Session, By: "terminal"}
	if got := <-done; got.err != nil || got.answer.Consent != approval.Session {
		t.Fatalf("got %+v", got)
	}
	err := live.Answer(home, q.ID, live.Reply{Answer: live.Deny, By: "dashboard"})
	if !errors.Is(err, live.ErrAnswered) || !strings.Contains(err.Error(), "allowed for the session, by terminal") {
		t.Errorf("answered too late: %v", err)
	}
	nothingOpen(t, home)
}

func TestWithNobodyHereAQuestionWaitsOnlyForWhoWatches(t *testing.T) {
	t.Parallel()
	i, home := newInbox(t, approval.Nobody{})
	denied := func(got outcome) {
		t.Helper()
		if bridge.CodeOf(got.err) != bridge.CodeDenied || !strings.Contains(bridge.AsError(got.err).Remedy, "copilot-bridge dashboard") {
			t.Errorf("got %+v", got)
		}
		nothingOpen(t, home)
	}
	if !approval.Alone(i) {
		t.Error("somebody is there")
	}
	denied(<-put(t.Context(), i, makeIt))
	markWatched(t, home, time.Now())
	if approval.Alone(i) {
		t.Error("nobody is there")
	}
	done := put(t.Context(), i, makeIt)
	if err := live.Answer(home, opened(t, home).ID, live.Reply{Answer: live.Once, By: "dashboard"}); err != nil {
		t.Fatal(err)
	}
	if got := <-done; got.err != nil || got.answer.Consent != approval.Once {
		t.Errorf("got %+v", got)
	}
	done = put(t.Context(), i, makeIt)
	opened(t, home)
	markWatched(t, home, time.Now().Add(-time.Hour)) // the page is closed
	denied(<-done)
}

func TestAQuestionEndsWithItsTime(t *testing.T) {
	t.Parallel()
	i, home := newInbox(t, approval.Nobody{})
	markWatched(t, home, time.Now())
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	done := put(ctx, i, makeIt)
	q := opened(t, home)
	if deadline, _ := ctx.Deadline(); !q.Until.Equal(deadline) {
		t.Errorf("until %v, not %v", q.Until, deadline)
	}
	if got := <-done; !errors.Is(got.err, context.DeadlineExceeded) {
		t.Errorf("got %+v", got)
	}
	if err := live.Answer(home, q.ID, live.Reply{Answer: live.Once}); !errors.Is(err, live.ErrGone) {
		t.Errorf("answered too late: %v", err)
	}
}

func TestAPanicIsNoConsent(t *testing.T) {
	t.Parallel()
	i, home := newInbox(t, askHere(func(context.Context, approval.Question) (approval.Answer, error) { panic("boom") }))
	if got := <-put(t.Context(), i, makeIt); got.err == nil || got.answer.Consent != approval.No {
		t.Errorf("got %+v", got)
	}
	nothingOpen(t, home)
}

func TestYesIsNotAQuestion(t *testing.T) {
	if _, same := (&Bridge{}).inbox(approval.Yes{}).(approval.Yes); !same {
		t.Error("--yes asks")
	}
}

// agentAsks is who answers an agent's questions, with a guard that has a secret.
func agentAsks(t *testing.T) (ask bridge.Person, home string) {
	t.Helper()
	home = t.TempDir()
	dir := t.TempDir()
	ws, err := paths.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.Close() })
	gate := guard.New(guard.Options{Workspace: ws, Policy: policy.Combine(policy.Defaults{Root: ws.Root()})})
	b := &Bridge{opts: Options{Logger: slog.New(slog.DiscardHandler), Config: &config.Config{Home: home}}}
	t.Cleanup(func() {
		if err := b.asking.close(); err != nil {
			t.Error(err)
		}
	})
	g := Guarding{Workspace: ws.Root(), Door: "http"}
	if b.Person(g, gate, nil) != nil {
		t.Error("somebody answers, although nobody watches")
	}
	markWatched(t, home, time.Now())
	return b.Person(g, gate, nil), home
}

func TestAnAgentsQuestionIsAnsweredElsewhere(t *testing.T) {
	t.Parallel()
	secret := "ghp_" + strings.Repeat("a1B2c3", 6)
	ask, home := agentAsks(t)
	for _, tt := range []struct {
		name    string
		q       bridge.Question
		refused []live.Reply // do not fit
		reply   live.Reply
		want    bridge.Answer
		code    bridge.Code
	}{
		{"a choice", bridge.Question{Text: "Which?", Choices: []string{"red", "green"}},
			[]live.Reply{{Answer: live.Text, Text: "blue"}, {Answer: live.Once}}, live.Reply{Answer: live.Text, Text: "green"}, bridge.Answer{Text: "green"}, ""},
		{"a text", bridge.Question{Text: "Which " + secret + "?", Choices: []string{"red"}, Freeform: true},
			[]live.Reply{{Answer: live.Text, Text: " "}}, live.Reply{Answer: live.Text, Text: "like " + secret}, bridge.Answer{Text: "like [REDACTED]", Freeform: true}, ""},
		{"no answer", bridge.Question{Text: "Which?"}, nil, live.Reply{Answer: live.Decline}, bridge.Answer{}, bridge.CodeDenied},
	} {
		type answer struct {
			bridge.Answer
			error
		}
		done := make(chan answer, 1)
		go func() {
			a, err := ask.Ask(t.Context(), tt.q)
			done <- answer{a, err}
		}()
		q := opened(t, home)
		if q.Kind != "ask" || q.Form == nil || !strings.HasPrefix(q.Lead, "Which") || strings.Contains(q.Lead, secret) || len(q.Form.Choices) != len(tt.q.Choices) {
			t.Errorf("%s: shown: %+v", tt.name, q)
		}
		for _, r := range tt.refused {
			if err := live.Answer(home, q.ID, r); bridge.CodeOf(err) != bridge.CodeInvalid {
				t.Errorf("%s: %+v: %v", tt.name, r, err)
			}
		}
		if err := live.Answer(home, q.ID, tt.reply); err != nil {
			t.Fatal(err)
		}
		if got := <-done; got.Answer != tt.want || bridge.CodeOf(got.error) != tt.code {
			t.Errorf("%s: got %+v", tt.name, got)
		}
	}
}

func TestAnAgentsFormIsFilledElsewhere(t *testing.T) {
	t.Parallel()
	ask, home := agentAsks(t)
	const schema = `{"type":"object","properties":{"name":{"type":"string","minLength":2},"age":{"type":"integer"}},"required":["name"]}`
	type answer struct {
		bridge.ElicitationAnswer
		error
	}
	done := make(chan answer, 1)
	go func() {
		a, err := ask.Elicit(t.Context(), bridge.Elicitation{Message: "Who?", Source: "srv", Schema: json.RawMessage(schema)})
		done <- answer{a, err}
	}()
	q := opened(t, home)
	if q.Form == nil || len(q.Form.Fields) != 2 || q.Form.Fields[0].Name != "name" || !q.Form.Fields[0].Required || q.Form.Source != "srv" {
		t.Fatalf("shown: %+v", q)
	}
	for _, fields := range []map[string]string{nil, {"name": "A"}, {"name": "Ada", "age": "old"}} {
		if err := live.Answer(home, q.ID, live.Reply{Answer: live.Text, Fields: fields}); bridge.CodeOf(err) != bridge.CodeInvalid {
			t.Errorf("%v: %v", fields, err)
		}
	}
	if err := live.Answer(home, q.ID, live.Reply{Answer: live.Text, Fields: map[string]string{"name": "Ada", "age": "36"}}); err != nil {
		t.Fatal(err)
	}
	want := bridge.ElicitationAnswer{Action: "accept", Content: map[string]any{"name": "Ada", "age": int64(36)}}
	if got := <-done; got.error != nil || !reflect.DeepEqual(got.ElicitationAnswer, want) {
		t.Errorf("got %+v", got)
	}
}
