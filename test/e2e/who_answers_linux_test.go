package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/githubtest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// accountBench runs commands with or without an account at a GitHub that
// refuses every token.
type accountBench struct {
	t         *testing.T
	home, dir string
	env       []string
}

// newAccountBench makes one with a stored login, the text of a file in the home
// directory, or further variables.
func newAccountBench(t *testing.T, login, text string, env ...string) *accountBench {
	t.Helper()
	github := githubtest.Start(t)
	github.Accept("another token")
	b := &accountBench{t: t, home: t.TempDir(), dir: t.TempDir()}
	b.env = append([]string{"HOME=" + b.home, "PATH=" + os.Getenv("PATH"), "COPILOT_CLI_PATH=" + runtimetest.Path(t), "COPILOT_BRIDGE_OPENCLAW_MEMORY=off", "OPENCLAW_PORT=1"}, slices.Concat(github.Env(), env)...)
	if login != "" {
		file := filepath.Join(b.home, login)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// run runs a command to its end, and says whether the task was done.
func (b *accountBench) run(input string, args ...string) (out string, code int, made bool) {
	b.t.Helper()
	cmd := b.command(args...)
	cmd.Stdin = strings.NewReader(input)
	text, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		b.t.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode(), b.made()
}

func (b *accountBench) command(args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	cmd.Dir, cmd.Env = b.dir, b.env
	return cmd
}

const helloTask = "create hello.txt saying hi"

// made says whether the task was done, and undoes it.
func (b *accountBench) made() bool { return os.Remove(filepath.Join(b.dir, "hello.txt")) == nil }

// accountDoor is a command and how a client asks it for the task.
type accountDoor struct {
	args     []string
	order    string // on standard input
	tool     string // of an MCP server, with the key of its task
	key      string
	attended bool   // people use it, who see that the demo model answers
	receipt  string // is how it names the demo model
}

// ask asks for the task.
func (d accountDoor) ask(b *accountBench, more ...string) (out string, ok, made bool) {
	b.t.Helper()
	args := slices.Concat(d.args, more)
	if d.tool == "" {
		out, code, made := b.run(d.order, args...)
		return out, code == 0, made
	}
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(b.t.Context(), &mcp.CommandTransport{Command: b.command(args...), TerminateDuration: patience}, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			b.t.Error(err)
		}
	}()
	r := mcpCall(b.t, c, d.tool, map[string]any{d.key: helloTask}, nil)
	return mcpText(r) + toJSON(r.StructuredContent), !r.IsError, b.made()
}

func accountDoors() map[string]accountDoor {
	return map[string]accountDoor{
		"run":         {args: []string{"run", "--json", helloTask}, attended: true, receipt: `"answers":{"kind":"demo"`},
		"orchestrate": {args: []string{"orchestrate", "--json", "--isolation", "shared", helloTask}, attended: true, receipt: `"answers":{"kind":"demo"`},
		"abp": {args: []string{"abp"}, receipt: `"answered_by":{"detail":"the built-in demo model (asked for)","kind":"demo"}`,
			order: `{"t":"run","id":"r","work_order":{"id":"11111111-2222-4333-8444-555555555555","task":"` + helloTask + `","lane":"workspace_first","workspace":{"root":".","mode":"pass_through"}}}` + "\n"},
		"mcp":             {args: []string{"mcp", "copilot"}, tool: "copilot_code_task", key: "prompt", receipt: `"answeredBy":{"detail":"the built-in demo model (asked for)","kind":"demo"}`},
		"mcp orchestrate": {args: []string{"mcp", "copilot"}, tool: "copilot_orchestrate", key: "task", receipt: `"kind":"demo"`},
		"openclaw":        {args: []string{"mcp", "plugin", "--workspace", "."}, tool: "copilot_code", key: "task", receipt: `"kind":"demo"`},
	}
}

// Where an account is refused no door lets the demo model answer: the error says
// what was refused and what to do.
func TestRefusedAccountIsNoDemo(t *testing.T) {
	t.Parallel()
	for name, account := range map[string]struct {
		login, text string
		env         []string
		refused     string
	}{
		"GITHUB_TOKEN":         {env: []string{"GITHUB_TOKEN=ghp_refused"}, refused: "the token in GITHUB_TOKEN"},
		"GH_TOKEN":             {env: []string{"GH_TOKEN=ghp_refused"}, refused: "the token in GH_TOKEN"},
		"copilot-bridge login": {login: ".copilot/config.json", text: `{"lastLoggedInUser": {"host":"https://github.com","login":"octo"}}`, refused: "the login of `copilot-bridge login`"},
		"gh":                   {login: ".config/gh/hosts.yml", text: "github.com:\n    user: octo\n", refused: "the login of GitHub's CLI"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newAccountBench(t, account.login, account.text, account.env...)
			for door, d := range accountDoors() {
				if name != "GITHUB_TOKEN" && door != "run" && door != "abp" {
					continue // how the account was found makes no difference to a door
				}
				out, ok, made := d.ask(b)
				if made || ok || !strings.Contains(out, "GitHub did not accept "+account.refused) || !strings.Contains(out, "copilot-bridge login") {
					t.Errorf("%s: done: %v, file made: %v\n%s", door, ok, made, out)
				}
				if strings.Contains(out, "NOT COPILOT") || strings.Contains(out, "_refused") {
					t.Errorf("%s: %s", door, out)
				}
			}
		})
	}
}

