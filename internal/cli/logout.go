package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/internal/config"
)

func (p *program) logoutCommand() *cobra.Command {
	return p.command(&cobra.Command{
		Use:   "logout",
		Short: "Log out of GitHub Copilot",
		Long: `Remove the login of GitHub Copilot from the system's keychain, or from where else Copilot's own
program keeps it. Servers that run notice. GitHub's list of authorized applications still has it;
revoke it there to make copies of it useless.`,
		Example: "  copilot-bridge logout",
	}, func(ctx context.Context, c call) error { return p.logout(ctx, c.cfg) })
}

func (p *program) logout(ctx context.Context, cfg *config.Config) (err error) {
	a, err := p.openAccount(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close(ctx)) }()
	stop := p.progress().Begin("logging out")
	login, host, err := a.LogOut(ctx)
	stop()
	if err != nil {
		return err
	}
	text := "nobody was logged in\n"
	if login != "" {
		text = "✓ " + login + " is logged out of " + bareHost(host) + "\n"
	}
	if err := p.print(text); err != nil {
		return err
	}
	s, err := a.Status(ctx)
	if err == nil && s.LoggedIn {
		p.console.Warn("an account is still used: " + whose(s) + ", " + p.keptWhere(cfg, s))
	}
	return err
}
