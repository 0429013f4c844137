//go:build unix

package acp_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/acp"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
)

// other starts an agent that is not Copilot.
func other(t *testing.T, role string) (context.Context, *acp.Agent) {
	t.Helper()
	a := acp.New(acp.Options{Program: self(t), Records: t.TempDir(), Self: self(t), Home: t.TempDir(),
		Env: append(os.Environ(), "ACP_TEST_AGENT="+role), TerminalEnv: []string{"PATH=" + os.Getenv("PATH"), "KEPT=yes"}})
	t.Cleanup(func() {
		if err := a.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), agenttest.Patience)
	t.Cleanup(cancel)
	return ctx, a
}

func open(t *testing.T, ctx context.Context, a *acp.Agent, spec bridge.SessionSpec) bridge.Session {
	t.Helper()
	spec.Profile = bridge.ProfileAgent
	if spec.WorkingDir == "" {
		spec.WorkingDir = t.TempDir()
	}
	s, err := a.Open(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func tell(t *testing.T, ctx context.Context, s bridge.Session, orders ...string) string {
	t.Helper()
	o := agenttest.Collect(ctx, s, bridge.Prompt{Text: "do:\n" + strings.Join(orders, "\n")})
	if o.Err != nil {
		t.Fatal(o.Err)
	}
	return o.Deltas()
}

func argument(c bridge.ToolCall, name string) any {
	args, _ := c.Args.(map[string]any)
	return args[name]
}

func TestFilesForTheAgent(t *testing.T) {
	ctx, a := other(t, "helper")
	dir := t.TempDir()
	g := agenttest.AllowAll()
	s := open(t, ctx, a, bridge.SessionSpec{WorkingDir: dir, Gate: g})
	file := filepath.Join(dir, "sub", "a.txt")
	if got := tell(t, ctx, s, "write "+file+" hello"); got != "written\n" {
		t.Fatalf("%q", got)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "hello" {
		t.Errorf("the file holds %q, %v", b, err)
	}
	if err := os.WriteFile(file, []byte("1\n2\n3\n4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := tell(t, ctx, s, "read "+file+" 2 2"); got != "read: 2\n3\n\n" {
		t.Errorf("%q", got)
	}
	if err := os.Symlink("/etc", filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/etc/hostname", filepath.Join(dir, "..", "x"), filepath.Join(dir, "out", "hostname"), "relative", filepath.Join(dir, "sub"), filepath.Join(dir, "none")} {
		if got := tell(t, ctx, s, "read "+path); !strings.HasPrefix(got, "failed: ") {
			t.Errorf("%s: %q", path, got)
		}
		if got := tell(t, ctx, s, "write "+path+" x"); strings.HasPrefix(got, "written") && path != filepath.Join(dir, "none") {
			t.Errorf("%s was written", path)
		}
	}
	names := map[string]int{}
	for _, c := range g.Befores() {
		names[c.Name]++
	}
	if names["view"] == 0 || names["create"] == 0 || len(g.Requests()) == 0 || len(g.Afters()) != 3 {
		t.Errorf("the gate saw %v, %d requests, %d results", names, len(g.Requests()), len(g.Afters()))
	}
	no := func(bridge.ToolCall) bridge.Decision { return bridge.Decision{Reason: "house rules"} }
	denied := open(t, ctx, a, bridge.SessionSpec{WorkingDir: dir, Gate: &agenttest.Gate{BeforeFunc: no}})
	for _, order := range []string{"read " + file, "write " + file + " x", `run {"command":"touch ran"}`} {
		if got := tell(t, ctx, denied, order); !strings.Contains(got, "house rules") {
			t.Errorf("%s: %q", order, got)
		}
	}
	alone := open(t, ctx, a, bridge.SessionSpec{WorkingDir: dir})
	if got := tell(t, ctx, alone, "read "+file); !strings.Contains(got, "denied") {
		t.Errorf("without a gate: %q", got)
	}
	masked := open(t, ctx, a, bridge.SessionSpec{WorkingDir: dir, Gate: &agenttest.Gate{AfterFunc: func(bridge.ToolCall, any) (any, error) {
		return map[string]any{"textResultForLlm": "masked"}, nil
	}}})
	if got := tell(t, ctx, masked, "read "+file); got != "read: masked\n" {
		t.Errorf("%q", got)
	}
}

func TestTerminalsForTheAgent(t *testing.T) {
	ctx, a := other(t, "helper")
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "below"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(t.TempDir(), filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	g := agenttest.AllowAll()
	s := open(t, ctx, a, bridge.SessionSpec{WorkingDir: dir, Gate: g})
	for _, tc := range []struct{ order, want, judged string }{
		{`{"command":"printf","args":["%s-%s","a b","c"]}`, "exit 0 truncated false: a b-c\n", `printf %s-%s 'a b' c`},
		{`{"command":"echo one; exit 4"}`, "exit 4 truncated false: one\n\n", "echo one; exit 4"},
		{`{"command":"echo $A $KEPT $HOME","env":[{"name":"A","value":"x y"}]}`, "exit 0 truncated false: x y yes\n\n", "export A='x y' && echo $A $KEPT $HOME"},
		{`{"command":"basename \"$PWD\"","cwd":"` + dir + `/below"}`, "exit 0 truncated false: below\n\n", `cd ` + dir + `/below && basename "$PWD"`},
		{`{"command":"printf 1234567890","outputByteLimit":4}`, "exit 0 truncated true: 7890\n", "printf 1234567890"},
		{`{"command":"true","env":[{"name":"# ","value":"x"}]}`, "failed: ", ""},
		{`{"command":""}`, "failed: ", ""},
		{`{"command":"no-such-program-here","args":["x"]}`, "failed: ", ""},
		{`{"command":"true","cwd":"` + filepath.Dir(dir) + `"}`, "failed: ", ""},
		{`{"command":"true","args":["x"],"cwd":"` + dir + `/out"}`, "failed: ", ""},
	} {
		before := len(g.Befores())
		if got := tell(t, ctx, s, "run "+tc.order); got != tc.want && (tc.want != "failed: " || !strings.HasPrefix(got, tc.want)) {
			t.Errorf("%s: %q", tc.order, got)
		}
		seen := g.Befores()[before:]
		if tc.judged == "" {
			if len(seen) != 0 {
				t.Errorf("%s was judged: %+v", tc.order, seen)
			}
			continue
		}
		if len(seen) != 1 || seen[0].Name != "bash" || argument(seen[0], "command") != tc.judged {
			t.Errorf("%s was judged as %+v", tc.order, seen)
		}
	}
	// A command that is still running ends with the session.
	if got := tell(t, ctx, s, `run {"command":"echo $$ > pid; exec sleep 300 # leave it"}`); got != "left\n" {
		t.Errorf("%q", got)
	}
	var pid int
	for pid == 0 && ctx.Err() == nil {
		if b, err := os.ReadFile(filepath.Join(dir, "pid")); err == nil {
			pid, _ = strconv.Atoi(strings.TrimSpace(string(b)))
		}
	}
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
	if err := syscall.Kill(pid, 0); err == nil {
		t.Errorf("process %d has outlived its session", pid)
	}
}

func TestPermissionOptions(t *testing.T) {
	ctx, a := other(t, "helper")
	for _, tc := range []struct {
		offered string
		allow   bool
		want    string
	}{
		{"allow_always allow_once reject_once", true, "selected id-allow_once\n"},
		{"allow_once reject_once reject_always", false, "selected id-reject_once\n"},
		{"allow_once reject_always", false, "selected id-reject_always\n"},
		{"allow_always reject_once", true, "selected id-reject_once\n"}, // never for good
		{"allow_once allow_always", false, "cancelled \n"},
		{"something_new", true, "cancelled \n"},
		{"", false, "cancelled \n"},
	} {
		g := &agenttest.Gate{PermitFunc: func(r bridge.PermissionRequest) bridge.Decision {
			if r.Kind != bridge.PermissionShell || r.Command != "make it so" {
				t.Errorf("asked %+v", r)
			}
			if tc.allow {
				return bridge.Decision{Verdict: bridge.Allow}
			}
			return bridge.Decision{Reason: "no"}
		}}
		if got := tell(t, ctx, open(t, ctx, a, bridge.SessionSpec{Gate: g}), "ask "+tc.offered); got != tc.want {
			t.Errorf("%s, %t: %q", tc.offered, tc.allow, got)
		}
	}
}

// An abort answers the permission requests that still wait.
func TestAbortWhileAPersonIsAsked(t *testing.T) {
	ctx, a := other(t, "helper")
	asked := make(chan struct{})
	s := open(t, ctx, a, bridge.SessionSpec{Gate: patient{agenttest.AllowAll(), asked}})
	var o agenttest.Outcome
	var wg sync.WaitGroup
	wg.Go(func() { o = agenttest.Collect(ctx, s, bridge.Prompt{Text: "do:\nask allow_once reject_once"}) })
	<-asked
	if err := s.Abort(ctx); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if end := agenttest.Find[bridge.TurnEnded](o); o.Err != nil || len(end) != 1 || end[0].Reason != bridge.EndAborted {
		t.Errorf("%+v, %v", end, o.Err)
	}
}

// patient waits for a person who never comes.
type patient struct {
	*agenttest.Gate
	asked chan struct{}
}

func (p patient) Permit(ctx context.Context, _ bridge.PermissionRequest) bridge.Decision {
	close(p.asked)
	<-ctx.Done()
	return bridge.Decision{Verdict: bridge.Allow}
}

// What an agent does without asking is judged when it is seen.
func TestUnaskedCalls(t *testing.T) {
	ctx, a := other(t, "helper")
	no := func(bridge.ToolCall) bridge.Decision { return bridge.Decision{Reason: "house rules"} }
	g := &agenttest.Gate{BeforeFunc: no}
	s := open(t, ctx, a, bridge.SessionSpec{Gate: g})
	o := agenttest.Collect(ctx, s, bridge.Prompt{Text: "do:\nunasked read /etc/shadow\nwait\nsay more"})
	if bridge.CodeOf(o.Err) != bridge.CodeDenied || !strings.Contains(o.Err.Error(), "house rules") || strings.Contains(o.Deltas(), "more") && len(g.Befores()) != 1 {
		t.Errorf("%q, %v", o.Deltas(), o.Err)
	}
	if c := g.Befores(); len(c) != 1 || c[0].Name != "view" || argument(c[0], "path") != "/etc/shadow" {
		t.Errorf("judged %+v", c)
	}
	allowed := agenttest.AllowAll()
	s = open(t, ctx, a, bridge.SessionSpec{Gate: allowed})
	if got := tell(t, ctx, s, "unasked read /x", "say fine"); got != "fine\n" || len(allowed.Afters()) != 1 {
		t.Errorf("%q, %d results", got, len(allowed.Afters()))
	}
	if got := tell(t, ctx, open(t, ctx, a, bridge.SessionSpec{Gate: &agenttest.Gate{BeforeFunc: no}}), "unasked think x", "say fine"); got != "fine\n" {
		t.Errorf("thinking is judged: %q", got)
	}
	filtered := open(t, ctx, a, bridge.SessionSpec{Gate: agenttest.AllowAll(), ExcludedTools: []string{"builtin:view"}})
	if o := agenttest.Collect(ctx, filtered, bridge.Prompt{Text: "do:\nunasked read /x\nwait"}); bridge.CodeOf(o.Err) != bridge.CodeDenied {
		t.Errorf("a tool that is not offered: %v", o.Err)
	}
}

// An agent must not stop asking.
func TestAgentsThatStopAsking(t *testing.T) {
	ctx, a := other(t, "helper")
	s := open(t, ctx, a, bridge.SessionSpec{Gate: agenttest.AllowAll()})
	if o := agenttest.Collect(ctx, s, bridge.Prompt{Text: "do:\nmode urn:modes#autopilot"}); bridge.CodeOf(o.Err) != bridge.CodeDenied {
		t.Errorf("switched in mid-turn: %v", o.Err)
	}
	for _, text := range []string{"/allow-all on", "  /yolo", "\n/permissions allow-all", "/add-dir /", "/anything"} {
		if o := agenttest.Collect(ctx, s, bridge.Prompt{Text: text}); bridge.CodeOf(o.Err) != bridge.CodeDenied || len(o.Events) > 0 {
			t.Errorf("%q: %v", text, o.Err)
		}
	}
	if o := agenttest.Collect(ctx, s, bridge.Prompt{Text: "do:\nsay x", Mode: "autopilot"}); bridge.CodeOf(o.Err) != bridge.CodeDenied {
		t.Errorf("asked for: %v", o.Err)
	}
	if got := tell(t, ctx, s, "say /usr/bin is a path"); got != "/usr/bin is a path\n" {
		t.Errorf("%q", got)
	}
	ctx, free := other(t, "free")
	if _, err := free.Open(ctx, bridge.SessionSpec{Profile: bridge.ProfileAgent, WorkingDir: t.TempDir()}); bridge.CodeOf(err) != bridge.CodeDenied {
		t.Errorf("configured so: %v", err)
	}
	for _, arg := range []string{"--yolo", "--allow-all-tools", "--allow-tool=shell"} {
		b := acp.New(acp.Options{Program: "copilot", Copilot: true, Args: []string{"--acp", arg}, Records: t.TempDir(), Self: self(t)})
		if _, err := b.Status(ctx); bridge.CodeOf(err) != bridge.CodeInvalid || !strings.Contains(err.Error(), strings.Split(arg, "=")[0]) {
			t.Errorf("%s: %v", arg, err)
		}
	}
}

type person struct{ bridge.Person }

func (person) Elicit(_ context.Context, e bridge.Elicitation) (bridge.ElicitationAnswer, error) {
	return bridge.ElicitationAnswer{Action: "accept", Content: map[string]any{"asked": e.Message}}, nil
}

func TestOddsAndEnds(t *testing.T) {
	ctx, a := other(t, "helper")
	s := open(t, ctx, a, bridge.SessionSpec{Gate: agenttest.AllowAll(), Person: person{}, System: bridge.SystemText{Text: "be brief"}, Model: "b"})
	if got := tell(t, ctx, s, "noise", "elicit colour?"); got != `{"action":"accept","content":{"asked":"colour?"}}`+"\n" {
		t.Errorf("%q", got)
	}
	if got := tell(t, ctx, open(t, ctx, a, bridge.SessionSpec{}), "elicit x"); got != `{"action":"cancel"}`+"\n" {
		t.Errorf("without a person: %q", got)
	}
	if models, err := a.Models(ctx); err != nil || len(models) != 2 || models[1].ID != "b" {
		t.Errorf("models %+v, %v", models, err)
	}
	if st, err := a.Status(ctx); err != nil || !st.Authenticated || st.RuntimeVersion != "peer 1" || st.ProtocolVersion != 1 {
		t.Errorf("status %+v, %v", st, err)
	}
	for _, p := range []bridge.Prompt{{Text: "x", ResponseFormat: &bridge.ResponseFormat{}}, {Text: "x", Headers: map[string]string{"a": "b"}}, {Text: "x", Mode: "shell"}} {
		if o := agenttest.Collect(ctx, s, p); bridge.CodeOf(o.Err) != bridge.CodeUnsupported {
			t.Errorf("%+v: %v", p, o.Err)
		}
	}
	if o := agenttest.Collect(ctx, s, bridge.Prompt{Text: "do:\nsay planned", Mode: "plan"}); o.Err != nil {
		t.Errorf("mode: %v", o.Err)
	}
	if _, err := a.List(ctx); bridge.CodeOf(err) != bridge.CodeUnsupported {
		t.Errorf("list: %v", err)
	}
	if _, err := a.Resume(ctx, "x", bridge.SessionSpec{Profile: bridge.ProfileAgent, WorkingDir: t.TempDir()}); bridge.CodeOf(err) != bridge.CodeUnsupported {
		t.Errorf("resume: %v", err)
	}
}

func TestPromptBlocks(t *testing.T) {
	for role, want := range map[string][]string{
		"helper": {"text", "text", "resource_link", "image", "resource", "resource"}, "plain": {"text", "text", "resource_link", "image", "text"},
	} {
		ctx, a := other(t, role)
		s := open(t, ctx, a, bridge.SessionSpec{System: bridge.SystemText{Text: "be brief"}})
		p := bridge.Prompt{Text: "do:\nblocks", Attachments: []bridge.Attachment{{Path: "/w/a b.txt"}, {Data: []byte("img"), MIME: "image/png"}, {Name: "n", Data: []byte("text"), MIME: "text/plain"}}}
		if role == "helper" {
			p.Attachments = append(p.Attachments, bridge.Attachment{Data: []byte{0xff, 0xfe}, MIME: "application/x"})
		}
		o := agenttest.Collect(ctx, s, p)
		var blocks []struct {
			Type, Text, URI string
		}
		if err := json.Unmarshal([]byte(strings.TrimSpace(o.Deltas())), &blocks); err != nil || o.Err != nil {
			t.Fatalf("%q, %v, %v", o.Deltas(), err, o.Err)
		}
		var types []string
		for _, b := range blocks {
			types = append(types, b.Type)
		}
		if !slices.Equal(types, want) || !strings.Contains(blocks[0].Text, "be brief") || blocks[2].URI != "file:///w/a%20b.txt" {
			t.Errorf("%s: %v %+v", role, types, blocks)
		}
		if again := tell(t, ctx, s, "blocks"); strings.Contains(again, "be brief") {
			t.Errorf("the system text is told again: %s", again)
		}
		if o := agenttest.Collect(ctx, s, bridge.Prompt{Text: "x", Attachments: []bridge.Attachment{{}}}); bridge.CodeOf(o.Err) != bridge.CodeInvalid {
			t.Errorf("an empty attachment: %v", o.Err)
		}
	}
}

func TestOldMethodNames(t *testing.T) {
	ctx, a := other(t, "old")
	if got := tell(t, ctx, open(t, ctx, a, bridge.SessionSpec{}), "say still understood"); got != "still understood\n" {
		t.Errorf("%q", got)
	}
	loaded, err := a.Resume(ctx, "s", bridge.SessionSpec{Profile: bridge.ProfileAgent, WorkingDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if got := tell(t, ctx, loaded, "say loaded as well"); got != "loaded as well\n" {
		t.Errorf("%q", got)
	}
}

func TestAgentsThatDoNotStart(t *testing.T) {
	for role, tc := range map[string]struct {
		code bridge.Code
		says string
		do   string
	}{
		"version": {bridge.CodeUnavailable, "version 2", "setup --acp"},
		"dead":    {bridge.CodeUnavailable, "I will not start", "it must speak ACP on its standard input and output"},
		"login":   {bridge.CodeUnauthenticated, "wants a login", "peer-cli login now"},
	} {
		ctx, a := other(t, role)
		began := time.Now()
		_, err := a.Open(ctx, bridge.SessionSpec{Profile: bridge.ProfileAgent, WorkingDir: t.TempDir()})
		if e := bridge.AsError(err); e == nil || e.Code != tc.code || !strings.Contains(e.Error(), tc.says) || !strings.Contains(e.Remedy, tc.do) || time.Since(began) > 10*time.Second {
			t.Errorf("%s: %v (%s) after %s", role, err, e.Remedy, time.Since(began))
		}
	}
	ctx, a := other(t, "login")
	if st, err := a.Status(ctx); err != nil || st.Authenticated || !strings.Contains(st.Message, "--login") {
		t.Errorf("status %+v, %v", st, err)
	}
	gone := acp.New(acp.Options{Address: "127.0.0.1:1", Records: t.TempDir(), Self: self(t)})
	if _, err := gone.Status(ctx); bridge.CodeOf(err) != bridge.CodeUnavailable || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("nobody there: %v", err)
	}
}

// The exit of the program ends a turn at once, with its last words.
func TestExitEndsTheTurn(t *testing.T) {
	ctx, a := other(t, "helper")
	s := open(t, ctx, a, bridge.SessionSpec{})
	began := time.Now()
	o := agenttest.Collect(ctx, s, bridge.Prompt{Text: "do:\nexit"})
	if took := time.Since(began); bridge.CodeOf(o.Err) != bridge.CodeCrashed || !strings.Contains(o.Err.Error(), "had enough") || took > 20*time.Second {
		t.Errorf("after %s: %v", took, o.Err)
	}
	if o := agenttest.Collect(ctx, s, bridge.Prompt{Text: "do:\nsay x"}); bridge.CodeOf(o.Err) != bridge.CodeCrashed {
		t.Errorf("the dead session: %v", o.Err)
	}
	if err := s.Close(ctx); err != nil {
		t.Errorf("closing it: %v", err)
	}
	if got := tell(t, ctx, open(t, ctx, a, bridge.SessionSpec{}), "say new"); got != "new\n" {
		t.Errorf("a new session: %q", got)
	}
}

// An agent that does not end an aborted turn is replaced.
func TestDeafAgent(t *testing.T) {
	t.Parallel()
	ctx, a := other(t, "deaf")
	s := open(t, ctx, a, bridge.SessionSpec{})
	turn, cancel := context.WithCancel(ctx)
	for ev, err := range s.Send(turn, bridge.Prompt{Text: "do:\nsay begun\nhang"}) {
		if _, ok := ev.(bridge.TextDelta); ok {
			cancel()
		}
		if err != nil && bridge.CodeOf(err) != bridge.CodeCanceled {
			t.Errorf("ended with %v", err)
		}
	}
	cancel()
	if got := tell(t, ctx, open(t, ctx, a, bridge.SessionSpec{}), "say new"); got != "new\n" {
		t.Errorf("a new session: %q", got)
	}
}
