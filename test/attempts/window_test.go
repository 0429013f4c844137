//go:build unix

package attempts

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/editor"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/editortest"
)

// window is the tool bus of `serve --host vscode`. The fake extension denies
// every permission request.
func window(t *testing.T, y *testEnv, env []string) caller {
	t.Helper()
	const token = "0123456789-attempts"
	x := &editortest.Extension{Models: []editor.Model{{ID: "m", MaxInputTokens: 100}}, Folders: []editor.Folder{{Name: "w", Path: y.Workspace}},
		Confirm: func(context.Context, editor.Question) string { return "no" }}
	cmd := y.program(append(slices.Clone(env), "COPILOT_BRIDGE_TOKEN="+token), "serve", "--host", "vscode", "--read-write", "--workspace", y.Workspace)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, ours := io.Pipe()
	cmd.Stdout = ours
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	heard := make(chan struct{})
	go func() { defer close(heard); x.Serve(context.Background(), out, in) }()
	t.Cleanup(func() {
		_ = in.Close() // makes the program exit
		if err := cmd.Wait(); err != nil {
			t.Errorf("serve --host vscode: %v\n%s", err, y.output)
		}
		_ = ours.Close()
		<-heard
	})
	var ready editor.Ready
	if err := json.Unmarshal(x.Await(t, "bridge.ready", nil), &ready); err != nil {
		t.Fatal(err)
	}
	return connectBus(t, y, ready.URL, http.Header{"Authorization": {"Bearer " + token}})
}
