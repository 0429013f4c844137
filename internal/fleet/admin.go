package fleet

import (
	"context"
	"time"
)

// Invite asks the hub for an invitation.
func Invite(ctx context.Context, c *Conn, role Role, labels []string, uses int, lasts time.Duration) (InviteReply, error) {
	return Request[InviteReply](ctx, c.NC, AdminSubject("invite"), InviteRequest{Schema: Schema, Role: role, Labels: labels, Uses: uses, For: lasts})
}

// GetStatus asks the hub for the state of the fleet.
func GetStatus(ctx context.Context, c *Conn) (Status, error) {
	return Request[Status](ctx, c.NC, AdminSubject("status"), MemberRequest{Schema: Schema})
}

// Drain has a worker finish what it has begun and take nothing new.
func Drain(ctx context.Context, c *Conn, member string) (MemberReply, error) {
	return Request[MemberReply](ctx, c.NC, AdminSubject("drain"), MemberRequest{Schema: Schema, Member: member})
}

// Remove takes a member out of the fleet, at once.
func Remove(ctx context.Context, c *Conn, member string) (MemberReply, error) {
	return Request[MemberReply](ctx, c.NC, AdminSubject("remove"), MemberRequest{Schema: Schema, Member: member})
}
