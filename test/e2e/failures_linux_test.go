package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/githubtest"
)

// failure is one way in which GitHub's models cannot be had, and what every
// command and API says of it.
type failure struct {
	set func(*testing.T, *githubtest.Server) (env []string)
	// inTurn: only a turn meets it, so a server and validate without --turn are well.
	inTurn  bool
	problem string
	code    string // bridge's
	message string // {HOST} is the stand-in's address
	remedy  string
	exit    int
	status  int // HTTP
	openai  string
	claude  string // Anthropic's type of error
	acp     int
	abp     string
	health  string // after a turn
	ready   int
}

func answer(path string, status int, body string, header ...string) func(*testing.T, *githubtest.Server) []string {
	return func(_ *testing.T, s *githubtest.Server) []string {
		a := githubtest.Answer{Status: status, Body: body, Header: http.Header{}}
		for i := 0; i < len(header); i += 2 {
			a.Header.Set(header[i], header[i+1])
		}
		s.Always(path, a)
		return nil
	}
}

const (
	toLogIn  = "log in with `copilot-bridge login`, or set COPILOT_GITHUB_TOKEN to a token that may use Copilot"
	toModels = "choose another model: `copilot-bridge models` lists those that you may use"
	toReach  = "check the network, the firewall and the proxy (HTTPS_PROXY), and that GH_HOST is right: "
)

// unavailable fills in what all failures have in common that keep Copilot from
// everybody.
func (f failure) unavailable() failure {
	f.exit, f.status, f.openai, f.health, f.ready = 3, http.StatusServiceUnavailable, "server_error/copilot_unavailable", "unavailable", http.StatusServiceUnavailable
	f.code, f.claude, f.acp, f.abp = "unavailable", "overloaded_error", -32603, "backend_unavailable"
	return f
}

func (f failure) unauthenticated() failure {
	f = f.unavailable()
	f.code, f.claude, f.acp, f.abp = "unauthenticated", "api_error", -32000, "backend_auth_failed"
	return f
}

func (f failure) modelOnly(status int) failure {
	f.inTurn, f.health, f.ready, f.status = true, "ok", http.StatusOK, status
	f.exit, f.code, f.openai, f.claude, f.acp, f.abp = 4, "denied", "permission_error/permission_denied", "permission_error", -32603, "execution_permission_denied"
	if status == http.StatusNotFound {
		f.exit, f.code, f.openai, f.claude, f.acp, f.abp = 1, "not_found", "invalid_request_error/model_not_found", "not_found_error", -32002, "backend_model_not_found"
	}
	return f
}

func (f failure) quota() failure {
	f.inTurn, f.health, f.ready, f.status = true, "unavailable", http.StatusServiceUnavailable, http.StatusTooManyRequests
	f.exit, f.code, f.openai, f.claude, f.acp, f.abp = 3, "quota_exhausted", "insufficient_quota/insufficient_quota", "rate_limit_error", -32603, "backend_rate_limited"
	return f
}

func (f failure) rateLimit() failure {
	f = f.quota()
	f.code, f.openai = "rate_limited", "rate_limit_error/rate_limit_exceeded"
	return f
}

// fault is a provider's failure in a turn.
func (f failure) fault() failure {
	f = f.unavailable()
	f.inTurn, f.code, f.claude = true, "provider", "api_error"
	return f
}

// free is a model that costs no premium requests.
var free = githubtest.Model{ID: "gpt-5-mini", Name: "GPT-5 mini", Vendor: "Azure OpenAI", Endpoint: githubtest.ChatPath, Context: 128000, Prompt: 64000, Output: 16000, Policy: "enabled"}

func gpt5(policy string) githubtest.Model {
	m := free
	m.ID, m.Name, m.Multiplier, m.Policy = "gpt-5", "GPT-5", 1, policy
	return m
}

// both is one after the other.
func both(models []githubtest.Model, then func(*testing.T, *githubtest.Server) []string) func(*testing.T, *githubtest.Server) []string {
	return func(t *testing.T, s *githubtest.Server) []string {
		s.SetModels(models...)
		return then(t, s)
	}
}

