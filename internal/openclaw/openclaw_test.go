package openclaw

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		http.DefaultClient.CloseIdleConnections()
		os.Exit(code)
	}))
}

func put(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		at := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFind(t *testing.T) {
	for _, tt := range []struct {
		name, config, agent string
		env                 map[string]string
		workspace, token    string // relative to the home
	}{
		{name: "default", workspace: ".openclaw/workspace"},
		{name: "profile", env: map[string]string{"OPENCLAW_PROFILE": "work"}, workspace: ".openclaw-work/workspace"},
		{name: "bad profile", env: map[string]string{"OPENCLAW_PROFILE": "../x"}, workspace: ".openclaw/workspace"},
		{name: "state", env: map[string]string{"OPENCLAW_STATE_DIR": "~/state"}, workspace: "state/workspace"},
		{name: "environment", env: map[string]string{"OPENCLAW_WORKSPACE_DIR": "~/ws"}, workspace: "ws"},
		{name: "defaults before environment", config: `{agents:{defaults:{workspace:"~/mine"}}}`, env: map[string]string{"OPENCLAW_WORKSPACE_DIR": "~/ws"}, workspace: "mine"},
		{name: "entry", config: `{agents:{entries:{main:{workspace:"~/of-main"},other:{}},defaults:{workspace:"~/mine"}}}`, workspace: "of-main"},
		{name: "the only entry", config: `{agents:{entries:{solo:{}},defaults:{workspace:"~/mine"}}}`, workspace: "mine"},
		{name: "one of several", agent: "coder", config: `{agents:{entries:{main:{},coder:{}}}}`, workspace: ".openclaw/workspace-coder"},
		{name: "one of several, with a root", agent: "coder", config: `{agents:{entries:{main:{},coder:{}},defaults:{workspace:"~/mine"}}}`, workspace: "mine/coder"},
		{name: "token", config: `{gateway:{auth:{token:"abc"}}} // x`, workspace: ".openclaw/workspace", token: "abc"},
		{name: "token by reference", config: `{gateway:{auth:{token:"${T}"}}}`, env: map[string]string{"T": "xyz"}, workspace: ".openclaw/workspace", token: "xyz"},
		{name: "token elsewhere", config: `{gateway:{auth:{token:{source:"file"}}}}`, workspace: ".openclaw/workspace"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			home := t.TempDir()
			if tt.config != "" {
				put(t, home, map[string]string{".openclaw/openclaw.json": tt.config})
			}
			p := Find(func(k string) string { return tt.env[k] }, home, tt.agent)
			if want := filepath.Join(home, tt.workspace); p.Workspace != want || p.token != tt.token || p.Problem != nil || p.Present != (tt.config != "") {
				t.Errorf("%+v, want %s", p, want)
			}
		})
	}
	home := t.TempDir()
	put(t, home, map[string]string{".openclaw/openclaw.json": "{"})
	if p := Find(func(string) string { return "" }, home, ""); p.Problem == nil || !p.Present || p.Workspace != filepath.Join(home, ".openclaw", "workspace") {
		t.Errorf("%+v", p)
	}
}

// memoryOf opens the memory below a home whose gateway does not run.
func memoryOf(t *testing.T, home string, more ...func(*Options)) *Memory {
	t.Helper()
	o := Options{Places: Find(func(string) string { return "" }, home, "")}
	for _, f := range more {
		f(&o)
	}
	m := Open(o)
	t.Cleanup(m.Close)
	return m
}

