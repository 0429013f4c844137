package app

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/live"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
	"github.com/copilot-bridge/copilot-bridge/internal/timeline"
)

// secret has the form of a token, so that it is hidden.
const secret = "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"

// observed is a bridge with a scripted agent and what it writes.
type observed struct {
	*Bridge
	t       *testing.T
	home    string
	library *timeline.Library
}

func newObserved(t *testing.T, sessions config.Sessions) *observed {
	t.Helper()
	t.Cleanup(func() { goleak.VerifyNone(t, goleak.IgnoreCurrent()) })
	home := t.TempDir()
	c := &config.Config{Home: home, AuditLogDir: filepath.Join(home, "audit"), Sessions: sessions}
	b := &Bridge{opts: Options{Config: c, Command: "serve", Workspace: "/w", UserDir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)}}
	b.observe()
	if b.observer == nil {
		t.Fatal("nothing is observed")
	}
	b.Engine = engine.New(engine.Options{Agent: agenttest.NewScripted(), Observer: b.observer})
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return &observed{b, t, home, timeline.OpenLibrary(home)}
}

func (o *observed) open(r engine.Request) *engine.Session {
	o.t.Helper()
	s, err := o.Engine.Open(o.t.Context(), r)
	if err != nil {
		o.t.Fatal(err)
	}
	return s
}

func run(t *testing.T, s *engine.Session, directives ...string) {
	t.Helper()
	ctx := bridge.WithCaller(t.Context(), bridge.Caller{Name: "curl/8"})
	for _, err := range s.Send(ctx, agenttest.Script(directives...)) {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// events waits until a timeline has an event of a type, and returns all.
func (o *observed) events(id, until string) (out []timeline.Event) {
	o.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); <-tick.C {
		raw, _, err := o.library.Read(id, 0, 1000)
		if err != nil && bridge.CodeOf(err) != bridge.CodeNotFound {
			o.t.Fatal(err)
		}
		out = nil
		for _, r := range raw {
			var e timeline.Event
			if err := json.Unmarshal(r, &e); err != nil {
				o.t.Fatal(err)
			}
			out = append(out, e)
		}
		if len(out) > 0 && of(out, until) != nil {
			return out
		}
	}
	o.t.Fatalf("no %s in %+v", until, out)
	return nil
}

// of returns the first event of a type, or nil.
func of(events []timeline.Event, kind string) *timeline.Event {
	for i := range events {
		if events[i].Type == kind {
			return &events[i]
		}
	}
	return nil
}

func (o *observed) summary(id string, ready func(timeline.Summary) bool) timeline.Summary {
	o.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); ; <-tick.C {
		s, _, err := o.library.Get(id)
		if err == nil && ready(s) {
			return s
		}
		if time.Now().After(deadline) {
			o.t.Fatalf("%+v, %v", s, err)
		}
	}
}

