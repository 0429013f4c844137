package front

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// Options say where to listen, who may come in and what stands behind. Only
// Doors is needed; the callbacks are called concurrently.
type Options struct {
	Addr string // a host name or an IP address; default 127.0.0.1
	Port int    // 0: a free one
	// Ports remembers the free port that was picked, so that the next start
	// gets it again; nil: nothing is remembered.
	Ports *Ports
	// Token is what every client has to show; "" lets in clients of the user
	// that this process runs as, on loopback addresses only, and only where
	// KnowsPeers.
	Token string
	// Hosts are further names that clients reach this machine by, such as
	// that of a reverse proxy or a container.
	Hosts []string

	// Doors are the handlers by their http.ServeMux patterns. Patterns with a
	// method and a whole path ("POST /v1/messages") give the best answers to
	// clients that knock at the wrong place, and the best metrics.
	Doors map[string]http.Handler
	// Home answers "/" alone; nil: a page made from About.
	Home   http.Handler
	About  func() About
	Health func(context.Context) Health // may be asked every two seconds; nil: always well
	Gauges map[string]func() float64    // further metrics, without the prefix copilot_bridge_
	Usage  func() []UsageRow            // what has been used since the start

	// Notice, if set, is told in X-Copilot-Bridge-Notice with every answer to
	// those who may use the doors.
	Notice string
	Logger *slog.Logger

	// Limits; 0 means the default.
	MaxConnections    int           // 1024; at the limit others give way, see places
	MaxHeaderBytes    int           // 64 KiB
	ReadHeaderTimeout time.Duration // 10 s
	BodyTimeout       time.Duration // 60 s for the whole body of a request
	IdleTimeout       time.Duration // 2 min between requests
	DrainTimeout      time.Duration // 10 s for running requests at shutdown

	peer peerFunc // replaced in tests
}

// defaults fills in what was left out.
func (o Options) defaults() Options {
	if o.Addr == "" {
		o.Addr = "127.0.0.1"
	}
	if o.Health == nil {
		o.Health = func(context.Context) Health { return Health{OK: true, Copilot: CopilotOK, Ready: true} }
	}
	if o.About == nil {
		o.About = func() About { return About{} }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.peer == nil {
		o.peer = new(peers).of
	}
	o.MaxConnections = or(o.MaxConnections, 1024)
	o.MaxHeaderBytes = or(o.MaxHeaderBytes, 64<<10)
	o.ReadHeaderTimeout = or(o.ReadHeaderTimeout, 10*time.Second)
	o.BodyTimeout = or(o.BodyTimeout, time.Minute)
	o.IdleTimeout = or(o.IdleTimeout, 2*time.Minute)
	o.DrainTimeout = or(o.DrainTimeout, 10*time.Second)
	return o
}

func or[T int | time.Duration](given, otherwise T) T {
	if given > 0 {
		return given
	}
	return otherwise
}

// checkToken refuses what could not be sent in a header, and so would lock
// everybody out.
func checkToken(token string) error {
	if strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return &bridge.Error{
			Code:    bridge.CodeInvalid,
			Message: "the token has characters that cannot be sent in a header",
			Remedy:  "Use letters, digits and punctuation of ASCII, without spaces.",
		}
	}
	return nil
}