func TestFiles(t *testing.T) {
	home := t.TempDir()
	put(t, home, map[string]string{
		".openclaw/workspace/MEMORY.md":            "# Long\nThe canary sings in Go.\n",
		".openclaw/workspace/memory/2026-01-02.md": "a note\n",
		".openclaw/workspace/memory/sub/x.md":      "deep\n",
		".openclaw/workspace/memory/big.md":        strings.Repeat("é", maxContent),
		".openclaw/workspace/SOUL.md":              "soul\n",
		".openclaw/memory/old.md":                  "# Old\nan older canary\n",
		".openclaw/memory/main.sqlite":             "canary",
		".openclaw/memory/sub/y.md":                "canary",
		".openclaw/USER.md":                        "tabs\n",
		"outside.md":                               "secret\n",
	})
	at := filepath.Join(home, ".openclaw", "workspace", "memory")
	for link, target := range map[string]string{"out.md": filepath.Join(home, "outside.md"), "in.md": "2026-01-02.md"} {
		if err := os.Symlink(target, filepath.Join(at, link)); err != nil {
			t.Fatal(err)
		}
	}
	m := memoryOf(t, home)
	for _, tt := range []struct {
		file, want string
		code       bridge.Code
	}{
		{file: "", want: "# Long\nThe canary sings in Go.\n"},
		{file: "MEMORY.md", want: "# Long\nThe canary sings in Go.\n"},
		{file: "memory/2026-01-02.md", want: "a note\n"},
		{file: "2026-01-02.md", want: "a note\n"},
		{file: "./memory/../memory/sub/x.md", want: "deep\n"},
		{file: "memory/in.md", want: "a note\n"},
		{file: "old.md", want: "# Old\nan older canary\n"},
		{file: "memory/old.md", want: "# Old\nan older canary\n"},
		{file: "USER.md", want: "tabs\n"},
		{file: "memory/out.md", code: bridge.CodeDenied},
		{file: "memory/sub", code: bridge.CodeInvalid},
		{file: "SOUL.md", code: bridge.CodeNotFound},
		{file: "../../outside.md", code: bridge.CodeInvalid},
		{file: "memory/../../../outside.md", code: bridge.CodeInvalid},
		{file: filepath.Join(home, "outside.md"), code: bridge.CodeInvalid},
		{file: "memory/x\x00.md", code: bridge.CodeInvalid},
		{file: "memory/main.sqlite", code: bridge.CodeInvalid},
		{file: `..\..\outside.md`, code: bridge.CodeInvalid},
		{file: "none.md", code: bridge.CodeNotFound},
	} {
		doc, err := m.Read(t.Context(), tt.file)
		if doc.Content != tt.want || bridge.CodeOf(err) != tt.code {
			t.Errorf("%q: %q, %v", tt.file, doc.Content, err)
		}
		if err != nil && (bridge.AsError(err).Remedy == "" || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%q: %v", tt.file, err)
		}
	}
	if doc, err := m.Read(t.Context(), "big.md"); err != nil || !doc.Truncated || len(doc.Content) > maxContent || !strings.HasSuffix(doc.Content, "é") {
		t.Errorf("%d bytes, %v, %v", len(doc.Content), doc.Truncated, err)
	}
	if doc, err := m.Preferences(t.Context()); err != nil || doc.Content != "tabs\n" || doc.Source != FromFiles {
		t.Errorf("%+v, %v", doc, err)
	}
	found, err := m.Search(t.Context(), "canary", 5)
	if err != nil || found.Source != FromFiles || len(found.Hits) != 2 || found.Hits[0].File != "memory/old.md" || found.Hits[1].File != "MEMORY.md" || found.Hits[1].Heading != "Long" {
		t.Errorf("%+v, %v", found, err)
	}
	if _, err := m.Search(t.Context(), "  ", 5); bridge.CodeOf(err) != bridge.CodeInvalid {
		t.Errorf("%v", err)
	}
	empty := memoryOf(t, t.TempDir())
	if _, err := empty.Preferences(t.Context()); bridge.CodeOf(err) != bridge.CodeNotFound {
		t.Errorf("%v", err)
	}
	if found, err := empty.Search(t.Context(), "canary", 5); err != nil || len(found.Hits) != 0 {
		t.Errorf("%+v, %v", found, err)
	}
}

// never is the answer that does not come.
const never = "never"

// gatewayAt is a gateway that answers each method with a text. What it does
// not answer it tells.
func gatewayAt(t *testing.T, answers map[string]string, unanswered ...chan<- string) (host string, port int) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = ws.CloseNow() }()
		ctx, cancel := context.WithTimeout(r.Context(), 20*time.Second)
		defer cancel()
		send := func(text string) { _ = ws.Write(ctx, websocket.MessageText, []byte(text)) }
		send(`{"type":"event","event":"connect.challenge","payload":{"nonce":"n","ts":1}}`)
		for {
			_, data, err := ws.Read(ctx)
			var f struct{ ID, Method string }
			if err != nil || json.Unmarshal(data, &f) != nil {
				return
			}
			answer, ok := answers[f.Method]
			switch {
			case answer == never:
				unanswered[0] <- f.Method
				continue
			case f.ID == "connect":
				answer = `true,"payload":{"type":"hello-ok","server":{"version":"2026.9"},"policy":{"tickIntervalMs":30000}}`
			case !ok:
				answer = `false,"error":{"code":"UNAVAILABLE","message":"no such thing"}`
			default:
				answer = `true,"payload":` + answer
			}
			send(`{"type":"res","id":"` + f.ID + `","ok":` + answer + `}`)
		}
	}))
	t.Cleanup(s.Close)
	host, text, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	port, err = strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return host, port
}

