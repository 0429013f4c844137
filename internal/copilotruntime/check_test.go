package copilotruntime_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	copilot "github.com/github/copilot-sdk/go"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// The handshake is our own; the SDK's must come to the same result.
func TestCheckAgreesWithTheSDK(t *testing.T) {
	path := runtimetest.Path(t)
	got, err := copilotruntime.Check(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}

	client := copilot.NewClient(&copilot.ClientOptions{
		Connection:      copilot.StdioConnection{Path: path},
		BaseDirectory:   t.TempDir(),
		UseLoggedInUser: copilot.Bool(false),
	})
	if err := client.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	want, err := client.GetStatus(t.Context())
	if stopErr := client.Stop(); stopErr != nil {
		t.Error(stopErr)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got.Version != want.Version || got.Protocol != want.ProtocolVersion {
		t.Errorf("Check says %+v, the SDK %+v", got, want)
	}
	if sdk := copilot.GetSDKProtocolVersion(); sdk != copilotruntime.Protocol {
		t.Errorf("the SDK speaks protocol %d, the pin is %d", sdk, copilotruntime.Protocol)
	}
}

func TestCheckLeavesNoFiles(t *testing.T) {
	path := runtimetest.Path(t)
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	if _, err := copilotruntime.Check(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(temp)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) > 0 {
		t.Errorf("left behind: %v", entries)
	}
}

// Settings that would keep the runtime from starting are not passed on.
func TestCheckIgnoresOfflineMode(t *testing.T) {
	t.Setenv("COPILOT_OFFLINE", "true")
	if _, err := copilotruntime.Check(t.Context(), runtimetest.Path(t)); err != nil {
		t.Error(err)
	}
}

func TestWrongProgramsAreRefusedWithReasons(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	script := func(name, body string) string { return writeScript(t, filepath.Join(dir, name), body) }
	// A runtime that answers both requests as told.
	answering := func(name, connect, status string) string {
		frame := func(body string) string {
			return "printf 'Content-Length: %d\\r\\n\\r\\n%s' " + strconv.Itoa(len(body)) + " '" + body + "'\n"
		}
		return script(name, frame(connect)+frame(status)+"cat >/dev/null\n")
	}
	connected := `{"jsonrpc":"2.0","id":1,"result":{"ok":true}}`

	tests := []struct {
		name, path, want string
	}{
		{"missing", filepath.Join(dir, "missing"), "there is no such file"},
		{"directory", dir, "it is a directory"},
		{"not executable", file("plain", "hello", 0o600), "it is not executable"},
		{"no program", file("noprogram", "\x7fELF nothing", 0o700), "it could not be started"},
		{"device", os.DevNull, "it is not a file"},
		{"ends at once", "/bin/true", "it ended before it answered"},
		{"ends with words", script("words", "echo 'license expired' >&2\nexit 3\n"), "it ended before it answered: exit status 3\nlicense expired"},
		{"refuses our flags", "/bin/cat", "it ended before it answered: exit status 1"},
		{"garbage", script("garbage", "echo 'Welcome! Press any key'\ncat >/dev/null\n"), `it answered "Welcome! Press any key"`},
		{"garbage without end", script("flood", "exec tr '\\0' x </dev/zero\n"), `it answered "xxxx`},
		{"garbage without newline", script("nonewline", "printf 'oops'\n"), `it answered "oops"`},
		{"huge frame", script("huge", "printf 'Content-Length: 99999999999\\r\\n\\r\\n'\ncat >/dev/null\n"), "it does not speak Copilot's protocol"},
		{"half a frame", script("half", "printf 'Content-Length: 100\\r\\n\\r\\n{}'\n"), "it ended before it answered"},
		{"echo", script("echo", "exec cat\n"), "our own request"},
		{"other protocol", answering("protocol2", connected, `{"jsonrpc":"2.0","id":2,"result":{"version":"0.9","protocolVersion":2}}`), "it speaks protocol 2 and this program needs 3"},
		{"no protocol", answering("protocol0", connected, `{"jsonrpc":"2.0","id":2,"result":{}}`), "it speaks protocol 0"},
		{"refusal", answering("refusal", `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"token needed"}}`, ""), "it refused the handshake: token needed"},
		{"not JSON", answering("notjson", "hello", ""), `it answered "hello"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := copilotruntime.Check(t.Context(), test.path)
			wantError(t, err, bridge.CodeUnavailable, test.want, "COPILOT_CLI_PATH")
			wantError(t, err, bridge.CodeUnavailable, test.path, "copilot-bridge setup")
			options := copilotruntime.Options{Home: t.TempDir(), CLIPath: test.path}
			_, err = copilotruntime.Ensure(t.Context(), options, nil)
			wantError(t, err, bridge.CodeUnavailable, test.want, "Unset COPILOT_CLI_PATH")
			wantError(t, err, bridge.CodeUnavailable, "COPILOT_CLI_PATH is set, but "+test.path, "copilot-bridge setup")
		})
	}

	t.Run("older runtimes without connect", func(t *testing.T) {
		path := answering("noconnect", `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Unhandled method connect"}}`,
			`{"jsonrpc":"2.0","id":2,"result":{"version":"0.9","protocolVersion":3}}`)
		got, err := copilotruntime.Check(t.Context(), path)
		if want := (copilotruntime.Status{Version: "0.9", Protocol: 3}); err != nil || got != want {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

func TestCheckStopsWithItsContext(t *testing.T) {
	path := writeScript(t, filepath.Join(t.TempDir(), "hangs"), "sleep 600\n")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := copilotruntime.Check(ctx, path)
	if bridge.CodeOf(err) != bridge.CodeCanceled {
		t.Errorf("got %v", err)
	}
}

func TestSecretsDoNotReachAnUnknownProgram(t *testing.T) {
	for _, name := range []string{"COPILOT_GITHUB_TOKEN", "COPILOT_BYOK_API_KEY", "OPENAI_API_KEY", "GH_TOKEN", "OPENCLAW_GATEWAY_TOKEN"} {
		t.Setenv(name, "s3cret-value")
	}
	dir := t.TempDir()
	out := filepath.Join(dir, "env")
	path := writeScript(t, filepath.Join(dir, "spy"), "env >'"+out+"'\n")
	if _, err := copilotruntime.Check(t.Context(), path); err == nil {
		t.Fatal("the spy passed for a runtime")
	}
	wantNoSecret(t, out)
}