func failures() map[string]failure {
	used := `{"error":{"message":"You have no quota","code":"quota_exceeded"}}`
	unsupported := `{"error":{"message":"The requested model is not supported.","code":"model_not_supported","param":"model","type":"invalid_request_error"}}`
	return map[string]failure{
		"a wrong token": failure{set: func(_ *testing.T, s *githubtest.Server) []string { s.Accept("another"); return nil },
			problem: "login_refused", message: "GitHub did not accept the token or login (401 Bad credentials)", remedy: toLogIn}.unauthenticated(),
		"single sign-on": failure{set: answer(githubtest.UserPath, 403, `{"message":"Resource protected by organization SAML enforcement"}`),
			problem: "account_refused", message: "GitHub does not let the token look up its account (403 Resource protected by organization SAML enforcement)",
			remedy: "authorize the token for your organization (single sign-on), or log in with `copilot-bridge login`"}.unauthenticated(),
		"no Copilot": failure{set: func(_ *testing.T, s *githubtest.Server) []string {
			s.SetAccount(githubtest.Account{Login: "octocat", NoChat: true})
			return nil
		}, problem: "no_copilot", message: "the GitHub account octocat has no Copilot (403 access denied)",
			remedy: "get Copilot at https://github.com/settings/copilot, ask your organization for a seat, or log in with another account by `copilot-bridge login`"}.unauthenticated(),
		"a policy against Copilot": failure{set: answer(githubtest.ModelsPath, 403, `{"error":{"message":"access denied by policy"}}`),
			problem: "copilot_policy", message: "a policy keeps the GitHub account octocat from Copilot (403 access denied by policy)",
			remedy: "have the policy for Copilot CLI enabled, at https://github.com/settings/copilot or by the owner of your organization"}.unavailable(),
		"GitHub's own fault": failure{set: answer(githubtest.ModelsPath, 502, `<html>`),
			problem: "github_fault", message: "GitHub has a fault of its own (502 Bad Gateway)", remedy: "try again later; https://www.githubstatus.com tells what is known"}.unavailable(),
		"refused connections": failure{set: func(*testing.T, *githubtest.Server) []string { return []string{"GH_HOST=127.0.0.1:1"} },
			problem: "github_unreachable", message: "GitHub cannot be reached: 127.0.0.1:1 refuses connections", remedy: toReach + "127.0.0.1:1"}.unavailable(),
		"no such host": failure{set: func(*testing.T, *githubtest.Server) []string { return []string{"GH_HOST=octo.ghe.invalid"} },
			problem: "github_unreachable", message: "GitHub cannot be reached: there is no host api.octo.ghe.invalid", remedy: toReach + "octo.ghe.invalid"}.unavailable(),
		"no answer": failure{set: func(_ *testing.T, s *githubtest.Server) []string {
			s.Always(githubtest.UserPath, githubtest.Answer{Delay: time.Hour})
			return nil
		}, problem: "github_unreachable", message: "GitHub does not answer: {HOST} can be reached, but has not said whose account it is within 8 seconds", remedy: toReach + "{HOST}"}.unavailable(),
		"a proxy that reads along": failure{set: func(t *testing.T, _ *githubtest.Server) []string { return githubtest.Start(t).Env()[1:] },
			problem: "github_certificate", message: "the certificate of {HOST}, issued by CN=stand-in for GitHub, is not trusted",
			remedy: "if that is your company's proxy, add its authority to this machine's certificates, or name a file that has it in SSL_CERT_FILE"}.unavailable(),
		"a clock that is behind": failure{set: func(_ *testing.T, s *githubtest.Server) []string {
			s.Always(githubtest.UserPath, githubtest.Answer{Cut: true})
			s.Always("/", githubtest.Answer{Status: 200, Header: http.Header{"Date": {time.Now().Add(3 * time.Hour).UTC().Format(http.TimeFormat)}}})
			return nil
		}, problem: "clock", message: "this machine's clock is 3 hours behind GitHub's", remedy: "set this machine's clock"}.unavailable(),
		"a certificate of the future": failure{set: func(t *testing.T, s *githubtest.Server) []string {
			s.CertifyFrom(t, time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC))
			return nil
		}, problem: "clock", message: "the certificate of {HOST} is valid from 2100-01-01 on, and this machine's clock is before that",
			remedy: "set this machine's clock; if it is right, the certificate is at fault"}.unavailable(),
		"a certificate of the past": failure{set: func(t *testing.T, s *githubtest.Server) []string {
			s.CertifyFrom(t, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
			return nil
		}, problem: "clock", message: "the certificate of {HOST} was valid until 2026-01-02, and this machine's clock is past that",
			remedy: "set this machine's clock; if it is right, the certificate is at fault"}.unavailable(),
		"a token that has expired since": failure{set: answer(githubtest.ChatPath, 401, `{"message":"Bad credentials"}`), problem: "login_refused",
			message: "GitHub did not accept the token or login (401 Bad credentials)", remedy: toLogIn}.unauthenticated().met(),
		"a model that a policy forbids": failure{set: answer(githubtest.ChatPath, 403, `{"error":{"message":"access to the model is disabled by your organization","code":"model_access_denied"}}`),
			problem: "model_forbidden", message: "GitHub does not let this account use the model gpt-5 (403 access to the model is disabled by your organization)",
			remedy: "ask the owner of your organization to allow it, or " + toModels}.modelOnly(403),
		"a model that is not enabled": failure{set: both([]githubtest.Model{gpt5("unconfigured"), free}, answer(githubtest.ChatPath, 403, unsupported)),
			problem: "model_not_enabled", message: "the model gpt-5 is not enabled for this account (403 The requested model is not supported.)",
			remedy: "enable it at https://github.com/settings/copilot, or " + toModels}.modelOnly(403),
		"a model that is not supported": failure{set: answer(githubtest.ChatPath, 400, unsupported),
			problem: "model_not_supported", message: "GitHub does not offer this account the model gpt-5 (400 The requested model is not supported.)", remedy: toModels}.modelOnly(404),
		"a quota that is used up": failure{set: answer(githubtest.ChatPath, 402, used), problem: "quota_used_up",
			message: "the premium requests of this account are used up (402 You have no quota); they start anew on 2027-01-01",
			remedy:  "wait until then, or allow paid requests at https://github.com/settings/copilot"}.quota(),
		"a quota that is used up, with free models": failure{set: both([]githubtest.Model{gpt5("enabled"), free}, answer(githubtest.ChatPath, 402, used)), problem: "quota_used_up",
			message: "the premium requests of this account are used up (402 You have no quota); they start anew on 2027-01-01",
			remedy:  "use a model that costs none (gpt-5-mini), wait until then, or allow paid requests at https://github.com/settings/copilot"}.quota().limited(),
		"a rate limit": failure{set: answer(githubtest.ChatPath, 429, `{"error":{"message":"Sorry, try again in 15 minutes","code":"rate_limited"}}`, "Retry-After", "900"),
			problem: "rate_limited", message: "GitHub's rate limit is reached (429 Sorry, try again in 15 minutes)", remedy: "wait 15 minutes and try again"}.rateLimit(),
		"a fault in the turn": failure{set: answer(githubtest.ChatPath, 500, `oops`), problem: "github_fault",
			message: "GitHub has a fault of its own (500 Internal Server Error)", remedy: "try again later; https://www.githubstatus.com tells what is known"}.fault(),
	}
}

