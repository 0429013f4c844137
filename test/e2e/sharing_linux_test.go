package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// Many connections that send nothing, or send slowly, do not block a client
// with the token, and do not close an open WebSocket.
func TestServeInACrowd(t *testing.T) {
	const token = "t0ken-of-the-crowd"
	s := serveFiles(t, nil, []string{"COPILOT_BRIDGE_TOKEN=" + token})
	auth := http.Header{"Authorization": {"Bearer " + token}}
	bus, status := s.dial(t, auth)
	if bus == nil {
		t.Fatalf("the tool bus answers %d", status)
	}
	for name, data := range map[string]string{
		"silent":       "",
		"slow headers": "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nX-",
		"slow bodies":  "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer wrong\r\nContent-Length: 100000\r\n\r\n{",
	} {
		t.Run(name, func(t *testing.T) {
			for range 1200 {
				c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = c.Close() })
				_, _ = io.WriteString(c, data) // may already be closed
			}
			began := time.Now()
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/v1/models", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			request.Header = auth.Clone()
			client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
			answer, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close()
			if took := time.Since(began); answer.StatusCode != http.StatusOK || took > 20*time.Second {
				t.Errorf("%d after %s", answer.StatusCode, took)
			}
		})
	}
	bus.send(`{"jsonrpc":"2.0","id":7,"method":"mcp.server.status"}`)
	bus.waitForMessage(`"id":7`)
}

// Another user of the machine cannot use a server without a token: neither
// HTTP, nor the tool bus, nor an MCP server.
func TestServeAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can start a program as another user")
	}
	s := serveFiles(t, map[string]string{"secret.txt": "words"}, nil, "--rpc-port", "0")
	mcp := startCommand(t, s, "mcp", "copilot", "--http", "0", "--json", "--demo")
	dir, err := os.MkdirTemp("", "e2e-other-") // t.TempDir is readable only for this user
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	theirs := filepath.Join(dir, "copilot-bridge")
	data, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(dir, 0o777), os.WriteFile(theirs, data, 0o755)); err != nil {
		t.Fatal(err)
	}
	as := func(uid uint32, url string) (string, error) {
		cmd := exec.CommandContext(t.Context(), theirs, "rpc", "mcp.fs.read", `{"path":"secret.txt"}`, "--url", url)
		cmd.Dir, cmd.Env = dir, []string{"HOME=" + filepath.Join(dir, fmt.Sprint(uid)), "PATH=" + os.Getenv("PATH")}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, url := range []string{s.url, s.rpc, mcp} {
		out, err := as(65534, url)
		if err == nil || strings.Contains(out, "words") {
			t.Errorf("%s: another user gets in: %s", url, out)
		}
	}
	if out, err := as(65534, s.rpc); !strings.Contains(out, "COPILOT_BRIDGE_TOKEN") {
		t.Errorf("the refusal says too little: %s (%v)", out, err)
	}
	if out, err := as(0, s.rpc); err != nil || !strings.Contains(out, "words") {
		t.Errorf("the same user: %s (%v)", out, err)
	}
}

// startCommand starts a command beside a server and returns the URL that it
// prints.
func startCommand(t *testing.T, s *served, args ...string) string {
	t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Dir, cmd.Env = s.dir, s.env
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	var address struct{ URL string }
	if err := json.NewDecoder(out).Decode(&address); err != nil {
		t.Fatal(err)
	}
	return address.URL
}

