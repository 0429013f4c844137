package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/dashboard"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/audit"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/live"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
	"github.com/copilot-bridge/copilot-bridge/internal/usagelog"
)

// shown is a dashboard over records on disk, without sessions.
type shown struct {
	t              *testing.T
	home, user, ws string
	records        *records
	url            string
}

// showRecords makes one, with a configuration read from what environ and the files
// say.
func showRecords(t *testing.T, files map[string]string, environ ...string) *shown {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &shown{t: t, user: filepath.Join(root, "user"), ws: filepath.Join(root, "ws")}
	s.home = filepath.Join(s.user, ".copilot-bridge")
	for _, dir := range []string{s.home, s.ws} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		s.write(name, text)
	}
	environ = append(environ, "PATH="+os.Getenv("PATH"), "COPILOT_BRIDGE_SANDBOX=off")
	c, err := config.Load(config.Options{Environ: environ, Dir: s.ws, HomeDir: s.user})
	if err != nil {
		t.Fatal(err)
	}
	b, err := prepare(Options{Config: c, UserDir: s.user, Environ: environ, Logger: slog.New(slog.DiscardHandler), Version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	s.records = &records{bridge: b, workspace: s.ws, runs: orchestrate.NewLooker(s.home), began: time.Now()}
	d := dashboard.New(dashboard.Options{Key: "key", URL: func() string { return s.url }, About: func() (a dashboard.About) { return a }, Records: s.records, Logger: b.opts.Logger})
	mux := http.NewServeMux()
	for pattern, h := range d.Handlers() {
		mux.Handle(pattern, h)
	}
	server := httptest.NewServer(mux)
	s.url = server.URL
	t.Cleanup(func() {
		server.Close()
		if err := b.guard.close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// write writes a file below the user's or the workspace's directory.
func (s *shown) write(name, text string) string {
	s.t.Helper()
	path := filepath.Join(filepath.Dir(s.ws), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// ask sends a request, with a body if it is a POST, and reads the answer.
func (s *shown) ask(ctx context.Context, request, body string, into any) (status int, err error) {
	method, path, _ := strings.Cut(request, " ")
	r, err := http.NewRequestWithContext(ctx, method, s.url+"/api/v1"+path, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Authorization", "Bearer key")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	data, err := io.ReadAll(a.Body)
	if err = errors.Join(err, a.Body.Close()); err == nil {
		err = json.Unmarshal(data, into)
	}
	return a.StatusCode, err
}

func (s *shown) get(request, body string, into any) {
	s.t.Helper()
	var raw json.RawMessage
	status, err := s.ask(s.t.Context(), request, body, &raw)
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil || status != http.StatusOK {
		s.t.Fatalf("%s: %d, %v: %s", request, status, err, raw)
	}
}

// refused returns the code of the error with which a request is answered.
func (s *shown) refused(request, body string) string {
	s.t.Helper()
	var e struct {
		Error struct{ Code, Message string }
	}
	status, err := s.ask(s.t.Context(), request, body, &e)
	if err != nil || status < 400 || e.Error.Message == "" {
		s.t.Errorf("%s: %d, %v, %+v", request, status, err, e)
	}
	return e.Error.Code
}

// The figures are those of the ledger, in buckets of an hour or a day.
func TestDashboardUsage(t *testing.T) {
	t.Parallel()
	s := showRecords(t, nil)
	now := time.Now().UTC()
	log := usagelog.Open(filepath.Join(s.home, "usage"))
	if err := log.Add(t.Context(),
		usagelog.Record{Session: "a", Door: "cli", Model: "m1", Turns: 1, Requests: 2, Premium: 1, Cost: 2, InputTokens: 100, OutputTokens: 10, FirstWordMs: 300, FirstWords: 1},
		usagelog.Record{Session: "b", Door: "cli", Model: "m1", Turns: 1, Requests: 1, InputTokens: 100, FirstWordMs: 100, FirstWords: 1},
		usagelog.Record{Door: "openai", Model: "m2", Turns: 1, Requests: 1, Premium: 3, OutputTokens: 1}); err != nil {
		t.Fatal(err)
	}
	before := now.AddDate(0, 0, -3).Format(time.DateOnly)
	s.write("user/.copilot-bridge/usage/"+before+".jsonl", `{"day":"`+before+`","door":"cli","model":"m1","turns":5,"requests":5,"premium_requests":1,"ai_credits":0,"input_tokens":7,"output_tokens":7}`+"\n")
	var u dashboard.Usage
	s.get("GET /usage?since=24h", "", &u)
	if u.Step != "hour" || len(u.Buckets) != 2 || u.Totals.Turns != 3 || u.Totals.Premium != 4 || u.Totals.Cost != 2 {
		t.Fatalf("%+v", u)
	}
	if b := u.Buckets[0]; b.Model != "m1" || b.Door != "cli" || b.Turns != 2 || b.InputTokens != 200 || b.FirstWordMs == nil || *b.FirstWordMs != 200 || now.Sub(*b.At) > 2*time.Hour || b.At.Minute() != 0 {
		t.Errorf("%+v", b)
	}
	if u.Buckets[1].FirstWordMs != nil {
		t.Errorf("%+v", u.Buckets[1])
	}
	s.get("GET /usage", "", &u)
	if u.Step != "day" || len(u.Buckets) != 3 || u.Buckets[0].At.Format(time.DateOnly) != before || u.Totals.Turns != 8 {
		t.Errorf("%+v", u)
	}
	if by := u.RowsBy; by["model"][0].Model != "m2" || by["model"][1].Turns != 7 || len(by["door"]) != 2 || len(by["session"]) != 3 {
		t.Errorf("%+v", by)
	}
	for _, since := range []string{"x", "-1h", "0d", "0.5d"} {
		if code := s.refused("GET /usage?since="+since, ""); code != string(bridge.CodeInvalid) {
			t.Error(since, code)
		}
	}
}

const ownPolicy = `# mine
shell:
  deny:
    - git push
tools:
  ask: [create]
`

// Every rule is told with its place: of the user's file, the workspace's, trusted
// or not, the settings, the command line, and those that are built in.
func TestDashboardPolicy(t *testing.T) {
	t.Parallel()
	local := "readOnly: false\nshell:\n  allow: [npm test]\nsandbox:\n  read: [/opt/x]\n"
	for _, from := range []string{"environment", "configuration"} {
		t.Run(from, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{"user/.copilot-bridge/policy.yaml": ownPolicy, "ws/.agent-policy.yaml": local}
			var environ []string
			if from == "environment" {
				environ = []string{"ABP_COPILOT_PERMISSION_ALLOW_ALWAYS_TOOLS=web_fetch"}
			} else {
				files["user/.copilot-bridge/config.yaml"] = "abp:\n  permission_allow_always_tools: [web_fetch]\n"
			}
			s := showRecords(t, files, environ...)
			s.records.readWrite = true
			var p dashboard.Policy
			s.get("GET /policy", "", &p)
			rule := func(list, pattern string) dashboard.PolicyRule {
				t.Helper()
				i := slices.IndexFunc(p.Rules, func(r dashboard.PolicyRule) bool { return r.List == list && r.Rule == pattern })
				if i < 0 {
					t.Fatalf("no %s %s in %+v", list, pattern, p.Rules)
				}
				return p.Rules[i]
			}
			user, workspace := filepath.Join(s.home, "policy.yaml"), filepath.Join(s.ws, ".agent-policy.yaml")
			for _, want := range []dashboard.PolicyRule{
				{List: "shell.deny", Rule: "git push", Verdict: "deny", Source: dashboard.PolicySource{Kind: "user file", File: user, Line: 4, Trusted: true}},
				{List: "tools.ask", Rule: "create", Verdict: "ask", Source: dashboard.PolicySource{Kind: "user file", File: user, Line: 6, Trusted: true}},
				{List: "readOnly", Rule: "false", Verdict: "allow", Source: dashboard.PolicySource{Kind: "workspace file", File: workspace, Line: 1}, Ignored: true},
				{List: "shell.allow", Rule: "npm test", Verdict: "allow", Source: dashboard.PolicySource{Kind: "workspace file", File: workspace, Line: 3}},
				{List: "sandbox.read", Rule: "/opt/x", Verdict: "allow", Source: dashboard.PolicySource{Kind: "workspace file", File: workspace, Line: 5}, Ignored: true},
				{List: "default", Rule: "shell", Verdict: "ask", Source: dashboard.PolicySource{Kind: "default", Trusted: true}},
				{List: "protected", Rule: "**/.git", Verdict: "deny", Source: dashboard.PolicySource{Kind: "default", Trusted: true}},
				{List: "protected", Rule: "**/AGENTS.md", Verdict: "ask", Source: dashboard.PolicySource{Kind: "default", Trusted: true}},
				{List: "readOnly", Rule: "false, for clients of serve", Verdict: "allow", Source: dashboard.PolicySource{Kind: "command line", File: "--read-write", Trusted: true}},
			} {
				if got := rule(want.List, want.Rule); got != want {
					t.Errorf("%+v, want %+v", got, want)
				}
			}
			if r := rule(alwaysKey, "web_fetch"); r.Verdict != "allow" || r.Source.Kind != from || from == "configuration" && !strings.HasSuffix(r.Source.File, "config.yaml:2") {
				t.Errorf("%+v", r)
			}
			if p.Dir != s.ws || p.ReadOnly || p.Error != "" || p.Defaults["network"] != "ask" || len(p.Files) != 2 || p.Files[1].Trusted || p.Files[1].Rules != 3 {
				t.Errorf("%+v", p)
			}
			trust := policy.TrustIn(s.home)
			if err := trust.Add(t.Context(), workspace, []byte(local)); err != nil {
				t.Fatal(err)
			}
			p = dashboard.Policy{}
			s.get("GET /policy?dir="+s.ws, "", &p)
			if r := rule("sandbox.read", "/opt/x"); r.Ignored || !r.Source.Trusted || !p.Files[1].Trusted {
				t.Errorf("%+v", r)
			}
			s.write("user/.copilot-bridge/policy.yaml", "shell: [")
			s.get("GET /policy", "", &p)
			if !strings.Contains(p.Error, "everything is denied") || p.Files[0].Error == "" || !p.Files[0].Exists {
				t.Errorf("%+v", p)
			}
			if code := s.refused("GET /policy?dir=/does/not/exist", ""); code != string(bridge.CodeInvalid) {
				t.Error(code)
			}
		})
	}
}

// asked is a person who allows nothing and counts.
type asked struct{ n int }

func (a *asked) Ask(context.Context, approval.Question) (approval.Answer, error) {
	a.n++
	return approval.Answer{}, nil
}

// What a test of the policy says is what the guard of a session does, and where
// its rule is.
func TestDashboardTestsThePolicy(t *testing.T) {
	t.Parallel()
	s := showRecords(t, map[string]string{"user/.copilot-bridge/policy.yaml": ownPolicy, "ws/.agent-policy.yaml": "reads:\n  deny: ['**/*.key']\nnetwork:\n  deny: [evil.example]\n"},
		"ABP_COPILOT_PERMISSION_ALLOW_ALWAYS_TOOLS=web_search")
	b := s.records.bridge
	for call, want := range map[string]struct{ verdict, kind, tool string }{
		`"bash: npm test"`:      {"ask", "default", "bash"},
		`"bash: { npm test; }"`: {"ask", "default", "bash"},
		`"npm test"`:            {"ask", "default", "bash"},
		`"git push origin"`:     {"deny", "user file", "bash"},
		`"ls -l"`:               {"allow", "default", "bash"},
		`"./a.key"`:             {"deny", "workspace file", "view"},
		`"view: x.go"`:          {"allow", "default", "view"},
		`{"tool":"create","args":{"path":"x.go","file_text":"x"}}`:                  {"ask", "user file", "create"},
		`"https://evil.example/x"`:                                                  {"deny", "workspace file", "web_fetch"},
		`"web_fetch https://example.com"`:                                           {"ask", "default", "web_fetch"},
		`{"tool":"web_search","args":{"query":"x"}}`:                                {"allow", "environment", "web_search"},
		`{"tool":"edit","args":{"path":".git/config","old_str":"a","new_str":"b"}}`: {"deny", "default", "edit"},
		`{"tool":"no_such_tool"}`:                                                   {"", "default", "no_such_tool"},
	} {
		var v dashboard.PolicyVerdict
		s.get("POST /policy/test", `{"call":`+call+`}`, &v)
		if want.verdict != "" && v.Verdict != want.verdict || v.Source.Kind != want.kind || v.Tool != want.tool || v.Reason == "" || v.Confined {
			t.Errorf("%s: %+v", call, v)
		}
		person := &asked{}
		g, err := b.Gate(Guarding{Workspace: s.ws, Door: "cli", Asker: person, Defaults: policy.DefaultsRun()})
		if err != nil {
			t.Fatal(err)
		}
		d := g.Before(t.Context(), bridge.ToolCall{ID: "1", Name: v.Tool, Args: v.Args})
		does := "deny"
		switch {
		case person.n > 0:
			does = "ask"
		case d.Verdict == bridge.Allow:
			does = "allow"
		}
		if does != v.Verdict {
			t.Errorf("%s: the guard does %s (%s), the test says %+v", call, does, d.Reason, v)
		}
	}
	for _, body := range []string{`{}`, `{"call":""}`, `{"call":7}`, `{"call":{"args":{}}}`, `{"call":"bash {x"}`, `{"call":"ls","dir":"no"}`} {
		if code := s.refused("POST /policy/test", body); code != string(bridge.CodeInvalid) {
			t.Errorf("%s: %s", body, code)
		}
	}
}

// The log is searched, and verified, and a line that was changed is found. One
// verification runs at a time, and ends with its request.
func TestDashboardAudit(t *testing.T) {
	t.Parallel()
	s := showRecords(t, nil)
	var report dashboard.AuditReport
	if s.get("POST /audit/verify", "{}", &report); !report.OK || report.Entries > 0 {
		t.Errorf("%+v", report)
	}
	b := s.records.bridge
	_, log, err := b.guard.shared(b.opts.Config, b.opts.UserDir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		e := audit.Entry{Hook: audit.HookPreTool, Session: fmt.Sprint("s", i%3), Tool: "bash", Decision: []string{"allow", "deny"}[i%2], Input: map[string]any{"command": fmt.Sprint("make target-", i)}}
		if err := log.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	var page dashboard.AuditPage
	s.get("GET /audit?verdict=deny&session=s1&q=TARGET&limit=3", "", &page)
	if len(page.Entries) != 3 || !page.More || page.Entries[0].Seq != 29-28%6+1 && page.Entries[0].Seq < page.Entries[1].Seq {
		t.Errorf("%+v", page)
	}
	before := page.Before
	s.get(fmt.Sprintf("GET /audit?verdict=deny&session=s1&q=TARGET&limit=3&before=%d", before), "", &page)
	if len(page.Entries) != 2 || page.More || page.Entries[0].Seq >= before || page.Entries[1].Session != "s1" {
		t.Errorf("%+v", page)
	}
	if code := s.refused("GET /audit?before=x", ""); code != string(bridge.CodeInvalid) {
		t.Error(code)
	}
	if s.get("POST /audit/verify", "{}", &report); !report.OK || report.Entries != 30 || report.Files != 1 || time.Since(report.At) > time.Minute {
		t.Errorf("%+v", report)
	}
	s.records.verifying.Lock()
	if code := s.refused("POST /audit/verify", "{}"); code != string(bridge.CodeBusy) {
		t.Error(code)
	}
	s.records.verifying.Unlock()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.records.VerifyAudit(gone); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}

	files, err := filepath.Glob(filepath.Join(b.opts.Config.AuditLogDir, "audit-*.jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files[0], bytes.Replace(data, []byte("target-7"), []byte("target-9"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	s.get("POST /audit/verify", "{}", &report)
	if report.OK || len(report.Problems) != 1 || report.Problems[0].Kind != audit.KindEdited || report.Problems[0].Seq != 8 || report.Problems[0].Line != 8 {
		t.Errorf("%+v", report)
	}
}

// writer is a session that writes a file, and then waits if it is told to.
type writer struct {
	dir, text string
	wrote     chan struct{}
}

func (w *writer) ID() string                  { return "session-of-" + filepath.Base(w.dir) }
func (w *writer) Close(context.Context) error { return nil }

func (w *writer) Send(ctx context.Context, p bridge.Prompt) iter.Seq2[bridge.Event, error] {
	return func(yield func(bridge.Event, error) bool) {
		if err := os.WriteFile(filepath.Join(w.dir, "out.txt"), []byte(w.text), 0o600); err != nil {
			yield(nil, err)
			return
		}
		if strings.Contains(p.Text, "wait here") {
			close(w.wrote)
			<-ctx.Done()
			yield(nil, context.Cause(ctx))
			return
		}
		_ = yield(bridge.MessageDone{Text: "written"}, nil) && yield(bridge.TurnEnded{Reason: bridge.EndDone}, nil)
	}
}

// Runs are shown while they go on, and when they have ended, with the changes of
// their tasks, in which secrets are hidden.
func TestDashboardRuns(t *testing.T) {
	t.Parallel()
	s := showRecords(t, map[string]string{"ws/a.txt": "a\n"})
	var list struct{ Runs []dashboard.Run }
	if s.get("GET /runs", "", &list); list.Runs == nil || len(list.Runs) > 0 {
		t.Errorf("%+v", list)
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=x", "-c", "user.email=x@example.com", "commit", "-q", "-m", "first"}} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = s.ws
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	secret := "ghp_" + "k3JxQ9vT2mZ8rL5wB1nH7yD4cF6gS0pUaE" + "iO"
	wrote := make(chan struct{})
	text := "token " + secret + "\n" + strings.Repeat("line\n", 300_000)
	run := func(ctx context.Context, tasks ...orchestrate.SubTask) error {
		needs := map[string][]string{}
		for i := range tasks[1:] {
			needs[tasks[i+1].ID] = []string{tasks[i].ID}
		}
		_, err := orchestrate.Run(ctx, orchestrate.Options{Home: s.home, Dir: s.ws, Task: "the whole", Plan: &orchestrate.TaskPlan{Tasks: tasks, Dependencies: needs}, Environ: os.Environ(),
			Open: func(_ context.Context, o orchestrate.Opening) (orchestrate.Session, error) {
				return &writer{dir: o.Dir, text: text, wrote: wrote}, nil
			}})
		return err
	}
	if err := run(t.Context(), orchestrate.SubTask{ID: "first", Description: "write it\nwith care", EstimatedComplexity: "S"}); err != nil {
		t.Fatal(err)
	}
	s.get("GET /runs", "", &list)
	if len(list.Runs) != 1 || list.Runs[0].State != "finished" || !list.Runs[0].Success || list.Runs[0].Tasks != (dashboard.RunCounts{Total: 1, Done: 1}) || list.Runs[0].Ended.IsZero() {
		t.Fatalf("%+v", list)
	}
	var d dashboard.RunDetail
	s.get("GET /runs/"+list.Runs[0].ID, "", &d)
	if task := d.Tasks[0]; task.Title != "write it…" || !strings.HasPrefix(task.Session, "session-of-first-") || task.State != "done" || task.Attempts != 1 || task.Summary != "written" || task.Needs == nil ||
		!slices.Equal(task.Files, []string{"out.txt"}) || d.Isolation != "worktree" || d.Summary == "" {
		t.Errorf("%+v", d)
	}
	var diff dashboard.RunDiff
	s.get("GET /runs/"+d.ID+"/tasks/first/diff", "", &diff)
	if !strings.Contains(diff.Diff, "+++ b/out.txt") || strings.Contains(diff.Diff, secret) || diff.Clipped < 100_000 || len(diff.Diff) > 1<<20+8 {
		t.Errorf("%d bytes, %d clipped: %.300s", len(diff.Diff), diff.Clipped, diff.Diff)
	}

	text = "other\n"
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, orchestrate.SubTask{ID: "one", Description: "go on", EstimatedComplexity: "S"}, orchestrate.SubTask{ID: "two", Description: "wait here", EstimatedComplexity: "S"},
			orchestrate.SubTask{ID: "three", Description: "never", EstimatedComplexity: "S"})
	}()
	<-wrote
	s.get("GET /runs?limit=1", "", &list)
	if len(list.Runs) != 1 || list.Runs[0].State != "running" || list.Runs[0].Tasks != (dashboard.RunCounts{Total: 3, Done: 1, Running: 1}) {
		t.Errorf("%+v", list)
	}
	s.get("GET /runs/"+list.Runs[0].ID, "", &d)
	if two := d.Tasks[1]; two.State != "running" || !strings.HasPrefix(two.Session, "session-of-two-") || !slices.Equal(two.Needs, []string{"one"}) || two.Started.IsZero() {
		t.Errorf("%+v", two)
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("the run was not ended")
	}
	if s.get("GET /runs/"+d.ID, "", &d); d.State != "interrupted" || d.Tasks[1].State == "running" {
		t.Errorf("%+v", d)
	}
	for _, path := range []string{"/runs/none", "/runs/" + d.ID + "/tasks/none/diff"} {
		if code := s.refused("GET "+path, ""); code != string(bridge.CodeNotFound) {
			t.Error(path, code)
		}
	}
}

// Health names the processes of the bridge, and why there is no sandbox.
func TestDashboardHealth(t *testing.T) {
	t.Parallel()
	s := showRecords(t, nil)
	me, err := live.Start(s.home, live.Process{Command: "run", Workspace: s.ws, Version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := me.Close(); err != nil {
			t.Error(err)
		}
	}()
	var h dashboard.Health
	s.get("GET /health", "", &h)
	if h.Version != "v1" || h.PID != os.Getpid() || h.Goroutines == 0 || h.Sandbox != (dashboard.HealthSandbox{Mode: "off", Reason: "switched off"}) {
		t.Errorf("%+v", h)
	}
	if len(h.Processes) != 1 || h.Processes[0].PID != os.Getpid() || h.Processes[0].Command != "run" || h.Processes[0].Workspace != s.ws {
		t.Errorf("%+v", h.Processes)
	}
}
