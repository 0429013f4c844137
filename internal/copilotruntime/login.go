package copilotruntime

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
)

// Login is a login with a code that the person enters in a browser. Only
// Copilot's CLI can do it: the native runtime takes a token.
type Login struct {
	CLI  string   // path of the Copilot CLI
	Home string   // where Copilot keeps its state
	Host string   // https://github.com
	Env  []string // the user's; its secrets are not passed on
	// Code is called with the code and the address where to enter it. A browser
	// is opened there where there is one.
	Code func(code, address string)
	// Within bounds the wait for the code; 0 means codeWithin.
	Within time.Duration
}

// codeWithin bounds the wait for a code, which the CLI does not. The CLI may have to
// unpack itself first.
const codeWithin = time.Minute

var errNoCode = errors.New("no code came in time")

const checkHost = "see that the host is right and can be reached; HTTPS_PROXY names a proxy, SSL_CERT_FILE a certificate authority of your own"

// codeLine is how the CLI tells where to enter which code.
var codeLine = regexp.MustCompile(`^To authenticate, visit (\S+) and enter code (\S+)$`)

// Run logs in. It ends when the person has entered the code, or the code has
// expired. kept is false if the CLI has found no keychain to keep the login in.
func (l Login) Run(ctx context.Context) (kept bool, err error) {
	place := program.Place{Env: append(checkEnv(l.Env), "COPILOT_HOME="+l.Home)}
	c, err := program.New(place, l.CLI, "login", "--device-code", "--host", l.Host)
	if err != nil {
		return false, err
	}
	said := &program.Tail{Limit: 4 << 10}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(cmp.Or(l.Within, codeWithin), func() { cancel(errNoCode) })
	defer late.Stop()
	tell := func(code, address string) { late.Stop(); l.Code(code, address) }
	exit, err := c.Run(ctx, program.RunOptions{Stdout: &codeReader{tell: tell}, Stderr: said})
	switch {
	case err != nil && errors.Is(context.Cause(ctx), errNoCode):
		return false, &bridge.Error{Code: bridge.CodeUnavailable, Message: l.Host + " has given no code within " + cmp.Or(l.Within, codeWithin).String(), Remedy: checkHost}
	case err != nil:
		return false, fmt.Errorf("log in with Copilot's CLI: %w", err)
	case exit.Code == 0:
		return true, nil
	case strings.Contains(said.String(), "token was not saved"):
		return false, nil
	}
	return false, l.failed(said.String())
}

// failed words what the CLI says of a login that failed.
func (l Login) failed(said string) error {
	var lines []string
	for line := range strings.Lines(said) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "Failed to ") { // copy the code, open a browser
			lines = append(lines, strings.TrimPrefix(strings.TrimPrefix(line, "Login failed: "), "Error: "))
		}
	}
	text := strings.Join(lines, " ")
	out := &bridge.Error{Code: bridge.CodeUnauthenticated, Message: "the login failed: " + text, Remedy: "try again, or use a token: copilot-bridge login --with-token < FILE"}
	switch {
	case strings.Contains(text, "expired"):
		out.Message, out.Remedy = "the login was denied, or the code expired before it was entered", "run `copilot-bridge login` again"
	case strings.Contains(text, "request failed"):
		out.Code, out.Message = bridge.CodeUnavailable, l.Host+" cannot be reached: "+text
		out.Remedy = checkHost
	case text == "":
		out.Message = "Copilot's CLI ended without a login"
	}
	return out
}

// codeReader looks for the code in the lines that the CLI writes.
type codeReader struct {
	tell func(code, address string)
	rest []byte
}

func (r *codeReader) Write(b []byte) (int, error) {
	for r.rest = append(r.rest, b...); ; {
		line, rest, found := bytes.Cut(r.rest, []byte("\n"))
		if !found {
			r.rest = r.rest[max(0, len(r.rest)-4<<10):] // the code's line is short
			return len(b), nil
		}
		if m := codeLine.FindSubmatch(bytes.TrimSpace(line)); m != nil {
			r.tell(string(m[2]), string(m[1]))
		}
		r.rest = rest
	}
}
