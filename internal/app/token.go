package app

import (
	"context"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/httpserver"
)

// TokenFile is where the token is kept that WithToken makes.
func TokenFile(c *config.Config) string { return c.Path("serve.token") }

// WithToken is a configuration that always has what keeps other users of this
// machine out. Where the system tells who connects, or a token is set, that is
// c itself. Elsewhere it has a token that is made when it is first needed and
// kept in a file that this user alone can read.
func WithToken(ctx context.Context, c *config.Config) (*config.Config, error) {
	if httpserver.KnowsPeers {
		return c, nil
	}
	return WithKeptToken(ctx, c)
}

// WithKeptToken is WithToken for clients that answer for the user: they need
// the token on every system.
func WithKeptToken(ctx context.Context, c *config.Config) (*config.Config, error) {
	if c.Serve.Token != "" {
		return c, nil
	}
	token, err := httpserver.KeptToken(ctx, TokenFile(c))
	if err != nil {
		return nil, &bridge.Error{Code: bridge.CodeUnavailable, Message: "the token that keeps other users out could not be made", Cause: err,
			Remedy: "set COPILOT_BRIDGE_TOKEN to one of your own"}
	}
	with := *c
	with.Serve.Token = config.Secret(token)
	return &with, nil
}
