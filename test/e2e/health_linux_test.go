package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/githubtest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// gateway is a loopback address in front of the model that can refuse
// connections.
type gateway struct {
	t        *testing.T
	to, addr string
	mu       sync.Mutex
	listener net.Listener
	open     map[net.Conn]struct{}
	running  sync.WaitGroup
}

func newGateway(t *testing.T, url string) *gateway {
	t.Helper()
	g := &gateway{t: t, to: url[strings.LastIndex(url, "/")+1:], addr: "127.0.0.1:0", open: map[net.Conn]struct{}{}}
	g.up()
	t.Cleanup(g.down)
	return g
}

func (g *gateway) up() {
	g.t.Helper()
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", g.addr)
	if err != nil {
		g.t.Fatal(err)
	}
	g.addr, g.listener = l.Addr().String(), l
	g.running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			g.running.Go(func() { g.pass(c) })
		}
	})
}

func (g *gateway) pass(client net.Conn) {
	model, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", g.to)
	if err != nil {
		_ = client.Close() // nothing was written
		return
	}
	g.mu.Lock()
	g.open[client], g.open[model] = struct{}{}, struct{}{}
	g.mu.Unlock()
	end := func() { _, _ = client.Close(), model.Close() } // either side may have ended it
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(model, client); end() })
	both.Go(func() { _, _ = io.Copy(client, model); end() })
	both.Wait()
}

// down refuses connections and cuts those that are open.
func (g *gateway) down() {
	_ = g.listener.Close() // may be closed already
	g.mu.Lock()
	for c := range g.open {
		_ = c.Close()
	}
	clear(g.open)
	g.mu.Unlock()
	g.running.Wait()
}

// What turns meet at the provider shows in /healthz and /readyz, which recover
// with the next good turn. Callers of each API are told that Copilot cannot be
// had, or when to come again.
func TestHealthFollowsTheProvider(t *testing.T) {
	t.Parallel()
	const good = "rehearsal: text fine"
	for name, fault := range map[string]struct {
		prompt string // what makes the model fail; "" for a provider that refuses connections
		status int
		code   string
		reason string
		final  bool // the answer asks clients not to try again by themselves
	}{
		"refused connection": {"", http.StatusServiceUnavailable, "copilot_unavailable", "be reached", false},
		"401":                {"rehearsal: status 401 who are you", http.StatusServiceUnavailable, "copilot_unavailable", "refused the credentials; check COPILOT_BYOK_API_KEY", true},
		"429":                {"rehearsal: status 429 slow down, try again in 90s", http.StatusTooManyRequests, "rate_limit_exceeded", "slow down", false},
		"500":                {"rehearsal: status 500 on fire", http.StatusServiceUnavailable, "copilot_unavailable", "on fire", true},
		"cut stream":         {"rehearsal: cut", http.StatusServiceUnavailable, "copilot_unavailable", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := provider(t)
			g := newGateway(t, m.URL())
			s := serveProvider(t, "COPILOT_BYOK_PROVIDER=openai", "COPILOT_BYOK_BASE_URL=http://"+g.addr, "COPILOT_BYOK_API_KEY="+m.Key(), "COPILOT_BYOK_MODEL="+m.Model(), "COPILOT_MAX_RETRIES=0")
			s.waitHealth(t, "ok", "", http.StatusOK)
			for _, api := range []struct{ path, model, more string }{
				{"/v1/chat/completions", "gpt-5", ""}, {"/v1/chat/completions", "agent/gpt-5", `,"stream":true`},
				{"/v1/responses", "gpt-5", ""}, {"/v1/messages", "gpt-5", `,"max_tokens":100`},
			} {
				prompt := fault.prompt
				if prompt == "" {
					prompt = good
					g.down()
				}
				status, header, body := s.say(t, api.path, api.model, prompt, api.more)
				want := `"code":"` + fault.code + `"`
				if api.path == "/v1/messages" {
					want = map[int]string{http.StatusServiceUnavailable: `"type":"api_error"`, http.StatusTooManyRequests: `"type":"rate_limit_error"`}[fault.status]
				}
				if status != fault.status || !strings.Contains(body, want) || fault.prompt != "" && (header.Get("X-Should-Retry") == "false") != fault.final {
					t.Errorf("%v: %d %v %s", api, status, header, body)
				}
				if strings.Contains(body, m.Key()) {
					t.Errorf("%v: the key is told: %s", api, body)
				}
				s.waitHealth(t, "unavailable", fault.reason, http.StatusServiceUnavailable)
				if fault.prompt == "" {
					g.up()
				}
				s.waitModels(t)
				if status, _, body := s.say(t, api.path, api.model, good, api.more); status != http.StatusOK || strings.Contains(body, `"error":{`) || !strings.Contains(body, `ne"`) {
					t.Errorf("%v, afterwards: %d %s", api, status, body)
				}
				s.waitHealth(t, "ok", "", http.StatusOK)
			}
			if name == "cut stream" {
				// What was streamed cannot be taken back, so the stream ends with an error.
				_, _, body := s.say(t, "/v1/chat/completions", "gpt-5", "rehearsal: chunks one |two \nrehearsal: delay 300ms\nrehearsal: cut", `,"stream":true`)
				if !strings.Contains(body, `"content":"one `) || !strings.Contains(body, `"code":"copilot_unavailable"`) {
					t.Errorf("in mid-stream: %s", body)
				}
				s.waitHealth(t, "unavailable", "", http.StatusServiceUnavailable)
				if status, _, body := s.say(t, "/v1/chat/completions", "gpt-5", good, ""); status != http.StatusOK {
					t.Errorf("after a broken stream: %d %s", status, body)
				}
				s.waitHealth(t, "ok", "", http.StatusOK)
			}
			// What is wrong with one request alone is no outage.
			if status, _, body := s.say(t, "/v1/chat/completions", "gpt-5", "rehearsal: status 400 too many bananas", ""); status != http.StatusBadRequest || !strings.Contains(body, "provider_error") {
				t.Errorf("a bad request: %d %s", status, body)
			}
			s.waitHealth(t, "ok", "", http.StatusOK)
		})
	}
}

