package app

import (
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/httpserver"
)

func TestWithToken(t *testing.T) {
	c := &config.Config{Home: t.TempDir()}
	with, err := WithToken(t.Context(), c)
	if err != nil || (with.Serve.Token == "") != httpserver.KnowsPeers || c.Serve.Token != "" {
		t.Errorf("%q, %v", string(with.Serve.Token), err)
	}
	c.Serve.Token = "mine"
	if with, err = WithToken(t.Context(), c); err != nil || with != c {
		t.Errorf("%q, %v", string(with.Serve.Token), err)
	}
}
