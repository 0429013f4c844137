// Package answers decides who answers: the demo model where it is asked for, a
// provider of the user's own, GitHub's models, or the demo model because nothing
// hints at an account. It is the one place with that policy; internal/app calls
// it and makes the agent. A token or a login that is refused is an error, never
// a reason for the demo model.
package answers

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
)

// Who says who answers, and why.
type Who struct {
	bridge.Answers
	Notice string `json:"notice,omitempty"` // set when the answers are not Copilot's
	// SetBy names the settings that decided it and where they come from;
	// "" if all are defaults.
	SetBy string `json:"set_by,omitempty"`
}

// InsteadOfDemo says how to get other answers than the demo model's.
const InsteadOfDemo = "log in with `copilot-bridge login` or set COPILOT_GITHUB_TOKEN; to use another provider, " +
	"set COPILOT_BYOK_PROVIDER, COPILOT_BYOK_API_KEY, COPILOT_BYOK_BASE_URL and COPILOT_BYOK_MODEL"

// Account is how Copilot's own program gets its answers. It is empty for the
// demo model, which the caller starts.
type Account struct {
	Provider  *bridge.Provider
	Model     string
	Token     string
	LoginHome string // where the user's own login lives; "" to leave it alone
}

// Question is what the decision depends on.
type Question struct {
	Config  *config.Config
	Environ []string
	UserDir string // the user's home directory
	// DemoIfNone lets the demo model answer unasked where nothing hints at an
	// account.
	DemoIfNone bool
	// NoTurns: sessions are only read or removed, so no account is needed.
	NoTurns bool
	// Status asks Copilot's own program who is logged in.
	Status func(ctx context.Context, a Account) (bridge.AgentStatus, error)
}

// Decide chooses who answers: the demo model, the user's provider or GitHub. Its
// error says what is wrong with the login and what to do about it.
func (q Question) Decide(ctx context.Context) (Who, Account, error) {
	c := q.Config
	switch byok := c.BYOK; {
	case c.Demo:
		return q.demo("asked for")
	case q.NoTurns:
		return q.demo("nobody is asked")
	case byok.Provider != "":
		return q.who(bridge.AnswersProvider, string(byok.Provider)+" at "+byok.BaseURL+", model "+byok.Model, "byok.provider", "byok.base_url"),
			Account{Model: byok.Model, Provider: &bridge.Provider{Kind: string(byok.Provider), BaseURL: byok.BaseURL,
				APIKey: string(byok.APIKey), BearerToken: string(byok.BearerToken), Headers: config.Plain(byok.Headers), WireAPI: byok.WireAPI, AzureAPIVersion: byok.AzureAPIVersion,
				WireModel: byok.WireModel, MaxInputTokens: byok.MaxInputTokens, MaxOutputTokens: byok.MaxOutputTokens}}, nil
	case c.GitHubToken != "":
		return q.who(bridge.AnswersGitHub, "GitHub's models, by COPILOT_GITHUB_TOKEN", "github_token"), Account{Token: string(c.GitHubToken)}, nil
	}
	return q.byLogin(ctx)
}

// ByLogin is who answers where it is not known whose login it is.
const ByLogin = "GitHub's models, by Copilot's own login"

// byLogin looks for the user's own login. That makes the runtime start other
// programs, so it is done only where there may be one.
func (q Question) byLogin(ctx context.Context) (Who, Account, error) {
	trace, possible := q.trace()
	if possible {
		account := Account{LoginHome: CopilotHome(q.Environ, q.UserDir)}
		status, err := q.Status(ctx, account)
		if err == nil && status.Authenticated {
			detail := ByLogin
			if login := cmp.Or(status.Login, status.AuthType); login != "" {
				detail = "GitHub's models, as " + login
			}
			return q.who(bridge.AnswersGitHub, detail), account, nil
		}
		if err == nil && trace != "" && status.Failure != nil && status.Failure.Problem() != bridge.ProblemLogin {
			err = status.Failure
		}
		if err != nil {
			return Who{}, Account{}, err
		}
	}
	switch {
	case trace != "":
		return Who{}, Account{}, &bridge.Error{Code: bridge.CodeUnauthenticated, Message: "GitHub did not accept " + trace,
			Remedy: "log in with `copilot-bridge login`, or set COPILOT_GITHUB_TOKEN to a token that may use Copilot; --demo lets the demo model answer"}
	case !q.DemoIfNone:
		return Who{}, Account{}, &bridge.Error{Code: bridge.CodeUnauthenticated, Message: "nobody is logged in to GitHub Copilot",
			Remedy: "run `copilot-bridge login` in a terminal, set COPILOT_GITHUB_TOKEN, or configure a provider with COPILOT_BYOK_*; --demo lets the demo model answer"}
	}
	return q.demo("nobody is logged in")
}

