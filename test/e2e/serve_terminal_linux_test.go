package e2e

import (
	"bufio"
	"context"
	"net/http"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// At a terminal, serve prints one coloured line per request when the request
// has ended. The line says if the client disconnected early.
func TestRequestsAtTheTerminal(t *testing.T) {
	for name, tt := range map[string]struct{ env, start, good, bad string }{
		"colour":   {"TERM=xterm", "\x1b[32mrequest\x1b[0m ", "\x1b[32mstatus=200\x1b[0m ", "\x1b[33mstatus=499\x1b[0m "},
		"NO_COLOR": {"NO_COLOR=1", "\r\nrequest ", " status=200 ", " status=499 "},
		"dumb":     {"TERM=dumb", " level=INFO msg=request ", " status=200 ", " status=499 "},
	} {
		t.Run(name, func(t *testing.T) {
			x := atTerminalWith(t, []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), tt.env, "COPILOT_CLI_PATH=" + runtimetest.Path(t)}, t.TempDir(), "serve", "--port", "0", "--demo")
			x.waitFor("(Ctrl-C to stop)")
			url := regexp.MustCompile(`http://[0-9.:]+`).FindString(x.screen.String())
			post := func(ctx context.Context, body string) *http.Response {
				t.Helper()
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				r.Close = true
				r.Header.Set("Content-Type", "application/json")
				res, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				return res
			}
			_ = post(t.Context(), `{"model":"any","messages":[{"role":"user","content":"hello"}]}`).Body.Close()
			x.waitFor(tt.start)
			x.waitFor(" model=rehearsal-1 requested=any")
			x.waitFor(tt.good)

			ctx, leave := context.WithCancel(t.Context())
			res := post(ctx, `{"model":"any","stream":true,"messages":[{"role":"user","content":"rehearsal: chunks one |two \nrehearsal: silence"}]}`)
			for lines := bufio.NewScanner(res.Body); lines.Scan() && !strings.Contains(lines.Text(), "two"); {
			}
			if strings.Contains(x.screen.String()[x.read:], "status=") {
				t.Error("the request is logged before it has ended")
			}
			leave()
			_ = res.Body.Close()
			x.waitFor("request")
			x.waitFor(tt.bad)
			x.waitFor(`ended="client left"`)
			if err := x.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
			x.checkExit(0)
		})
	}
}
