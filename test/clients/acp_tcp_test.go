package clients

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/programtest"
)

// TestACPOverTCP connects to `copilot-bridge acp --port`: a client disconnects
// during a command, and another continues its session.
func TestACPOverTCP(t *testing.T) {
	e := newEditor(t)
	server := e.startACP(t, "--port", "0", "--json")
	var ready struct {
		URL   string
		Token bool
	}
	if err := json.Unmarshal([]byte(server.waitForMessage(`"url"`)), &ready); err != nil || !ready.Token || !strings.HasPrefix(ready.URL, "tcp://127.0.0.1:") {
		t.Fatalf("%+v, %v", ready, err)
	}
	address := strings.TrimPrefix(ready.URL, "tcp://")
	token, err := os.ReadFile(filepath.Join(e.home, "bridge", "serve.token"))
	if err != nil {
		t.Fatal(err)
	}

	second := exec.Command(binary, "acp", "--port", address[strings.LastIndexByte(address, ':')+1:])
	second.Env = e.env
	if out, err := second.CombinedOutput(); err == nil || !strings.Contains(string(out), "is in use") || !strings.Contains(string(out), "--port 0 picks a free one") {
		t.Errorf("the same port again: %v\n%s", err, out)
	}

	stranger, _ := connectACP(t, address, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}`)
	stranger.waitForMessage(`"code":-32000`, "the first line must be the token")

	c, conn := connectACP(t, address, strings.TrimSpace(string(token)))
	session := c.openAtWork(e)
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}

	// Its turn and its session end, so that another client can load it.
	c, _ = connectACP(t, address, strings.TrimSpace(string(token)))
	c.send(`{"jsonrpc":"2.0","id":3,"method":"session/load","params":{"sessionId":%q,"cwd":%q,"mcpServers":[]}}`, session, e.workspace)
	c.waitForMessage(`"id":3,`, `"modes"`)
	c.prompt(4, session, "rehearsal: text here")
	c.waitForMessage("agent_message_chunk", `"text":"here"`)
	c.waitForMessage(`"stopReason":"end_turn"`)

	if err := server.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := server.cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
	programtest.NoneLeft(t, e.home)
}

// connectACP connects to a server and sends a first line.
func connectACP(t *testing.T, address, first string) (*acpProcess, net.Conn) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // it may have been closed
	p := &acpProcess{t: t, in: conn, lines: make(chan string, 1000)}
	go func() {
		defer close(p.lines)
		s := bufio.NewScanner(conn)
		s.Buffer(nil, 16<<20)
		for s.Scan() {
			p.lines <- s.Text()
		}
	}()
	if _, err := fmt.Fprintln(conn, first); err != nil {
		t.Fatal(err)
	}
	return p, conn
}
