package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/goccy/go-yaml"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// metricsOf reads the metrics of a server as Prometheus does.
func metricsOf(t *testing.T, url, token string) map[string]*dto.MetricFamily {
	t.Helper()
	status, body := fetch(t, http.MethodGet, url+"/metrics", token, "")
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(bytes.NewReader(body))
	if err != nil || status != http.StatusOK {
		t.Fatalf("%d: %v\n%s", status, err, body)
	}
	return families
}

func fetch(t *testing.T, method, url, token, body string) (status int, answer []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, data
}

// value is the sum of a metric's series that have all the labels, given as
// name=value. Of a histogram it is the number of values.
func value(families map[string]*dto.MetricFamily, name string, labels ...string) (sum float64) {
	for _, m := range families["copilot_bridge_"+name].GetMetric() {
		have := ""
		for _, l := range m.GetLabel() {
			have += " " + l.GetName() + "=" + l.GetValue() + " "
		}
		fits := true
		for _, l := range labels {
			fits = fits && strings.Contains(have, " "+l+" ")
		}
		if fits {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

// What happens in a turn is in the metrics, while it happens and afterwards.
func TestMetrics(t *testing.T) {
	t.Parallel()
	const token = "a-token-for-the-metrics"
	home, dir := t.TempDir(), t.TempDir()
	x := atTerminalWith(t, []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TERM=xterm", "COPILOT_CLI_PATH=" + runtimetest.Path(t), "COPILOT_BRIDGE_SANDBOX=off",
		"COPILOT_BRIDGE_TOKEN=" + token}, dir, "serve", "--port", "0", "--demo", "--read-write")
	waitUntil(t, "the address is shown", func() bool { return printedURL.MatchString(x.screen.String()) })
	url := printedURL.FindString(x.screen.String())
	for _, wrong := range []string{"", "wrong"} {
		if status, body := fetch(t, http.MethodGet, url+"/metrics", wrong, ""); status != http.StatusUnauthorized || bytes.Contains(body, []byte("copilot_bridge_")) {
			t.Errorf("token %q: %d %s", wrong, status, body)
		}
	}
	script := strings.Join([]string{tool("view", map[string]string{"path": dir}), "rehearsal: next", tool("bash", map[string]string{"command": "touch made", "description": "x"}), "rehearsal: next",
		tool("create", map[string]string{"path": "/etc/no", "file_text": "x"}), "rehearsal: next", "rehearsal: text over"}, "\n")
	ask := func(model, prompt string) {
		if status, body := fetch(t, http.MethodPost, url+"/v1/chat/completions", token, `{"model":"`+model+`","messages":[{"role":"user","content":`+toJSON(prompt)+`}]}`); status != http.StatusOK {
			t.Errorf("%d: %s", status, body)
		}
	}
	done := make(chan struct{})
	go func() { defer close(done); ask("agent/rehearsal-1", script) }()
	x.waitFor(menu)
	now := metricsOf(t, url, token)
	if value(now, "approvals_waiting") != 1 || value(now, "open_turns", "profile=agent") != 1 || value(now, "tool_calls_total", "verdict=allow") != 1 || value(now, "runtime_memory_bytes") < 1e6 {
		t.Errorf("while a question waits: %v waiting, %v open, %v allowed, %v bytes", value(now, "approvals_waiting"), value(now, "open_turns", "profile=agent"),
			value(now, "tool_calls_total", "verdict=allow"), value(now, "runtime_memory_bytes"))
	}
	x.typeKeys("y\n")
	<-done
	ask("rehearsal-1", "hello")
	now = metricsOf(t, url, token)
	for _, want := range []struct {
		name   string
		labels string
		value  float64
	}{
		{"approvals_waiting", "", 0}, {"open_turns", "profile=agent", 0}, {"queued_turns", "", 0}, {"tool_calls_total", "verdict=allow", 1},
		{"tool_calls_total", "verdict=consent", 1}, {"tool_calls_total", "verdict=deny", 1}, {"requests_total", "status=200 door=/v1/chat/completions", 2},
		{"first_word_seconds", "door=/v1/chat/completions", 2}, {"turn_seconds", "door=/v1/chat/completions", 2}, {"runtime_restarts_total", "", 0},
	} {
		if got := value(now, want.name, strings.Fields(want.labels)...); got != want.value {
			t.Errorf("%s{%s} is %v, want %v", want.name, want.labels, got, want.value)
		}
	}
	if value(now, "tokens_total", "direction=in", "model=rehearsal-1") < 10 || value(now, "tokens_total", "direction=out") < 2 {
		t.Errorf("tokens: %v", now["copilot_bridge_tokens_total"])
	}
	checkDeployed(t, now)
	for _, proc := range processes(t, home, "copilot-runtime") {
		if exe, err := os.Readlink(proc + "/exe"); err != nil || filepath.Base(exe) != "copilot-runtime" {
			continue // a supervisor
		}
		if pid, err := strconv.Atoi(filepath.Base(proc)); err != nil || syscall.Kill(pid, syscall.SIGKILL) != nil {
			t.Error("a runtime cannot be killed")
		}
	}
	waitUntil(t, "the runtimes have ended", func() bool { return value(metricsOf(t, url, token), "runtime_memory_bytes") == 0 })
	ask("agent/rehearsal-1", "hello again")
	if now = metricsOf(t, url, token); value(now, "runtime_restarts_total") != 1 {
		t.Errorf("%v restarts", value(now, "runtime_restarts_total"))
	}
	if err := x.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	x.checkExit(0)
}

// checkDeployed makes sure that the dashboard and the alert rules name only
// metrics that exist.
func checkDeployed(t *testing.T, families map[string]*dto.MetricFamily) {
	t.Helper()
	var rules struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	var errs []error
	for file, to := range map[string]any{"prometheus-rules.yml": &rules, "grafana-dashboard.json": &dashboard} {
		data, err := os.ReadFile(filepath.Join("../../deploy", file))
		if err == nil && strings.HasSuffix(file, ".json") {
			err = json.Unmarshal(data, to)
		} else if err == nil {
			err = yaml.Unmarshal(data, to)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	exprs := map[string]string{}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			exprs["alert "+r.Alert] = r.Expr
		}
	}
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			exprs["panel "+p.Title+": "+target.Expr] = target.Expr
		}
	}
	if len(exprs) < 15 {
		t.Errorf("only %d expressions", len(exprs))
	}
	metric := regexp.MustCompile(`\b(copilot_bridge|process|go)_[a-z_]+`)
	for where, expr := range exprs {
		names := metric.FindAllString(expr, -1)
		if len(names) == 0 && !strings.Contains(expr, "up{") {
			t.Errorf("%s names no metric", where)
		}
		for _, name := range names {
			if families[name] == nil && families[strings.TrimSuffix(name, "_bucket")] == nil {
				t.Errorf("%s names %s, which does not exist", where, name)
			}
		}
	}
}
