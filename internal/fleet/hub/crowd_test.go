package hub_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet/hub"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/fleettest"
)

// guest connects with an invitation and a program of its own, and tells when it is
// cut. The options come after those of an honest machine.
func guest(t *testing.T, f *fleettest.Fleet, line string, options ...nats.Option) (i fleet.Invitation, nc *nats.Conn, cut <-chan error) {
	t.Helper()
	i, err := fleet.ParseInvitation(line)
	if err != nil {
		t.Fatal(err)
	}
	config, err := fleet.TLS(f.Coordinator.Member.CA)
	if err != nil {
		t.Fatal(err)
	}
	gone := make(chan error, 1)
	nc, err = nats.Connect(f.Hub.URLs()[0], append([]nats.Option{nats.Secure(config), nats.UserJWTAndSeed(i.JWT, i.Seed), nats.CustomInboxPrefix(fleet.Inbox(i.ID)), nats.NoReconnect(),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), nats.ClosedHandler(func(nc *nats.Conn) { gone <- nc.LastError() })}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return i, nc, gone
}

// asks is a request to join with an invitation.
func asks(t *testing.T, i fleet.Invitation, name string) []byte {
	t.Helper()
	key, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := key.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	proof, err := key.Sign([]byte(i.ID))
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(fleet.JoinRequest{Schema: fleet.Schema, Key: public, Proof: base64.StdEncoding.EncodeToString(proof), Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// An invitation of many uses can be pasted on as many machines at once.
func TestManyMachinesJoinAtOnce(t *testing.T) {
	f := fleettest.Up(t)
	const machines = 50
	line := f.Invite(t, fleet.RoleWorker, machines)
	errs := make(chan error, machines)
	for i := range machines {
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), fleettest.Timeout)
			defer cancel()
			_, err := fleet.Join(ctx, line, filepath.Join(f.Dir, fmt.Sprint("machine-", i)), fleet.JoinOptions{Name: fmt.Sprint("machine-", i)})
			errs <- err
		}()
	}
	for range machines {
		if err := fleettest.Receive(t, "the end of a join", errs); err != nil {
			t.Error(err)
		}
	}
	if said := f.Recorded(); len(said) > 0 {
		t.Errorf("recorded %q", said)
	}
}

// A flood of requests to join, with an invitation that is used up, keeps the hub
// from nobody, and ends the invitation.
func TestManyJoins(t *testing.T) {
	f := fleettest.Up(t)
	w := f.Worker(t, "worker")
	line := f.Invite(t, fleet.RoleWorker, 1)
	i, nc, cut := guest(t, f, line)
	request := asks(t, i, "stranger")
	f.Join(t, line, "friend")
	flooding := make(chan struct{})
	go func() {
		defer close(flooding)
		for nc.PublishRequest(fleet.JoinSubject(i.ID), fleet.Inbox(i.ID)+".x", request) == nil {
		}
	}()
	for range 3 {
		begun := time.Now()
		if _, err := w.Hello(t.Context(), fleet.Hello{}); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took > 2*time.Second {
			t.Errorf("the hub answered after %s", took)
		}
	}
	f.Join(t, f.Invite(t, fleet.RoleWorker, 1), "other")
	fleettest.Receive(t, "the end of the flood", flooding)
	t.Log(fleettest.Receive(t, "the end of the connection", cut))
	f.WaitRecorded(t, hub.RefusedConnection+" invitation-"+i.ID, "floods the hub")
	if _, err := fleet.Join(t.Context(), line, filepath.Join(f.Dir, "late"), fleet.JoinOptions{Name: "late"}); err == nil {
		t.Error("the invitation counts still")
	}
}

// Who has joined and asks once more makes the hub write nothing.
func TestJoinedAgain(t *testing.T) {
	f := fleettest.Up(t)
	i, nc, _ := guest(t, f, f.Invite(t, fleet.RoleWorker, 5))
	request := asks(t, i, "stranger")
	written := func() (all string) {
		for _, table := range []string{fleet.TableMembers, fleet.TableInvites} {
			s, err := f.Coordinator.JS.Stream(t.Context(), "KV_"+f.Names(t).Of(table))
			if err != nil {
				t.Fatal(err)
			}
			all += fmt.Sprint(" ", s.CachedInfo().State.LastSeq)
		}
		return all
	}
	first := ""
	for range 5 {
		m, err := nc.Request(fleet.JoinSubject(i.ID), request, fleettest.Timeout)
		var reply fleet.JoinReply
		if err == nil {
			err = fleet.Decode(m.Data, &reply)
		}
		if err != nil || reply.JWT == "" || reply.Refused != nil {
			t.Fatalf("%+v, %v", reply, err)
		}
		if first == "" {
			first = written()
		}
	}
	if again := written(); again != first {
		t.Errorf("the tables are at%s, and were at%s", again, first)
	}
}

// Who may only ask to join sends short messages.
func TestLongJoin(t *testing.T) {
	f := fleettest.Up(t)
	i, nc, cut := guest(t, f, f.Invite(t, fleet.RoleWorker, 1))
	// The client knows the bound if the server has told it already.
	if err := nc.Publish(fleet.JoinSubject(i.ID), make([]byte, 100<<10)); !errors.Is(err, nats.ErrMaxPayload) {
		t.Log(fleettest.Receive(t, "the end of the connection", cut))
	}
}

// The connections of one key leave room for those of others; an invitation that
// many hold open is ended.
func TestManyConnections(t *testing.T) {
	f := fleettest.Up(t)
	f.Worker(t, "worker")
	line := f.Invite(t, fleet.RoleWorker, 5)
	const most = 5
	var cuts []<-chan error
	for range most + 1 {
		_, _, cut := guest(t, f, line)
		cuts = append(cuts, cut)
	}
	var thieves []*nats.Conn
	for range most + 3 {
		nc, _ := thief(t, f, "worker")
		thieves = append(thieves, nc)
	}
	f.Hub.BoundConnections(most)
	for _, cut := range cuts {
		if err := fleettest.Receive(t, "the end of an invitation's connection", cut); err == nil {
			t.Error("a connection was closed without a reason")
		}
	}
	f.WaitRecorded(t, hub.RefusedConnection, "invitation-", "was ended")
	f.WaitRecorded(t, hub.RefusedConnection, "worker-", "more than 5 connections")
	fleettest.Wait(t, "the end of a thief's connection", func() bool {
		return !thieves[len(thieves)-1].IsConnected() || thieves[len(thieves)-1].Stats().Reconnects > 0
	})
	if !thieves[0].IsConnected() || f.Coordinator.NC.IsClosed() {
		t.Error("the oldest were cut too")
	}
}

// A stranger who shows a right that it has signed itself is on record without the
// name that it gave itself: with one name after the other it would fill the record.
func TestStrangersName(t *testing.T) {
	f := fleettest.Up(t)
	account, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	config, err := fleet.TLS(f.Coordinator.Member.CA)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 30 {
		user, err := nkeys.CreateUser()
		if err != nil {
			t.Fatal(err)
		}
		public, err := user.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		claims := jwt.NewUserClaims(public)
		claims.Name = fmt.Sprint("the-boss-", n)
		token, err := claims.Encode(account)
		if err != nil {
			t.Fatal(err)
		}
		if nc, err := nats.Connect(f.Hub.URLs()[0], nats.Secure(config), nats.UserJWT(func() (string, error) { return token, nil }, user.Sign)); err == nil {
			nc.Close()
			t.Fatal("a stranger was let in")
		}
	}
	f.WaitRecorded(t, hub.RefusedConnection, "more of these within a minute")
	if said := f.Recorded(); len(said) > 20 || strings.Contains(fmt.Sprint(said), "the-boss") {
		t.Errorf("recorded %q", said)
	}
}