// A chat has no guard. Its timeline hides secrets all the same, also those that
// come in pieces, and ends with the process.
func TestTimelineOfAChat(t *testing.T) {
	t.Parallel()
	o := newObserved(t, config.Sessions{})
	s := o.open(engine.Request{Door: "openai", Spec: bridge.SessionSpec{Profile: bridge.ProfileChat, Tools: []bridge.ToolSpec{{Name: "weather"}}}})
	ctx := bridge.WithCaller(t.Context(), bridge.Caller{Name: "curl/8"})
	for ev, err := range s.Send(ctx, agenttest.Script("chunks the key is "+secret[:9]+"|"+secret[9:]+"| so", `tool weather {"key":"`+secret+`"}`, "next", "usage 5 7", "text bye")) {
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := ev.(bridge.ToolRequested); ok {
			o.summary(s.ID(), func(s timeline.Summary) bool { return s.State == timeline.Waiting })
			if err := s.Resolve(ctx, e.RequestID, bridge.ToolResult{Text: "sunny, " + secret}); err != nil {
				t.Fatal(err)
			}
		}
	}
	got := o.events(s.ID(), timeline.TypeEnd)
	result := of(got, timeline.TypeResult)
	if result == nil || !*result.OK || !strings.HasPrefix(result.Text, "sunny") || of(got, timeline.TypeTool).Name != "weather" {
		t.Errorf("%+v", got)
	}
	results := 0
	for _, e := range got {
		if e.Type == timeline.TypeResult {
			results++
		}
	}
	if results != 1 {
		t.Errorf("%d results", results)
	}
	sum := o.summary(s.ID(), func(s timeline.Summary) bool { return s.State == timeline.Idle })
	if sum.Door != "openai" || sum.Client != "curl/8" || sum.Turns != 1 || sum.Usage.OutputTokens != 7 || sum.FirstWord == 0 || sum.Process == "" || sum.Profile != bridge.ProfileChat {
		t.Errorf("%+v", sum)
	}

	// The next conversation in the same session has another timeline.
	if err := s.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	run(t, s, "text another")
	if second := o.events(s.ID()+"-2", timeline.TypeEnd); strings.Contains(second[1].Text, "key") {
		t.Errorf("%+v", second)
	}
	noSecrets(t, o.home)
	if err := o.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if list, err := o.library.List(); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

// noSecrets fails if a file in a directory has the secret.
func noSecrets(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(data), secret[4:]) {
			t.Errorf("%s holds a secret", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// asker is a person who is asked, and answers when told to.
type asker struct{ asked, answer chan struct{} }

func (a asker) Ask(ctx context.Context, _ approval.Question) (approval.Answer, error) {
	close(a.asked)
	select {
	case <-a.answer:
		return approval.Answer{Consent: approval.Once, By: "terminal"}, nil
	case <-ctx.Done():
		return approval.Answer{}, ctx.Err()
	}
}

// A session of an agent tells who decided what, and is kept.
func TestTimelineOfAnAgent(t *testing.T) {
	t.Parallel()
	o := newObserved(t, config.Sessions{KeepDays: 1})
	dir := t.TempDir()
	who := asker{make(chan struct{}), make(chan struct{})}
	d := policy.DefaultsRun()
	d.Verdicts = map[policy.Kind]policy.Verdict{policy.KindRead: policy.Allow, policy.KindWrite: policy.Ask}
	gate, err := o.Gate(Guarding{Workspace: dir, Door: "cli", Asker: who, Defaults: d})
	if err != nil {
		t.Fatal(err)
	}
	s := o.open(engine.Request{Door: "cli", Run: "r1", Task: "t1", Title: "write " + secret, Spec: bridge.SessionSpec{Profile: bridge.ProfileAgent, WorkingDir: dir, Gate: gate}})
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(t, s, `tool create {"path":"`+filepath.Join(dir, "f")+`","file_text":"token `+secret+`"}`, "next", "text done")
	}()
	<-who.asked
	sum := o.summary(s.ID(), func(s timeline.Summary) bool { return s.State == timeline.Waiting })
	if sum.Questions != 1 || sum.Run != "r1" || sum.Task != "t1" {
		t.Errorf("%+v", sum)
	}
	close(who.answer)
	<-done
	got := o.events(s.ID(), timeline.TypeEnd)
	question, answered, verdict := of(got, timeline.TypeQuestion), of(got, timeline.TypeAnswered), of(got, timeline.TypeVerdict)
	if question == nil || answered == nil || question.Question != answered.Question || !strings.Contains(question.Lead, "write") || answered.By != "terminal" {
		t.Errorf("%+v, %+v", question, answered)
	}
	if verdict == nil || verdict.Call != "call_1" || verdict.By != bridge.BasisPerson || verdict.Who != "terminal" || verdict.Verdict != "allow" || verdict.Rule == "" {
		t.Errorf("%+v", verdict)
	}
	noSecrets(t, filepath.Join(o.home, "timelines"))
	if err := o.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	sum = o.summary(s.ID(), func(s timeline.Summary) bool { return s.State == timeline.Ended })
	if sum.Turns != 1 {
		t.Errorf("%+v", sum)
	}
}

// With the setting off nothing is kept, but all is shown while the process lives.
func TestTimelinesOff(t *testing.T) {
	t.Parallel()
	o := newObserved(t, config.Sessions{Timelines: "off"})
	s := o.open(engine.Request{Spec: bridge.SessionSpec{Profile: bridge.ProfileAgent}})
	run(t, s, "text hello")
	o.events(s.ID(), timeline.TypeEnd)
	if err := o.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if list, err := o.library.List(); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

// Other processes stop a turn, speak to it, and begin one.
func TestOrders(t *testing.T) {
	t.Parallel()
	o := newObserved(t, config.Sessions{})
	s := o.open(engine.Request{Spec: bridge.SessionSpec{Profile: bridge.ProfileAgent}})
	order := func(kind, mode, text string) error {
		return live.Send(t.Context(), o.home, o.Live().ID(), live.Order{Kind: kind, Session: s.ID(), Mode: mode, Text: text, By: "dashboard"})
	}
	if err := order(live.OrderStop, "", ""); bridge.CodeOf(err) != bridge.CodeNotFound {
		t.Errorf("a session without a turn: %v", err)
	}
	run(t, s, "text hello")
	if err := order(live.OrderStop, "", ""); bridge.CodeOf(err) != bridge.CodeConflict {
		t.Errorf("an idle session: %v", err)
	}
	if err := order(live.OrderSend, live.ModeQueue, " "); bridge.CodeOf(err) != bridge.CodeInvalid {
		t.Errorf("an empty message: %v", err)
	}
	if err := order(live.OrderSend, live.ModeQueue, agenttest.Script("silence").Text); err != nil {
		t.Fatal(err)
	}
	o.summary(s.ID(), func(s timeline.Summary) bool { return s.State == timeline.Running && s.Turns == 2 })
	for _, mode := range []string{live.ModeSteer, live.ModeQueue} {
		if err := order(live.OrderSend, mode, "also "+mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := order(live.OrderStop, "", ""); err != nil {
		t.Fatal(err)
	}
	o.summary(s.ID(), func(s timeline.Summary) bool { return s.State == timeline.Idle && s.Turns == 2 })
	var said []string
	for _, e := range o.events(s.ID(), timeline.TypeNotice) {
		if e.By == "dashboard" {
			said = append(said, e.Text)
		}
	}
	if all := strings.Join(said, "|"); !strings.Contains(all, "silence|also steer|also queue|the turn is stopped") {
		t.Error(all)
	}
	chat := o.open(engine.Request{Spec: bridge.SessionSpec{Profile: bridge.ProfileChat}})
	run(t, chat, "text hi")
	err := live.Send(t.Context(), o.home, o.Live().ID(), live.Order{Kind: live.OrderSend, Session: chat.ID(), Text: "x"})
	if bridge.CodeOf(err) != bridge.CodeUnsupported {
		t.Errorf("a message to a chat: %v", err)
	}
}
