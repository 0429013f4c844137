package vscode_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/vscode"
	"github.com/copilot-bridge/copilot-bridge/internal/editor"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/editortest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var lacks = map[agenttest.Ability]string{
	agenttest.Works:       "VS Code's API offers models, not an agent",
	agenttest.Resumes:     "nothing is stored",
	agenttest.Lists:       "nothing is stored",
	agenttest.Deletes:     "nothing is stored",
	agenttest.GatesTools:  "there are no tools but the caller's",
	agenttest.HidesResult: "there are no tools but the caller's",
}

func window() *editortest.Extension {
	return &editortest.Extension{Models: []editor.Model{{ID: "gpt-5", Name: "GPT-5", Vendor: "copilot", MaxInputTokens: 1000, Vision: true, Tools: true},
		{ID: "blind", Vendor: "copilot", MaxInputTokens: 1000}}}
}

func TestContract(t *testing.T) {
	agenttest.Documented(t, "../../../docs/guides/agents.md", "VS Code", lacks)
	agenttest.Run(t, agenttest.Harness{Lacks: lacks, New: func(t *testing.T) engine.Agent {
		return vscode.New(vscode.Options{Editor: editortest.Connect(t, window(), nil)})
	}})
}

// open is a session in a window.
func open(t *testing.T, x *editortest.Extension, spec bridge.SessionSpec) (*vscode.Agent, bridge.Session) {
	t.Helper()
	a := vscode.New(vscode.Options{Editor: editortest.Connect(t, x, nil), Idle: time.Minute})
	t.Cleanup(func() {
		if err := a.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	spec.Profile = bridge.ProfileChat
	s, err := a.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return a, s
}

// requests are the conversations that the model was sent.
func requests(t *testing.T, x *editortest.Extension) []editor.ChatRequest {
	t.Helper()
	var out []editor.ChatRequest
	for _, raw := range x.Calls("lm.chat") {
		var r editor.ChatRequest
		if err := json.Unmarshal(raw, &r); err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// VS Code keeps nothing: all that was said goes with each request, the system
// text in front, as the user's.
func TestWholeConversationIsSent(t *testing.T) {
	x := window()
	tool := bridge.ToolSpec{Name: "look", Description: "looks", Schema: map[string]any{"type": "object"}}
	_, s := open(t, x, bridge.SessionSpec{System: bridge.SystemText{Text: "Be brief."}, Tools: []bridge.ToolSpec{tool}})
	if o := agenttest.Collect(t.Context(), s, agenttest.Script("thinking hm", "text one")); o.Err != nil || agenttest.Find[bridge.ReasoningDelta](o)[0].Text != "hm" {
		t.Fatalf("%+v", o)
	}
	png := bridge.Attachment{Data: []byte("\x89PNG"), MIME: "image/png"}
	p := agenttest.Script(`tool look {"at":1}`, `tool look {"at":2}`, `tool other {}`, "next", "text two")
	p.Attachments, p.MustCall = []bridge.Attachment{png}, true
	for ev, err := range s.Send(t.Context(), p) {
		if err != nil {
			t.Fatal(err)
		}
		if r, ok := ev.(bridge.ToolRequested); ok {
			if err := s.Resolve(t.Context(), r.RequestID, bridge.ToolResult{Text: "seen", Failed: r.Call.ID == "call_4_2"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	sent := requests(t, x)
	if len(sent) != 3 {
		t.Fatalf("%d requests", len(sent))
	}
	last := sent[2]
	var shape []string
	for _, m := range last.Messages {
		for _, p := range m.Parts {
			shape = append(shape, m.Role+" "+string(p.Type))
		}
	}
	want := []string{"user text", "user text", "assistant text", "user text", "user data",
		"assistant toolCall", "assistant toolCall", "assistant toolCall", "user toolResult", "user toolResult", "user toolResult"}
	if !slices.Equal(shape, want) {
		t.Errorf("sent %q", shape)
	}
	if got := last.Messages[0].Parts[0].Text; got != "[SYSTEM]\nBe brief." {
		t.Errorf("the system text is %q", got)
	}
	if got := last.Messages[3].Parts[1]; got.MIME != "image/png" || string(got.Base64) != "\x89PNG" {
		t.Errorf("the image is %+v", got)
	}
	results := last.Messages[5].Parts
	if results[0].Failed || !results[1].Failed || results[1].CallID != "call_4_2" || !results[2].Failed || !strings.Contains(results[2].Text, "no tool other") {
		t.Errorf("results %+v", results)
	}
	if sent[0].ToolMode != editor.ToolAuto || sent[1].ToolMode != editor.ToolRequired || sent[2].ToolMode != editor.ToolAuto {
		t.Errorf("modes %q %q %q", sent[0].ToolMode, sent[1].ToolMode, sent[2].ToolMode)
	}
	if len(last.Tools) != 1 || last.Tools[0].Name != "look" || last.Model != "gpt-5" {
		t.Errorf("%+v", last)
	}
}

// A turn that does not come to its end leaves nothing that the next would
// stumble over.
func TestBrokenTurnIsTakenBack(t *testing.T) {
	x := window()
	_, s := open(t, x, bridge.SessionSpec{Tools: []bridge.ToolSpec{{Name: "look"}}})
	if o := agenttest.Collect(t.Context(), s, agenttest.Script("text half", "fault unavailable away")); bridge.CodeOf(o.Err) != bridge.CodeUnavailable {
		t.Fatalf("%v", o.Err)
	}
	for ev, err := range s.Send(t.Context(), agenttest.Script("tool look {}")) {
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := ev.(bridge.ToolRequested); ok {
			break
		}
	}
	if o := agenttest.Collect(t.Context(), s, agenttest.Say("fine")); o.Err != nil {
		t.Fatal(o.Err)
	}
	if sent := requests(t, x); len(sent[len(sent)-1].Messages) != 1 {
		t.Errorf("the model was told %+v", sent[len(sent)-1].Messages)
	}
}

func TestRefusals(t *testing.T) {
	x := window()
	a, s := open(t, x, bridge.SessionSpec{Model: "blind"})
	image := bridge.Prompt{Text: "see", Attachments: []bridge.Attachment{{Data: []byte("x"), MIME: "image/png"}}}
	pdf := bridge.Prompt{Text: "see", Attachments: []bridge.Attachment{{Data: []byte("x"), MIME: "application/pdf"}}}
	for name, p := range map[string]bridge.Prompt{"image": image, "pdf": pdf} {
		if o := agenttest.Collect(t.Context(), s, p); bridge.CodeOf(o.Err) != bridge.CodeUnsupported {
			t.Errorf("%s: %v", name, o.Err)
		}
	}
	many := slices.Repeat([]bridge.ToolSpec{{Name: "x"}}, 129)
	for name, tools := range map[string][]bridge.ToolSpec{"many": many, "name": {{Name: "a.b"}}} {
		if _, err := a.Open(t.Context(), bridge.SessionSpec{Profile: bridge.ProfileChat, Tools: tools}); bridge.CodeOf(err) != bridge.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(x.Calls("lm.chat")) != 0 {
		t.Error("the model was asked")
	}
	o := agenttest.Collect(t.Context(), s, agenttest.Script("tool ghost {}", "next", "tool ghost {}", "next", "tool ghost {}", "next", "tool ghost {}"))
	if bridge.CodeOf(o.Err) != bridge.CodeProvider {
		t.Errorf("a model that is lost: %v", o.Err)
	}
}

// What the last outcome says is Copilot's health; a change is looked at anew.
func TestHealth(t *testing.T) {
	x := window()
	a, s := open(t, x, bridge.SessionSpec{})
	is := func(when string, want editor.Copilot) {
		t.Helper()
		if got, why := a.Health(); got != want || (why == "") != (want == editor.CopilotOK) {
			t.Errorf("%s: %s (%s), want %s", when, got, why, want)
		}
	}
	ask := func(directive string) { agenttest.Collect(t.Context(), s, agenttest.Script(directive)) }
	is("at first", editor.CopilotUnknown)
	ask("fault consent_required not yet")
	is("before consent", editor.CopilotConsent)
	a.Consented()
	is("after consent", editor.CopilotOK)
	ask("fault unavailable away")
	is("away", editor.CopilotUnavailable)
	ask("text back")
	is("back", editor.CopilotOK)
	for _, kind := range []string{"rate_limited", "too_long", "canceled", "not_found"} {
		ask("fault " + kind + " x")
		is(kind, editor.CopilotOK)
	}
	models := x.Models
	x.SetModels()
	a.Doubt()
	if _, err := a.Models(t.Context()); bridge.CodeOf(err) != bridge.CodeUnavailable {
		t.Errorf("look: %v", err)
	}
	is("signed out", editor.CopilotUnavailable)
	x.SetModels(models...)
	a.Doubt()
	if _, err := a.Models(t.Context()); err != nil {
		t.Error(err)
	}
	is("signed in", editor.CopilotOK)
	ask("fault quota_exceeded spent")
	is("spent", editor.CopilotUnavailable)
	a.Doubt()
	if _, err := a.Models(t.Context()); err != nil {
		t.Error(err)
	}
	is("after a change", editor.CopilotOK)
	// A list alone, such as the one at the start, says nothing of consent.
	ask("fault consent_required not yet")
	if _, err := a.Models(t.Context()); err != nil {
		t.Error(err)
	}
	is("after a list", editor.CopilotConsent)
}
