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

// served starts `serve`, or another command that tells its address in a line
// of JSON, and ends it with the test.
func served(t *testing.T, y *yard, env []string, args ...string) (url string) {
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
			t.Errorf("%v: %v\n%s", args, err, y.said)
		}
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var told struct{ URL string }
	if err := errors.Join(err, json.Unmarshal(line, &told)); err != nil || told.URL == "" {
		t.Fatalf("%v: %v\n%s%s", args, err, line, y.said)
	}
	return told.URL
}

// serve is `copilot-bridge serve`: an agent behind one of the HTTP APIs.
func serve(path string, body func(prompt string) map[string]any, flags ...string) func(*testing.T, *yard, []string) caller {
	return func(t *testing.T, y *yard, env []string) caller {
		t.Helper()
		url := served(t, y, env, append([]string{"serve", "--json", "--port", "0"}, flags...)...)
		return &session{y: y, say: func(t *testing.T, prompt string) {
			t.Helper()
			if status := post(t, y, url+path, body(prompt)); status != http.StatusOK {
				t.Errorf("%s answered with status %d\n%s", path, status, y.said)
			}
		}}
	}
}

// post sends JSON and puts the answer into what was said.
func post(t *testing.T, y *yard, url string, body any) int {
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
	_, err = io.Copy(y.said, resp.Body)
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
