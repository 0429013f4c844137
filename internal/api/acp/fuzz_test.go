package acp

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// FuzzServe sends anything to a door that has a session: it answers with
// messages only, and ends when its input does.
func FuzzServe(f *testing.F) {
	dir, err := os.MkdirTemp("", "acp-fuzz-")
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = os.RemoveAll(dir) }) // a leftover does no harm
	session, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": "first", "method": "session/new", "params": map[string]any{"cwd": filepath.ToSlash(dir), "mcpServers": []any{}}})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":` + everything + `}`,
		`{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":` + prompt("hi") + "}\n" + `{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s1"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s1","prompt":[{"type":"resource","resource":{"uri":"%","text":""}},{"type":"resource_link","uri":"file:"},{"type":"image","data":"AA=="}]}}`,
		`{"jsonrpc":"2.0","id":1,"method":"session/set_config_option","params":{"sessionId":"s1","configId":"mode","value":"plan"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"session/load","params":{"sessionId":"s1","cwd":"/"}}` + "\n" + `{"jsonrpc":"2.0","id":2,"method":"session/close","params":{"sessionId":"s1"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s1","prompt":[{"type":"text","text":"/plan x"}]}}`,
		`{"jsonrpc":"2.0","id":1,"method":"session/list","params":{"cursor":"s1"}}`,
		`[{}]`, "{", "\x00",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		s := &script{turn: plays(nil, bridge.TextDelta{Message: "m", Text: "x"}), stored: []bridge.SessionInfo{{ID: "s1", WorkingDir: "/w"}}}
		out := &bytes.Buffer{} // written by one goroutine, which has ended then
		ended := make(chan error, 1)
		go func() {
			ended <- Serve(t.Context(), s, io.MultiReader(bytes.NewReader(append(session, '\n')), bytes.NewReader(in)), out, Options{})
		}()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Fatal("it does not end")
		}
		for _, l := range bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n")) {
			if len(l) > 0 && !json.Valid(l) {
				t.Errorf("it wrote %q", l)
			}
		}
		if n := s.count(); n != 0 {
			t.Errorf("%d sessions are open", n)
		}
	})
}