// Without any trace of an account the demo model answers people unasked, and
// programs only if it is asked for. Receipts name it.
func TestDemoAnswersWhenAskedFor(t *testing.T) {
	t.Parallel()
	for _, asked := range []string{"", "flag", "setting"} {
		t.Run("asked "+asked, func(t *testing.T) {
			t.Parallel()
			b := newAccountBench(t, "", "")
			if asked != "" {
				b.env = append(b.env, "GITHUB_TOKEN=ghp_refused") // it does not matter then
			}
			if asked == "setting" {
				b.env = append(b.env, "COPILOT_BRIDGE_DEMO=true")
			}
			for door, d := range accountDoors() {
				var flags []string
				if asked == "flag" {
					flags = []string{"--demo"}
				}
				out, ok, made := d.ask(b, flags...)
				if asked == "" && !d.attended {
					if made || ok || !strings.Contains(out, "nobody is logged in") || !strings.Contains(out, "COPILOT_BYOK_") {
						t.Errorf("%s: done: %v, file made: %v\n%s", door, ok, made, out)
					}
					continue
				}
				if !made || !ok || !strings.Contains(out, d.receipt) {
					t.Errorf("%s: done: %v, file made: %v, receipt %s\n%s", door, ok, made, d.receipt, out)
				}
				if door == "abp" && (strings.Contains(out, `"id":"github_copilot_sdk"`) || !strings.Contains(out, `"backend":{"id":"copilot_bridge_demo"`)) {
					t.Errorf("the back end: %s", out)
				}
			}
		})
	}
}

