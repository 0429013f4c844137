package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A separate server between two rounds does not pass its caller's environment
// to the bridge that it starts; OpenClaw's gateway is such a server. The loop
// is still detected, and no round waits for the directory lock of the previous
// one.
func TestMCPLoopThroughAServer(t *testing.T) {
	b := newMCPBench(t, nil)
	b.env = append(b.env, "COPILOT_BRIDGE_SANDBOX=off") // a sandboxed command cannot reach the bridge
	var mu sync.Mutex
	var answers []string
	var rounds sync.WaitGroup
	prompt := "rehearsal: tool bash " + toJSON(map[string]any{"command": "bash again.sh", "description": "again", "initial_wait": 200}) + "\nrehearsal: next\nrehearsal: text Enough."
	// All rounds use one bridge. It counts as started by this process, which
	// runs the server.
	c := b.connect(t, allowEverything(), "copilot")
	round := func() string {
		r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "copilot_code_task", Arguments: map[string]any{"prompt": prompt}})
		if err != nil {
			return err.Error()
		}
		return mcpText(r)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		rounds.Add(1)
		defer rounds.Done()
		text := round()
		mu.Lock()
		answers = append(answers, text)
		mu.Unlock()
		_, _ = fmt.Fprintln(w, text) // the caller may have disconnected
	}))
	t.Cleanup(server.Close)
	host, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "http://"), ":")
	again := "echo \"$COPILOT_BRIDGE_DEPTH\" >> depths.txt\nexec 3<>/dev/tcp/" + host + "/" + port + "\nprintf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3\ncat <&3\n"
	if err := os.WriteFile(filepath.Join(b.dir, "again.sh"), []byte(again), 0o600); err != nil {
		t.Fatal(err)
	}
	if text := round(); !strings.HasPrefix(text, "Enough.") {
		t.Errorf("the first round: %s", text)
	}
	rounds.Wait()
	if depths, err := os.ReadFile(filepath.Join(b.dir, "depths.txt")); err != nil || string(depths) != "1\n2\n3\n" {
		t.Errorf("Copilot was at the depths %q, %v", depths, err)
	}
	mu.Lock()
	defer mu.Unlock()
	const loop = "[denied] copilot-bridge was called from within itself 3 times; that is a loop"
	if len(answers) != 3 || !strings.HasPrefix(answers[0], loop) || !strings.HasPrefix(answers[1], "Enough.") || !strings.HasPrefix(answers[2], "Enough.") {
		t.Errorf("said %q", answers)
	}
}