// Clients that give up while the runtime tries again have met the outage too.
func TestHealthAfterImpatientClients(t *testing.T) {
	t.Parallel()
	m := provider(t)
	s := serveProvider(t, "COPILOT_BYOK_PROVIDER=openai", "COPILOT_BYOK_BASE_URL="+m.URL(), "COPILOT_BYOK_API_KEY="+m.Key(), "COPILOT_BYOK_MODEL="+m.Model())
	s.waitHealth(t, "ok", "", http.StatusOK)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/chat/completions", strings.NewReader(`{"model":"any","messages":[{"role":"user","content":"rehearsal: status 500 on fire\nrehearsal: once\nrehearsal: silence"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	left := make(chan error, 1)
	go func() {
		resp, err := http.DefaultClient.Do(r)
		if err == nil {
			err = resp.Body.Close()
		}
		left <- err
	}()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); len(m.Requests()) < 2; <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("the runtime did not try again")
		}
	}
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the client: %v", err)
	}
	s.waitHealth(t, "unavailable", "on fire", http.StatusServiceUnavailable)
}

// A model that says nothing shows in health: once its turn has timed out, and
// when a client gives up after half that time.
func TestHealthWithASilentModel(t *testing.T) {
	t.Parallel()
	m := provider(t)
	s := serveProvider(t, "COPILOT_BYOK_PROVIDER=openai", "COPILOT_BYOK_BASE_URL="+m.URL(), "COPILOT_BYOK_API_KEY="+m.Key(), "COPILOT_BYOK_MODEL="+m.Model(), "COPILOT_BRIDGE_IDLE_TIMEOUT=4s")
	const silent = "the model has not answered a request within "
	if status, _, body := s.say(t, "/v1/chat/completions", "any", "rehearsal: silence", ""); status != http.StatusGatewayTimeout || !strings.Contains(body, "model silent for 4s") {
		t.Errorf("%d %s", status, body)
	}
	s.waitHealth(t, "unavailable", silent+"4s; see that the network and the model's provider are well", http.StatusServiceUnavailable)
	if status, _, body := s.say(t, "/v1/chat/completions", "any", "rehearsal: text fine", ""); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
	s.waitHealth(t, "ok", "", http.StatusOK)
	ctx, leave := context.WithTimeout(t.Context(), 3*time.Second)
	defer leave()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/messages", strings.NewReader(`{"model":"any","max_tokens":9,"messages":[{"role":"user","content":"rehearsal: silence"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if resp, err := http.DefaultClient.Do(r); err == nil {
		t.Errorf("an answer: %s, %v", resp.Status, resp.Body.Close())
	}
	s.waitHealth(t, "unavailable", silent, http.StatusServiceUnavailable)
}

// A server whose account is refused starts, and says so to callers and in its
// health.
func TestServeTellsOfARefusedAccount(t *testing.T) {
	t.Parallel()
	b := newAccountBench(t, "", "", "GITHUB_TOKEN=ghp_refused")
	s := serveProvider(t, b.env...)
	s.waitHealth(t, "unavailable", "GitHub did not accept the token in GITHUB_TOKEN", http.StatusServiceUnavailable)
	for _, path := range []string{"/v1/chat/completions", "/v1/responses", "/v1/messages"} {
		for _, model := range []string{"gpt-5", "agent/gpt-5"} {
			status, header, body := s.say(t, path, model, helloTask, `,"max_tokens":100`)
			if status != http.StatusServiceUnavailable || header.Get("X-Should-Retry") != "false" || !strings.Contains(body, "GitHub did not accept") || !strings.Contains(body, "copilot-bridge login") ||
				strings.Contains(body, "copilot_unavailable") != (path != "/v1/messages") {
				t.Errorf("%s %s: %d %v %s", path, model, status, header, body)
			}
		}
	}
}

