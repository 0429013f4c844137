//go:build unix

package acp_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/acp"
	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
)

// started starts the real CLI for one test.
func started(t *testing.T, change func(*acp.Options)) (context.Context, *acp.Agent, *demomodel.Server) {
	t.Helper()
	m := model(t)
	o := copilot(t, m)
	if change != nil {
		change(&o)
	}
	a := acp.New(o)
	t.Cleanup(func() {
		if err := a.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), agenttest.Patience)
	t.Cleanup(cancel)
	return ctx, a, m
}

func TestCopilotKilledInMidTurn(t *testing.T) {
	t.Parallel()
	ctx, a, _ := started(t, nil)
	dir := t.TempDir()
	s := open(t, ctx, a, bridge.SessionSpec{WorkingDir: dir})
	if o := agenttest.Collect(ctx, s, agenttest.Say("before")); o.Err != nil {
		t.Fatal(o.Err)
	}
	pid := a.ProgramPID()
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
	if took := time.Since(killed); took > 20*time.Second || bridge.CodeOf(failure) != bridge.CodeCrashed {
		t.Errorf("after %s: %v", took, failure)
	}
	r, err := a.Resume(ctx, s.ID(), bridge.SessionSpec{Profile: bridge.ProfileAgent, WorkingDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if o := agenttest.Collect(ctx, r, agenttest.Say("after")); o.Err != nil || o.Text() != "after" {
		t.Errorf("the next turn: %q, %v", o.Text(), o.Err)
	}
	if now := a.ProgramPID(); now == pid || now == 0 {
		t.Errorf("pid %d, was %d", now, pid)
	}
}

// What the agent counts for the session is told turn by turn.
func TestUsageIsPerTurn(t *testing.T) {
	t.Parallel()
	ctx, a, _ := started(t, nil)
	s := open(t, ctx, a, bridge.SessionSpec{})
	for _, want := range []struct{ in, out int64 }{{7, 3}, {5, 2}, {9, 9}} {
		o := agenttest.Collect(ctx, s, agenttest.Script("text x", "usage "+itoa(want.in)+" "+itoa(want.out)))
		end := agenttest.Find[bridge.TurnEnded](o)
		if o.Err != nil || len(end) != 1 || end[0].Usage.InputTokens != want.in || end[0].Usage.OutputTokens != want.out {
			t.Errorf("%+v: %+v, %v", want, end, o.Err)
		}
	}
}

func itoa(n int64) string { return string('0' + rune(n)) }

func TestCopilotErrorsAndNotices(t *testing.T) {
	t.Parallel()
	ctx, a, m := started(t, nil)
	s := open(t, ctx, a, bridge.SessionSpec{Gate: agenttest.AllowAll()})
	for status, code := range map[string]bridge.Code{"400": bridge.CodeProvider, "401": bridge.CodeUnauthenticated} {
		o := agenttest.Collect(ctx, s, agenttest.Script("status "+status+" key "+m.Key()+" is bad"))
		if said := agenttest.Find[bridge.TextDelta](o); len(said) > 0 { // it would be in the way of another agent
			t.Errorf("%s: what the CLI says by itself is taken for an answer: %v", status, said)
		}
		if bridge.CodeOf(o.Err) != code || strings.Contains(o.Err.Error(), m.Key()) {
			t.Errorf("%s: %v", status, o.Err)
		}
	}
	if o := agenttest.Collect(ctx, s, agenttest.Say("Error: said by the model")); o.Err != nil || o.Text() != "Error: said by the model" {
		t.Errorf("the model's own words: %q, %v", o.Text(), o.Err)
	}
	o := agenttest.Collect(ctx, s, agenttest.Script("text half", "cut", "once", "text whole answer"))
	if o.Err != nil || o.Text() != "whole answer" || len(agenttest.Find[bridge.MessageRetracted](o)) != 1 {
		t.Errorf("a broken stream: %q, %v", o.Text(), o.Err)
	}
	o = agenttest.Collect(ctx, s, agenttest.Script(agenttest.Tool("bash", map[string]any{"command": "for i in 1 2 3; do echo line $i; sleep 0.2; done", "description": "count"}), "next", "text ok"))
	var out strings.Builder
	for _, p := range agenttest.Find[bridge.ToolProgress](o) {
		out.WriteString(p.Text)
	}
	if o.Err != nil || out.String() != "line 1\nline 2\nline 3\n" {
		t.Errorf("progress %q, %v", out.String(), o.Err)
	}
}

// The bridge's credentials must not reach the shells that the agent runs.
func TestSecretsStayOutOfShells(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-canary"
	ctx, a, m := started(t, func(o *acp.Options) {
		for _, name := range []string{"COPILOT_GITHUB_TOKEN", "COPILOT_BYOK_API_KEY", "OPENCLAW_GATEWAY_TOKEN", "COPILOT_BRIDGE_TOKEN", "COPILOT_BRIDGE_REQUEST_HEADERS", "COPILOT_BRIDGE_MCP_SERVERS", "GH_TOKEN", "GITHUB_TOKEN", "COPILOT_PROVIDER_API_KEY"} {
			o.Env = append(o.Env, name+"="+secret)
		}
		o.Provider.BearerToken, o.Provider.Headers = o.Provider.APIKey, map[string]string{"X-Key": secret}
	})
	s := open(t, ctx, a, bridge.SessionSpec{Gate: agenttest.AllowAll()})
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

func TestCopilotWithoutALogin(t *testing.T) {
	t.Parallel()
	ctx, a, _ := started(t, func(o *acp.Options) { o.Provider, o.Model = nil, "" })
	_, err := a.Open(ctx, bridge.SessionSpec{Profile: bridge.ProfileAgent, WorkingDir: t.TempDir()})
	if e := bridge.AsError(err); bridge.CodeOf(err) != bridge.CodeUnauthenticated || !strings.Contains(e.Remedy, "copilot-bridge login") || !strings.Contains(e.Remedy, "COPILOT_GITHUB_TOKEN") {
		t.Errorf("%v", err)
	}
	if st, err := a.Status(ctx); err != nil || st.Authenticated {
		t.Errorf("status %+v, %v", st, err)
	}
}

// Copilot does not ask before it reads in its directory; a policy that denies
// it ends the turn. Outside, and in the temporary directory, it asks.
func TestCopilotReads(t *testing.T) {
	t.Parallel()
	ctx, a, _ := started(t, nil)
	dir, elsewhere := t.TempDir(), t.TempDir()
	for _, f := range []string{filepath.Join(dir, "a.txt"), filepath.Join(elsewhere, "b.txt")} {
		if err := os.WriteFile(f, []byte("content"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	view := func(path string) bridge.Prompt {
		return agenttest.Script(agenttest.Tool("view", map[string]any{"path": path}), "next", "text read it")
	}
	g := agenttest.AllowAll()
	s := open(t, ctx, a, bridge.SessionSpec{WorkingDir: dir, Gate: g})
	if o := agenttest.Collect(ctx, s, view(filepath.Join(dir, "a.txt"))); o.Err != nil || o.Text() != "read it" || len(g.Requests()) != 0 || len(g.Befores()) != 1 || len(g.Afters()) != 1 {
		t.Errorf("inside: %q, %v, %+v", o.Text(), o.Err, g.Requests())
	}
	no := &agenttest.Gate{BeforeFunc: func(bridge.ToolCall) bridge.Decision { return bridge.Decision{Reason: "house rules"} }}
	s = open(t, ctx, a, bridge.SessionSpec{WorkingDir: dir, Gate: no})
	if o := agenttest.Collect(ctx, s, view(filepath.Join(dir, "a.txt"))); bridge.CodeOf(o.Err) != bridge.CodeDenied {
		t.Errorf("inside, denied: %v", o.Err)
	}
	if o := agenttest.Collect(ctx, s, view(filepath.Join(elsewhere, "b.txt"))); o.Err != nil {
		t.Errorf("outside, denied: %v", o.Err)
	} else if f := agenttest.Find[bridge.ToolFinished](o); len(f) != 1 || f[0].OK || !strings.Contains(f[0].Error, "house rules") {
		t.Errorf("outside, denied: %+v", f)
	}
}

// A call that fails before Copilot asks about it is judged all the same.
func TestCopilotFailsBeforeItAsks(t *testing.T) {
	t.Parallel()
	ctx, a, _ := started(t, nil)
	edit := agenttest.Script(agenttest.Tool("edit", map[string]any{"path": "nowhere.txt", "old_str": "a", "new_str": "b"}), "next", "text I go on")
	for _, verdict := range []bridge.Verdict{bridge.Deny, bridge.Allow} {
		g := &agenttest.Gate{BeforeFunc: func(bridge.ToolCall) bridge.Decision {
			return bridge.Decision{Verdict: verdict, Reason: "house rules"}
		}}
		o := agenttest.Collect(ctx, open(t, ctx, a, bridge.SessionSpec{Gate: g}), edit)
		ended := agenttest.Find[bridge.ToolFinished](o)
		if o.Err != nil || o.Text() != "I go on" || len(g.Requests()) != 0 || len(g.Befores()) != 1 || len(ended) != 1 {
			t.Fatalf("verdict %s: %q, %v, %+v", verdict, o.Text(), o.Err, ended)
		}
		denied := verdict == bridge.Deny
		if e := ended[0]; e.OK || (e.Code == "denied") != denied || strings.Contains(e.Error, "house rules") != denied {
			t.Errorf("verdict %s: %+v", verdict, e)
		}
	}
}

func TestCopilotModesAndModels(t *testing.T) {
	t.Parallel()
	ctx, a, m := started(t, nil)
	s := open(t, ctx, a, bridge.SessionSpec{})
	for _, tt := range []struct {
		mode string
		plan bool
	}{{"", false}, {"plan", true}, {"", true}, {"interactive", false}, {"", false}} {
		p := agenttest.Say("ok")
		p.Mode = tt.mode
		// Copilot words a prompt in plan mode anew, which the model echoes.
		if o := agenttest.Collect(ctx, s, p); o.Err != nil || strings.Contains(o.Text(), "[[PLAN]]") != tt.plan {
			t.Errorf("mode %q: %q, %v", tt.mode, o.Text(), o.Err)
		}
	}
	if err := s.SetModel(ctx, "rehearsal-2", ""); err != nil {
		t.Error(err)
	}
	if models, err := a.Models(ctx); err != nil || len(models) != 1 || models[0].ID != m.Model() {
		t.Errorf("models %+v, %v", models, err)
	}
	list, err := a.List(ctx)
	if err != nil || !slices.ContainsFunc(list, func(i bridge.SessionInfo) bool { return i.ID == s.ID() }) {
		t.Errorf("list %+v, %v", list, err)
	}
	if st, err := a.Status(ctx); err != nil || !st.Authenticated || st.RuntimeVersion != "Copilot 1.0.102" {
		t.Errorf("status %+v, %v", st, err)
	}
}

// All that a provider's description says reaches the real CLI's requests.
func TestCopilotsProvider(t *testing.T) {
	asked := make(chan *http.Request, 64)
	bodies := make(chan string, 64)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil && r.Method == http.MethodPost {
			asked <- r
			bodies <- string(body)
		}
		http.Error(w, `{"error":{"message":"enough seen"}}`, http.StatusBadRequest)
	}))
	defer srv.Close()
	ctx, a, _ := started(t, func(o *acp.Options) {
		o.Model = "the-model"
		o.Provider = &bridge.Provider{Kind: "openai", BaseURL: srv.URL, BearerToken: "the-bearer", WireModel: "as-deployed", MaxInputTokens: 54321, MaxOutputTokens: 4321,
			Headers: map[string]string{"X-One": "1", "X-Two": "a b"}}
	})
	s, err := a.Open(ctx, bridge.SessionSpec{Profile: bridge.ProfileAgent, WorkingDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	agenttest.Collect(ctx, s, bridge.Prompt{Text: "hi"})
	select {
	case r := <-asked:
		if h := r.Header; h.Get("Authorization") != "Bearer the-bearer" || h.Get("X-One") != "1" || h.Get("X-Two") != "a b" {
			t.Errorf("asked with %v", h)
		}
		if body := <-bodies; !strings.Contains(body, `"model":"as-deployed"`) {
			t.Errorf("asked for another model: %.200s", body)
		}
	default:
		t.Error("the provider was not asked")
	}
}
