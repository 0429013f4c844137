package clients

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/programtest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// acpProcess is `copilot-bridge acp` with pipes for standard input and output.
type acpProcess struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string // closed at the end of the output
}

func (e *editor) startACP(t *testing.T, args ...string) *acpProcess {
	t.Helper()
	p := &acpProcess{t: t, cmd: exec.Command(binary, append([]string{"acp"}, args...)...), lines: make(chan string, 1000)}
	p.cmd.Dir, p.cmd.Env, p.cmd.WaitDelay = e.workspace, e.env, patience
	log := &output{}
	p.cmd.Stderr = log
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.in = in
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // already ended, unless the test failed
		if t.Failed() {
			t.Logf("stderr:\n%s", log)
		}
	})
	go func() {
		defer close(p.lines)
		s := bufio.NewScanner(out)
		s.Buffer(nil, 16<<20)
		for s.Scan() {
			p.lines <- s.Text()
		}
	}()
	return p
}

func (p *acpProcess) send(format string, args ...any) {
	p.t.Helper()
	if _, err := fmt.Fprintf(p.in, format+"\n", args...); err != nil {
		p.t.Error(err)
	}
}

// waitForMessage reads messages up to one that contains all parts. A line that
// is no message fails the test.
func (p *acpProcess) waitForMessage(parts ...string) string {
	p.t.Helper()
	late := time.After(patience)
	var seen []string
	for {
		select {
		case l, ok := <-p.lines:
			seen = append(seen, l)
			if !ok {
				p.t.Fatalf("the output ended before %q", parts)
			}
			if !json.Valid([]byte(l)) {
				p.t.Errorf("standard output has the line %q", l)
			}
			has := true
			for _, part := range parts {
				has = has && strings.Contains(l, part)
			}
			if has {
				return l
			}
		case <-late:
			p.t.Fatalf("there is no %q in\n%s", parts, strings.Join(seen, "\n"))
		}
	}
}

// open opens a session and returns its ID.
func (p *acpProcess) open(dir string) string {
	p.t.Helper()
	p.send(`{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":%q,"mcpServers":[]}}`, dir)
	var m struct{ Result struct{ SessionID string } }
	if err := json.Unmarshal([]byte(p.waitForMessage(`"id":1,`)), &m); err != nil || m.Result.SessionID == "" {
		p.t.Fatal("no session", err)
	}
	return m.Result.SessionID
}

// openAtWork opens a session in which a command runs that does not end.
func (p *acpProcess) openAtWork(e *editor) (session string) {
	p.t.Helper()
	session = p.open(e.workspace)
	p.prompt(2, session, strings.TrimSuffix(call(p.t, "bash", map[string]string{"command": "touch begun && sleep 1000"}), "\n"))
	var asked struct{ ID json.RawMessage }
	if err := json.Unmarshal([]byte(p.waitForMessage("session/request_permission")), &asked); err != nil {
		p.t.Fatal(err)
	}
	p.send(`{"jsonrpc":"2.0","id":%s,"result":{"outcome":{"outcome":"selected","optionId":"allow_once"}}}`, asked.ID)
	e.waitForFile(p.t, "begun")
	return session
}

func (p *acpProcess) prompt(id int, session, text string) {
	p.t.Helper()
	raw, err := json.Marshal(text)
	if err != nil {
		p.t.Fatal(err)
	}
	p.send(`{"jsonrpc":"2.0","id":%d,"method":"session/prompt","params":{"sessionId":%q,"prompt":[{"type":"text","text":%s}]}}`, id, session, raw)
}

// TestACPProcess stops the program during a command, in every way a client can,
// and checks that nothing is left behind.
func TestACPProcess(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(*acpProcess)
		code int
	}{
		{"end of input", func(p *acpProcess) { _ = p.in.Close() }, 0},
		{"SIGTERM", func(p *acpProcess) { _ = p.cmd.Process.Signal(syscall.SIGTERM) }, 0},
		{"kill -9", func(p *acpProcess) { _ = p.cmd.Process.Kill() }, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := newEditor(t)
			p := e.startACP(t, "--log-level", "debug")
			p.openAtWork(e)
			tt.end(p)
			for l := range p.lines {
				if !json.Valid([]byte(l)) {
					t.Errorf("standard output has the line %q", l)
				}
			}
			err := p.cmd.Wait()
			if code := p.cmd.ProcessState.ExitCode(); code != tt.code {
				t.Errorf("the program exited with %d, %v; want %d", code, err, tt.code)
			}
			programtest.NoneLeft(t, e.home)
		})
	}
}

