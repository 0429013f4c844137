package hub

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
)

// What one invitation may cost. All of its machines may join at once.
const (
	joinHandlers = 4
	maxJoins     = maxInviteUses // requests that wait for their answer
	joinFlood    = 4 * maxJoins  // requests beyond that which end the invitation
	// maxConns is how many connections one key may have, of the maxConn of all.
	maxConns = maxInviteUses + 24
)

// dropJoin counts a request to join that is not answered; an honest machine sends
// it again. The caller holds mu.
func (k *keeper) dropJoin(invite string) {
	if k.dropped[invite]++; k.dropped[invite]%joinFlood == 0 {
		select {
		case k.abused <- invite:
		default: // with a later one
		}
	}
}

// endAbused ends the invitations with which more is asked than their machines can.
func (k *keeper) endAbused(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case invite := <-k.abused:
			if err := k.endInvitation(ctx, invite); err != nil && ctx.Err() == nil {
				k.hub.log.Warn("fleet.invitation_not_ended", "invitation", invite, "error", err)
			}
		}
	}
}

// endInvitation takes the uses that are left away, and cuts all who connect with it.
func (k *keeper) endInvitation(ctx context.Context, invite string) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	row, err := update(ctx, k.invites, invite, func(row *fleet.InviteRecord) error {
		if row.Schema == 0 {
			return fmt.Errorf("there is no invitation %s", invite)
		}
		row.Uses, row.Expires = 0, earlier(row.Expires, time.Now().UTC())
		return nil
	})
	if err != nil {
		return err
	}
	select { // the recorder may be busy with the flood
	case k.hub.record <- refusal{kind: RefusedConnection, member: "invitation-" + invite, text: "it floods the hub with requests or connections, and was ended"}:
	case <-ctx.Done():
	}
	if row.Key == "" {
		return nil // of an earlier version
	}
	return k.hub.cut(row.Key)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// boundConnections cuts what one key has too many of: the server counts them only
// for all together. An invitation ends with it.
func (k *keeper) boundConnections(most int) {
	if k.hub.server == nil {
		return
	}
	list, err := k.hub.server.Connz(&server.ConnzOptions{Username: true, Limit: 2 * maxConn, Sort: server.ByStart})
	if err != nil {
		k.hub.log.Warn("fleet.connections_not_counted", "error", err)
		return
	}
	names, counts := map[string]string{}, map[string]int{} // by right, by name
	for _, c := range list.Conns {
		name, known := names[c.JWT]
		if !known {
			if claims, err := jwt.DecodeUserClaims(c.JWT); err == nil {
				name = claims.Name
			}
			names[c.JWT] = name
		}
		if counts[name]++; name == "" || counts[name] <= most {
			continue
		}
		if counts[name] == most+1 {
			k.tooMany(name, most)
		}
		_ = k.hub.server.DisconnectClientByID(c.Cid) // fails only if it is closed already
	}
}

// tooMany records a member with too many connections, and ends an invitation with
// too many.
func (k *keeper) tooMany(name string, most int) {
	invite, is := strings.CutPrefix(name, "invitation-")
	if _, member := k.member(name); member || !is {
		k.hub.refuse(refusal{kind: RefusedConnection, member: name, text: fmt.Sprintf("it has more than %d connections; the newest were cut", most)})
		return
	}
	select {
	case k.abused <- invite:
	default: // when they are counted next
	}
}