// runJSONLines runs a command that reads and writes lines of JSON and returns
// its output.
func runJSONLines(t *testing.T, files map[string]string, input func(dir string) string, args ...string) (out, dir string) {
	t.Helper()
	home, dir := t.TempDir(), t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if rest, ok := strings.CutPrefix(name, "~/"); ok {
			path = filepath.Join(home, ".copilot-bridge", rest)
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(input(dir))
	cmd.Env = []string{"HOME=" + home, "COPILOT_CLI_PATH=" + runtimetest.Path(t), "PATH=" + os.Getenv("PATH")}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &stdout, &stderr, patience
	_ = cmd.Run() // only the output matters
	t.Logf("standard error:\n%s", &stderr)
	return stdout.String(), dir
}

// The configuration in a work order or from an ACP client cannot loosen the
// user's policy.
func TestCallersCannotLoosen(t *testing.T) {
	order := func(config string) func(dir string) string {
		return func(dir string) string {
			return fmt.Sprintf(`{"t":"run","id":"0b5f6a34-52a5-4f0c-9a1e-6d1d3a1c9f10","work_order":{"id":"0b5f6a34-52a5-4f0c-9a1e-6d1d3a1c9f11","task":"rehearsal: tool bash {\"command\":\"ls\",\"description\":\"x\"}","workspace":{"root":%q,"mode":"pass_through"},"config":%s}}`+"\n",
				dir, strings.ReplaceAll(config, "DIR", dir))
		}
	}
	session := func(servers string) func(dir string) string {
		return func(dir string) string {
			return `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}` + "\n" +
				fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":%q,"mcpServers":%s}}`+"\n", dir, strings.ReplaceAll(servers, "DIR", dir))
		}
	}
	const evil = "#!/bin/sh\ntouch \"$(dirname \"$0\")/ran\"\n"
	files := func(policy string) map[string]string {
		return map[string]string{"~/policy.yaml": policy, "ls": evil, "server": evil}
	}
	abp, acp := []string{"abp", "--demo"}, []string{"acp", "--demo"}
	allowLs := "shell: {allow: [ls]}\n"
	for _, tt := range []struct {
		name, policy string
		input        func(dir string) string
		args         []string
		want         string
	}{
		{"PATH of an order", allowLs, order(`{"env":{"PATH":"DIR"}}`), abp, `\"PATH\" cannot be set`},
		{"a function of an order", allowLs, order(`{"env":{"BASH_FUNC_ls%%":"() { touch ran; }"}}`), abp, `\"BASH_FUNC_ls%%\" cannot be set`},
		{"a start-up file of an order", allowLs, order(`{"env":{"BASH_ENV":"DIR/ls"}}`), abp, `\"BASH_ENV\" cannot be set`},
		{"node's options in an order", allowLs, order(`{"env":{"NODE_OPTIONS":"--require DIR/ls"}}`), abp, `\"NODE_OPTIONS\" cannot be set`},
		{"a server of an order", allowLs, order(`{"vendor":{"copilot":{"mcpServers":{"s":{"command":"DIR/server"}}}}}`), abp, `MCP server \"s\" may not be used`},
		{"a server by its other name", "shell: {deny: [sh]}\n", order(`{"vendor":{"copilot":{"mcp_servers":{"s":{"command":"sh","args":["DIR/server"]}}}}}`), abp, `MCP server \"s\" may not be used`},
		{"an allowed server with another PATH", allowLs, order(`{"vendor":{"copilot":{"mcpServers":{"s":{"command":"ls","env":{"PATH":"DIR"}}}}}}`), abp, `MCP server \"s\" may not be used`},
		{"a remote server of an order", "network: {allow: [good.example]}\n", order(`{"vendor":{"copilot":{"mcpServers":{"s":{"url":"http://evil.example/mcp"}}}}}`), abp, `MCP server \"s\" may not be used`},
		{"a server of an ACP client", allowLs, session(`[{"name":"s","command":"DIR/server","args":[],"env":[]}]`), acp, `MCP server \"s\" may not be used`},
		{"a remote server of an ACP client", "network: {deny: [evil.example]}\n", session(`[{"type":"http","name":"s","url":"http://evil.example/mcp","headers":[]}]`), acp, `MCP server \"s\" may not be used`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, dir := runJSONLines(t, files(tt.policy), tt.input, tt.args...)
			if !strings.Contains(out, tt.want) {
				t.Errorf("%s", out)
			}
			if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
				t.Error("the caller's program ran")
			}
		})
	}
	t.Run("what is fine", func(t *testing.T) {
		out, _ := runJSONLines(t, map[string]string{"~/policy.yaml": "shell: {allow: [\"printenv *\"]}\n", "a": ""}, func(dir string) string {
			return strings.Replace(order(`{"env":{"FROM_ORDER":"forty-two"}}`)(dir), `\"ls\"`, `\"printenv FROM_ORDER\"`, 1)
		}, abp...)
		if !strings.Contains(out, "forty-two") || !strings.Contains(out, `"t":"final"`) {
			t.Errorf("%s", out)
		}
	})
}
