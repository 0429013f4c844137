package app

import (
	"context"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/dashboard"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/httpserver"
)

// DashboardKey is the key that opens the dashboard. It is made when it is first needed,
// and kept in a file that this user alone can read, and no tool.
func DashboardKey(ctx context.Context, c *config.Config) (string, error) {
	key, err := httpserver.KeptToken(ctx, c.Path("dashboard.key"))
	if err != nil {
		return "", &bridge.Error{Code: bridge.CodeUnavailable, Message: "the key of the dashboard cannot be read or made", Cause: err,
			Remedy: "make sure that " + c.Path("dashboard.key") + " can be read and written"}
	}
	return key, nil
}

// DashboardLink is the address that logs a browser in to the dashboard of the server at url,
// once and soon.
func DashboardLink(ctx context.Context, c *config.Config, url string) (string, error) {
	key, err := DashboardKey(ctx, c)
	if err != nil {
		return "", err
	}
	// Browsers do not send what follows a number sign.
	return url + "/#login=" + dashboard.NewCode(key, url), nil
}

// mountDashboard adds the dashboard to a server.
func (s *Server) mountDashboard(ctx context.Context, o Serving, to *httpserver.Options) error {
	b := s.bridge
	key, err := DashboardKey(ctx, b.opts.Config)
	if err != nil {
		return err
	}
	d := dashboard.New(dashboard.Options{
		Key: key, Token: to.Token, URL: s.URL, Logger: b.opts.Logger,
		About: func() dashboard.About {
			return dashboard.About{Version: b.opts.Version, Answers: b.Answers.Detail, Notice: b.Answers.Notice, Workspace: o.Workspace, ReadOnly: s.ReadOnly(),
				Model: s.example(), Models: s.modelNames()}
		},
	})
	to.Open, to.Page, to.LoggedIn = d.Handlers(), d.Index(), d.LoggedIn
	return nil
}
