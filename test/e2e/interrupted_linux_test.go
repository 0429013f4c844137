package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A patch that was interrupted by a kill is undone by the next command in that
// directory, whichever it is. The command reports it.
func TestInterruptedPatchIsTold(t *testing.T) {
	order := `{"t":"run","id":"r","work_order":{"id":"11111111-2222-4333-8444-555555555555","task":"rehearsal: text done","workspace":{"root":"."}}}` + "\n"
	session := func(params string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"initialize","params":` + params + `}` + "\n"
	}
	for name, c := range map[string]struct {
		args  []string
		input func(dir string) string
		until string // an answer on standard output after which input ends; "" for commands without input
	}{
		"run":         {args: []string{"run", "--demo", "rehearsal: text done"}},
		"orchestrate": {args: []string{"orchestrate", "--demo", "--isolation", "shared", "--plan", "-", "do", "it"}, input: func(string) string { return `{"tasks":[{"id":"one","description":"rehearsal: text done"}]}` }},
		"abp":         {args: []string{"abp", "--demo"}, input: func(string) string { return order }},
		"mcp": {args: []string{"mcp", "copilot", "--demo"}, until: `"id":2`, input: func(string) string {
			return session(`{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`) +
				`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" +
				`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"copilot_code_task","arguments":{"prompt":"rehearsal: text done"}}}` + "\n"
		}},
		"acp": {args: []string{"acp"}, until: `"id":2`, input: func(dir string) string {
			return session(`{"protocolVersion":1,"clientCapabilities":{}}`) + fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":%q,"mcpServers":[]}}`+"\n", dir)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newTestHome(t)
			k.interruptPatch()
			cmd := k.command(c.args...)
			var stderr output
			cmd.Stderr = &stderr
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			var out output
			cmd.Stdout = &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if c.input != nil {
				if _, err := in.Write([]byte(c.input(k.dir))); err != nil {
					t.Fatal(err)
				}
			}
			if c.until != "" {
				waitUntil(t, "an answer", func() bool { return strings.Contains(out.String(), c.until) })
			}
			if err := in.Close(); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Fatalf("%v\n%s\n%s", err, out.String(), stderr.String())
			}
			if !strings.Contains(stderr.String(), "patch.interrupted") || !strings.Contains(stderr.String(), "undone") {
				t.Errorf("it says %s", stderr.String())
			}
			for _, file := range k.files() {
				if data, err := os.ReadFile(file); err != nil || !bytes.Equal(data, []byte("before\n")) {
					t.Fatalf("%s: %q, %v", file, data, err)
				}
			}
		})
	}
}

func (k *testHome) files() []string {
	names := make([]string, 1500)
	for i := range names {
		names[i] = filepath.Join(k.dir, fmt.Sprintf("%04d.txt", i))
	}
	return names
}

// interruptPatch kills a server in the middle of a patch, so that only some of
// the files are changed.
func (k *testHome) interruptPatch() {
	k.t.Helper()
	var diff strings.Builder
	for _, file := range k.files() {
		name := filepath.Base(file)
		fmt.Fprintf(&diff, "--- a/%[1]s\n+++ b/%[1]s\n@@ -1 +1 @@\n-before\n+after\n", name)
	}
	params, err := json.Marshal(map[string]string{"unifiedDiff": diff.String()})
	if err != nil {
		k.t.Fatal(err)
	}
	holds := func(file, text string) bool {
		data, err := os.ReadFile(file)
		return err == nil && string(data) == text
	}
	for range 20 {
		for _, file := range k.files() {
			if err := os.WriteFile(file, []byte("before\n"), 0o600); err != nil {
				k.t.Fatal(err)
			}
		}
		server, url := k.serve("--read-write")
		client := k.command("rpc", "mcp.edit.applyPatch", "-", "--url", url)
		client.Stdin = bytes.NewReader(params)
		var clientOutput output
		client.Stdout, client.Stderr = &clientOutput, &clientOutput
		if err := client.Start(); err != nil {
			k.t.Fatal(err)
		}
		files := k.files()
		waitUntil(k.t, "a file is changed", func() bool {
			return holds(files[0], "after\n") || holds(files[len(files)-1], "after\n")
		})
		if err := server.Process.Kill(); err != nil {
			k.t.Fatal(err)
		}
		_ = server.Wait() // returns an error because the process was killed
		_ = client.Wait() // fails without its server
		changed := 0
		for _, file := range files {
			if holds(file, "after\n") {
				changed++
			}
		}
		if changed > 0 && changed < len(files) {
			return
		}
	}
	k.t.Fatal("no patch could be interrupted")
}
