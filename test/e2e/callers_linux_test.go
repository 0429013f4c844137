package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

type auditEntry struct {
	Hook, Door, Session, Caller, Connection, Request, Tool, Decision, Reason string
	Input, Output                                                            json.RawMessage
	Result                                                                   *struct {
		Bytes           int
		SHA256, Preview string
	}
}

// auditEntries reads the log with the program, after it has verified it.
func auditEntries(t *testing.T, dir string, env []string) (out []auditEntry) {
	t.Helper()
	p := livePolicy{t: t, dir: dir, env: env}
	p.command("audit", "verify")
	lines := p.command("audit", "tail", "-n", "10000", "--json")
	if strings.Contains(lines, loadingSecret[:20]) {
		t.Errorf("a secret is on record: %s", lines)
	}
	for line := range strings.Lines(lines) {
		var e auditEntry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		out = append(out, e)
	}
	return out
}

// checkCallers looks at the entries of an API about prompts and calls: each
// names its caller, and the results are there as a hash and a preview. The
// connection and the request are patterns; "" for none. It returns the entries.
func checkCallers(t *testing.T, dir string, env []string, door, caller, connection, request string) (out []auditEntry) {
	t.Helper()
	results := 0
	for _, e := range auditEntries(t, dir, env) {
		if e.Hook != "prompt" && e.Hook != "pre_tool" && e.Hook != "post_tool" && e.Hook != "permission" {
			continue
		}
		out = append(out, e)
		if e.Door != door || e.Caller != caller || !regexp.MustCompile(connection).MatchString(e.Connection) || !regexp.MustCompile(request).MatchString(e.Request) {
			t.Errorf("%s of %s: caller %q, connection %q, request %q", e.Hook, e.Door, e.Caller, e.Connection, e.Request)
		}
		if (e.Hook == "post_tool" && e.Decision == "allow") != (e.Result != nil) {
			t.Errorf("%s %s has result %+v", e.Hook, e.Tool, e.Result)
		}
		if r := e.Result; r != nil {
			results++
			if sum := sha256.Sum256([]byte(r.Preview)); len(r.SHA256) != 64 || utf8.RuneCountInString(r.Preview) > 200 || r.Bytes < len(r.Preview) ||
				r.Bytes == len(r.Preview) && r.SHA256 != hex.EncodeToString(sum[:]) {
				t.Errorf("%s: %+v", e.Tool, r)
			}
		}
	}
	if len(out) == 0 || results == 0 && !strings.HasPrefix(caller, "a client of") {
		t.Errorf("%d entries, %d results", len(out), results)
	}
	return out
}

// Prompts over HTTP are on record with the client that sent them, and a client
// cannot put a secret there by its name.
func TestPromptsNameTheirCaller(t *testing.T) {
	t.Parallel()
	s := serveFiles(t, map[string]string{"long.txt": strings.Repeat("é", 300) + "\npassword=" + loadingSecret + "\n"}, nil)
	messages := []map[string]string{{"role": "user", "content": "rehearsal: text hello"}}
	send := func(path, name string, body map[string]any) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+path, bytes.NewReader([]byte(toJSON(body))))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("User-Agent", name)
		r.Header.Set("X-Request-Id", "mine-1")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s, %v", path, resp.Status, err)
		}
	}
	send("/v1/chat/completions", "a client of 1", map[string]any{"model": "x", "messages": messages})
	send("/v1/responses", "a client of 1", map[string]any{"model": "x", "input": "rehearsal: text hello"})
	send("/v1/messages", "a client of 1", map[string]any{"model": "x", "max_tokens": 100, "messages": messages})
	doors := map[string]bool{}
	for _, e := range auditEntries(t, s.dir, s.env) {
		if e.Hook == "prompt" {
			doors[e.Door] = true
			if e.Caller != "a client of 1" || e.Request != "mine-1" {
				t.Errorf("%+v", e)
			}
		}
	}
	if len(doors) != 3 {
		t.Errorf("prompts of %v", doors)
	}
	send("/rpc", "client with "+loadingSecret, map[string]any{"jsonrpc": "2.0", "id": loadingSecret, "method": "mcp.fs.read", "params": map[string]any{"path": "long.txt"}})
	entries := auditEntries(t, s.dir, s.env)
	last := entries[len(entries)-1]
	if !strings.Contains(last.Caller, "[REDACTED]") || last.Connection != "mine-1" || last.Result == nil || last.Result.Preview != strings.Repeat("é", 200) {
		t.Errorf("%+v, %+v", last, last.Result)
	}
	tail := livePolicy{t: t, dir: s.dir, env: s.env}.command("audit", "tail", "-n", "1")
	for _, want := range []string{"caller=client with [REDACTED]", "connection=mine-1", "request=", "result=", "sha256 " + last.Result.SHA256[:12], "éééé"} {
		if !strings.Contains(tail, want) {
			t.Errorf("no %q in %s", want, tail)
		}
	}
}
