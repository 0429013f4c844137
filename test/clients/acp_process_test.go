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
)

// piped is `copilot-bridge acp` on pipes of ours.
type piped struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string // closed at the end of its output
}

func (e *editor) pipe(t *testing.T, args ...string) *piped {
	t.Helper()
	p := &piped{t: t, cmd: exec.Command(binary, append([]string{"acp"}, args...)...), lines: make(chan string, 1000)}
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
		_ = p.cmd.Process.Kill() // it has ended, unless the test failed
		if t.Failed() {
			t.Logf("it wrote:\n%s", log)
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

func (p *piped) send(format string, args ...any) {
	p.t.Helper()
	if _, err := fmt.Fprintf(p.in, format+"\n", args...); err != nil {
		p.t.Error(err)
	}
}

// until reads messages to one that has all of these parts. Whatever is no
// message is an error.
func (p *piped) until(parts ...string) string {
	p.t.Helper()
	late := time.After(patience)
	var seen []string
	for {
		select {
		case l, ok := <-p.lines:
			seen = append(seen, l)
			if !ok {
				p.t.Fatalf("it ended before %q", parts)
			}
			if !json.Valid([]byte(l)) {
				p.t.Errorf("standard output has %q", l)
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

// open opens a session and returns its id.
func (p *piped) open(dir string) string {
	p.t.Helper()
	p.send(`{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":%q,"mcpServers":[]}}`, dir)
	var m struct{ Result struct{ SessionID string } }
	if err := json.Unmarshal([]byte(p.until(`"id":1,`)), &m); err != nil || m.Result.SessionID == "" {
		p.t.Fatal("no session", err)
	}
	return m.Result.SessionID
}

func (p *piped) prompt(id int, session, text string) {
	p.t.Helper()
	raw, err := json.Marshal(text)
	if err != nil {
		p.t.Fatal(err)
	}
	p.send(`{"jsonrpc":"2.0","id":%d,"method":"session/prompt","params":{"sessionId":%q,"prompt":[{"type":"text","text":%s}]}}`, id, session, raw)
}

// TestACPProcess ends the program in the midst of a command in every way that
// a client can, and looks for what is left of it.
func TestACPProcess(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(*piped)
		code int
	}{
		{"end of input", func(p *piped) { _ = p.in.Close() }, 0},
		{"SIGTERM", func(p *piped) { _ = p.cmd.Process.Signal(syscall.SIGTERM) }, 0},
		{"kill -9", func(p *piped) { _ = p.cmd.Process.Kill() }, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := newEditor(t)
			p := e.pipe(t, "--log-level", "debug")
			session := p.open(e.workspace)
			p.prompt(2, session, strings.TrimSuffix(call(t, "bash", map[string]string{"command": "touch begun && sleep 1000"}), "\n"))
			var asked struct{ ID json.RawMessage }
			if err := json.Unmarshal([]byte(p.until("session/request_permission")), &asked); err != nil {
				t.Fatal(err)
			}
			p.send(`{"jsonrpc":"2.0","id":%s,"result":{"outcome":{"outcome":"selected","optionId":"allow_once"}}}`, asked.ID)
			e.until(t, "begun")
			tt.end(p)
			for l := range p.lines {
				if !json.Valid([]byte(l)) {
					t.Errorf("standard output has %q", l)
				}
			}
			err := p.cmd.Wait()
			if code := p.cmd.ProcessState.ExitCode(); code != tt.code {
				t.Errorf("it ended with %d, %v; want %d", code, err, tt.code)
			}
			noLeftovers(t, e.home)
		})
	}
}

// TestACPShowsAllOfIt: a client is told all of what it is asked about, and the
// title begins with what would run.
func TestACPShowsAllOfIt(t *testing.T) {
	e := newEditor(t)
	p := e.pipe(t)
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
	if err := json.Unmarshal([]byte(p.until("session/request_permission")), &asked); err != nil {
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
	p.until(`"stopReason":"end_turn"`)
	if _, err := os.Stat(filepath.Join(e.workspace, "evil")); err == nil {
		t.Error("what was rejected has happened")
	}
}
