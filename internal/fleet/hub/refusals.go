package hub

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
)

// The kinds of refusals, for Options.Record.
const (
	RefusedConnection = "fleet_connection" // no valid right
	RefusedMessage    = "fleet_message"    // a right, but not for that
	RefusedJoin       = "fleet_join"
)

// refusal is something to record. Member may be found by the connection's id.
type refusal struct {
	kind, member, text string
	cid                uint64
}

// serverLog takes what the embedded server logs. The server tells of refused
// connections and messages in no other way that has them all.
type serverLog struct {
	hub   *Hub
	fatal atomic.Pointer[string]
}

// clientLine is a line about a client: its address, its number, what it says about
// itself, and what was refused.
var clientLine = regexp.MustCompile(`^(\S+) - cid:(\d+) - (?:.* - )?((?:Publish Violation|Subscription Violation|authentication error|TLS handshake error|Bad src|Outside connect).*)$`)

func (l *serverLog) Noticef(format string, v ...any) {
	l.hub.log.Debug("fleet.server", "text", fmt.Sprintf(format, v...))
}

// afterKill is what the server says of each stream after it was killed. It reads
// the stream itself then, and nothing is lost.
var afterKill = regexp.MustCompile(`Stream state outdated, .* will rebuild$|Recovering stream state from index errored: prior state file$`)

func (l *serverLog) Warnf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	level := slog.LevelWarn
	if afterKill.MatchString(text) {
		level = slog.LevelDebug
	}
	l.hub.log.Log(context.Background(), level, "fleet.server", "text", text)
}

func (l *serverLog) Errorf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	parts := clientLine.FindStringSubmatch(text)
	if parts == nil {
		l.hub.log.Warn("fleet.server", "text", text)
		return
	}
	r := refusal{kind: RefusedConnection, text: parts[3] + ", from " + parts[1]}
	r.cid, _ = strconv.ParseUint(parts[2], 10, 64) // 0 means nobody
	if strings.Contains(parts[3], "Violation") {
		r.kind = RefusedMessage
	}
	l.hub.refuse(r)
}

// Fatalf is called where the server cannot go on.
func (l *serverLog) Fatalf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	l.fatal.Store(&text)
	l.hub.log.Debug("fleet.server", "text", text) // the hub ends with it
	l.hub.fail(fmt.Errorf("the fleet's server has failed: %s", text))
}

// Debugf is where the server tells of clients that do not begin with TLS.
func (l *serverLog) Debugf(format string, v ...any) {
	if strings.Contains(format, "TLS handshake error") {
		l.Errorf(format, v...)
	}
}

func (l *serverLog) Tracef(string, ...any) {}

// refuse hands a refusal to the recorder. It never blocks: the server calls it.
// Where somebody makes more refusals than can be written, some are lost.
func (h *Hub) refuse(r refusal) {
	select {
	case h.record <- r:
		return
	default:
	}
	now := time.Now().Unix()
	if last := h.lost.Load(); now != last && h.lost.CompareAndSwap(last, now) { // a flood must not fill the log either
		h.log.Warn("fleet.refusal_not_recorded", "kind", r.kind, "text", r.text)
	}
}

// recordRefusals writes refusals down, until ctx ends, and what is left then.
func (h *Hub) recordRefusals(ctx context.Context) {
	record := fleet.LimitRecord(h.options.Record)
	write := func(r refusal) {
		if r.cid != 0 && h.server != nil {
			h.identify(ctx, &r)
		}
		record(r.kind, r.member, r.text)
	}
	for {
		select {
		case r := <-h.record:
			write(r)
			continue
		case <-ctx.Done():
		}
		for {
			select {
			case r := <-h.record:
				write(r)
			default:
				return
			}
		}
	}
}

// identify finds out whose connection it was. The name of a refused connection is
// only what it claimed.
func (h *Hub) identify(ctx context.Context, r *refusal) {
	for end := time.Now().Add(time.Second); ; {
		list, err := h.server.Connz(&server.ConnzOptions{CID: r.cid, Username: true, State: server.ConnAll})
		if err == nil && len(list.Conns) == 1 && list.Conns[0] != nil {
			c := list.Conns[0]
			if claims, err := jwt.DecodeUserClaims(c.JWT); err == nil && h.keys.signed(claims) {
				r.member = claims.Name
				if h.keys.revoked(claims) {
					r.text = "removed from the fleet: " + r.text
				} else if claims.Expires != 0 && claims.Expires <= time.Now().Unix() {
					r.text = "its right has ended: " + r.text
				}
				return
			}
			if c.Stop != nil {
				return // it has shown nothing
			}
		}
		if time.Now().After(end) {
			return
		}
		select { // the server lists a closed connection a little after it has said why
		case <-ctx.Done():
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}
