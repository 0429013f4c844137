//go:build unix

package sdk_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/sdk"
	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
)

// start returns an agent with its model, and a context for the test.
func start(t *testing.T, change func(*sdk.Options)) (context.Context, *sdk.Agent, *demomodel.Server) {
	t.Helper()
	m := model(t)
	opts := options(t, m)
	if change != nil {
		change(&opts)
	}
	a := sdk.New(opts)
	t.Cleanup(func() {
		if err := a.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), agenttest.Patience)
	t.Cleanup(cancel)
	return ctx, a, m
}

func openSession(t *testing.T, ctx context.Context, a *sdk.Agent, spec bridge.SessionSpec) bridge.Session {
	t.Helper()
	if spec.Profile == "" {
		spec.Profile = bridge.ProfileAgent
	}
	if spec.WorkingDir == "" {
		spec.WorkingDir = t.TempDir()
	}
	s, err := a.Open(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func lastBody(t *testing.T, m *demomodel.Server) map[string]any {
	t.Helper()
	reqs := m.Requests()
	if len(reqs) == 0 {
		t.Fatal("the model was not asked")
	}
	var body map[string]any
	if err := json.Unmarshal(reqs[len(reqs)-1].Raw, &body); err != nil {
		t.Fatal(err)
	}
	return body
}

func TestRuntimeKilledInMidTurn(t *testing.T) {
	t.Parallel()
	ctx, a, _ := start(t, nil)
	dir := t.TempDir()
	s := openSession(t, ctx, a, bridge.SessionSpec{WorkingDir: dir})
	if o := agenttest.Collect(ctx, s, agenttest.Say("before")); o.Err != nil {
		t.Fatal(o.Err)
	}
	pid := a.ProgramPID(bridge.ProfileAgent)
	var killed time.Time
	var failure error
	for ev, err := range s.Send(ctx, agenttest.Script("text begin", "silence")) {
		failure = err
		if _, ok := ev.(bridge.TextDelta); ok && killed.IsZero() {
			killed = time.Now()
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	if took := time.Since(killed); took > 20*time.Second {
		t.Errorf("noticed after %s", took)
	}
	if bridge.CodeOf(failure) != bridge.CodeCrashed || !strings.Contains(failure.Error(), "exited") {
		t.Errorf("failed with %v", failure)
	}
	r, err := a.Resume(ctx, s.ID(), bridge.SessionSpec{Profile: bridge.ProfileAgent, WorkingDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if o := agenttest.Collect(ctx, r, agenttest.Say("after")); o.Err != nil || o.Text() != "after" {
		t.Errorf("the next turn: %q, %v", o.Text(), o.Err)
	}
	if now := a.ProgramPID(bridge.ProfileAgent); now == pid || now == 0 {
		t.Errorf("pid %d, was %d", now, pid)
	}
}

func TestBrokenStreamIsRetracted(t *testing.T) {
	t.Parallel()
	ctx, a, _ := start(t, nil)
	s := openSession(t, ctx, a, bridge.SessionSpec{})
	o := agenttest.Collect(ctx, s, agenttest.Script("text half", "cut", "once", "text whole answer"))
	if o.Err != nil || o.Text() != "whole answer" {
		t.Fatalf("%q, %v", o.Text(), o.Err)
	}
	void := agenttest.Find[bridge.MessageRetracted](o)
	if len(void) == 0 {
		t.Fatal("nothing was retracted")
	}
	kept := ""
	for _, d := range agenttest.Find[bridge.TextDelta](o) {
		if !slices.ContainsFunc(void, func(r bridge.MessageRetracted) bool { return r.Message == d.Message }) {
			kept += d.Text
		}
	}
	if kept != "whole answer" {
		t.Errorf("the deltas that stand are %q", kept)
	}
	if f := agenttest.Find[bridge.ModelFailed](o); len(f) == 0 || f[0].Error.Code != bridge.CodeProvider || f[0].Attempt != 1 {
		t.Errorf("failures %+v", f)
	}
}

func TestModelErrorsAreNamed(t *testing.T) {
	ctx, a, m := start(t, nil)
	for status, code := range map[string]bridge.Code{"401": bridge.CodeUnauthenticated, "429": bridge.CodeRateLimited, "500": bridge.CodeProvider} {
		s := openSession(t, ctx, a, bridge.SessionSpec{})
		for ev, err := range s.Send(ctx, agenttest.Script("status "+status+" key "+m.Key()+" is bad")) {
			if f, ok := ev.(bridge.ModelFailed); ok {
				if f.Error.Code != code || strings.Contains(f.Error.Error(), m.Key()) {
					t.Errorf("%s: %+v", status, f.Error)
				}
				break
			}
			if err != nil {
				t.Errorf("%s: %v before a failure was told", status, err)
			}
		}
	}
}

func TestPromptReachesTheProvider(t *testing.T) {
	t.Parallel()
	ctx, a, m := start(t, nil)
	dir := t.TempDir()
	file := filepath.Join(dir, "note.md")
	if err := os.WriteFile(file, []byte("# a note"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Run("chat: system text, nothing else", func(t *testing.T) {
		s := openSession(t, ctx, a, bridge.SessionSpec{Profile: bridge.ProfileChat, System: bridge.SystemText{Text: "You are terse.", Replace: true}})
		if o := agenttest.Collect(ctx, s, agenttest.Say("ok")); o.Err != nil {
			t.Fatal(o.Err)
		}
		req := m.Requests()[len(m.Requests())-1]
		if req.System() != "You are terse." || len(req.ToolNames()) != 0 {
			t.Errorf("system %q, tools %v", req.System(), req.ToolNames())
		}
	})
	t.Run("agent: appended system text, built-in tools, attachments", func(t *testing.T) {
		s := openSession(t, ctx, a, bridge.SessionSpec{WorkingDir: dir, System: bridge.SystemText{Text: "Use tabs."}})
		p := agenttest.Say("ok")
		p.Attachments = []bridge.Attachment{{Path: file}, {Path: dir, Directory: true}, {Name: "x.txt", MIME: "text/plain", Data: []byte("blob")}}
		if o := agenttest.Collect(ctx, s, p); o.Err != nil {
			t.Fatal(o.Err)
		}
		req := m.Requests()[len(m.Requests())-1]
		if !strings.Contains(req.System(), "Use tabs.") || !slices.Contains(req.ToolNames(), "bash") {
			t.Errorf("tools %v", req.ToolNames())
		}
		if raw := string(req.Raw); !strings.Contains(raw, "note.md") {
			t.Error("the attachment is not in the request")
		}
	})
	t.Run("response format and headers", func(t *testing.T) {
		s := openSession(t, ctx, a, bridge.SessionSpec{Profile: bridge.ProfileChat})
		p := bridge.Prompt{Text: "a person", ResponseFormat: &bridge.ResponseFormat{Name: "person", Strict: true,
			Schema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"],"additionalProperties":false}`)}}
		o := agenttest.Collect(ctx, s, p)
		var person struct{ Name string }
		if o.Err != nil || json.Unmarshal([]byte(o.Text()), &person) != nil {
			t.Fatalf("%q, %v", o.Text(), o.Err)
		}
		if f, ok := lastBody(t, m)["response_format"].(map[string]any); !ok || f["type"] != "json_schema" {
			t.Errorf("response_format %v", lastBody(t, m)["response_format"])
		}
	})
	t.Run("bad schema", func(t *testing.T) {
		s := openSession(t, ctx, a, bridge.SessionSpec{Profile: bridge.ProfileChat})
		o := agenttest.Collect(ctx, s, bridge.Prompt{Text: "x", ResponseFormat: &bridge.ResponseFormat{Schema: json.RawMessage(`[]`)}})
		if bridge.CodeOf(o.Err) != bridge.CodeInvalid {
			t.Errorf("%v", o.Err)
		}
	})
	t.Run("model switch", func(t *testing.T) {
		s := openSession(t, ctx, a, bridge.SessionSpec{Profile: bridge.ProfileChat})
		if err := s.SetModel(ctx, "rehearsal-2", ""); err != nil {
			t.Fatal(err)
		}
		if o := agenttest.Collect(ctx, s, agenttest.Say("ok")); o.Err != nil {
			t.Fatal(o.Err)
		}
		if got := lastBody(t, m)["model"]; got != "rehearsal-2" {
			t.Errorf("model %v", got)
		}
	})
}

type person struct {
	mu   sync.Mutex
	seen []bridge.Question
}

func (p *person) Ask(_ context.Context, q bridge.Question) (bridge.Answer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, q)
	return bridge.Answer{Text: "blue", Freeform: true}, nil
}

func (p *person) Elicit(context.Context, bridge.Elicitation) (bridge.ElicitationAnswer, error) {
	return bridge.ElicitationAnswer{Action: "decline"}, nil
}

func TestAgentAsksThePerson(t *testing.T) {
	ctx, a, m := start(t, nil)
	p := &person{}
	s := openSession(t, ctx, a, bridge.SessionSpec{Person: p, Gate: agenttest.AllowAll()})
	o := agenttest.Collect(ctx, s, agenttest.Script(`tool ask_user {"question":"Which colour?","choices":["red","blue"]}`, "next", "text thanks"))
	if o.Err != nil || o.Text() != "thanks" {
		t.Fatalf("%q, %v", o.Text(), o.Err)
	}
	if len(p.seen) != 1 || p.seen[0].Text != "Which colour?" || len(p.seen[0].Choices) != 2 {
		t.Errorf("asked %+v", p.seen)
	}
	if asked, answered := agenttest.Find[bridge.InputAsked](o), agenttest.Find[bridge.InputAnswered](o); len(asked) != 1 || len(answered) != 1 {
		t.Errorf("events %+v %+v", asked, answered)
	}
	if res := m.Requests()[len(m.Requests())-1].ToolResults(); len(res) != 1 || !strings.Contains(res[0], "blue") {
		t.Errorf("the model was told %q", res)
	}
	alone := openSession(t, ctx, a, bridge.SessionSpec{})
	if o := agenttest.Collect(ctx, alone, agenttest.Say("ok")); o.Err != nil {
		t.Fatal(o.Err)
	}
	if slices.Contains(m.Requests()[len(m.Requests())-1].ToolNames(), "ask_user") {
		t.Error("ask_user is offered though nobody could answer")
	}
}

// The output of a shell arrives as it comes, each part once.
func TestToolOutputStreams(t *testing.T) {
	t.Parallel()
	ctx, a, _ := start(t, nil)
	g := agenttest.AllowAll()
	s := openSession(t, ctx, a, bridge.SessionSpec{Gate: g})
	o := agenttest.Collect(ctx, s, agenttest.Script(
		agenttest.Tool("bash", map[string]any{"command": "for i in 1 2 3; do echo line $i; sleep 0.2; done", "description": "count"}), "next", "text ok"))
	if o.Err != nil {
		t.Fatal(o.Err)
	}
	var out strings.Builder
	for _, p := range agenttest.Find[bridge.ToolProgress](o) {
		out.WriteString(p.Text)
	}
	if out.String() != "line 1\nline 2\nline 3\n" {
		t.Errorf("progress %q", out.String())
	}
	if r := g.Requests(); len(r) != 1 || r[0].Kind != bridge.PermissionShell || !strings.HasPrefix(r[0].Command, "for i in") {
		t.Errorf("asked %+v", r)
	}
}

// What the runtime and its programs put into the temporary directory is for
// no other user, and goes with the runtime.
func TestTemporaryFilesGo(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	ctx, a, _ := start(t, nil)
	s := openSession(t, ctx, a, bridge.SessionSpec{Gate: agenttest.AllowAll()})
	o := agenttest.Collect(ctx, s, agenttest.Script(
		agenttest.Tool("bash", map[string]any{"command": "mktemp; seq 1 20000", "description": "count"}), "next", "text ok"))
	if ended := agenttest.Find[bridge.ToolFinished](o); o.Err != nil || len(ended) != 1 || !strings.Contains(ended[0].Result, "Saved to: "+temp) {
		t.Fatalf("%+v, %v", ended, o.Err)
	}
	top, err := os.ReadDir(temp)
	if err != nil || len(top) != 1 {
		t.Fatalf("%v %v", top, err)
	}
	if info, err := top[0].Info(); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if made, err := os.ReadDir(filepath.Join(temp, top[0].Name())); err != nil || len(made) < 2 {
		t.Errorf("%v %v", made, err)
	}
	if err := a.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
}

// The bridge's credentials must not reach the shells that the agent runs.
func TestSecretsStayOutOfShells(t *testing.T) {
	const secret = "s3cr3t-canary"
	ctx, a, m := start(t, func(o *sdk.Options) {
		for _, name := range []string{"COPILOT_GITHUB_TOKEN", "COPILOT_BYOK_API_KEY", "OPENCLAW_GATEWAY_TOKEN", "COPILOT_BRIDGE_TOKEN", "COPILOT_BRIDGE_REQUEST_HEADERS", "COPILOT_BRIDGE_MCP_SERVERS", "GH_TOKEN", "GITHUB_TOKEN", "COPILOT_PROVIDER_API_KEY"} {
			o.Env = append(o.Env, name+"="+secret)
		}
	})
	s := openSession(t, ctx, a, bridge.SessionSpec{Gate: agenttest.AllowAll()})
	o := agenttest.Collect(ctx, s, agenttest.Script(agenttest.Tool("bash", map[string]any{"command": "env", "description": "look"}), "next", "text ok"))
	ended := agenttest.Find[bridge.ToolFinished](o)
	if o.Err != nil || len(ended) != 1 || !strings.Contains(ended[0].Result, "PATH=") {
		t.Fatalf("%+v, %v", ended, o.Err)
	}
	for _, word := range []string{secret, m.Key()} {
		if strings.Contains(ended[0].Result, word) {
			t.Errorf("the shell sees %s", word)
		}
	}
}

func TestReset(t *testing.T) {
	ctx, a, m := start(t, nil)
	s := openSession(t, ctx, a, bridge.SessionSpec{Profile: bridge.ProfileChat})
	for i := range 3 {
		nonce := "nonce-" + strings.Repeat("x", i+1) + "-end"
		if o := agenttest.Collect(ctx, s, agenttest.Say(nonce)); o.Err != nil || o.Text() != nonce {
			t.Fatalf("%q, %v", o.Text(), o.Err)
		}
		raw := string(m.Requests()[len(m.Requests())-1].Raw)
		if n := strings.Count(raw, "nonce-"); n != 1 {
			t.Errorf("turn %d: the request holds %d nonces", i, n)
		}
		r, ok := s.(interface{ Reset(context.Context) error })
		if !ok {
			t.Fatal("no Reset")
		}
		if err := r.Reset(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

func TestModelsAndStatus(t *testing.T) {
	ctx, a, m := start(t, nil)
	models, err := a.Models(ctx)
	if err != nil || len(models) == 0 || models[0].ID != m.Model() {
		t.Errorf("models %+v, %v", models, err)
	}
	st, err := a.Status(ctx)
	if err != nil || !st.Authenticated || st.ProtocolVersion != 3 || st.RuntimeVersion == "" {
		t.Errorf("status %+v, %v", st, err)
	}
}

func TestNotLoggedIn(t *testing.T) {
	ctx, a, _ := start(t, func(o *sdk.Options) { o.Provider, o.Model = nil, "" })
	st, err := a.Status(ctx)
	if err != nil || st.Authenticated {
		t.Errorf("status %+v, %v", st, err)
	}
	if _, err := a.Models(ctx); bridge.CodeOf(err) != bridge.CodeUnauthenticated || bridge.AsError(err).Remedy == "" {
		t.Errorf("models: %v", err)
	}
}

func TestProviderTrouble(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		body   string
		code   bridge.Code
		models int
	}{
		"refused": {401, `{}`, bridge.CodeUnauthenticated, 0}, "down": {502, `x`, bridge.CodeProvider, 0},
		"none": {404, ``, "", 1}, "garbage": {200, `<html>`, bridge.CodeProvider, 0},
		"list": {200, `{"data":[{"id":"m1"},{"id":"configured"},{}]}`, "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/models" || r.Header.Get("Authorization") != "Bearer k" {
					t.Errorf("asked %s with %s", r.URL, r.Header.Get("Authorization"))
				}
				w.WriteHeader(tc.status)
				_, _ = io.WriteString(w, tc.body)
			}))
			defer srv.Close()
			a := sdk.New(sdk.Options{Provider: &bridge.Provider{Kind: "openai", BaseURL: srv.URL, APIKey: "k"}, Model: "configured"})
			models, err := a.Models(t.Context())
			if bridge.CodeOf(err) != tc.code || len(models) != tc.models {
				t.Errorf("%+v, %v", models, err)
			}
			http.DefaultClient.CloseIdleConnections()
		})
	}
}

func TestRuntimeThatCannotStart(t *testing.T) {
	ctx, a, _ := start(t, func(o *sdk.Options) { o.Runtime = "/bin/false" })
	began := time.Now()
	_, err := a.Open(ctx, bridge.SessionSpec{Profile: bridge.ProfileAgent})
	if bridge.CodeOf(err) != bridge.CodeUnavailable || bridge.AsError(err).Remedy == "" || time.Since(began) > 30*time.Second {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
}

func TestWarm(t *testing.T) {
	t.Parallel()
	ctx, a, m := start(t, nil)
	p := bridge.Provider{Kind: "openai", BaseURL: m.URL(), APIKey: m.Key()}
	for _, profile := range []bridge.Profile{bridge.ProfileAgent, bridge.ProfileChat} {
		if err := a.Warm(ctx, profile, p, m.Model()); err != nil {
			t.Fatal(err)
		}
	}
	if list, err := a.List(ctx); err != nil || len(list) != 0 {
		t.Errorf("left sessions: %+v, %v", list, err)
	}
}

// A gate that waits for a person says so, and the turn shows it.
func TestGateThatAsksIsVisible(t *testing.T) {
	ctx, a, _ := start(t, nil)
	g := &waitingGate{Gate: agenttest.AllowAll()}
	s := openSession(t, ctx, a, bridge.SessionSpec{Gate: g})
	o := agenttest.Collect(ctx, s, agenttest.Script(agenttest.Tool("bash", map[string]any{"command": "echo hi", "description": "x"}), "next", "text ok"))
	if o.Err != nil {
		t.Fatal(o.Err)
	}
	asked, decided := agenttest.Find[bridge.PermissionAsked](o), agenttest.Find[bridge.PermissionDecided](o)
	if len(asked) == 0 || asked[0].Request.Tool != "bash" || len(decided) != len(asked) || decided[0].RequestID != asked[0].Request.ID {
		t.Errorf("events %+v %+v", asked, decided)
	}
}

type waitingGate struct{ *agenttest.Gate }

func (g *waitingGate) Before(ctx context.Context, c bridge.ToolCall) bridge.Decision {
	d := bridge.Decision{Verdict: bridge.Allow, Reason: "asked first"}
	bridge.Waiting(ctx, bridge.PermissionRequest{Kind: bridge.PermissionShell, Tool: c.Name})(d)
	return d
}

// With some models the runtime calls its search grep, with others rg. A caller
// that has a tool by the one name is not given the runtime's by the other.
func TestChatsHaveNoToolsOfTheRuntime(t *testing.T) {
	ctx, a, m := start(t, nil)
	for _, name := range []string{m.Model(), "gpt-5.1-codex"} {
		for _, tool := range []string{"grep", "rg"} {
			s := openSession(t, ctx, a, bridge.SessionSpec{Profile: bridge.ProfileChat, Model: name,
				Tools: []bridge.ToolSpec{{Name: tool, Description: "mine", Schema: map[string]any{"type": "object"}}}})
			for _, err := range s.Send(ctx, bridge.Prompt{Text: "rehearsal: text hello"}) {
				if err != nil {
					t.Fatal(err)
				}
			}
			all := m.Requests()
			if got := all[len(all)-1].Tools; len(got) != 1 || got[0].Name != tool || got[0].Description != "mine" {
				t.Errorf("%s with %s is offered %+v", name, tool, got)
			}
		}
	}
}
