package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// BenchmarkAgentMemory measures the memory of the bridge and its runtimes over
// agent turns via HTTP, each in a new conversation. After 2,000 turns it may be
// at most 1.5 times the memory after 200.
func BenchmarkAgentMemory(b *testing.B) {
	ctx, m := context.Background(), startModel(b)
	s := startServe(b, m)
	for b.Loop() {
		agentMemory(b, "2,000 agent turns", s.pid, func(i int) error {
			_, _, err := s.ask(ctx, "agent/"+m.Model(), message{"user", fmt.Sprintf("task %d\n%s", i, prompt)})
			return err
		})
	}
}

// BenchmarkTaskMemory measures the same for tasks of the MCP server.
func BenchmarkTaskMemory(b *testing.B) {
	pid, task := startMCP(b)
	for b.Loop() {
		agentMemory(b, "2,000 MCP tasks", pid, task)
	}
}

// agentMemory reports the memory of a bridge and all processes below it,
// measured every ten turns.
func agentMemory(b *testing.B, what string, pid int, turn func(i int) error) {
	b.Helper()
	early, most, mostRuntimes := 0, 0, 0
	for i := 1; i <= 2000; i++ {
		if err := turn(i); err != nil {
			b.Fatal(err)
		}
		if i%10 != 0 {
			continue
		}
		kb := treeKB(pid)
		if i == 200 {
			early = kb
		}
		if i >= 200 {
			most, mostRuntimes = max(most, kb), max(mostRuntimes, runtimes(pid))
		}
	}
	ratio := float64(most) / float64(early)
	report(what+": after 200, most after", fmt.Sprintf("%d MB", early/1024), fmt.Sprintf("%d MB", most/1024),
		fmt.Sprintf("%.2f×, bridge %d MB, %d runtimes", ratio, statusKB(pid, "VmRSS:")/1024, mostRuntimes), "≤ 1.5×", ratio <= 1.5)
	b.ReportMetric(ratio, "times-of-200")
}

// startMCP starts `mcp copilot` and returns a function that runs a task. The
// model runs in a separate process: a model in this process, the parent of the
// bridge, would make tasks look like nested calls.
func startMCP(b *testing.B) (pid int, task func(i int) error) {
	b.Helper()
	home := b.TempDir()
	cmd := exec.Command(binary(b), "mcp", "copilot", "--demo")
	cmd.Dir, cmd.Stderr = b.TempDir(), os.Stderr
	cmd.Env = append(os.Environ(), "HOME="+home, "COPILOT_BRIDGE_HOME="+home, "COPILOT_CLI_PATH="+runtimetest.Path(b))
	in, err := cmd.StdinPipe()
	out, failed := cmd.StdoutPipe()
	if err := errors.Join(err, failed, cmd.Start()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			b.Errorf("mcp: %v", err)
		}
	})
	enc, lines := json.NewEncoder(in), bufio.NewReader(out)
	call := func(id int, method string, params any) error {
		if err := enc.Encode(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params}); err != nil {
			return err
		}
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return err
			}
			var answer struct {
				ID     int `json:"id"`
				Result struct {
					IsError bool `json:"isError"`
				} `json:"result"`
				Error json.RawMessage `json:"error"`
			}
			if err := json.Unmarshal(line, &answer); err != nil {
				return err
			}
			if answer.ID != id {
				continue // a notification
			}
			if answer.Error != nil || answer.Result.IsError {
				return fmt.Errorf("%s: %s", method, line)
			}
			return nil
		}
	}
	if err := call(1, "initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "bench", "version": "1"}}); err != nil {
		b.Fatal(err)
	}
	if err := enc.Encode(map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"}); err != nil {
		b.Fatal(err)
	}
	return cmd.Process.Pid, func(i int) error {
		return call(i+1, "tools/call", map[string]any{"name": "copilot_code_task", "arguments": map[string]any{"prompt": fmt.Sprintf("task %d\n%s", i, prompt)}})
	}
}