func TestGatewayFirst(t *testing.T) {
	home := t.TempDir()
	put(t, home, map[string]string{".openclaw/workspace/MEMORY.md": "a canary in the files\n", ".openclaw/workspace/memory/a.md": "files\n", ".openclaw/workspace/USER.md": "files\n"})
	host, port := gatewayAt(t, map[string]string{
		"agents.list":          `{"defaultId":"main"}`,
		"memory.search":        `{"agentId":"main","results":[{"path":"memory/g.md","startLine":3,"endLine":5,"score":0.7,"snippet":"## Birds\nfrom the gateway","source":"memory"}]}`,
		"agents.files.get":     `{"agentId":"main","workspace":"/w","file":{"name":"MEMORY.md","path":"/w/MEMORY.md","missing":false,"content":"gateway"}}`,
		"agents.workspace.get": `{"agentId":"main","file":{"path":"memory/a.md","content":"Z2F0ZXdheQ==","encoding":"base64"}}`,
	})
	m := memoryOf(t, home, func(o *Options) { o.Host, o.Port = host, port })
	found, err := m.Search(t.Context(), "canary", 5)
	if err != nil || found.Source != FromGateway || len(found.Hits) != 1 || found.Hits[0] != (Hit{"memory/g.md", "Birds", 3, 5, 0.7, "## Birds\nfrom the gateway"}) {
		t.Errorf("%+v, %v", found, err)
	}
	for _, file := range []string{"MEMORY.md", "memory/a.md"} {
		if doc, err := m.Read(t.Context(), file); err != nil || doc.Content != "gateway" || doc.Source != FromGateway {
			t.Errorf("%s: %+v, %v", file, doc, err)
		}
	}
	if v, err := m.Gateway(t.Context()); err != nil || v != "2026.9" {
		t.Errorf("%q, %v", v, err)
	}
}

// A gateway that cannot help is no reason to know nothing.
func TestFilesInstead(t *testing.T) {
	home := t.TempDir()
	put(t, home, map[string]string{".openclaw/workspace/MEMORY.md": "a canary in the files\n"})
	for name, answers := range map[string]map[string]string{
		"knows nothing": {"agents.list": `{"defaultId":"main"}`, "memory.search": `{"results":[]}`, "agents.files.get": `{"file":{"name":"MEMORY.md","missing":true}}`},
		"refuses":       {},
		"answers oddly": {"agents.list": `[]`, "memory.search": `"what"`, "agents.files.get": `7`},
	} {
		t.Run(name, func(t *testing.T) {
			host, port := gatewayAt(t, answers)
			m := memoryOf(t, home, func(o *Options) { o.Host, o.Port = host, port })
			if found, err := m.Search(t.Context(), "canary", 5); err != nil || found.Source != FromFiles || len(found.Hits) != 1 {
				t.Errorf("%+v, %v", found, err)
			}
			if doc, err := m.Read(t.Context(), ""); err != nil || doc.Source != FromFiles {
				t.Errorf("%+v, %v", doc, err)
			}
		})
	}
}

// A gateway that is too slow is waited for once, not with every question; what
// it answers at once is asked of it all the same.
func TestSlowGateway(t *testing.T) {
	home := t.TempDir()
	put(t, home, map[string]string{".openclaw/workspace/MEMORY.md": "a canary in the files\n"})
	asked := make(chan string, 10)
	host, port := gatewayAt(t, map[string]string{"agents.list": `{"defaultId":"main"}`, "memory.search": never,
		"agents.files.get": `{"file":{"name":"MEMORY.md","content":"gateway"}}`}, asked)
	searched := func(patience, rest time.Duration) *Memory {
		m := memoryOf(t, home, func(o *Options) { o.Host, o.Port, o.Patience, o.Rest = host, port, patience, rest })
		if _, err := m.Gateway(t.Context()); err != nil { // connected, so that only the answer is slow
			t.Fatal(err)
		}
		for range 3 {
			if found, err := m.Search(t.Context(), "canary", 5); err != nil || found.Source != FromFiles || len(found.Hits) != 1 {
				t.Errorf("%+v, %v", found, err)
			}
		}
		return m
	}
	m := searched(2*time.Second, time.Hour)
	if doc, err := m.Read(t.Context(), ""); err != nil || doc.Source != FromGateway {
		t.Errorf("%+v, %v", doc, err)
	}
	<-asked
	if n := len(asked); n != 0 {
		t.Errorf("asked %d times more", n)
	}
	searched(50*time.Millisecond, time.Nanosecond)
	for range 3 { // each time, once it has rested
		<-asked
	}
}

func TestURL(t *testing.T) {
	for host, want := range map[string]string{"127.0.0.1": "ws://127.0.0.1:1", "::1": "ws://[::1]:1", "localhost": "ws://localhost:1", "example.com": "wss://example.com:1", "10.0.0.1": "wss://10.0.0.1:1"} {
		if got := (Options{Host: host, Port: 1}).URL(); got != want {
			t.Errorf("%s: %s", host, got)
		}
	}
}
