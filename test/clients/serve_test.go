package clients

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/programtest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// patience is long because test machines are busy.
const patience = 3 * time.Minute

// served is a running `copilot-bridge serve` with its model.
type served struct {
	url   string
	model *demomodel.Server
}

// serve starts the binary with an empty home, these settings ("NAME=value") and
// a separate model provider. At the end of the test it must exit cleanly.
func serve(t *testing.T, settings ...string) *served {
	t.Helper()
	return serveWith(t, "", settings...)
}

// serveWith is serve with a config.yaml.
func serveWith(t *testing.T, config string, settings ...string) *served {
	t.Helper()
	m := provider(t)
	return launch(t, m, config, append([]string{"COPILOT_BYOK_PROVIDER=openai", "COPILOT_BYOK_BASE_URL=" + m.URL(),
		"COPILOT_BYOK_API_KEY=" + m.Key(), "COPILOT_BYOK_MODEL=" + m.Model()}, settings...)...)
}

// launch is serveWith, with the settings that say who answers among the others.
func launch(t *testing.T, m *demomodel.Server, config string, settings ...string) *served {
	t.Helper()
	home, workspace := t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(home, "bridge"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, "bridge", "config.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &served{model: m}
	cmd := exec.Command(binary, "serve", "--port", "0", "--json", "--workspace", workspace)
	cmd.Dir = workspace
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "USERPROFILE=" + home, "TMPDIR=" + os.TempDir(),
		"COPILOT_BRIDGE_HOME=" + filepath.Join(home, "bridge"), "COPILOT_CLI_PATH=" + runtimetest.Path(t),
	}, settings...)
	stderr := &output{}
	cmd.Stderr = stderr
	cmd.WaitDelay = patience // a surviving child may hold the pipes
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop(t, cmd, stdout)
		if t.Failed() {
			t.Logf("stderr of serve:\n%s", stderr)
		}
		programtest.NoneLeft(t, home)
	})
	timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	var ready struct{ URL string }
	if err == nil {
		err = json.Unmarshal(line, &ready)
	}
	if err != nil || ready.URL == "" {
		t.Fatalf("the ready line is %q, %v; stderr:\n%s", line, err, stderr)
	}
	s.url = ready.URL
	return s
}

// stop ends serve as a service manager does.
func stop(t *testing.T, cmd *exec.Cmd, stdout io.Reader) {
	t.Helper()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("signalling serve: %v", err)
		_ = cmd.Process.Kill()
	}
	timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	if rest, err := io.ReadAll(stdout); err != nil || len(rest) > 0 {
		t.Errorf("after the ready line stdout has %q, %v", rest, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("serve ended with %v, want code 0", err)
	}
}

// provider is an OpenAI-compatible server for the bridge to use. The prompt
// "What were you told?" is answered with the request as JSON; other prompts are
// rehearsal directives.
func provider(t *testing.T) *demomodel.Server {
	t.Helper()
	m := programtest.Model(t)
	m.Handle(tellWhatWasAsked)
	return m
}

// tellWhatWasAsked answers "What were you told?".
func tellWhatWasAsked(r demomodel.Request) (demomodel.Reply, bool) {
	if !strings.Contains(r.LastUser(), "What were you told?") {
		return nil, false
	}
	images := 0
	for _, m := range r.Messages {
		images += m.Images
	}
	report, err := json.Marshal(map[string]any{
		"system": r.System(), "images": images, "tools": append([]string{}, r.ToolNames()...), "messages": len(r.Messages), "prompt": r.LastUser(),
		"format": map[string]any{"type": r.Format.Type, "schema": r.Format.Schema},
	})
	if err != nil {
		return demomodel.Reply{demomodel.Text(err.Error())}, true
	}
	return demomodel.Reply{demomodel.Text(string(report))}, true
}

var runningTurns = regexp.MustCompile(`(?m)^copilot_bridge_running_turns (\d+)$`)

