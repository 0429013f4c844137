package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/abp/contract"
	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// BenchmarkReceiptHash measures how many receipts of a short run, with 16
// events each, are hashed per second on one core. The target is at least
// 10,000. Reading them first, as `abp verify` does, is measured as well.
func BenchmarkReceiptHash(b *testing.B) {
	const event = `{"ts":"2030-01-01T00:00:00.%03dZ","type":"tool_result","tool_name":"bash","tool_use_id":"call_%d","output":{"text":"some output \u2028 of a tool","bytes":1234,"share":0.25},"is_error":false}`
	var trace []string
	for i := range 16 {
		trace = append(trace, fmt.Sprintf(event, i, i))
	}
	data := []byte(`{"meta":{"run_id":"0b5f6a34-52a5-4f0c-9a1e-6d1d3a1c9f10","work_order_id":"7c2b1d60-0f5c-4f62-8c47-0a9d7d1b2e33","contract_version":"abp/v0.1",
		"started_at":"2030-01-01T00:00:00Z","finished_at":"2030-01-01T00:00:01.5Z","duration_ms":1500},"backend":{"id":"github_copilot_sdk","backend_version":"1","adapter_version":"1"},
		"capabilities":{"streaming":"native","tool_read":"native","tool_ask_user":{"restricted":{"reason":"nobody"}}},"mode":"mapped","usage_raw":{"total":{"input_tokens":12,"cost":0.1}},
		"usage":{"input_tokens":12,"output_tokens":34,"estimated_cost_usd":0.015},"trace":[` + strings.Join(trace, ",") + `],"artifacts":[{"kind":"tool_output","path":"x"}],
		"verification":{"git_diff":"-a\n+b\n","git_status":" M a\n","harness_ok":true},"outcome":"complete","receipt_sha256":null}`)
	for b.Loop() {
		// Small batches limit the influence of other work on the machine.
		const lots, lot = 200, 100
		for _, what := range []string{"hashed", "read and hashed"} {
			r, err := contract.ParseReceipt(data)
			if err != nil {
				b.Fatal(err)
			}
			var took []time.Duration
			for range lots {
				began := time.Now()
				for range lot {
					if what != "hashed" {
						if r, err = contract.ParseReceipt(data); err != nil {
							b.Fatal(err)
						}
					}
					_ = r.Hash()
				}
				took = append(took, time.Since(began))
			}
			rate := lot / percentile(took, 0.5).Seconds()
			report(fmt.Sprintf("receipts of %d bytes %s", len(data), what), "", fmt.Sprintf("%.0f/s", rate), "", "≥ 10,000/s", rate >= 10_000)
			b.ReportMetric(rate, strings.ReplaceAll(what, " ", "-")+"/s")
		}
	}
}

// BenchmarkSidecar compares a turn through the sidecar, from `run` on standard
// input to `final` on standard output, with the same turn through the engine
// with the same guard. The median may be at most 5 ms longer. Both open a new
// session on the same warm runtime, and they alternate. The sidecar also judges
// the order, adds the session to the list, runs git and seals the receipt.
func BenchmarkSidecar(b *testing.B) {
	for b.Loop() {
		for _, repository := range []bool{false, true} {
			benchmarkSidecar(b, repository)
		}
	}
}

func benchmarkSidecar(b *testing.B, repository bool) {
	b.Helper()
	car, dir := startSidecar(b, repository)
	ways := []func() (time.Duration, error){
		func() (time.Duration, error) { return engineTurn(car.Bridge(), dir) },
		func() (time.Duration, error) { return sidecarTurn(car, dir) },
	}
	took, order := make([][]time.Duration, len(ways)), rand.New(rand.NewPCG(3, 4))
	for i := range 120 {
		for _, k := range order.Perm(len(ways)) {
			d, err := ways[k]()
			if err != nil {
				b.Fatal(err)
			}
			if i >= 20 { // skip the warm-up
				took[k] = append(took[k], d)
			}
		}
	}
	x, y := percentile(took[0], 0.5), percentile(took[1], 0.5)
	where := "a directory"
	if repository {
		where = "a git repository"
	}
	report("ABP sidecar over the engine, in "+where, ms(x), ms(y), "+"+ms(y-x), "≤ +5 ms", y-x <= 5*time.Millisecond)
	b.ReportMetric(float64(y-x)/float64(time.Millisecond), "ms-above-engine-in-"+strings.ReplaceAll(where, " ", "-"))
}