func (q Question) demo(why string) (Who, Account, error) {
	return q.who(bridge.AnswersDemo, "the built-in demo model ("+why+")", "demo"), Account{}, nil
}

func (q Question) who(kind bridge.AnswersKind, detail string, keys ...string) Who {
	return Who{Answers: bridge.Answers{Kind: kind, Detail: detail}, SetBy: setBy(q.Config, keys...)}
}

// Via adds to what people are told, where there is an answer.
func (w Who) Via(via string) Who {
	w.Detail += via
	return w
}

// OfAgent are the answers of a program of the user's, which has its own models.
func OfAgent(c *config.Config, kind bridge.AnswersKind, detail string) Who {
	return Question{Config: c}.who(kind, detail, "abp.runner", "abp.cmd", "abp.acp_url", "abp.acp_port")
}

// setBy says which of these settings are set, and those that choose the way to
// Copilot.
func setBy(c *config.Config, keys ...string) string {
	var parts []string
	for _, s := range c.Show() {
		if slices.Contains(append(keys, "abp.transport", "cli_path"), s.Key) && s.Origin.Source != config.SourceDefault {
			parts = append(parts, s.Env+" ("+s.Origin.String()+")")
		}
	}
	return strings.Join(parts, ", ")
}

// CopilotHome is where Copilot's own CLI keeps its state.
func CopilotHome(environ []string, userDir string) string {
	return cmp.Or(program.Variable(environ, "COPILOT_HOME"), filepath.Join(userDir, ".copilot"))
}

// TokenVariable names the variable with a token that the runtime logs in by,
// besides COPILOT_GITHUB_TOKEN; "" if there is none.
func TokenVariable(environ []string) string {
	for _, name := range []string{"GH_TOKEN", "GITHUB_TOKEN"} {
		if program.Variable(environ, name) != "" {
			return name
		}
	}
	return ""
}

// Hint says that something hints at an account; see trace.
func (q Question) Hint() bool {
	trace, _ := q.trace()
	return trace != ""
}

// trace names what shows that the user has an account, "" if nothing does.
// possible says that there may be a login all the same: in the system's key
// ring, which only Copilot's own program can ask.
func (q Question) trace() (trace string, possible bool) {
	if name := TokenVariable(q.Environ); name != "" {
		return "the token in " + name, true
	}
	home := CopilotHome(q.Environ, q.UserDir)
	if holds(filepath.Join(home, "config.json"), copilotLogin) {
		return "the login of `copilot-bridge login`", true
	}
	if holds(filepath.Join(q.ghDir(), "hosts.yml"), ghLogin) {
		return "the login of GitHub's CLI (gh)", true
	}
	_, err := os.Stat(home)
	if err != nil {
		_, err = program.Find("gh", q.Environ)
	}
	return "", err == nil
}

var (
	copilotLogin = regexp.MustCompile(`"(loggedInUsers|logged_in_users)"\s*:\s*\[\s*[^\]\s]|"(lastLoggedInUser|last_logged_in_user)"\s*:\s*\{`)
	ghLogin      = regexp.MustCompile(`(?m)^\s+(oauth_token|user):\s*\S`)
)

// holds says whether a file matches. One that cannot be read does not.
func holds(file string, what *regexp.Regexp) bool {
	text, err := os.ReadFile(file)
	return err == nil && what.Match(text)
}

// ghDir is where GitHub's CLI keeps its configuration.
func (q Question) ghDir() string {
	if dir := program.Variable(q.Environ, "GH_CONFIG_DIR"); dir != "" {
		return dir
	}
	if dir := program.Variable(q.Environ, "XDG_CONFIG_HOME"); dir != "" {
		return filepath.Join(dir, "gh")
	}
	if dir := program.Variable(q.Environ, "AppData"); dir != "" && runtime.GOOS == "windows" {
		return filepath.Join(dir, "GitHub CLI")
	}
	return filepath.Join(q.UserDir, ".config", "gh")
}
