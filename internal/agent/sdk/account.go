package sdk

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	common "github.com/copilot-bridge/copilot-bridge/internal/agent/session"
)

// Account is who is logged in, as the runtime knows it. It holds no credential.
type Account struct {
	Login    string  `json:"login,omitempty"`
	Host     string  `json:"host,omitempty"`
	Kind     string  `json:"kind,omitempty"`     // of login: user, env, token, gh-cli, …
	Variable string  `json:"variable,omitempty"` // with the token, of kind env
	Plan     string  `json:"plan,omitempty"`
	Quotas   []Quota `json:"quotas,omitempty"`
	Resets   string  `json:"quota_reset_date,omitempty"` // 2006-01-02
	// Refused are the logins that GitHub did not accept, in the runtime's words.
	Refused []string `json:"refused,omitempty"`
	// Why names the problem if no login was accepted: not each is the login's.
	Why *bridge.Error `json:"-"`
}

// Quota is one limit of the plan, and how much of it is left.
type Quota struct {
	Name        string  `json:"name"` // premium_interactions, chat, completions
	Unlimited   bool    `json:"unlimited,omitempty"`
	Entitlement float64 `json:"entitlement"`
	Remaining   float64 `json:"remaining"`
	// Overage says that requests beyond the quota are answered, and paid for.
	Overage bool `json:"overage,omitempty"`
}

// authInfo is what this package reads of the runtime's seven kinds of login.
type authInfo struct {
	Host   string                   `json:"host"`
	Login  string                   `json:"login"`
	EnvVar string                   `json:"envVar"`
	User   *rpc.CopilotUserResponse `json:"copilotUser"`
}

// Account returns the account that is logged in. Its Kind is empty if there is none.
func (a *Agent) Account(ctx context.Context) (Account, error) {
	current, err := askGitHub(ctx, a, "", "ask for the account", func(ctx context.Context, c *copilot.Client) (*rpc.AccountGetCurrentAuthResult, error) {
		return c.RPC.Account.GetCurrentAuth(ctx)
	})
	if err != nil {
		return Account{}, err
	}
	out := Account{}
	for _, refused := range current.AuthErrors {
		out.Refused = append(out.Refused, common.Scrub(refused, nil, a.opts.Token))
	}
	if current.AuthInfo == nil {
		if len(out.Refused) > 0 {
			out.Why = bridge.AsError(a.refusal(ctx, strings.Join(out.Refused, "; ")))
		}
		return out, nil
	}
	raw, err := json.Marshal(current.AuthInfo)
	var info authInfo
	if err == nil {
		err = json.Unmarshal(raw, &info)
	}
	if err != nil {
		return out, fmt.Errorf("the account as the runtime tells it: %w", err)
	}
	out.Kind, out.Login, out.Host, out.Variable = string(current.AuthInfo.Type()), info.Login, info.Host, info.EnvVar
	if u := info.User; u != nil {
		out.Login, out.Plan, out.Resets = cmp.Or(out.Login, str(u.Login)), str(u.CopilotPlan), str(u.QuotaResetDate)
		out.Quotas, err = quotas(u.QuotaSnapshots)
	}
	return out, err
}

// askGitHub asks the runtime what it has to ask GitHub at an address for, "" for the
// usual one. The runtime itself would wait for ever.
func askGitHub[R any](ctx context.Context, a *Agent, address, what string, f func(context.Context, *copilot.Client) (R, error)) (R, error) {
	late := false
	r, err := ask(ctx, a, bridge.ProfileAgent, what, func(c *copilot.Client) (R, error) {
		bounded, cancel := context.WithTimeout(ctx, lookupWithin)
		defer cancel()
		r, err := f(bounded, c)
		late = err != nil && bounded.Err() != nil && ctx.Err() == nil
		return r, err
	})
	if !late {
		return r, err
	}
	hosts, err := a.pool(bridge.ProfileAgent)
	if err != nil {
		return r, err
	}
	if _, address, _ = strings.Cut(address, "://"); address != "" {
		address = apiHost(address)
	}
	return r, hosts[0].unreachable(ctx, address)
}

// refusal names the problem of logins that were not accepted.
func (a *Agent) refusal(ctx context.Context, words string) error {
	hosts, err := a.pool(bridge.ProfileAgent)
	if err != nil {
		return err
	}
	return hosts[0].refusal(ctx, words)
}

