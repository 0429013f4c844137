package app

import (
	"cmp"
	"context"
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/dashboard"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/httpserver"
	"github.com/copilot-bridge/copilot-bridge/internal/live"
	"github.com/copilot-bridge/copilot-bridge/internal/timeline"
)

// dashboardKey is a file in the bridge's home.
const dashboardKey = "dashboard.key"

// DashboardKey is the key that opens the dashboard. It is made when it is first needed,
// and kept in a file that this user alone can read, and no tool.
func DashboardKey(ctx context.Context, c *config.Config) (string, error) {
	key, err := httpserver.KeptToken(ctx, c.Path(dashboardKey))
	if err != nil {
		return "", &bridge.Error{Code: bridge.CodeUnavailable, Message: "the key of the dashboard cannot be read or made", Cause: err,
			Remedy: cmp.Or(bridge.AsError(err).Remedy, "make sure that "+c.Path(dashboardKey)+" can be read and written")}
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

// unreadableKeys keeps tools from reading what opens the dashboard, and what other
// sessions do, where the bridge's home is in the workspace: they could approve their
// own calls. Elsewhere they read nothing of the home anyway.
func unreadableKeys(c *config.Config, root string) ([]policy.Layer, error) {
	var globs []string
	for file, rest := range map[string]string{c.Path(dashboardKey): "*", TokenFile(c): "*", live.Dir(c.Home): "/**", timeline.Dir(c.Home): "/**", c.Path(fleetDir): "/**"} {
		if rel, err := filepath.Rel(root, file); err == nil && filepath.IsLocal(rel) {
			globs = append(globs, globChars.ReplaceAllString(filepath.ToSlash(rel), `\\$0`)+rest)
		}
	}
	slices.Sort(globs)
	if globs == nil {
		return nil, nil
	}
	data, err := json.Marshal(map[string]any{"reads": map[string]any{"deny": globs}})
	if err != nil {
		return nil, err
	}
	rules, err := policy.ParseYAML("the bridge's own files", data)
	return []policy.Layer{{Rules: rules, Trusted: true}}, err
}

// globChars are those that mean something in a glob.
var globChars = regexp.MustCompile(`[][*?{}\\]`)

// mountDashboard adds the dashboard to a server.
func (s *Server) mountDashboard(ctx context.Context, o Serving, to *httpserver.Options) error {
	b := s.bridge
	key, err := DashboardKey(ctx, b.opts.Config)
	if err != nil {
		return err
	}
	d := dashboard.New(dashboard.Options{
		Home: b.opts.Config.Home, Key: key, Token: to.Token, URL: s.URL, Logger: b.opts.Logger,
		Records: s.newRecords(o), Resumer: &resumed{bridge: b, open: map[string]bool{}}, LinkRefused: b.linkRefused,
		About: func() dashboard.About {
			return dashboard.About{Version: b.opts.Version, Answers: b.Answers.Detail, Notice: b.Answers.Notice, Workspace: o.Workspace, ReadOnly: s.ReadOnly(),
				Model: s.example(), Models: s.modelNames()}
		},
	})
	to.Open, to.Page, to.LoggedIn = d.Handlers(), d.Index(), d.LoggedIn
	return nil
}
