package copilotruntime_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime"
)

// What a CLI may say that GitHub's stand-in does not bring it to.
func TestLoginWords(t *testing.T) {
	t.Parallel()
	const again = "try again, or use a token: copilot-bridge login --with-token < FILE"
	for name, tt := range map[string]struct {
		script  string
		kept    bool
		code    string
		message string
		remedy  string
	}{
		"in pieces": {script: `printf 'To authenticate, visit https://g/login/dev'; printf 'ice and enter code AB-CD\nWaiting\n'`, kept: true, code: "AB-CD at https://g/login/device"},
		"a policy": {script: "echo 'Failed to open browser. Please visit x' >&2; echo 'Your organization requires SSO.' >&2; exit 1",
			message: "the login failed: Your organization requires SSO.", remedy: again},
		"nothing":   {script: "exit 1", message: "Copilot's CLI ended without a login", remedy: again},
		"no secret": {script: `test "$COPILOT_HOME" = /home/x/.copilot && test -z "$GITHUB_TOKEN$COPILOT_BYOK_API_KEY"`, kept: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code := ""
			kept, err := copilotruntime.Login{
				CLI: writeScript(t, filepath.Join(t.TempDir(), "copilot"), tt.script+"\n"), Home: "/home/x/.copilot", Host: "https://g",
				Env:  []string{"PATH=" + os.Getenv("PATH"), "GITHUB_TOKEN=gho_1", "COPILOT_BYOK_API_KEY=k"},
				Code: func(c, at string) { code = c + " at " + at },
			}.Run(t.Context())
			if kept != tt.kept || code != tt.code || (err == nil) != (tt.message == "") {
				t.Fatalf("kept %v, code %q, %v", kept, code, err)
			}
			if e := bridge.AsError(err); e != nil && (e.Code != bridge.CodeUnauthenticated || e.Message != tt.message || e.Remedy != tt.remedy) {
				t.Errorf("%s %q %q", e.Code, e.Message, e.Remedy)
			}
		})
	}
}

// A host that gives no code is not waited for.
func TestLoginWithoutACode(t *testing.T) {
	t.Parallel()
	_, err := copilotruntime.Login{
		CLI: writeScript(t, filepath.Join(t.TempDir(), "copilot"), "exec sleep 1000\n"), Home: "/home/x/.copilot", Host: "https://g",
		Env: []string{"PATH=" + os.Getenv("PATH")}, Within: 50 * time.Millisecond,
		Code: func(string, string) { t.Error("there is a code") },
	}.Run(t.Context())
	if e := bridge.AsError(err); e == nil || e.Code != bridge.CodeUnavailable || e.Message != "https://g has given no code within 50ms" || e.Remedy == "" {
		t.Errorf("%v", err)
	}
}
