package app

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/door/front"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
)

// TokenFile is where the token is kept that WithToken makes.
func TokenFile(c *config.Config) string { return c.Path("serve.token") }

// WithToken is a configuration that always has what keeps other users of this
// machine out. Where the system tells who connects, or a token is set, that is
// c itself. Elsewhere it has a token that is made when it is first needed and
// kept in a file that this user alone can read.
func WithToken(ctx context.Context, c *config.Config) (*config.Config, error) {
	if front.KnowsPeers || c.Serve.Token != "" {
		return c, nil
	}
	token, err := keptToken(ctx, TokenFile(c))
	if err != nil {
		return nil, &bridge.Error{Code: bridge.CodeUnavailable, Message: "the token that keeps other users out could not be made", Cause: err,
			Remedy: "set COPILOT_BRIDGE_TOKEN to one of your own"}
	}
	with := *c
	with.Serve.Token = config.Secret(token)
	return &with, nil
}

// keptToken reads the token of a file, or makes one.
func keptToken(ctx context.Context, file string) (token string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	unlock, err := durable.Lock(ctx, file+".lock")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	data, err := durable.ReadFile(file)
	if token = strings.TrimSpace(string(data)); err == nil && token != "" {
		return token, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	token = rand.Text()
	return token, durable.WriteFile(file, []byte(token+"\n"), 0o600)
}
