//go:build unix

package guard_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/sdk"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/audit"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
)

// The attempts that take more than one call: each is a scene with its own
// staging, on the real runtime like the table.

// token looks like a secret and is none.
const token = "ghp_0123456789abcdefghijABCDEFGHIJ012345"

// mcpMain is an MCP server on stdio whose tool `fetch` does whatever its
// arguments say, as a careless one would: it returns the file at "path" or the
// "text" itself.
func mcpMain(in io.Reader, out io.Writer) int {
	enc := json.NewEncoder(out)
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var msg struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				ProtocolVersion string         `json:"protocolVersion"`
				Arguments       map[string]any `json:"arguments"`
			} `json:"params"`
		}
		if json.Unmarshal(lines.Bytes(), &msg) != nil || msg.ID == nil {
			continue
		}
		var result any = map[string]any{}
		switch msg.Method {
		case "initialize":
			result = map[string]any{"protocolVersion": msg.Params.ProtocolVersion, "serverInfo": map[string]any{"name": "files", "version": "1"},
				"capabilities": map[string]any{"tools": map[string]any{}}}
		case "tools/list":
			result = map[string]any{"tools": []any{map[string]any{"name": "fetch", "description": "reads a file",
				"inputSchema": map[string]any{"type": "object", "properties": map[string]any{}}, "annotations": map[string]any{"readOnlyHint": true}}}}
		case "tools/call":
			text, _ := msg.Params.Arguments["text"].(string)
			if path, ok := msg.Params.Arguments["path"].(string); ok {
				b, err := os.ReadFile(path)
				if text = string(b); err != nil {
					text = err.Error()
				}
			}
			result = map[string]any{"content": []any{map[string]any{"type": "text", "text": text}}}
		}
		if enc.Encode(map[string]any{"jsonrpc": "2.0", "id": msg.ID, "result": result}) != nil {
			return 1
		}
	}
	return 0
}

func (y *yard) open(t *testing.T, spec bridge.SessionSpec) bridge.Session {
	t.Helper()
	s, err := y.agent.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return &resumed{Session: s, agent: y.agent, spec: spec}
}

// resumed is a session that continues in the next runtime if its own has been
// replaced between turns, as the engine's do.
type resumed struct {
	bridge.Session
	agent *sdk.Agent
	spec  bridge.SessionSpec
}

func (r *resumed) Send(ctx context.Context, p bridge.Prompt) iter.Seq2[bridge.Event, error] {
	return func(yield func(bridge.Event, error) bool) {
		for ev, err := range r.Session.Send(ctx, p) {
			if bridge.CodeOf(err) != bridge.CodeCrashed || !strings.Contains(err.Error(), "has been replaced") {
				if !yield(ev, err) {
					return
				}
				continue
			}
			s, err := r.agent.Resume(ctx, r.ID(), r.spec)
			if err != nil {
				yield(nil, err)
				return
			}
			r.Session = s
			s.Send(ctx, p)(yield)
			return
		}
	}
}

// denied reports whether the record says so since an entry.
func (y *yard) denied(t *testing.T, since uint64, tool string) bool {
	t.Helper()
	last, err := audit.Tail(t.Context(), y.auditDir, 20)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range last {
		if e.Seq > since && e.Decision == "deny" && e.Reason != "" && e.Tool == tool {
			return true
		}
	}
	return false
}

// unseen checks that a text was never part of a request to the model, except
// where the test's own script says it.
func (y *yard) unseen(t *testing.T, what string) {
	t.Helper()
	for _, r := range y.model.Requests() {
		for _, result := range r.ToolResults() {
			if strings.Contains(result, what) {
				t.Errorf("the model saw %q", result)
			}
		}
	}
}

