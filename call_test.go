package copilotbridge_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	copilotbridge "github.com/copilot-bridge/copilot-bridge"
	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// A direct call of the runtime obeys the guard: what acts is asked about, as the
// command that it is; a call of a tool is judged as the model's own would be.
func TestCall(t *testing.T) {
	dir := t.TempDir()
	var asked []string
	consent := copilotbridge.Deny
	c := open(t, copilotbridge.Options{Dir: dir, Settings: map[string]string{"sandbox": "off"},
		Approve: func(_ context.Context, a copilotbridge.Approval) (copilotbridge.Consent, error) {
			asked = append(asked, a.Title+"\n"+a.Detail)
			return consent, nil
		}})
	s := session(t, c, copilotbridge.SessionOptions{})
	call := func(method string, params any, want bridge.Code, question string) string {
		t.Helper()
		asked = nil
		raw, err := s.Call(t.Context(), method, params)
		if bridge.CodeOf(err) != want {
			t.Errorf("%s: %s, %v, want %q", method, raw, err, want)
		}
		if all := strings.Join(asked, "\n"); question == "" != (all == "") || !strings.Contains(all, question) {
			t.Errorf("%s: asked %q, want %q", method, all, question)
		}
		return string(raw)
	}
	made := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}

	call("session.name.set", map[string]any{"name": "the parser"}, "", "")
	if got := call("session.name.get", nil, "", ""); got != `{"name":"the parser"}` {
		t.Errorf("the name is %s", got)
	}
	call("session.tools.initializeAndValidate", nil, "", "")
	shell := map[string]any{"command": "touch made", "requestId": "1"}
	tool := map[string]any{"name": "bash", "arguments": map[string]any{"command": "touch tool", "description": "x"}, "toolCallId": "1"}
	call("session.shell.executeUserRequested", shell, bridge.CodeDenied, "touch made")
	call("session.mode.set", map[string]any{"mode": "plan"}, bridge.CodeDenied, "session.mode.set")
	if got := call("session.tools.execute", tool, "", "touch tool"); !strings.Contains(got, "enied") {
		t.Errorf("a denied tool says %s", got)
	}
	if made("made") || made("tool") {
		t.Error("what was denied has run")
	}
	consent = copilotbridge.AllowOnce
	call("session.shell.executeUserRequested", shell, "", "touch made")
	call("session.tools.execute", tool, "", "touch tool")
	if !made("made") || !made("tool") {
		t.Errorf("what was allowed has not run: %v, %v", made("made"), made("tool"))
	}
	for _, method := range []string{"session.permissions.setApproveAll", "session.options.update", "session.send", "sessionFs.writeFile", "session.nosuch", "Session.Shell.Exec", ""} {
		call(method, map[string]any{"enabled": true}, bridge.CodeDenied, "")
	}
	call("session.name.set", map[string]any{"nam": 1}, bridge.CodeInvalid, "")
	call("session.name.set", []int{1}, bridge.CodeInvalid, "")
	call("session.name.set", func() {}, bridge.CodeInvalid, "")

	chat := session(t, c, copilotbridge.SessionOptions{Chat: true})
	if _, err := chat.Call(t.Context(), "session.name.get", nil); bridge.CodeOf(err) != bridge.CodeUnsupported {
		t.Errorf("in a chat: %v", err)
	}
}