func (f failure) met() failure {
	f.inTurn = true
	return f
}

func (f failure) limited() failure {
	f.health, f.ready = "limited", http.StatusOK
	return f
}

// Every failure is told with the same words, remedy and code wherever it is met.
func TestFailuresOfGitHub(t *testing.T) {
	t.Parallel()
	for name, f := range failures() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := githubtest.Start(t)
			b := &failureBench{t: t, f: f, k: newTestHome(t), s: s}
			b.k.env = append(s.Env(), "COPILOT_GITHUB_TOKEN="+s.Token(), "COPILOT_BRIDGE_MODEL=gpt-5", "COPILOT_MAX_RETRIES=0")
			b.k.env = append(b.k.env, f.set(t, s)...)
			host := strings.TrimPrefix(s.URL(), "https://")
			b.f.message, b.f.remedy = strings.ReplaceAll(f.message, "{HOST}", host), strings.ReplaceAll(f.remedy, "{HOST}", host)
			for surface, check := range map[string]func(*testing.T, *failureBench){
				"run": checkRun, "orchestrate": checkOrchestrate, "validate": checkValidate, "serve": checkServe, "mcp": checkMCP, "acp": checkACP, "abp": checkABP,
			} {
				t.Run(surface, func(t *testing.T) {
					t.Parallel()
					check(t, b)
				})
			}
		})
	}
}

