package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet/hub"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/audit"
)

const (
	fleetDir  = "fleet" // in the bridge's home: keys and memberships
	fleetDoor = "fleet" // on record
)

func hubDir(c *config.Config) string { return c.Path(fleetDir, "hub") }

// memberDir is where this machine's membership in a role is.
func memberDir(c *config.Config, role fleet.Role) string {
	if role == fleet.RoleWorker {
		return c.Path(fleetDir, "worker")
	}
	return c.Path(fleetDir, "coordinator")
}

// FleetUp says how a hub is to run. With NATS it keeps a cluster that exists.
type FleetUp struct {
	Listen                      string
	Names                       []string
	NATS, Creds, AccountKey, CA string
}

// FleetHub is a running hub. What it refuses is on record.
type FleetHub struct {
	*hub.Hub
	// Before are its addresses before this start, where they have changed: members
	// that joined earlier still connect to those.
	Before []string
	bridge *Bridge // not started
}

// StartFleet runs the hub of this home's fleet, and makes the fleet if there is
// none. The caller closes it.
func StartFleet(ctx context.Context, o Options, up FleetUp) (*FleetHub, error) {
	b := &Bridge{opts: o}
	if _, _, err := b.guard.shared(o.Config, o.UserDir); err != nil {
		return nil, err // a hub whose refusals nobody can read again is not started
	}
	opts := hub.Options{Dir: hubDir(o.Config), CoordinatorDir: memberDir(o.Config, fleet.RoleCoordinator), Listen: up.Listen, Names: up.Names,
		Version: o.Version, Logger: o.Logger, Record: b.recordFleet}
	if up.NATS != "" {
		opts.External = &hub.External{URLs: strings.Split(up.NATS, ","), Creds: up.Creds, AccountKey: up.AccountKey, CA: up.CA}
	}
	before, _ := fleet.Load(opts.CoordinatorDir) // there is none the first time
	h, err := hub.Up(ctx, opts)
	if err != nil {
		return nil, errors.Join(err, b.guard.close())
	}
	running := &FleetHub{Hub: h, bridge: b}
	if now, err := fleet.Load(opts.CoordinatorDir); err == nil && before.Fleet == now.Fleet && !slices.Equal(before.URLs, now.URLs) {
		running.Before = before.URLs
	}
	return running, nil
}

// Close ends the hub. The fleet is kept.
func (h *FleetHub) Close(ctx context.Context) error {
	return errors.Join(h.Hub.Close(ctx), h.bridge.guard.close())
}

// recordFleet writes into the audit log what the fleet has refused, and to whom.
func (b *Bridge) recordFleet(kind, member, text string) {
	b.opts.Logger.Warn("fleet.refused", "kind", kind, "member", member, "reason", text)
	_, log, err := b.guard.shared(b.opts.Config, b.opts.UserDir)
	if err == nil {
		err = log.Append(context.Background(), audit.Entry{Hook: audit.HookFleet, Door: fleetDoor, Caller: member, Input: map[string]string{"kind": kind}, Decision: "deny", Reason: text})
	}
	if err != nil {
		b.opts.Logger.Error("fleet.refusal_not_recorded", "error", err)
	}
}

// FleetMember is this machine's membership in a role.
func FleetMember(c *config.Config, role fleet.Role) (fleet.Member, error) {
	m, err := fleet.Load(memberDir(c, role))
	if bridge.CodeOf(err) != bridge.CodeNotFound {
		return m, err
	}
	other := fleet.RoleWorker
	if role == fleet.RoleWorker {
		other = fleet.RoleCoordinator
	}
	switch has, otherErr := fleet.Load(memberDir(c, other)); {
	case otherErr != nil && role == fleet.RoleWorker:
		return m, &bridge.Error{Code: bridge.CodeNotFound, Message: "this machine is no worker of a fleet",
			Remedy: "join one with `copilot-bridge worker --join LINE`; `copilot-bridge fleet invite` on a machine of the fleet prints the line"}
	case otherErr != nil:
		return m, &bridge.Error{Code: bridge.CodeNotFound, Message: "this machine is in no fleet",
			Remedy: "begin one with `copilot-bridge fleet up`, or join one with the line of `copilot-bridge fleet invite --coordinator`"}
	case role == fleet.RoleWorker:
		return m, &bridge.Error{Code: bridge.CodeNotFound, Message: "this machine gives work to the fleet " + has.Fleet + ", and is no worker of it",
			Remedy: "join as a worker too: copilot-bridge fleet invite | copilot-bridge worker --join -"}
	default:
		return m, &bridge.Error{Code: bridge.CodeNotFound, Message: "this machine is a worker of the fleet " + has.Fleet + ", and may not give work",
			Remedy: "join it as a coordinator too, with the line of `copilot-bridge fleet invite --coordinator`"}
	}
}

