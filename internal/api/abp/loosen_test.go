package abp_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/api/abp/contract"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/audit"
)

// policy is the user's own policy file.
func (s *stage) policy(t *testing.T, text string) {
	t.Helper()
	home := s.opts.Config.Home
	if err := os.MkdirAll(home, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, "policy.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// An order cannot turn a command that the user allows into another.
func TestOrderEnvironmentCannotLoosen(t *testing.T) {
	for _, name := range []string{"PATH", "BASH_FUNC_ls%%", "BASH_ENV", "LD_PRELOAD", "GIT_EXTERNAL_DIFF", "npm_config_script_shell", "COPILOT_BRIDGE_HOME"} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.policy(t, "shell: {allow: [\"ls *\", ls]}\n")
			s.file(t, "bin/ls", "#!/bin/sh\ntouch \""+filepath.Join(s.ws, "ran")+"\"\n")
			value := filepath.Join(s.ws, "bin")
			if strings.HasPrefix(name, "BASH_FUNC") {
				value = "() { touch ran; }"
			}
			f := s.run(t, s.order(script(tool("bash", map[string]any{"command": "ls", "description": "x"}), "next", "text ok"),
				map[string]any{"config": map[string]any{"env": map[string]string{"FINE": "1", name: value}}})).fatal(t)
			if !strings.Contains(f.Error, `"`+name+`" cannot be set`) || strings.Contains(f.Error, value) {
				t.Errorf("fatal: %s", f.Error)
			}
			if _, err := os.Stat(filepath.Join(s.ws, "ran")); err == nil {
				t.Error("the order's program ran")
			}
		})
	}
}

// A server of an order is a program that is started, or a host that is
// reached: the user's policy decides, whatever the order's own says.
func TestOrderServersAreJudged(t *testing.T) {
	t.Parallel()
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	touch := func(s *stage) map[string]any {
		return map[string]any{"command": "/bin/sh", "args": []string{"-c", "touch ran"}, "env": map[string]string{"TOKEN": "s3cret-value"}}
	}
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "file"), []byte("canary-of-a-file"), 0o600); err != nil {
		t.Fatal(err)
	}
	fixed := func(server map[string]any) func(*stage) map[string]any {
		return func(*stage) map[string]any { return server }
	}
	tests := []struct {
		name, policy, reason string
		server               func(s *stage) map[string]any
	}{
		{"a command without any policy", "", "shell.allow", touch},
		{"a command that only reads, without any policy", "", "shell.allow", fixed(map[string]any{"command": "cat", "args": []string{"a.txt"}})},
		{"a host without any policy", "", `add "127.0.0.1" to network.allow`, fixed(map[string]any{"url": "http://" + listener.Addr().String() + "/mcp"})},
		{"a host that a command names", "shell: {allow: ['*']}\n", "network.allow", fixed(map[string]any{"command": "no-such-program", "args": []string{"http://" + listener.Addr().String() + "/mcp"}})},
		{"a file outside", "shell: {allow: ['*']}\n", "outside the workspace", fixed(map[string]any{"command": "date", "args": []string{"-f", filepath.Join(outside, "file")}})},
		{"a directory outside", "shell: {allow: ['*']}\n", "outside the workspace", fixed(map[string]any{"command": "cat", "args": []string{"file"}, "cwd": outside})},
		{"a directory outside by a relative name", "shell: {allow: ['*']}\n", "outside the workspace", fixed(map[string]any{"command": "cat", "args": []string{"file"}, "cwd": "../home"})},
		{"a command that is not allowed", "shell: {allow: [ls]}\n", "shell.allow", touch},
		{"a command that is denied", "shell: {deny: [touch]}\n", "shell.deny", touch},
		{"an allowed one with another PATH", "shell: {allow: [ls]}\n", "shell.allow", func(s *stage) map[string]any {
			s.file(t, "ls", "#!/bin/sh\ntouch ran\n")
			return map[string]any{"command": "ls", "env": map[string]string{"PATH": s.ws}}
		}},
		{"a host that is denied", "network: {deny: [127.0.0.1]}\n", "network.deny", func(*stage) map[string]any {
			return map[string]any{"url": "http://" + listener.Addr().String() + "/mcp?key=s3cret-value", "headers": map[string]string{"Authorization": "s3cret-value"}}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t)
			if tt.policy != "" {
				s.policy(t, tt.policy)
			}
			f := s.run(t, s.order("rehearsal: text ok", map[string]any{"policy": map[string]any{"allowed_tools": []string{"*"}, "allow_network": []string{"*"}},
				"config": map[string]any{"vendor": map[string]any{"copilot": map[string]any{"mcpServers": map[string]any{"theirs": tt.server(s)}}}}})).fatal(t)
			if !strings.Contains(f.Error, `MCP server "theirs" may not be used`) || !strings.Contains(f.Error, tt.reason) || strings.Contains(f.Error, "canary") {
				t.Errorf("fatal: %s", f.Error)
			}
			if _, err := os.Stat(filepath.Join(s.ws, "ran")); err == nil {
				t.Error("the server was started")
			}
			var recorded string
			files, err := filepath.Glob(filepath.Join(s.opts.Config.AuditLogDir, "audit-*.jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range files {
				data, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				recorded += string(data)
			}
			if !strings.Contains(recorded, `"mcp.server.`) || !strings.Contains(recorded, string(audit.HookPreTool)) || strings.Contains(recorded, "s3cret-value") {
				t.Errorf("on record: %s", recorded)
			}
		})
	}
	if err := listener.SetDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if c, err := listener.Accept(); err == nil {
		t.Errorf("%s was reached", c.LocalAddr())
	}
	t.Run("one that the user allows", func(t *testing.T) {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		s := newStage(t)
		s.policy(t, "shell: {allow: [\""+self+"\"]}\n")
		r := s.do(t, s.order(script(tool("theirs-echo", map[string]any{"text": "there"}), "next", "text ok"), map[string]any{"policy": map[string]any{"disallowed_tools": []string{"Bash"}},
			"config": map[string]any{"vendor": map[string]any{"copilot": map[string]any{"mcpServers": map[string]any{
				"theirs": map[string]any{"command": self, "env": map[string]string{"ABP_TEST_MCP": "1"}, "timeout": 10000}}}}}}))
		if results := of(r, contract.ToolResult); len(results) != 1 || !strings.Contains(string(contract.AppendValue(nil, results[0].Output)), "echo: there") {
			t.Errorf("%+v", r.Trace)
		}
	})
}
