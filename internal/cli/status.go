package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/cli/view"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

func (p *program) statusCommand() *cobra.Command {
	cmd := p.command(&cobra.Command{
		Use:   "status",
		Short: "Show who is logged in to GitHub Copilot",
		Long: `Show who is logged in to GitHub Copilot, the plan, where the credential is kept, and what is left
of the quota. GitHub is asked; no model is called. It ends with code 3 if nobody is logged in.`,
		Example: `  copilot-bridge status
  copilot-bridge status --json | jq '.quotas[] | select(.name=="premium_interactions") | .remaining'`,
	}, func(ctx context.Context, c call) error { return p.status(ctx, c.cfg) })
	flagsOf(cmd).json("write JSON")
	return cmd
}

func (p *program) status(ctx context.Context, cfg *config.Config) (err error) {
	a, err := p.openAccount(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close(ctx)) }()
	stop := p.progress().Begin("asking GitHub")
	s, err := a.Status(ctx)
	stop()
	if err != nil {
		return err
	}
	if !s.LoggedIn {
		return p.notLoggedIn(s)
	}
	if p.json {
		return p.printJSON(s)
	}
	rows := [][]string{{"plan", cmp.Or(s.Plan, "not known")}, {"login", p.keptWhere(cfg, s)}}
	for _, q := range s.Quotas {
		rows = append(rows, []string{quotaNames[q.Name], quotaLeft(q, s.Resets)})
	}
	text := whose(s) + "\n"
	for _, r := range rows {
		text += fmt.Sprintf("  %-18s %s\n", r[0], r[1])
	}
	if err := p.print(text); err != nil {
		return err
	}
	for _, refused := range s.Refused {
		p.console.Warn(refused)
	}
	p.warnInstead(s)
	return nil
}

// notLoggedIn is an error, because scripts ask.
func (p *program) notLoggedIn(s app.AccountStatus) error {
	err := &bridge.Error{Code: bridge.CodeUnauthenticated, Message: "nobody is logged in to GitHub Copilot",
		Remedy: "run `copilot-bridge login` in a terminal, or set COPILOT_GITHUB_TOKEN"}
	switch {
	case s.Why != nil && s.Why.Problem() != bridge.ProblemLogin:
		err = s.Why // a login would not help
	case len(s.Refused) > 0:
		err.Message = "no login is accepted: " + strings.Join(s.Refused, "; ")
		err.Remedy = "run `copilot-bridge login` in a terminal, or set COPILOT_GITHUB_TOKEN to a token that may use Copilot"
	}
	if p.json {
		return p.showFailed(s, "", err)
	}
	p.warnInstead(s)
	return err
}

// openAccount opens the user's account.
func (p *program) openAccount(ctx context.Context, cfg *config.Config) (*app.Account, error) {
	if err := p.requireExecutable(); err != nil {
		return nil, err
	}
	shows := p.progress()
	defer shows.Begin("starting")()
	o := p.options(cfg)
	o.Progress = shows.Step
	return app.OpenAccount(ctx, o)
}

// whose is who is logged in, and where.
func whose(s app.AccountStatus) string {
	return approval.Visible(cmp.Or(s.Login, "somebody") + " at " + bareHost(s.Host))
}

func bareHost(host string) string { return strings.TrimPrefix(host, "https://") }

// keptWhere says where the credential is.
func (p *program) keptWhere(cfg *config.Config, s app.AccountStatus) string {
	switch s.Credential {
	case "keychain":
		return "in the system's keychain"
	case "file":
		return "in plain text in " + p.short(s.File)
	case "variable":
		return "by the variable " + s.Variable
	case "gh":
		return "by GitHub's CLI (gh)"
	case "setting":
		for _, k := range cfg.Show() {
			if k.Key == "github_token" {
				return "by COPILOT_GITHUB_TOKEN (" + k.Origin.String() + ")"
			}
		}
	}
	return "by " + s.Kind
}

// warnInstead says what answers instead of the account's models.
func (p *program) warnInstead(s app.AccountStatus) {
	if s.InPlace != "" {
		p.console.Warn("the account is not used: " + s.InPlace + " answers, as the settings say")
	}
}

// quotaNames are GitHub's names for people.
var quotaNames = map[string]string{"premium_interactions": "premium requests", "chat": "chat messages", "completions": "completions"}

func quotaLeft(q app.Quota, resets string) string {
	if q.Unlimited || q.Entitlement < 0 {
		return "unlimited"
	}
	text := fmt.Sprintf("%s of %s left", view.Count(int64(q.Remaining)), view.Count(int64(q.Entitlement)))
	if resets != "" {
		text += ", reset on " + resets
	}
	if q.Remaining <= 0 && q.Overage {
		text += "; more are paid for"
	}
	return text
}
