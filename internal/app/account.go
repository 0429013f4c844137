package app

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/sdk"
	"github.com/copilot-bridge/copilot-bridge/internal/answers"
	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime"
)

// Account is the user's account with GitHub, and the runtime that knows it.
// Credentials are the runtime's to keep.
type Account struct {
	opts  Options
	home  string // Copilot's
	agent *sdk.Agent
	cli   copilotruntime.Runtime // see FindCLI
}

// Quota is what is left of something that the plan counts.
type Quota = sdk.Quota

// AccountStatus is who is logged in, and how.
type AccountStatus struct {
	LoggedIn bool `json:"logged_in"`
	sdk.Account
	// Credential says where it is kept: keychain, file, variable, setting, gh.
	Credential string `json:"credential,omitempty"`
	File       string `json:"file,omitempty"` // that holds it in plain text
	// InPlace names what answers instead of the account's models, if anything.
	InPlace string `json:"answers_instead,omitempty"`
}

// OpenAccount finds or installs the runtime. The caller closes the account.
func OpenAccount(ctx context.Context, o Options) (*Account, error) {
	rt, err := o.runtime(ctx)
	if err != nil {
		return nil, err
	}
	a := &Account{opts: o, home: answers.CopilotHome(o.Environ, o.UserDir)}
	s := o.sdkOptions(rt.Path)
	s.Home, s.UseLogin, s.Token = a.home, true, string(o.Config.GitHubToken)
	a.agent = sdk.New(s)
	return a, nil
}

// lookEvery is the pause between two looks for an account.
const lookEvery = time.Second

// AccountAppears waits until somebody has logged in where the demo model answers
// only because nobody had. It returns false if ctx ends before, or if the demo
// model is not why.
func (b *Bridge) AccountAppears(ctx context.Context) bool {
	if !b.nobodyLoggedIn() {
		return false
	}
	q := answers.Question{Environ: b.opts.Environ, UserDir: b.opts.UserDir}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for seen := 0; seen < 2; { // a login that cannot be kept shows for a moment
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
		if seen++; !q.Hint() {
			seen = 0
		}
	}
	return true
}

// Close ends the runtime.
func (a *Account) Close(ctx context.Context) error { return a.agent.Close(ctx) }

// Status says who is logged in.
func (a *Account) Status(ctx context.Context) (AccountStatus, error) {
	who, err := a.agent.Account(ctx)
	out := AccountStatus{LoggedIn: who.Kind != "", Account: who}
	switch who.Kind {
	case "user":
		out.Credential = "keychain"
		if kept, _ := a.kept(); kept.plain(who.Host, who.Login) {
			out.Credential, out.File = "file", a.File()
		}
	case "env":
		out.Credential, out.Variable = "variable", a.Variable() // the runtime gets it by another
	case "token":
		out.Credential = "setting"
	case "gh-cli":
		out.Credential = "gh"
	}
	switch c := a.opts.Config; {
	case c.Demo:
		out.InPlace = "the demo model"
	case c.BYOK.Provider != "":
		out.InPlace = string(c.BYOK.Provider) + " at " + c.BYOK.BaseURL
	}
	return out, err
}

// Variable names a token of the environment or the settings, which comes before
// a stored login; "" if there is none.
func (a *Account) Variable() string {
	if a.opts.Config.GitHubToken != "" {
		return "COPILOT_GITHUB_TOKEN"
	}
	return answers.TokenVariable(a.opts.Environ)
}

// LogIn logs in with a token. kept is false where there is no keychain and
// plainText is not set; nothing of the login stays then.
func (a *Account) LogIn(ctx context.Context, host, token string, plainText bool) (kept bool, err error) {
	before, err := a.kept()
	if err != nil {
		return false, err
	}
	if kept, err = a.agent.LogIn(ctx, host, token, plainText); err != nil {
		return false, err
	}
	if kept {
		return true, a.changed()
	}
	// The runtime has noted whose the token was, which would count as a login.
	after, err := a.kept()
	for _, u := range after.Users {
		if !slices.Contains(before.Users, u) {
			err = errors.Join(err, a.agent.LogOut(ctx, u.Host, u.Login))
		}
	}
	return false, err
}

