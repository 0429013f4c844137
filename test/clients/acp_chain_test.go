//go:build unix

package clients

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// innerBridge returns the command that starts a second bridge as the ACP agent
// of the first. It has the same settings, its own home, and uses the runtime
// directly.
func (e *editor) innerBridge(t *testing.T) []string {
	t.Helper()
	args := []string{"-u", "ABP_COPILOT_TRANSPORT"}
	for _, kv := range e.env {
		if strings.HasPrefix(kv, "COPILOT_BYOK_") || strings.HasPrefix(kv, "COPILOT_CLI_PATH=") {
			args = append(args, kv) // a bridge does not pass these on to its agents
		}
	}
	args = append(args, "COPILOT_BRIDGE_HOME="+filepath.Join(e.home, "inner"), binary, "acp")
	raw, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	return []string{"ABP_COPILOT_TRANSPORT=acp", "ABP_COPILOT_CMD=env", "ABP_COPILOT_ARGS=" + string(raw)}
}

// TestACPChain runs a bridge that uses a second bridge as its ACP agent. A
// permission request passes both guards, and both write it to their audit logs.
func TestACPChain(t *testing.T) {
	e := newEditor(t)
	e.env = append(e.env, e.innerBridge(t)...)
	p := e.startACP(t)
	session := p.open(e.workspace)
	p.prompt(2, session, "rehearsal: text I set to work.\n"+call(t, "create", map[string]string{"path": filepath.Join(e.workspace, "made.txt"), "file_text": "made\n"})+
		call(t, "bash", map[string]string{"command": "touch chained.txt"})+"rehearsal: next\nrehearsal: text It is done.")
	// Both guards ask about the command, but the client is asked only once: the
	// outer guard answers the inner one's request.
	for asked := 0; ; asked++ {
		l := p.waitForMessage(`{"jsonrpc":"2.0","id":`)
		if strings.Contains(l, `"stopReason":"end_turn"`) {
			if asked != 1 {
				t.Errorf("asked %d times", asked)
			}
			break
		}
		var request struct {
			ID     json.RawMessage
			Method string
		}
		if err := json.Unmarshal([]byte(l), &request); err != nil || request.Method != "session/request_permission" || !strings.Contains(l, "touch chained.txt") {
			t.Fatalf("%v: %s", err, l)
		}
		p.send(`{"jsonrpc":"2.0","id":%s,"result":{"outcome":{"outcome":"selected","optionId":"allow_once"}}}`, request.ID)
	}
	for _, name := range []string{"made.txt", "chained.txt"} {
		if _, err := os.Stat(filepath.Join(e.workspace, name)); err != nil {
			t.Error(err)
		}
	}
	p.prompt(3, session, "rehearsal: chunks on |and on \nrehearsal: silence")
	p.waitForMessage("agent_message_chunk", "on")
	p.send(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":%q}}`, session)
	p.waitForMessage(`"id":3,`, `"stopReason":"cancelled"`)
	if err := p.in.Close(); err != nil {
		t.Fatal(err)
	}
	for l := range p.lines {
		if !json.Valid([]byte(l)) {
			t.Errorf("standard output has the line %q", l)
		}
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("the program exited with %v", err)
	}
	for _, home := range []string{"bridge", "inner"} {
		logs, err := filepath.Glob(filepath.Join(e.home, home, "audit", "audit-*.jsonl"))
		if err != nil || len(logs) == 0 {
			t.Errorf("%s has no audit log: %v", home, err)
			continue
		}
		if text, err := os.ReadFile(logs[0]); err != nil || !strings.Contains(string(text), "touch chained.txt") {
			t.Errorf("the command is not in the audit log of %s: %v", home, err)
		}
	}
}

// TestACPLoop configures a bridge as its own agent. The third nested bridge
// refuses to start, and the first reports why.
func TestACPLoop(t *testing.T) {
	e := newEditor(t)
	e.env = append(e.env, "ABP_COPILOT_TRANSPORT=acp", "ABP_COPILOT_CMD="+binary, "ABP_COPILOT_ARGS=acp")
	p := e.startACP(t)
	p.send(`{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":%q,"mcpServers":[]}}`, e.workspace)
	p.waitForMessage(`"id":1,`, `"error"`, "that is a loop")
	if err := p.in.Close(); err != nil {
		t.Fatal(err)
	}
	for range p.lines {
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("the program exited with %v", err)
	}
}
