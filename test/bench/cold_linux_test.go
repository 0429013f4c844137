package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"

	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// BenchmarkCold measures `run` in a new process. Its first token may come at
// most 150 ms after that of the bare runtime, and it may need at most 40 MB.
func BenchmarkCold(b *testing.B) {
	m := startModel(b)
	path := binary(b)
	for b.Loop() {
		var x, y []time.Duration
		var rss []int
		for range 10 {
			d, err := coldBare(b, m)
			if err != nil {
				b.Fatal(err)
			}
			x = append(x, d)
			d, kb, err := coldRun(b, path, m)
			if err != nil {
				b.Fatal(err)
			}
			y, rss = append(y, d), append(rss, kb)
		}
		p, q := percentile(x, 0.5), percentile(y, 0.5)
		report("cold run, first token p50", ms(p), ms(q), "+"+ms(q-p), "≤ +150 ms", q-p <= 150*time.Millisecond)
		peak := 0
		for _, kb := range rss {
			peak = max(peak, kb)
		}
		report("bridge process, peak RSS", "", fmt.Sprintf("%.1f MB", float64(peak)/1024), "", "≤ 40 MB", peak <= 40*1024)
		b.ReportMetric(float64(q-p)/float64(time.Millisecond), "ms-above-bare")
		b.ReportMetric(float64(peak)/1024, "MB-peak")
	}
}

// coldBare starts the runtime with the SDK alone, as an agent with its tools.
func coldBare(b *testing.B, m *demomodel.Server) (time.Duration, error) {
	b.Helper()
	ctx := context.Background()
	began := time.Now()
	c := copilot.NewClient(&copilot.ClientOptions{
		Connection: copilot.StdioConnection{Path: runtimetest.Path(b)}, BaseDirectory: b.TempDir(),
		UseLoggedInUser: copilot.Bool(false), LogLevel: "error",
		Env: append(os.Environ(), "COPILOT_OFFLINE=true", "COPILOT_PROVIDER_TYPE=openai", "COPILOT_PROVIDER_BASE_URL="+m.URL(),
			"COPILOT_PROVIDER_API_KEY=unused", "COPILOT_MODEL="+m.Model()),
	})
	defer func() { _ = c.Stop() }()
	if err := c.Start(ctx); err != nil {
		return 0, err
	}
	first := make(chan time.Duration, 1)
	s, err := c.CreateSession(ctx, &copilot.SessionConfig{Model: m.Model(), Streaming: copilot.Bool(true), WorkingDirectory: b.TempDir(),
		Provider:            &copilot.ProviderConfig{Type: "openai", BaseURL: m.URL(), APIKey: m.Key()},
		OnPermissionRequest: copilot.PermissionHandler.ApproveAll,
		OnEvent: func(e copilot.SessionEvent) {
			if _, ok := e.Data.(*rpc.AssistantMessageDeltaData); ok {
				select {
				case first <- time.Since(began):
				default:
				}
			}
		}})
	if err != nil {
		return 0, err
	}
	if _, err := s.Send(ctx, copilot.MessageOptions{Prompt: prompt}); err != nil {
		return 0, err
	}
	return <-first, nil
}

// coldRun runs the command and returns the time to its first token and its peak
// memory in KB.
func coldRun(b *testing.B, path string, m *demomodel.Server) (time.Duration, int, error) {
	b.Helper()
	home := b.TempDir()
	// The pause at the end leaves time to read the memory.
	cmd := exec.Command(path, "run", "--json", prompt+"\nrehearsal: delay 200ms")
	cmd.Dir = b.TempDir()
	cmd.Env = append(os.Environ(), "HOME="+home, "COPILOT_BRIDGE_HOME="+home, "COPILOT_CLI_PATH="+runtimetest.Path(b),
		"COPILOT_BYOK_PROVIDER=openai", "COPILOT_BYOK_BASE_URL="+m.URL(), "COPILOT_BYOK_API_KEY="+m.Key(), "COPILOT_BYOK_MODEL="+m.Model())
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, 0, err
	}
	var first time.Duration
	peak := 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), `{"type":"text"`) {
			if first == 0 {
				first = time.Since(began)
			}
			peak = statusKB(cmd.Process.Pid, "VmHWM:")
		}
	}
	if err := cmd.Wait(); err != nil || first == 0 {
		return 0, 0, fmt.Errorf("run: %w\n%s", err, stderr.Bytes())
	}
	return first, peak, nil
}