// Where only a header says how long a rate limit lasts, a client over HTTP waits
// ten seconds for it, and is then told to come again.
func TestRateLimitWithoutWords(t *testing.T) {
	t.Parallel()
	k, github := newGitHubHome(t)
	answer(githubtest.ChatPath, 429, `{"error":{"message":"slow down","code":"rate_limited"}}`, "Retry-After", "60")(t, github)
	s := serveProvider(t, k.command().Env...)
	status, header, body := s.say(t, "/v1/chat/completions", "gpt-5", "hello", "")
	const want = `"message":"GitHub's rate limit is reached (429 slow down). wait a little and try again","type":"rate_limit_error"`
	if status != http.StatusTooManyRequests || !strings.Contains(body, want) || header.Get("Retry-After") != "11" && header.Get("Retry-After") != "10" {
		t.Errorf("%d %v %s", status, header, body)
	}
	s.waitHealth(t, "unavailable", "GitHub's rate limit is reached", http.StatusServiceUnavailable)
}

type failureBench struct {
	t *testing.T
	f failure
	k *testHome
	s *githubtest.Server
}

// has checks that the output of a surface has all of these texts, and no secret.
func (b *failureBench) has(t *testing.T, out string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(out, text) {
			t.Errorf("there is no %s in:\n%s", text, out)
		}
	}
	if strings.Contains(out, b.s.Token()) {
		t.Errorf("the token is told:\n%s", out)
	}
}

// execute runs a command to its end, with what it says on both streams.
func (b *failureBench) execute(t *testing.T, exit int, args ...string) string {
	t.Helper()
	cmd := b.k.command(args...)
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	if code := cmd.ProcessState.ExitCode(); code != exit {
		t.Errorf("exit code %d, want %d\n%s", code, exit, out)
	}
	return string(out)
}

// quoted is a text as it stands in JSON.
func quoted(text string) string { return strings.Trim(toJSON(text), `"`) }

func checkRun(t *testing.T, b *failureBench) {
	out := b.execute(t, b.f.exit, "run", "--json", "hello")
	b.has(t, out, "copilot-bridge: "+b.f.message+"\n  → "+b.f.remedy+"\n",
		`"error":{"code":"`+b.f.code+`","message":"`+quoted(b.f.message)+`","remedy":"`+quoted(b.f.remedy)+`"`, `"problem":"`+b.f.problem+`"`)
}

func checkOrchestrate(t *testing.T, b *failureBench) {
	out := b.execute(t, b.f.exit, "orchestrate", "--json", "--isolation", "shared", "hello")
	b.has(t, out, b.f.message+"\n  → "+b.f.remedy, `"code":"`+b.f.code+`"`)
}

func checkValidate(t *testing.T, b *failureBench) {
	args, check := []string{"validate"}, "✗ login      "
	if b.f.inTurn {
		args, check = []string{"validate", "--turn"}, "✗ turn       "
	}
	out := b.execute(t, 3, args...)
	b.has(t, out, check+b.f.message+"\n             → "+b.f.remedy)
	if strings.Count(out, "✗") != 1 {
		t.Errorf("one thing is wrong, and validate says\n%s", out)
	}
}