// TestACPShowsAllOfIt checks that a permission request shows the whole command,
// and that the title begins with the program that would run.
func TestACPShowsAllOfIt(t *testing.T) {
	e := newEditor(t)
	p := e.startACP(t)
	session := p.open(e.workspace)
	command := strings.Repeat("echo step; ", 450) + "touch evil"
	p.prompt(2, session, strings.TrimSuffix(call(t, "bash", map[string]string{"command": command, "description": "List the files"}), "\n"))
	var asked struct {
		ID     json.RawMessage
		Params struct {
			ToolCall struct {
				Title   string
				Content []struct{ Content struct{ Text string } }
			}
		}
	}
	if err := json.Unmarshal([]byte(p.waitForMessage("session/request_permission")), &asked); err != nil {
		t.Fatal(err)
	}
	c := asked.Params.ToolCall
	if !strings.HasPrefix(c.Title, "echo step; echo step;") || !strings.HasSuffix(c.Title, "…") && !strings.Contains(c.Title, "characters: ") {
		t.Errorf("the title is %q", c.Title)
	}
	if len(c.Content) == 0 || !strings.Contains(c.Content[0].Content.Text, "| "+command+"\nin ") || !strings.Contains(c.Content[0].Content.Text, "says: “List the files”") {
		t.Errorf("the content is %.300q", c.Content)
	}
	p.send(`{"jsonrpc":"2.0","id":%s,"result":{"outcome":{"outcome":"selected","optionId":"reject_once"}}}`, asked.ID)
	p.waitForMessage(`"stopReason":"end_turn"`)
	if _, err := os.Stat(filepath.Join(e.workspace, "evil")); err == nil {
		t.Error("a rejected command has run")
	}
}

// Headers in "_meta" go with the requests of that session alone.
func TestACPRequestHeaders(t *testing.T) {
	e := &editor{workspace: t.TempDir(), home: t.TempDir(), model: provider(t)}
	e.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + e.home, "USERPROFILE=" + e.home, "TMPDIR=" + os.TempDir(),
		"COPILOT_BRIDGE_HOME=" + filepath.Join(e.home, "bridge"), "COPILOT_CLI_PATH=" + runtimetest.Path(t), "COPILOT_BRIDGE_REQUEST_HEADERS=X-Team=everybody",
		"COPILOT_BYOK_PROVIDER=openai", "COPILOT_BYOK_BASE_URL=" + e.model.URL(), "COPILOT_BYOK_API_KEY=" + e.model.Key(), "COPILOT_BYOK_MODEL=" + e.model.Model(),
	}
	p := e.startACP(t)
	for i, c := range []struct{ meta, want string }{
		{`,"_meta":{"copilot-bridge":{"requestHeaders":{"X-Team":"one"}},"others":[1]}`, "one"},
		{"", "everybody"},
	} {
		p.send(`{"jsonrpc":"2.0","id":%d,"method":"session/new","params":{"cwd":%q,"mcpServers":[]%s}}`, 10+i, e.workspace, c.meta)
		var m struct{ Result struct{ SessionID string } }
		if err := json.Unmarshal([]byte(p.waitForMessage(fmt.Sprintf(`"id":%d,`, 10+i))), &m); err != nil || m.Result.SessionID == "" {
			t.Fatal("no session", err)
		}
		p.prompt(20+i, m.Result.SessionID, "rehearsal: text fine")
		p.waitForMessage(fmt.Sprintf(`"id":%d,`, 20+i), "end_turn")
		all := e.model.Requests()
		if len(all) == 0 || all[len(all)-1].Header.Get("X-Team") != c.want {
			t.Errorf("%q: %d requests, the last without %q", c.meta, len(all), c.want)
		}
	}
	for i, meta := range []string{`{"copilot-bridge":{"requestHeaders":{"X-Team":7}}}`, `{"copilot-bridge":{"requestHeaders":{"X":"a\r\nY: b"}}}`, `7`} {
		p.send(`{"jsonrpc":"2.0","id":%d,"method":"session/new","params":{"cwd":%q,"mcpServers":[],"_meta":%s}}`, 30+i, e.workspace, meta)
		p.waitForMessage(fmt.Sprintf(`"id":%d,`, 30+i), "_meta: ")
	}
	if err := p.in.Close(); err != nil {
		t.Error(err)
	}
	for range p.lines { // until it has ended
	}
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
}
