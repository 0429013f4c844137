package hub

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
)

const (
	maxInviteLasts = 30 * 24 * time.Hour
	maxInviteUses  = 1000
	// keepInvites is how long an ended invitation stays in the table, so that who
	// tries it again can be told why it no longer counts.
	keepInvites = 7 * 24 * time.Hour
)

// invite makes an invitation.
func (k *keeper) invite(ctx context.Context, r fleet.InviteRequest) (fleet.InviteReply, error) {
	reply := fleet.InviteReply{Schema: fleet.Schema}
	switch {
	case r.Role != fleet.RoleWorker && r.Role != fleet.RoleCoordinator:
		return reply, &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("there is no role %q in a fleet", r.Role)}
	case r.Uses < 1 || r.Uses > maxInviteUses:
		return reply, &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("an invitation has 1 to %d uses, not %d", maxInviteUses, r.Uses)}
	case r.For < time.Second || r.For > maxInviteLasts:
		return reply, &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("an invitation lasts at most %d days", maxInviteLasts/(24*time.Hour))}
	}
	key, err := nkeys.CreateUser()
	if err != nil {
		return reply, err
	}
	defer key.Wipe()
	public, err := key.PublicKey()
	if err != nil {
		return reply, err
	}
	seed, err := key.Seed()
	if err != nil {
		return reply, err
	}
	i := fleet.Invitation{ID: newID(), URLs: k.hub.urls(), Pin: k.hub.pin, Seed: string(seed)}
	if i.Pin == "" {
		i.CA = k.hub.ca
	}
	if i.JWT, err = k.hub.keys.askRight(public, "invitation-"+i.ID, fleet.InvitationRights(i.ID), r.For); err != nil {
		return reply, err
	}
	expires := time.Now().Add(r.For).UTC()
	if _, err := update(ctx, k.invites, i.ID, func(row *fleet.InviteRecord) error {
		*row = fleet.InviteRecord{Schema: fleet.Schema, Role: r.Role, Labels: r.Labels, Uses: r.Uses, Expires: expires, Key: public}
		return nil
	}); err != nil {
		return reply, err
	}
	reply.ID, reply.Expires = i.ID, expires
	reply.Line, err = i.Line()
	return reply, err
}

// join answers the wish of a machine to become a member.
func (k *keeper) join(ctx context.Context, invite string, data []byte) fleet.JoinReply {
	var r fleet.JoinRequest
	err := fleet.Decode(data, &r)
	var m fleet.MemberRecord
	if err == nil {
		m, err = k.admit(ctx, invite, r)
	}
	reply := fleet.JoinReply{Schema: fleet.Schema, Fleet: k.hub.keys.fleet, Member: m.ID, Role: m.Role, Labels: m.Labels}
	if err == nil {
		reply.JWT, reply.Renewal, err = k.hub.keys.memberRights(m)
	}
	if err != nil {
		k.hub.refuse(refusal{kind: RefusedJoin, member: "invitation-" + invite, text: fmt.Sprintf("machine %.60q: %v", r.Name, err)})
		return fleet.JoinReply{Schema: fleet.Schema, Refused: fleet.Refusal(err)}
	}
	k.hub.log.Info("fleet.member_joined", "member", m.ID, "role", m.Role, "invitation", invite)
	return reply
}

// admit takes one use of an invitation and makes the member. The same key can ask
// again, if the answer got lost, and takes no second use.
func (k *keeper) admit(ctx context.Context, invite string, r fleet.JoinRequest) (fleet.MemberRecord, error) {
	if err := checkProof(invite, r); err != nil {
		return fleet.MemberRecord{}, err
	}
	id := fleet.MemberID(r.Name, r.Key)
	if old, ok := k.member(id); ok && (old.Removed || old.Key != r.Key || old.Invite != invite) {
		return old, &bridge.Error{Code: bridge.CodeDenied, Message: "this key cannot join again", Remedy: "Join with a new one: remove the fleet's directory on that machine first."}
	} else if ok {
		return old, nil // nothing is written once more
	}
	row, err := update(ctx, k.invites, invite, func(row *fleet.InviteRecord) error {
		switch {
		case row.Schema == 0:
			return &bridge.Error{Code: bridge.CodeUnauthenticated, Message: "the fleet does not know this invitation", Remedy: newInvite}
		case time.Now().After(row.Expires):
			return &bridge.Error{Code: bridge.CodeUnauthenticated, Message: "the invitation has ended", Remedy: newInvite}
		case slices.Contains(row.Members, id):
			return nil
		case row.Uses < 1:
			return &bridge.Error{Code: bridge.CodeUnauthenticated, Message: "the invitation is used up", Remedy: newInvite}
		}
		row.Uses--
		row.Members = append(row.Members, id)
		return nil
	})
	if err != nil {
		return fleet.MemberRecord{}, err
	}
	if row.Role == fleet.RoleWorker {
		if err := makeBucket(ctx, k.hub.js, id, k.replicas); err != nil {
			return fleet.MemberRecord{}, err
		}
	}
	return k.updateMember(ctx, id, func(m *fleet.MemberRecord) error {
		if m.Schema == 0 {
			*m = fleet.MemberRecord{Schema: fleet.Schema, ID: id, Name: r.Name, Role: row.Role, Key: r.Key, Labels: row.Labels, Offers: row.Labels, Invite: invite, Joined: time.Now().UTC()}
		}
		return nil
	})
}

// maxName bounds the name of a machine, which questions to people begin with.
const maxName = 100

const newInvite = "Make a new invitation with `copilot-bridge fleet invite`."

// checkProof makes sure that who asks has the private key.
func checkProof(invite string, r fleet.JoinRequest) error {
	bad := &bridge.Error{Code: bridge.CodeInvalid, Message: "the request to join is not signed by the key that it brings"}
	if !nkeys.IsValidPublicUserKey(r.Key) {
		return bad
	}
	if len(r.Name) > maxName || strings.ContainsFunc(r.Name, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return &bridge.Error{Code: bridge.CodeInvalid, Message: "a machine's name has at most 100 bytes, all of them visible", Remedy: "Choose another one with --name."}
	}
	key, err := nkeys.FromPublicKey(r.Key)
	if err != nil {
		return bad
	}
	proof, err := base64.StdEncoding.DecodeString(r.Proof)
	if err != nil || key.Verify([]byte(invite), proof) != nil {
		return bad
	}
	return nil
}

// sweepInvites forgets invitations that ended a while ago.
func (k *keeper) sweepInvites(ctx context.Context) error {
	rows, err := fleet.Rows(ctx, k.invites, jetstream.AllKeys)
	if err != nil {
		return err
	}
	for _, entry := range rows {
		var row fleet.InviteRecord
		if err := fleet.Decode(entry.Value(), &row); err != nil || time.Since(row.Expires) < keepInvites {
			continue // what another version wrote is not ours to remove
		}
		if err := k.invites.Purge(ctx, entry.Key(), jetstream.LastRevision(entry.Revision())); err != nil && !overtaken(err) {
			return err
		}
	}
	return nil
}