func checkServe(t *testing.T, b *failureBench) {
	s := serveProvider(t, append(b.k.command().Env, "COPILOT_BRIDGE_LOG_LEVEL=info")...)
	if want := b.f.message + "; " + b.f.remedy; !b.f.inTurn && (s.copilot != "unavailable" || s.reason != want) || b.f.inTurn && s.copilot+s.reason != "" {
		t.Errorf("the line that it is ready: %q, %q", s.copilot, s.reason)
	}
	if !b.f.inTurn {
		s.waitHealth(t, b.f.health, b.f.message+"; "+b.f.remedy, b.f.ready)
	}
	sentence := b.f.message + ". " + b.f.remedy
	if b.f.status == http.StatusServiceUnavailable {
		sentence = "Copilot unavailable: " + sentence
	}
	typ, code, _ := strings.Cut(b.f.openai, "/")
	for _, door := range []struct{ path, model, body string }{
		{"/v1/chat/completions", "gpt-5", ""}, {"/v1/chat/completions", "agent/gpt-5", ""}, {"/v1/responses", "gpt-5", ""}, {"/v1/messages", "gpt-5", `,"max_tokens":100`},
	} {
		status, header, body := s.say(t, door.path, door.model, "hello", door.body)
		want := []string{`"message":"` + quoted(sentence) + `"`, `"type":"` + typ + `"`, `"code":"` + code + `"`}
		if door.path == "/v1/messages" {
			want = []string{`"message":"` + quoted(sentence) + `"`, `"type":"` + b.f.claude + `"`}
		}
		if status != b.f.status {
			t.Errorf("%s %s: %d %v %s", door.path, door.model, status, header, body)
		}
		b.has(t, body, want...)
	}
	reason := ""
	if b.f.health != "ok" {
		reason = b.f.message + "; " + b.f.remedy
	}
	s.waitHealth(t, b.f.health, reason, b.f.ready)
}

func checkMCP(t *testing.T, b *failureBench) {
	cmd := b.k.command("mcp", "copilot")
	cmd.Dir = t.TempDir()
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &mcp.CommandTransport{Command: cmd, TerminateDuration: patience}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	r := mcpCall(t, c, "copilot_code_task", map[string]any{"prompt": "hello"}, nil)
	if !r.IsError {
		t.Error("the call has succeeded")
	}
	b.has(t, mcpText(r), "["+b.f.code+"] "+b.f.message+"\nWhat to do: "+b.f.remedy)
}

func checkACP(t *testing.T, b *failureBench) {
	cmd := b.k.command("acp")
	cmd.Dir = t.TempDir()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer endCommand(t, cmd, in)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	type reply struct {
		ID     int
		Result struct{ SessionID string }
		Error  *struct {
			Code    int
			Message string
			Data    struct{ Code string }
		}
	}
	call := func(id int, method string, params any) (r reply) {
		t.Helper()
		if _, err := fmt.Fprintln(in, toJSON(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params})); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() {
			if r = (reply{}); json.Unmarshal(lines.Bytes(), &r) == nil && r.ID == id {
				return r
			}
		}
		t.Fatalf("%s: no answer", method)
		return r
	}
	call(1, "initialize", map[string]any{"protocolVersion": 1})
	r := call(2, "session/new", map[string]any{"cwd": cmd.Dir, "mcpServers": []any{}})
	if r.Error == nil && b.f.inTurn {
		r = call(3, "session/prompt", map[string]any{"sessionId": r.Result.SessionID, "prompt": []any{map[string]any{"type": "text", "text": "hello"}}})
	}
	if r.Error == nil || r.Error.Code != b.f.acp || r.Error.Message != b.f.message+" ("+b.f.remedy+")" || r.Error.Data.Code != b.f.code {
		t.Errorf("%s", toJSON(r))
	}
}

// endCommand ends a command that reads its input to the end.
func endCommand(t *testing.T, cmd *exec.Cmd, in io.Closer) {
	t.Helper()
	late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func checkABP(t *testing.T, b *failureBench) {
	cmd := b.k.command("abp")
	cmd.Dir = t.TempDir()
	cmd.Stdin = strings.NewReader(`{"t":"run","id":"r","work_order":{"id":"11111111-2222-4333-8444-555555555555","task":"hello","lane":"workspace_first","workspace":{"root":".","mode":"pass_through"}}}` + "\n")
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Error("the run has succeeded")
	}
	b.has(t, string(out), `"`+quoted(b.f.message+" ("+b.f.remedy+")")+`"`, `"`+b.f.abp+`"`)
}
