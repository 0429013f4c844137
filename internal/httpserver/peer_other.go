//go:build !linux

package httpserver

import (
	"errors"
	"net/netip"
)

// KnowsPeers: the system does not tell a client's user, so a token is needed.
const KnowsPeers = false

type peers struct{}

func (*peers) user(_, _ netip.AddrPort) (int, error) { return 0, errors.ErrUnsupported }