// A server that started while GitHub could not be reached, or whose login ends,
// says so and recovers without a restart.
func TestServeRecoversWithGitHub(t *testing.T) {
	t.Parallel()
	github := githubtest.Start(t)
	g := newGateway(t, github.URL())
	g.down()
	token := github.Token()
	s := serveProvider(t, append(github.Env(), "GH_HOST="+g.addr, "GITHUB_TOKEN="+token, "COPILOT_MAX_RETRIES=0")...)
	if status, _, body := s.say(t, "/v1/chat/completions", "gpt-5", "hello", ""); status != http.StatusServiceUnavailable || !strings.Contains(body, "copilot_unavailable") {
		t.Errorf("without GitHub: %d %s", status, body)
	}
	s.waitHealth(t, "unavailable", "GitHub cannot be reached: "+g.addr+" refuses connections; check the network", http.StatusServiceUnavailable)
	g.up()
	s.waitModels(t)
	for _, out := range []bool{false, true, false} {
		if github.Accept(token); out {
			github.Accept("another")
		}
		status, _, body := s.say(t, "/v1/chat/completions", "gpt-5", "rehearsal: text from GitHub", "")
		if out {
			if status != http.StatusServiceUnavailable || !strings.Contains(body, "copilot_unavailable") || !strings.Contains(body, "GitHub did not accept") {
				t.Errorf("signed out: %d %s", status, body)
			}
			s.waitHealth(t, "unavailable", "GitHub did not accept", http.StatusServiceUnavailable)
			continue
		}
		if status != http.StatusOK || !strings.Contains(body, "from GitHub") {
			t.Errorf("signed in: %d %s", status, body)
		}
		s.waitHealth(t, "ok", "", http.StatusOK)
	}
}

// providerServer is a running serve with a provider of its own, or an account.
type providerServer struct {
	url             string
	copilot, reason string // of the line that says that it is ready
}

func serveProvider(t *testing.T, env ...string) *providerServer {
	t.Helper()
	cmd := exec.Command(binary, "serve", "--json", "--port", "0", "--read-write")
	cmd.Dir, cmd.Env = t.TempDir(), append([]string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "COPILOT_CLI_PATH=" + runtimetest.Path(t)}, env...)
	stderr := &output{}
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait()); err != nil {
			t.Errorf("serve: %v", err)
		}
		if t.Failed() {
			t.Logf("stderr of serve:\n%s", stderr)
		}
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var ready struct{ URL, Copilot, Reason string }
	if err := errors.Join(err, json.Unmarshal(line, &ready)); err != nil {
		t.Fatalf("%v\n%s", err, stderr)
	}
	return &providerServer{ready.URL, ready.Copilot, ready.Reason}
}

func (s *providerServer) do(t *testing.T, method, path, body string) (int, http.Header, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

func (s *providerServer) say(t *testing.T, path, model, prompt, more string) (int, http.Header, string) {
	t.Helper()
	key, value := "messages", `[{"role":"user","content":`+toJSON(prompt)+`}]`
	if path == "/v1/responses" {
		key, value = "input", toJSON(prompt)
		more = ""
	}
	return s.do(t, http.MethodPost, path, `{"model":"`+model+`","`+key+`":`+value+more+`}`)
}

// waitModels waits until there is a list of models: a failure is kept for five
// seconds.
func (s *providerServer) waitModels(t *testing.T) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); ; <-tick.C {
		status, _, body := s.do(t, http.MethodGet, "/v1/models", "")
		if status == http.StatusOK {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no list of models: %d %s", status, body)
		}
	}
}

// waitHealth waits until /healthz and /readyz say this; they look every two
// seconds at most.
func (s *providerServer) waitHealth(t *testing.T, copilot, reason string, ready int) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); ; <-tick.C {
		status, _, health := s.do(t, http.MethodGet, "/healthz", "")
		code, _, text := s.do(t, http.MethodGet, "/readyz", "")
		if status == http.StatusOK && strings.Contains(health, `"copilot":"`+copilot+`"`) && strings.Contains(health, reason) && (copilot == "ok") == !strings.Contains(health, `"reason"`) && code == ready {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("want %s, %q and %d; /healthz: %d %s\n/readyz: %d %s", copilot, reason, ready, status, health, code, text)
		}
	}
}