// waitForTurns waits until this many turns are running.
func (s *served) waitForTurns(t *testing.T, turns int) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(10 * time.Second); ; <-tick.C {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/metrics", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		m := runningTurns.FindStringSubmatch(get(t, r))
		if m != nil && m[1] == strconv.Itoa(turns) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("there are not %d turns running: %q", turns, m)
		}
	}
}

func get(t *testing.T, r *http.Request) string {
	t.Helper()
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return string(body)
}

type output = programtest.Output

// Fields that Copilot has no use for and the name of a model that bridges of
// editors use are no errors, whole or streamed.
func TestIgnoredFieldsAndSyntheticModel(t *testing.T) {
	s := serve(t, "COPILOT_BRIDGE_UNKNOWN_MODEL=error")
	for _, stream := range []string{"false", "true"} {
		resp, err := http.Post(s.url+"/v1/chat/completions", "application/json", strings.NewReader(
			`{"model":"gpt-4o-copilot","stream":`+stream+`,"logprobs":true,"top_logprobs":2,"seed":1,"min_p":0.1,"messages":[{"role":"user","content":"rehearsal: text all fine"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if e := resp.Body.Close(); err != nil || e != nil {
			t.Fatal(err, e)
		}
		notice := resp.Header.Get("X-Copilot-Bridge-Notice")
		if resp.StatusCode != http.StatusOK || !strings.Contains(string(body), "fine") || !strings.Contains(string(body), `"model":"`+s.model.Model()+`"`) ||
			notice != "without effect here: logprobs, min_p, seed, top_logprobs" {
			t.Errorf("stream %s: %d %s, notice %q", stream, resp.StatusCode, body, notice)
		}
	}
	resp, err := http.Get(s.url + "/v1/models/gpt-4o-copilot")
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("the model gpt-4o-copilot: %d, %v", resp.StatusCode, err)
	}
}

// The settings of a provider reach its requests, and what is secret in them is in
// no answer.
func TestProviderSettings(t *testing.T) {
	type request struct {
		header http.Header
		body   string
	}
	asked := make(chan request, 64)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost {
			http.NotFound(w, r) // it lists no models
			return
		}
		asked <- request{r.Header.Clone(), string(body)}
		http.Error(w, `{"error":{"message":"wrong token the-bearer-token, key a-secret-of-16-bytes"}}`, http.StatusBadRequest)
	}))
	defer srv.Close()
	s := serve(t, "COPILOT_BYOK_BASE_URL="+srv.URL, "COPILOT_BYOK_BEARER_TOKEN=the-bearer-token", "COPILOT_BYOK_WIRE_MODEL=as-deployed",
		`COPILOT_BYOK_HEADERS={"X-Key":"a-secret-of-16-bytes"}`, "COPILOT_BRIDGE_REQUEST_HEADERS=X-Turn=7")
	client := &http.Client{Timeout: patience}
	for _, prefix := range []string{"", "agent/"} {
		resp, err := client.Post(s.url+"/v1/chat/completions", "application/json", strings.NewReader(
			`{"model":"`+prefix+s.model.Model()+`","messages":[{"role":"user","content":"hi"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(resp.Body)
		if e := resp.Body.Close(); err != nil || e != nil {
			t.Fatal(err, e)
		}
		if resp.StatusCode != http.StatusBadRequest || strings.Contains(string(answer), "the-bearer-token") || strings.Contains(string(answer), "a-secret-of") {
			t.Errorf("%q: %d %s", prefix, resp.StatusCode, answer)
		}
		select {
		case r := <-asked:
			if h := r.header; h.Get("Authorization") != "Bearer the-bearer-token" || h.Get("X-Key") != "a-secret-of-16-bytes" || h.Get("X-Turn") != "7" {
				t.Errorf("%q: asked with %v", prefix, h)
			}
			if !strings.Contains(r.body, `"model":"as-deployed"`) {
				t.Errorf("%q: asked for another model: %.200s", prefix, r.body)
			}
		default:
			t.Errorf("%q: the provider was not asked: %s", prefix, answer)
		}
	}
}
