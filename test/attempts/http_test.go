//go:build unix

package attempts

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"syscall"
	"testing"
)

// startServer starts `serve`, or another command that prints its address as a
// line of JSON. The process ends with the test.
func startServer(t *testing.T, y *testEnv, env []string, args ...string) (url string) {
	t.Helper()
	cmd := y.program(env, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait()); err != nil {
			t.Errorf("%v: %v\n%s", args, err, y.output)
		}
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var address struct{ URL string }
	if err := errors.Join(err, json.Unmarshal(line, &address)); err != nil || address.URL == "" {
		t.Fatalf("%v: %v\n%s%s", args, err, line, y.output)
	}
	return address.URL
}

// serve is `copilot-bridge serve`: an agent behind one of the HTTP APIs.
func serve(path string, body func(prompt string) map[string]any, flags ...string) func(*testing.T, *testEnv, []string) caller {
	return func(t *testing.T, y *testEnv, env []string) caller {
		t.Helper()
		url := startServer(t, y, env, append([]string{"serve", "--json", "--port", "0"}, flags...)...)
		return &session{y: y, say: func(t *testing.T, prompt string) {
			t.Helper()
			if status := post(t, y, url+path, body(prompt)); status != http.StatusOK {
				t.Errorf("%s answered with status %d\n%s", path, status, y.output)
			}
		}}
	}
}

// post sends JSON and appends the answer to y.output.
func post(t *testing.T, y *testEnv, url string, body any) int {
	t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("anthropic-version", "2023-06-01")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(y.output, resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode
}

const agentModel = "agent/rehearsal-1"

func chatBody(prompt string) map[string]any {
	return map[string]any{"model": agentModel, "stream": true, "messages": []any{map[string]any{"role": "user", "content": prompt}}}
}

func responsesBody(prompt string) map[string]any {
	return map[string]any{"model": agentModel, "input": prompt}
}

func messagesBody(prompt string) map[string]any {
	return map[string]any{"model": agentModel, "max_tokens": 1000, "messages": []any{map[string]any{"role": "user", "content": prompt}}}
}