// LogInWithCode logs in through a browser, after FindCLI or InstallCLI; see
// copilotruntime.Login.
func (a *Account) LogInWithCode(ctx context.Context, host string, plainText bool, tell func(code, address string)) (kept bool, err error) {
	if plainText {
		restore, err := a.agent.StorePlainText(ctx)
		if err != nil {
			return false, err
		}
		defer restore()
	}
	kept, err = copilotruntime.Login{CLI: a.cli.Path, Home: a.home, Host: host, Env: a.opts.Environ, Code: tell}.Run(ctx)
	if kept {
		err = a.changed()
	}
	return kept, err
}

// FindCLI finds Copilot's CLI, which LogInWithCode needs. Its error has
// bridge.CodeNotFound if it is not installed.
func (a *Account) FindCLI(ctx context.Context) (err error) {
	a.cli, err = copilotruntime.FindCLI(ctx, a.at())
	return err
}

// InstallCLI installs it.
func (a *Account) InstallCLI(ctx context.Context, p copilotruntime.Progress) (err error) {
	a.cli, err = copilotruntime.InstallCLI(ctx, a.at(), p)
	return err
}

func (a *Account) at() copilotruntime.Options {
	return copilotruntime.Options{Home: a.opts.Config.Home, CLIPath: a.opts.Config.CLIPath}
}

// LogOut removes the login that the runtime used last, and says whose it was.
// It is "" if the runtime keeps none.
func (a *Account) LogOut(ctx context.Context) (login, host string, err error) {
	kept, err := a.kept()
	if err != nil {
		return "", "", err
	}
	user := kept.Last
	if user == (keptUser{}) && len(kept.Users) > 0 {
		user = kept.Users[0]
	}
	if user == (keptUser{}) {
		return "", "", nil
	}
	if err := a.agent.LogOut(ctx, user.Host, user.Login); err != nil {
		return "", "", err
	}
	return user.Login, user.Host, a.changed()
}

// changed forgets what belonged to the account before.
func (a *Account) changed() error {
	err := os.Remove(a.opts.Config.Path(keptModels))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return err
}

// NoKeychain says that this system certainly has none. Linux has one only
// where a session of D-Bus runs.
func (a *Account) NoKeychain() bool {
	if runtime.GOOS != "linux" || a.opts.env("DBUS_SESSION_BUS_ADDRESS") != "" {
		return false
	}
	dir := a.opts.env("XDG_RUNTIME_DIR")
	_, err := os.Stat(filepath.Join(dir, "bus"))
	return dir == "" || err != nil
}

// File is where the runtime keeps logins, and tokens where there is no keychain.
func (a *Account) File() string { return filepath.Join(a.home, "config.json") }

// keptLogins are the logins that the runtime keeps, as its file tells. Tokens in
// the file are not read.
type keptLogins struct {
	Last   keptUser          `json:"lastLoggedInUser"`
	Users  []keptUser        `json:"loggedInUsers"`
	Tokens map[string]unread `json:"authTokens"`
}

// unread is a value that is passed over.
type unread struct{}

func (*unread) UnmarshalJSON([]byte) error { return nil }

type keptUser struct {
	Host  string `json:"host"`
	Login string `json:"login"`
}

// plain says that a user's token is in the file.
func (k keptLogins) plain(host, login string) bool {
	_, plain := k.Tokens[host+":"+login]
	return plain
}

func (a *Account) kept() (k keptLogins, err error) {
	text, err := os.ReadFile(a.File())
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err == nil {
		err = json.Unmarshal(sdk.WithoutComments(text), &k)
	}
	if err != nil {
		return k, &bridge.Error{Code: bridge.CodeUnavailable, Message: "the file in which Copilot keeps logins cannot be read", Cause: err,
			Remedy: "see that " + a.File() + " is readable JSON, or remove it and log in again"}
	}
	return k, nil
}