func startSidecar(b *testing.B, repository bool) (*app.Sidecar, string) {
	b.Helper()
	m, home := startModel(b), b.TempDir()
	dir, err := filepath.EvalSymlinks(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	if repository {
		if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("a\n"), 0o600); err != nil {
			b.Fatal(err)
		}
		for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "first"}} {
			cmd := exec.Command("git", args...)
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				b.Fatalf("git %v: %v %s", args, err, out)
			}
		}
	}
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	environ := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "COPILOT_BRIDGE_HOME=" + filepath.Join(home, "bridge"), "COPILOT_CLI_PATH=" + runtimetest.Path(b),
		"COPILOT_BYOK_PROVIDER=openai", "COPILOT_BYOK_BASE_URL=" + m.URL(), "COPILOT_BYOK_API_KEY=" + m.Key(), "COPILOT_BYOK_MODEL=" + m.Model()}
	cfg, err := config.Load(config.Options{Environ: environ, Dir: dir, HomeDir: home})
	if err != nil {
		b.Fatal(err)
	}
	car := app.StartSidecar(context.Background(), app.Options{Config: cfg, Self: self, Version: "bench", Environ: environ, UserDir: home, Logger: slog.New(slog.DiscardHandler)})
	if car.Bridge() == nil {
		b.Fatal(car.Describe().Broken)
	}
	b.Cleanup(func() { _ = car.Close(context.Background()) })
	return car, dir
}

// engineTurn opens a session of the engine and runs one turn.
func engineTurn(br *app.Bridge, dir string) (took time.Duration, err error) {
	ctx := context.Background()
	gate, err := br.Gate(app.Guarding{Workspace: dir, Door: "bench", Asker: approval.Nobody{}, Defaults: policy.DefaultsABP()})
	if err != nil {
		return 0, err
	}
	spec := br.Spec(bridge.ProfileAgent, dir)
	spec.Gate = gate
	began := time.Now()
	s, err := br.Engine.Open(ctx, engine.Request{Spec: spec, Door: "bench"})
	if err != nil {
		return 0, err
	}
	for ev, err := range s.Send(ctx, bridge.Prompt{Text: prompt}) {
		if err != nil {
			return 0, err
		}
		if _, ok := ev.(bridge.TurnEnded); ok {
			took = time.Since(began)
		}
	}
	return took, s.Close(ctx)
}

// sidecarTurn runs the same turn through the sidecar, as a host does.
func sidecarTurn(car *app.Sidecar, dir string) (took time.Duration, err error) {
	in, toCar, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	fromCar, out, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	done := make(chan error, 1)
	go func() {
		err := car.Serve(context.Background(), in, out, dir)
		done <- errors.Join(err, out.Close())
	}()
	defer func() { err = errors.Join(err, toCar.Close(), fromCar.Close()) }()
	lines := bufio.NewReader(fromCar)
	if _, err := lines.ReadString('\n'); err != nil { // the hello message
		return 0, err
	}
	line, err := json.Marshal(map[string]any{"t": "run", "id": fmt.Sprint(rand.Uint64()), "work_order": map[string]any{
		"id": "11111111-2222-4333-8444-555555555555", "task": prompt, "workspace": map[string]any{"root": dir}}})
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if _, err := toCar.Write(append(line, '\n')); err != nil {
		return 0, err
	}
	for {
		text, err := lines.ReadString('\n')
		if err != nil {
			return 0, err
		}
		if strings.HasPrefix(text, `{"t":"final"`) {
			took = time.Since(began)
			if !strings.Contains(text, `"outcome":"complete"`) {
				return 0, fmt.Errorf("not complete: %.300s", text)
			}
			return took, <-done
		}
		if strings.HasPrefix(text, `{"t":"fatal"`) {
			return 0, fmt.Errorf("%s", text)
		}
	}
}