func TestAnMCPToolCannotReachOutside(t *testing.T) {
	y := newYard(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	y.spec.MCPServers = map[string]bridge.MCPServer{"files": {Command: self, Env: map[string]string{"GUARD_TEST_MCP": "1"}, Timeout: 10 * time.Second}}
	s := y.open(t, y.spec)
	for _, args := range []map[string]any{
		{"path": y.out + "/secret.txt"},
		{"path": y.ws + "/link/secret.txt"},
		{"path": y.ws + "/../" + filepath.Base(y.out) + "/secret.txt"},
		{"options": map[string]any{"deep": []any{map[string]any{"filePath": y.out + "/secret.txt"}}}, "path": y.ws + "/README.md"},
		{"path": y.ws + "/.env"},
		{"path": y.ws + "/README.md", "_depth": 3},
		{"path": y.ws + "/README.md", "_depth": "many"},
	} {
		before := y.lastSeq(t)
		if ended := y.call(t, s, "files-fetch", args); ended.OK || !y.denied(t, before, "files-fetch") {
			t.Errorf("%v: %+v", args, ended)
		}
	}
	y.unseen(t, canary)
}

func TestASubagentMayDoNoMoreThanItsParent(t *testing.T) {
	y := newYard(t)
	for name, inner := range map[string]string{
		"writes":   agenttest.Tool("create", map[string]any{"path": y.pwn, "file_text": "x"}),
		"reads":    agenttest.Tool("view", map[string]any{"path": y.out + "/secret.txt"}),
		"commands": agenttest.Tool("bash", map[string]any{"command": "touch " + y.pwn, "description": "x"}),
	} {
		t.Run(name, func(t *testing.T) {
			before := y.lastSeq(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			below := agenttest.Script(inner, "next", "text below").Text
			o := agenttest.Collect(ctx, y.open(t, y.spec), agenttest.Script(
				agenttest.Tool("task", map[string]any{"description": "x", "name": "helper", "agent_type": "general-purpose", "mode": "sync", "prompt": below}),
				"next", "text above"))
			if o.Err != nil {
				t.Fatal(o.Err)
			}
			tool, _, _ := strings.Cut(strings.TrimPrefix(inner, "tool "), " ")
			if !y.denied(t, before, tool) {
				t.Error("no denial on record")
			}
			if _, err := os.Lstat(y.pwn); err == nil {
				t.Error("the file outside was made")
			}
		})
	}
	y.unseen(t, canary)
}

// swapper turns a link round as soon as the tool is allowed: after the last
// look at it and before the tool opens the file.
type swapper struct {
	bridge.Gate
	swap func()
}

func (s *swapper) Permit(ctx context.Context, r bridge.PermissionRequest) bridge.Decision {
	defer s.swap()
	return s.Gate.Permit(ctx, r)
}

func TestLinksThatTurnRoundDuringTheCall(t *testing.T) {
	y := newYard(t)
	door, inner := filepath.Join(y.ws, "door"), filepath.Join(y.ws, "inner.txt")
	relink := func(to string) {
		if err := os.Remove(door); err != nil && !os.IsNotExist(err) {
			t.Error(err)
		}
		if err := os.Symlink(to, door); err != nil {
			t.Error(err)
		}
	}
	if err := os.WriteFile(filepath.Join(y.ws, "src", "secret.txt"), []byte("harmless\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(inner, []byte("harmless\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	gate := &swapper{Gate: y.spec.Gate}
	y.spec.Gate = gate
	s := y.open(t, y.spec)

	t.Run("a link on the way", func(t *testing.T) {
		relink(filepath.Join(y.ws, "src"))
		gate.swap = func() { relink(y.out) }
		if ended := y.call(t, s, "view", map[string]any{"path": door + "/secret.txt"}); strings.Contains(ended.Result, canary) {
			t.Errorf("%+v", ended)
		}
		relink(filepath.Join(y.ws, "src"))
		y.call(t, s, "create", map[string]any{"path": door + "/made.txt", "file_text": "x"})
		if _, err := os.Lstat(filepath.Join(y.out, "made.txt")); err == nil {
			t.Error("the file was made outside")
		}
	})
	t.Run("a file that becomes a link", func(t *testing.T) {
		gate.swap = func() {
			if err := os.Remove(inner); err != nil {
				t.Error(err)
			}
			if err := os.Symlink(filepath.Join(y.out, "secret.txt"), inner); err != nil {
				t.Error(err)
			}
		}
		before := y.lastSeq(t)
		if ended := y.call(t, s, "view", map[string]any{"path": inner}); strings.Contains(ended.Result, canary) || !y.denied(t, before, "view") {
			t.Errorf("%+v", ended)
		}
	})
	y.unseen(t, canary)
}

func TestSecretsInToolOutput(t *testing.T) {
	y := newYard(t)
	if err := os.WriteFile(filepath.Join(y.ws, "notes.txt"), []byte("deploy with "+token+" please\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// Through the engine, because the runtime keeps what a tool said before the
	// guard saw it and tells it again in the history.
	s, err := engine.New(engine.Options{Agent: y.agent}).Open(t.Context(), engine.Request{Spec: y.spec})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tool string
		args map[string]any
	}{
		{"view", map[string]any{"path": y.ws + "/notes.txt"}},
		{"bash", map[string]any{"command": "cat notes.txt", "description": "x"}},
		{"bash", map[string]any{"command": "cat notes.txt | wc -c; head -c 60 notes.txt", "description": "x"}},
		{"grep", map[string]any{"pattern": "deploy", "paths": y.ws + "/notes.txt", "output_mode": "content"}},
	} {
		ended := y.call(t, s, c.tool, c.args)
		if !ended.OK || strings.Contains(ended.Result, token) || !strings.Contains(ended.Result, "[REDACTED]") {
			t.Errorf("%s %v: %+v", c.tool, c.args, ended)
		}
	}
	y.unseen(t, token)
	settings := "DB_PASSWORD=horsebattery\nAPI_KEY=9f8e7d6c5b4a\n"
	source := "token = parser.next()\nvar password string\nclient.login(user, token=current)\nhorsebattery()\n"
	for name, text := range map[string]string{"settings.env": settings, "main.py": source} {
		if err := os.WriteFile(filepath.Join(y.ws, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for tool, args := range map[string]map[string]any{"view": {"path": y.ws + "/settings.env"}, "bash": {"command": "cat settings.env; grep -n KEY settings.env", "description": "x"}} {
		if ended := y.call(t, s, tool, args); strings.Contains(ended.Result, "horsebattery") || strings.Contains(ended.Result, "9f8e7d6c5b4a") || !strings.Contains(ended.Result, "API_KEY=[REDACTED]") {
			t.Errorf("%s of settings: %+v", tool, ended)
		}
	}
	for tool, args := range map[string]map[string]any{"view": {"path": y.ws + "/main.py"}, "bash": {"command": "cat main.py", "description": "x"}, "grep": {"pattern": "token|password|horse", "paths": y.ws + "/main.py", "output_mode": "content"}} {
		ended := y.call(t, s, tool, args)
		for line := range strings.Lines(source) {
			if !ended.OK || !strings.Contains(ended.Result, strings.TrimSpace(line)) {
				t.Errorf("%s of source code lacks %q: %+v", tool, line, ended)
			}
		}
	}
	y.unseen(t, "9f8e7d6c5b4a")
	history, err := s.History(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range history {
		if b, err := bridge.EncodeEvent(ev); err != nil || strings.Contains(string(b), token) {
			t.Errorf("kept in the session: %s %v", b, err)
		}
	}
	y.clean(t)
}

// clean checks that the record holds no secret.
func (y *yard) clean(t *testing.T) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(y.auditDir, "*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		if b, err := os.ReadFile(f); err != nil || strings.Contains(string(b), token) {
			t.Errorf("%s: %v, or it holds the secret", f, err)
		}
	}
}

// The model may make up a secret, or repeat one it knows from elsewhere.
func TestASecretSplitOverChunks(t *testing.T) {
	y := newYard(t)
	e := engine.New(engine.Options{Agent: y.agent})
	s, err := e.Open(t.Context(), engine.Request{Spec: y.spec})
	if err != nil {
		t.Fatal(err)
	}
	var pieces strings.Builder
	whole := ""
	for ev, err := range s.Send(t.Context(), bridge.Prompt{Text: "rehearsal: chunks use " + token[:12] + "|" + token[12:30] + "|" + token[30:] + " now"}) {
		if err != nil {
			t.Fatal(err)
		}
		switch ev := ev.(type) {
		case bridge.TextDelta:
			pieces.WriteString(ev.Text)
		case bridge.MessageDone:
			whole = ev.Text
		default:
		}
	}
	if want := "use [REDACTED] now"; pieces.String() != want || whole != want {
		t.Errorf("the pieces are %q, the whole is %q", pieces.String(), whole)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	hooks := map[audit.Hook]bool{}
	entries, err := audit.Tail(t.Context(), y.auditDir, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		hooks[e.Hook] = true
	}
	if !hooks[audit.HookStart] || !hooks[audit.HookPrompt] || !hooks[audit.HookStop] {
		t.Errorf("on record are %v", hooks)
	}
	y.clean(t)
}