// JoinFleet makes this machine a member by the right of an invitation.
func JoinFleet(ctx context.Context, o Options, line string, role fleet.Role, name string) (fleet.Member, error) {
	dir := memberDir(o.Config, role)
	join := fleet.JoinOptions{Name: name, Version: o.Version}
	m, err := fleet.Join(ctx, line, dir, join)
	if bridge.CodeOf(err) == bridge.CodeConflict && m.Fleet != "" && refusedBy(ctx, dir) {
		if err := fleet.Forget(dir); err != nil {
			return m, err
		}
		m, err = fleet.Join(ctx, line, dir, join)
	}
	switch {
	case bridge.CodeOf(err) == bridge.CodeConflict && m.Fleet != "":
		e := *bridge.AsError(err)
		if e.Remedy = "to leave that fleet, remove " + dir; role == fleet.RoleWorker {
			e.Remedy = "start it without --join; " + e.Remedy
		}
		return m, &e
	case err != nil || m.Role == role:
		return m, err
	}
	// The line was for the other role. The right is not wasted where it fits.
	command := "copilot-bridge worker"
	if m.Role == fleet.RoleCoordinator {
		command = "copilot-bridge orchestrate --fleet"
	}
	wrong := &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("the line was for a %s, not for a %s; this machine is now a %[1]s of the fleet %[3]s", m.Role, role, m.Fleet),
		Remedy: "use `" + command + "`, or get another line for this command"}
	return m, errors.Join(moveMembership(dir, memberDir(o.Config, m.Role)), wrong)
}

// refusedBy says whether the fleet refuses the member in a directory for good: it
// was removed, or the fleet was set up anew.
func refusedBy(ctx context.Context, dir string) bool {
	conn, err := fleet.Connect(ctx, dir, fleet.ConnectOptions{Name: "join"})
	if err == nil {
		conn.Close()
	}
	return bridge.CodeOf(err) == bridge.CodeUnauthenticated
}

func moveMembership(from, to string) error {
	if _, err := fleet.Load(to); bridge.CodeOf(err) != bridge.CodeNotFound {
		return &bridge.Error{Code: bridge.CodeConflict, Message: "this machine has that role in a fleet already", Remedy: "remove " + from}
	}
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	return os.Rename(from, to)
}

// withFleet does something as a coordinator of the fleet.
func withFleet[T any](ctx context.Context, o Options, f func(*fleet.Conn) (T, error)) (T, error) {
	var none T
	if _, err := FleetMember(o.Config, fleet.RoleCoordinator); err != nil {
		return none, err
	}
	conn, err := fleet.Connect(ctx, memberDir(o.Config, fleet.RoleCoordinator), fleet.ConnectOptions{Logger: o.Logger, Name: cmp.Or(o.Command, "copilot-bridge")})
	if err != nil {
		return none, err
	}
	defer conn.Close()
	return f(conn)
}

// InviteToFleet makes an invitation.
func InviteToFleet(ctx context.Context, o Options, r fleet.InviteRequest) (fleet.InviteReply, error) {
	return withFleet(ctx, o, func(c *fleet.Conn) (fleet.InviteReply, error) {
		return fleet.Invite(ctx, c, r.Role, r.Labels, r.Uses, r.For)
	})
}

// FleetStatus is the state of the fleet. Members that were removed are left out.
func FleetStatus(ctx context.Context, o Options) (fleet.Status, error) {
	s, err := withFleet(ctx, o, func(c *fleet.Conn) (fleet.Status, error) { return fleet.GetStatus(ctx, c) })
	s.Workers = slices.DeleteFunc(s.Workers, func(w fleet.WorkerStatus) bool { return w.Removed })
	return s, err
}

// ChangeMember does fleet.Drain or fleet.Remove. It returns the member's id.
func ChangeMember(ctx context.Context, o Options, member string, change func(context.Context, *fleet.Conn, string) (fleet.MemberReply, error)) (string, error) {
	r, err := withFleet(ctx, o, func(c *fleet.Conn) (fleet.MemberReply, error) { return change(ctx, c, member) })
	return r.Member, err
}
