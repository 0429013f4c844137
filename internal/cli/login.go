package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

// loginOptions are the flags of login.
type loginOptions struct {
	token    bool
	insecure bool
	host     string
}

func (p *program) loginCommand() *cobra.Command {
	o := &loginOptions{}
	cmd := p.command(&cobra.Command{
		Use:   "login",
		Short: "Log in to GitHub Copilot",
		Long: `Log in to GitHub Copilot: enter the code that is shown at the address that is shown, in any
browser. One is opened where there is one. Copilot's own program keeps the login, in the
system's keychain, and uses it too. A server that runs takes it up.

Logging in with a code needs Copilot's CLI (190 MB), which is installed if you agree; with
--with-token it is not needed. The token is a fine-grained one with the permission “Copilot
Requests”, or one of the GitHub CLI (gh auth token).`,
		Example: `  copilot-bridge login
  copilot-bridge login --host example.ghe.com
  copilot-bridge login --with-token < token.txt`,
	}, func(ctx context.Context, c call) error { return p.login(ctx, c, o) })
	f := flagsOf(cmd)
	f.BoolVar(&o.token, "with-token", false, "read a token from standard input")
	f.text(&o.host, "host", "`HOST` of GitHub Enterprise Cloud; github.com without it")
	f.BoolVar(&o.insecure, "insecure-storage", false, "keep the login in plain text where there is no keychain")
	return cmd
}

// loginHost is the address of a host that was given, or of the one that the
// runtime's own variables name. It is https: the login goes there.
func (p *program) loginHost(cmd *cobra.Command, given string) (string, error) {
	host := cmp.Or(given, p.env.get("COPILOT_GH_HOST"), p.env.get("GH_HOST"), "github.com")
	at, err := url.Parse("https://" + strings.TrimPrefix(host, "https://"))
	if err != nil || at.User != nil || !isHost(at) || at.RawQuery != "" || at.Fragment != "" || strings.Trim(at.Path, "/") != "" {
		return "", usage(cmd, "%q is not a host; give it like --host example.ghe.com", host)
	}
	return "https://" + at.Host, nil
}

// isHost reports whether an address names a host that can be asked. Labels are not
// checked further: names of other languages are taken.
func isHost(at *url.URL) bool {
	if port := at.Port(); port != "" {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return false
		}
	}
	name := at.Hostname()
	return name != "" && !strings.HasPrefix(name, "-") && !strings.ContainsFunc(name, unicode.IsSpace)
}

// maxToken is more than any token has.
const maxToken = 4 << 10

func (p *program) login(ctx context.Context, c call, o *loginOptions) (err error) {
	token := ""
	if o.token {
		if token, err = p.readToken(c.cmd); err != nil {
			return err
		}
		p.scrub.Learn(append(c.cfg.Secrets(), token))
	}
	host, err := p.loginHost(c.cmd, o.host)
	if err != nil {
		return err
	}
	a, err := p.openAccount(ctx, c.cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close(ctx)) }()
	plain := o.insecure
	if !plain && a.NoKeychain() {
		if plain, err = p.agreesToPlainText(ctx, a); err != nil {
			return err
		}
	}
	var kept bool
	if o.token {
		stop := p.progress().Begin("logging in")
		kept, err = a.LogIn(ctx, host, token, plain)
		stop()
	} else {
		kept, err = p.loginWithCode(ctx, a, host, plain)
	}
	if err == nil && !kept {
		err = notKept(a)
	}
	if err != nil {
		return err
	}
	return p.loggedIn(ctx, c, a)
}

// readToken reads a token from standard input, which must not be a terminal: it
// would show the token.
func (p *program) readToken(cmd *cobra.Command) (string, error) {
	if p.env.IsTerminal(p.env.Stdin) {
		return "", usage(cmd, "--with-token reads the token from standard input, and a terminal would show it; use: copilot-bridge login --with-token < FILE")
	}
	raw, err := io.ReadAll(io.LimitReader(p.env.Stdin, maxToken+1))
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(raw))
	switch {
	case token == "":
		return "", usage(cmd, "standard input has no token")
	case len(raw) > maxToken || strings.ContainsAny(token, " \t\r\n"):
		return "", usage(cmd, "standard input is more than a token")
	case strings.ContainsFunc(token, func(r rune) bool { return r < '!' || r > '~' }):
		return "", usage(cmd, "standard input is not a token: it has characters that no token has")
	}
	return token, nil
}

// agreesToPlainText asks whether the login may be kept in plain text. Without a
// person it may not.
func (p *program) agreesToPlainText(ctx context.Context, a *app.Account) (bool, error) {
	k := p.keyboard()
	if k == nil {
		return false, notKept(a)
	}
	defer k.Close()
	yes, err := k.Confirm(ctx, "This system has no keychain. Keep the login in plain text in "+p.short(a.File())+"?")
	if err == nil && !yes {
		err = notKept(a)
	}
	return yes, err
}

func notKept(a *app.Account) error {
	return &bridge.Error{Code: bridge.CodeUnavailable, Message: "you are not logged in: this system has no keychain to keep the login in",
		Remedy: "run it with --insecure-storage to keep it in plain text in " + a.File() + ", or set COPILOT_GITHUB_TOKEN"}
}

// loginWithCode logs in through a browser.
func (p *program) loginWithCode(ctx context.Context, a *app.Account, host string, plain bool) (bool, error) {
	err := a.FindCLI(ctx)
	if bridge.CodeOf(err) == bridge.CodeNotFound {
		err = p.installCLI(ctx, a)
	}
	if err != nil {
		return false, err
	}
	stop := p.progress().Begin("asking GitHub for a code")
	defer func() { stop() }()
	return a.LogInWithCode(ctx, host, plain, func(code, address string) {
		stop()
		// They are the host's words, whichever it is.
		p.console.Line("Open " + approval.Visible(address) + " in a browser and enter the code:")
		p.console.Line("  " + approval.Visible(code))
		stop = p.progress().Begin("waiting until the code is entered (Ctrl-C stops)")
	})
}

func (p *program) installCLI(ctx context.Context, a *app.Account) error {
	missing := &bridge.Error{Code: bridge.CodeUnavailable, Message: "logging in with a code needs Copilot's CLI, which is not installed",
		Remedy: "run `copilot-bridge setup --acp`, which installs it (190 MB), or log in with --with-token"}
	k := p.keyboard()
	if k == nil {
		return missing
	}
	yes, err := k.Confirm(ctx, "Logging in with a code needs Copilot's CLI. Install it (190 MB)?")
	k.Close()
	switch {
	case err != nil:
		return err
	case !yes:
		return missing
	}
	shows := p.progress()
	defer shows.Begin("installing Copilot's CLI")()
	return a.InstallCLI(ctx, shows.Step)
}

// loggedIn says as whom, and what keeps the account's models from answering.
func (p *program) loggedIn(ctx context.Context, c call, a *app.Account) error {
	s, err := a.Status(ctx)
	if err != nil {
		return err
	}
	before := a.Variable()
	text := "✓ logged in as " + whose(s) + ", kept " + p.keptWhere(c.cfg, s) + "\n"
	if before != "" && s.Kind != "user" {
		text = "✓ logged in\n" // the other account answers
	}
	if err := p.print(text); err != nil {
		return err
	}
	if before != "" {
		p.console.Warn(before + " is set and comes before this login; unset it to use the login")
	}
	p.warnInstead(s)
	return nil
}