// quotas are those that the account has, the one that is paid for first.
func quotas(from *rpc.CopilotUserResponseQuotaSnapshots) (out []Quota, err error) {
	raw, err := json.Marshal(from)
	if err != nil {
		return nil, err
	}
	var snapshots map[string]struct {
		Entitlement float64 `json:"entitlement"`
		Remaining   float64 `json:"remaining"`
		Unlimited   bool    `json:"unlimited"`
		Overage     bool    `json:"overage_permitted"`
	}
	err = json.Unmarshal(raw, &snapshots)
	for _, name := range []string{"premium_interactions", "chat", "completions"} {
		if q, ok := snapshots[name]; ok {
			out = append(out, Quota{Name: name, Unlimited: q.Unlimited, Entitlement: q.Entitlement, Remaining: q.Remaining, Overage: q.Overage})
		}
	}
	return out, err
}

// LogIn hands the runtime a token, which it tries and keeps in the system's
// keychain. Where there is none it keeps it in its own file if plainText is set;
// otherwise kept is false, and only whose the token was is noted.
func (a *Agent) LogIn(ctx context.Context, host, token string, plainText bool) (kept bool, err error) {
	if plainText {
		restore, err := a.StorePlainText(ctx)
		if err != nil {
			return false, err
		}
		defer restore()
	}
	r, err := askGitHub(ctx, a, host, "log in", func(ctx context.Context, c *copilot.Client) (*rpc.AccountLoginResult, error) {
		return c.RPC.Account.Login(ctx, &rpc.AccountLoginRequest{Host: host, Token: token})
	})
	if err != nil {
		return false, loginRefused(err, token)
	}
	return r.StoredInVault, nil
}

// loginRefused explains why a token was not accepted.
func loginRefused(err error, token string) error {
	err = common.ScrubError(err, nil, token)
	_, text, found := strings.Cut(err.Error(), "account.login failed with message: ")
	if !found {
		return err
	}
	switch {
	case strings.Contains(text, "request failed"):
		return &bridge.Error{Code: bridge.CodeUnavailable, Message: "GitHub cannot be reached: " + text,
			Remedy: "see that the host is right and can be reached; HTTPS_PROXY names a proxy, SSL_CERT_FILE a certificate authority of your own"}
	case strings.Contains(text, "(ghp_)"):
		return &bridge.Error{Code: bridge.CodeUnauthenticated, Message: "GitHub Copilot accepts no classic personal access tokens (ghp_…)",
			Remedy: "make a fine-grained one with the permission “Copilot Requests”, or log in without --with-token"}
	case common.LoginRefused(text):
		return &bridge.Error{Code: bridge.CodeUnauthenticated, Message: "GitHub did not accept the token",
			Remedy: "see that it has not expired, is for this host, and may use Copilot"}
	}
	return &bridge.Error{Code: bridge.CodeUnauthenticated, Message: "the login failed: " + strings.TrimSuffix(text, "."),
		Remedy: "see that the token is whole and for this host, or log in without --with-token"}
}

// cliSuffix ends the name under which Copilot's CLI keeps a second copy of a
// token. The runtime leaves that copy where it is when it logs a user out, so
// it is told to log out a user of that name, and first: the last call counts.
const cliSuffix = ":github"

// LogOut removes a login from where the runtime keeps it.
func (a *Agent) LogOut(ctx context.Context, host, login string) error {
	for _, name := range []string{login + cliSuffix, login} {
		_, err := ask(ctx, a, bridge.ProfileAgent, "log out", func(c *copilot.Client) (*rpc.AccountLogoutResult, error) {
			return c.RPC.Account.Logout(ctx, &rpc.AccountLogoutRequest{AuthInfo: &rpc.UserAuthInfo{Host: host, Login: name}})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// plainTextSetting is the runtime's consent to keep tokens in its own file.
const plainTextSetting = "storeTokenPlaintext"

// StorePlainText lets the runtime keep tokens in its own file, until restore.
func (a *Agent) StorePlainText(ctx context.Context) (restore func(), err error) {
	var before any
	set := func(ctx context.Context, value any) error {
		_, err := ask(ctx, a, bridge.ProfileAgent, "allow a login in plain text", func(c *copilot.Client) (*rpc.UserSettingsSetResult, error) {
			return c.RPC.User.Settings().Set(ctx, &rpc.UserSettingsSetRequest{Settings: map[string]any{plainTextSetting: value}})
		})
		return err
	}
	now, err := ask(ctx, a, bridge.ProfileAgent, "read the settings", func(c *copilot.Client) (*rpc.UserSettingsGetResult, error) {
		return c.RPC.User.Settings().Get(ctx)
	})
	if err != nil {
		return nil, err
	}
	if m := now.Settings[plainTextSetting]; !m.IsDefault {
		before = m.Value
	}
	if err := set(ctx, true); err != nil {
		return nil, err
	}
	return func() {
		if err := set(context.WithoutCancel(ctx), before); err != nil {
			a.opts.Logger.Warn("login.setting_not_restored", "setting", plainTextSetting, "error", err)
		}
	}, nil
}