// An ACP client is told to log in, and not answered by the demo model.
func TestACPClientIsToldToLogIn(t *testing.T) {
	t.Parallel()
	for name, env := range map[string][]string{"refused": {"GITHUB_TOKEN=ghp_refused"}, "none": nil} {
		b := newAccountBench(t, "", "", env...)
		// A provider that the repository names is none of the user's.
		thief := provider(t)
		settings := "COPILOT_BYOK_PROVIDER=openai\nCOPILOT_BYOK_BASE_URL=" + thief.URL() + "\nCOPILOT_BYOK_API_KEY=" + thief.Key() + "\nCOPILOT_BYOK_MODEL=" + thief.Model() + "\n"
		if err := os.WriteFile(filepath.Join(b.dir, ".env"), []byte(settings), 0o600); err != nil {
			t.Fatal(err)
		}
		out, code, _ := b.run(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}`+"\n"+
			`{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"`+b.dir+`","mcpServers":[]}}`+"\n"+
			`{"jsonrpc":"2.0","id":3,"method":"authenticate","params":{"methodId":"copilot-login"}}`+"\n", "acp")
		for id, want := range map[string]string{"1": `"authMethods":[{`, "2": `"code":-32000`, "3": `"code":-32000`} {
			line := ""
			for l := range strings.Lines(out) {
				if strings.Contains(l, `"id":`+id+`,`) {
					line = l
				}
			}
			if !strings.Contains(line, want) {
				t.Errorf("%s: request %s: %s", name, id, out)
			}
		}
		if code != 0 || !strings.Contains(out, "copilot-bridge login") || len(thief.Requests()) > 0 {
			t.Errorf("%s: exit code %d, %d requests to the repository's provider\n%s", name, code, len(thief.Requests()), out)
		}
	}
}

// A receipt names a provider of the user's own.
func TestReceiptNamesTheProvider(t *testing.T) {
	t.Parallel()
	m := provider(t)
	b := newAccountBench(t, "", "", "GITHUB_TOKEN=ghp_refused", "COPILOT_BYOK_PROVIDER=openai", "COPILOT_BYOK_BASE_URL="+m.URL(), "COPILOT_BYOK_API_KEY="+m.Key(), "COPILOT_BYOK_MODEL="+m.Model())
	detail := toJSON("openai at " + m.URL() + ", model " + m.Model())
	for door, d := range accountDoors() {
		out, ok, made := d.ask(b)
		if !made || !ok || !strings.Contains(out, `"kind":"provider"`) || !strings.Contains(out, `"detail":`+detail) || strings.Contains(out, "NOT COPILOT") {
			t.Errorf("%s: done: %v, file made: %v\n%s", door, ok, made, out)
		}
	}
}

// An account that is refused only in the turn leads to the next way to Copilot,
// as long as nothing was done. The receipt names the one that answered.
func TestFallsOverInTheTurn(t *testing.T) {
	t.Parallel()
	runner := filepath.Join(t.TempDir(), "runner")
	script := "#!/bin/sh\ncat > /dev/null\necho ran >> ran.txt\necho hi > hello.txt\n" + `echo '{"type":"assistant_message","text":"the runner did it"}'` + "\n"
	if err := os.WriteFile(runner, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	// This GitHub knows whose the token is, and refuses it in the turn.
	github := githubtest.Start(t)
	github.Always(githubtest.ChatPath, githubtest.Answer{Status: 401, Body: `{"message":"Bad credentials"}`})
	m := provider(t)
	refusing := []string{"COPILOT_BYOK_PROVIDER=openai", "COPILOT_BYOK_BASE_URL=" + m.URL(), "COPILOT_BYOK_API_KEY=refused-key", "COPILOT_BYOK_MODEL=" + m.Model()}
	accepting := append(slices.Clone(refusing[:2]), "COPILOT_BYOK_API_KEY="+m.Key(), refusing[3])
	for name, tt := range map[string]struct {
		env  []string
		over bool // to the runner in the end
		task string
	}{
		"a token that has expired":  {append(github.Env(), "COPILOT_GITHUB_TOKEN="+github.Token(), "COPILOT_BRIDGE_MODEL=gpt-5"), true, helloTask},
		"a token that nobody knows": {[]string{"COPILOT_GITHUB_TOKEN=ghp_refused"}, true, helloTask},
		"a provider's key":          {refusing, true, helloTask},
		"over ACP as well":          {append(slices.Clone(refusing), "COPILOT_CLI_PATH="+runtimetest.CLIPath(t)), true, helloTask},
		"after a tool has run":      {accepting, false, tool("create", map[string]string{"path": "made.txt", "file_text": "x"}) + "\nrehearsal: next\nrehearsal: status 401 not any more"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, door := range []string{"run", "abp"} {
				b := newAccountBench(t, "", "", append(tt.env, "ABP_COPILOT_RUNNER="+runner)...)
				args, order := []string{"run", "--json", tt.task}, ""
				if door == "abp" {
					args, order = []string{"abp"}, `{"t":"run","id":"r","work_order":{"id":"11111111-2222-4333-8444-555555555555","task":`+toJSON(tt.task)+`,"lane":"workspace_first","workspace":{"root":".","mode":"pass_through"}}}`+"\n"
				}
				out, code, made := b.run(order, args...)
				ran, err := os.ReadFile(filepath.Join(b.dir, "ran.txt"))
				if !tt.over {
					if made || err == nil || code == 0 || strings.Contains(out, "continuing over") {
						t.Errorf("%s, exit code %d, made %v: %s", door, code, made, out)
					}
					continue
				}
				if !made || code != 0 || string(ran) != "ran\n" || !strings.Contains(out, "continuing over legacy: ") || !strings.Contains(out, "the runner did it") || !strings.Contains(out, `"kind":"runner"`) {
					t.Errorf("%s: exit code %d, made %v, %q\n%s", door, code, made, ran, out)
				}
				if strings.Contains(out, "refused-key") || strings.Contains(out, "_refused") {
					t.Errorf("%s: %s", door, out)
				}
			}
		})
	}
}

// A provider on this machine that wants no key gets none.
func TestKeylessProvider(t *testing.T) {
	t.Parallel()
	keys := make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keys <- strings.TrimSpace(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer")) + r.Header.Get("X-Api-Key")
		w.Header().Set("Content-Type", "text/event-stream")
		event := func(name, data string) { _, _ = io.WriteString(w, "event: "+name+"\ndata: "+data+"\n\n") }
		switch r.URL.Path {
		case "/v1/models":
			_, _ = io.WriteString(w, `{"data":[{"id":"llama"}]}`)
		case "/v1/messages":
			event("message_start", `{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"llama","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}`)
			event("content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`)
			event("content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"no key needed"}}`)
			event("content_block_stop", `{"type":"content_block_stop","index":0}`)
			event("message_delta", `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}`)
			event("message_stop", `{"type":"message_stop"}`)
		default:
			_, _ = io.WriteString(w, `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"llama","choices":[{"index":0,"delta":{"role":"assistant","content":"no key needed"},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
		}
	}))
	t.Cleanup(server.Close)
	for kind, path := range map[string]string{"openai": "/v1", "ollama": "/v1", "anthropic": ""} {
		env := []string{"COPILOT_BYOK_PROVIDER=" + kind, "COPILOT_BYOK_BASE_URL=" + server.URL + path, "COPILOT_BYOK_MODEL=llama"}
		b := newAccountBench(t, "", "", env...)
		if out, code, _ := b.run("", "run", "hello"); code != 0 || !strings.Contains(out, "no key needed") {
			t.Errorf("%s: exit code %d\n%s", kind, code, out)
		}
		s := serveProvider(t, env...)
		if status, _, body := s.say(t, "/v1/chat/completions", "any", "hello", ""); status != http.StatusOK || !strings.Contains(body, "no key needed") {
			t.Errorf("%s: %d %s", kind, status, body)
		}
	}
	close(keys)
	for key := range keys {
		if key != "" {
			t.Errorf("a key was sent: %q", key)
		}
	}
}

// Copilot's CLI is large: where it is missing, the error says how to install it.
func TestCLIIsNotInstalledUnasked(t *testing.T) {
	t.Parallel()
	b := newAccountBench(t, "", "", "ABP_COPILOT_TRANSPORT=acp", "COPILOT_BYOK_PROVIDER=ollama", "COPILOT_BYOK_BASE_URL=http://127.0.0.1:1/v1", "COPILOT_BYOK_MODEL=llama")
	for door, d := range accountDoors() {
		out, ok, made := d.ask(b)
		if ok || made || !strings.Contains(out, "no Copilot CLI was found") || !strings.Contains(out, "copilot-bridge setup --acp") {
			t.Errorf("%s: done: %v, made: %v\n%s", door, ok, made, out)
		}
	}
	if _, code, _ := b.run("", "run", "hello"); code != 3 {
		t.Errorf("exit code %d", code)
	}
	if found, err := filepath.Glob(filepath.Join(b.home, ".copilot-bridge", "cli*")); err != nil || len(found) > 0 {
		t.Errorf("%q, %v", found, err)
	}
}
