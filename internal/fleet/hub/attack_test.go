package hub_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet/hub"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/fleettest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/programtest"
)

// thief connects with the files of a member and a program of its own, which
// minds no rules.
func thief(t *testing.T, f *fleettest.Fleet, dir string) (nc *nats.Conn, refused func(words ...string)) {
	t.Helper()
	dir = filepath.Join(f.Dir, dir)
	m, err := fleet.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	config, err := fleet.TLS(m.CA)
	if err != nil {
		t.Fatal(err)
	}
	var said fleettest.Record
	nc, err = nats.Connect(m.URLs[0], nats.Secure(config), nats.UserCredentialBytes(credsOf(t, dir)), nats.CustomInboxPrefix(fleet.Inbox(m.ID)),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { said.Add("", "", err.Error()) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc, func(words ...string) {
		t.Helper()
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		fleettest.Wait(t, "the server's refusal of "+strings.Join(words, " "), func() bool { return said.Has(words...) })
	}
}

func credsOf(t *testing.T, dir string) []byte {
	t.Helper()
	token, err := os.ReadFile(filepath.Join(dir, "user.jwt"))
	if err != nil {
		t.Fatal(err)
	}
	seed, err := os.ReadFile(filepath.Join(dir, "user.nk"))
	if err != nil {
		t.Fatal(err)
	}
	return []byte("-----BEGIN NATS USER JWT-----\n" + string(token) + "\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\n" + string(seed) + "\n------END USER NKEY SEED------\n")
}

// A worker may publish on its own subjects alone. All else is refused by the
// server and on record.
func TestWorkerPublishesElsewhere(t *testing.T) {
	f := fleettest.Up(t)
	b := f.Worker(t, "victim").Member.ID
	for i, group := range [][]string{
		{
			"fleet.hello.B", "fleet.claim.B.run", "fleet.beat.B.run.task.claim", "fleet.event.B.run.task.claim", "fleet.ask.B.run.task.claim",
			"fleet.result.B.run.task.claim", "fleet.order.B", "inbox.B.x", "fleet.task.any.run.task", "fleet.journal.run", "fleet.admin.invite",
			"fleet.admin.remove", "fleet.join.other", "$SYS.REQ.SERVER.PING", "_INBOX.x", "fleet.claim.A",
		},
		{
			"$JS.ACK.TASKS.any.1.1.1.1700000000000000000.0", "$JS.API.STREAM.DELETE.TASKS", "$JS.API.STREAM.PURGE.TASKS", "$JS.API.STREAM.CREATE.MINE",
			"$JS.API.STREAM.MSG.GET.JOURNAL", "$JS.API.STREAM.MSG.GET.KV_MEMBERS", "$JS.API.DIRECT.GET.KV_CLAIMS", "$JS.API.DIRECT.GET.KV_CLAIMS.$KV.CLAIMS.run.task",
			"$KV.MEMBERS.A", "$KV.CLAIMS.run.task", "$O.w-B.C.x", "$O.RUNS.C.x", "$JS.API.STREAM.MSG.GET.OBJ_w-B", "$JS.API.STREAM.INFO.KV_MEMBERS",
			"$JS.API.CONSUMER.CREATE.TASKS", "$JS.API.CONSUMER.CREATE.JOURNAL.x", "$JS.API.STREAM.NAMES", "$JS.API.INFO",
		},
		{"$JS.API.CONSUMER.MSG.NEXT.TASKS.any", "$JS.API.CONSUMER.INFO.TASKS.any", "fleet.next.B.any"},
		{ // of its own bucket: what could make the server say its words elsewhere
			"$JS.API.CONSUMER.CREATE.OBJ_w-A", "$JS.API.CONSUMER.CREATE.OBJ_w-A.x.$O.w-A.C.x", "$JS.API.CONSUMER.DURABLE.CREATE.OBJ_w-A.x", "$JS.API.DIRECT.GET.OBJ_w-A",
			"$JS.API.STREAM.UPDATE.OBJ_w-A", "$JS.API.STREAM.DELETE.OBJ_w-A", "$JS.API.STREAM.SNAPSHOT.OBJ_w-A", "$JS.API.STREAM.MSG.DELETE.OBJ_w-A",
		},
	} {
		name := "attacker-" + string(rune('a'+i))
		a := f.Worker(t, name).Member.ID
		nc, refused := thief(t, f, name)
		for _, subject := range group {
			subject = strings.NewReplacer("OBJ_w-A", "OBJ_w-"+a, "w-A.", "w-"+a+".", "OBJ_w-B", "OBJ_w-"+b, "w-B.", "w-"+b+".", ".B.", "."+b+".", "MEMBERS.A", "MEMBERS."+a, "claim.A", "claim."+a).Replace(subject)
			if prefix, ok := strings.CutSuffix(subject, ".B"); ok {
				subject = prefix + "." + b
			}
			if err := nc.Publish(subject, []byte(`{"schema":1}`)); err != nil {
				t.Fatal(err)
			}
			refused("Publish", `"`+subject+`"`)
			f.WaitRecorded(t, hub.RefusedMessage+" "+a, "Publish", `"`+subject+`"`)
		}
	}
}

// A worker may hear its own inbox and orders alone.
func TestWorkerListensElsewhere(t *testing.T) {
	f := fleettest.Up(t)
	b := f.Worker(t, "victim").Member.ID
	a := f.Worker(t, "attacker").Member.ID
	nc, refused := thief(t, f, "attacker")
	for _, subject := range []string{">", "*.*.*", "inbox.>", "inbox." + b + ".>", "inbox.*.*", "fleet.order." + b, "fleet.order.*", "fleet.claim.>", "fleet.hello.*",
		"fleet.result.>", "fleet.join.*", "fleet.task.>", "fleet.journal.>", "$KV.>", "$JS.>", "$O.>", "_INBOX.>", "$SYS.>"} {
		if _, err := nc.SubscribeSync(subject); err != nil {
			t.Fatal(err)
		}
		refused("Subscription", `"`+subject+`"`)
		f.WaitRecorded(t, hub.RefusedMessage+" "+a, "Subscription", `"`+subject+`"`)
	}
}

// A worker may have answers sent to any subject. Those that it can get are not
// what a receiver takes, or are refused.
func TestAnswersToForeignSubjects(t *testing.T) {
	f := fleettest.Up(t)
	victim := f.Worker(t, "victim")
	a := f.Worker(t, "attacker").Member.ID
	nc, _ := thief(t, f, "attacker")
	orders, err := victim.NC.SubscribeSync(fleet.OrderSubject(victim.Member.ID))
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.NC.Flush(); err != nil {
		t.Fatal(err)
	}
	forged := []byte(`{"schema":1,"kind":"removed"}`)
	if err := nc.PublishRequest("$O.w-"+a+".C.x", orders.Subject, forged); err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{"$JS.API.STREAM.MSG.GET.OBJ_w-" + a, "$JS.API.STREAM.INFO.OBJ_w-" + a} {
		if err := nc.PublishRequest(subject, orders.Subject, []byte(`{"seq":1}`)); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		msg, err := orders.NextMsg(fleettest.Timeout)
		if err != nil {
			t.Fatal(err)
		}
		var order fleet.Order
		if err := fleet.Decode(msg.Data, &order); bridge.CodeOf(err) != bridge.CodeUnsupported {
			t.Errorf("%s was taken: %v", msg.Data, err)
		}
	}
	if err := nc.PublishRequest(fleet.HelloSubject(a), orders.Subject, []byte(`{"schema":1}`)); err != nil {
		t.Fatal(err)
	}
	f.WaitRecorded(t, hub.RefusedMessage+" "+a, "not its sender's inbox")

	// A ticket as a hello would count for the victim. The hub looks where it goes; and
	// if the server sends one at somebody's bidding, it is seen that it is none.
	queue, err := f.Coordinator.JS.CreateOrUpdateConsumer(t.Context(), fleet.StreamTasks, jetstream.ConsumerConfig{Durable: "any", AckPolicy: jetstream.AckExplicitPolicy, FilterSubject: "fleet.task.any.>"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Coordinator.JS.Publish(t.Context(), f.Names(t).To(fleet.TaskSubject("any", "run", "task")), []byte(`{"schema":1,"run":"run"}`)); err != nil {
		t.Fatal(err)
	}
	if err := nc.PublishRequest(fleet.NextSubject(a, "any"), fleet.HelloSubject(victim.Member.ID), []byte(`{"schema":1,"batch":1}`)); err != nil {
		t.Fatal(err)
	}
	f.WaitRecorded(t, hub.RefusedMessage+" "+a, fleet.NextSubject(a, "any"), "not its sender's inbox")
	if err := f.Coordinator.NC.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.TASKS."+queue.CachedInfo().Name, fleet.HelloSubject(victim.Member.ID), []byte(`{"batch":1}`)); err != nil {
		t.Fatal(err)
	}
	f.WaitRecorded(t, hub.RefusedMessage, "fleet.task.any.run.task", "$JS.ACK.TASKS", "not its sender's inbox")
	if s, err := fleet.GetStatus(t.Context(), f.Coordinator); err != nil || len(s.Workers) != 2 || s.Workers[0].Online || s.Workers[1].Online {
		t.Errorf("status %+v, %v", s.Workers, err)
	}
	if msg, err := orders.NextMsg(10 * time.Millisecond); err == nil {
		t.Errorf("the hub answered there: %s", msg.Data)
	}
}

// The server's answers to a worker go to any subject that the worker can name. It
// cannot name what others write: a table would keep an answer as a row, a journal
// as an entry that ends the run, and a queue as a ticket that is never ended.
func TestAnswersIntoStreams(t *testing.T) {
	f := fleettest.Up(t)
	victim := f.Worker(t, "victim").Member.ID
	a := f.Worker(t, "attacker").Member.ID
	nc, refused := thief(t, f, "attacker")
	names := f.Names(t)
	queue := jetstream.ConsumerConfig{Durable: "any", AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Hour, FilterSubject: "fleet.task.any.>"}
	table, err := f.Coordinator.JS.KeyValue(t.Context(), names.Of(fleet.TableQueues))
	if err == nil {
		_, err = table.Put(t.Context(), "any", []byte(`{"schema":1}`))
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Coordinator.JS.CreateOrUpdateConsumer(t.Context(), fleet.StreamTasks, queue); err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{fleet.TaskSubject("any", "run", "task"), fleet.JournalSubject("run")} {
		if _, err := f.Coordinator.JS.Publish(t.Context(), names.To(subject), []byte(`{"schema":1}`)); err != nil {
			t.Fatal(err)
		}
	}
	streams := []string{fleet.StreamTasks, fleet.StreamJournal, "OBJ_" + names.Of(fleet.BucketRuns)}
	for _, table := range []string{fleet.TableMembers, fleet.TableInvites, fleet.TableQueues, fleet.TableOwners, fleet.TableClaims} {
		streams = append(streams, "KV_"+names.Of(table))
	}
	state := func() (all []string) {
		for _, name := range streams {
			s, err := f.Coordinator.JS.Stream(t.Context(), name)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			all = append(all, fmt.Sprint(name, " has ", s.CachedInfo().State.Msgs, " up to ", s.CachedInfo().State.LastSeq))
		}
		c, err := f.Coordinator.JS.Consumer(t.Context(), fleet.StreamTasks, "any")
		if err != nil {
			t.Fatal(err)
		}
		return append(all, fmt.Sprint("tickets given out: ", c.CachedInfo().NumAckPending))
	}
	ticket, err := f.Coordinator.NC.Request("$JS.API.CONSUMER.MSG.NEXT.TASKS.any", []byte(`{"batch":1}`), fleettest.Timeout)
	if err != nil {
		t.Fatal(err)
	}
	ack := ticket.Reply
	before := state()
	inbox := nc.NewInbox()
	answers, err := nc.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	for _, reply := range []string{
		"$KV.MEMBERS." + victim, "$KV.INVITES.x", "$KV.QUEUES.any", "$KV.OWNERS.run", "$KV.CLAIMS.run.task", "$O.RUNS.C.x", "$O.RUNS.M.x",
		fleet.JournalSubject("run"), fleet.TaskSubject("any", "run", "more"), "$JS.API.STREAM.PURGE.TASKS", "$JS.API.STREAM.MSG.DELETE.TASKS", "$JS.API.STREAM.DELETE.JOURNAL",
		"$JS.API.STREAM.PURGE.JOURNAL", "$JS.API.CONSUMER.DELETE.TASKS.any", ack, inbox,
	} {
		for subject, body := range map[string]string{
			"$O.w-" + a + ".C.x": "x", fleet.WorkSubject("result", a, "run", "task", "claim"): "x", "$JS.API.STREAM.MSG.GET.OBJ_w-" + a: `{"seq":1}`, "$JS.API.STREAM.INFO.OBJ_w-" + a: "",
			"$JS.API.STREAM.PURGE.OBJ_w-" + a: `{"seq":1}`, fleet.NextSubject(a, "any"): `{"schema":1,"batch":1}`,
		} {
			if err := nc.PublishRequest(subject, reply, []byte(body)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 6 { // to the inbox: all before them have been sent
		m, err := answers.NextMsg(fleettest.Timeout)
		if err != nil {
			t.Fatal(err)
		}
		if word := names.Of("")[1:]; strings.Contains(fmt.Sprint(m.Subject, m.Reply, m.Header, string(m.Data)), word) {
			t.Errorf("the answer tells the word: %s", m.Data)
		}
	}
	if after := state(); !slices.Equal(after, before) {
		t.Errorf("the answers were stored:\n%q\n%q", before, after)
	}
	for _, subject := range []string{"$JS.API.STREAM.NAMES", "$JS.API.STREAM.LIST", "$JS.API.CONSUMER.LIST.TASKS", "$JS.API.CONSUMER.INFO.TASKS.any", "$JS.API.CONSUMER.MSG.NEXT.TASKS.any", "$JS.API.STREAM.INFO.TASKS", "$JS.API.STREAM.INFO.RESULTS"} {
		if err := nc.PublishRequest(subject, inbox, nil); err != nil {
			t.Fatal(err)
		}
		refused("Publish", `"`+subject+`"`)
	}
}

// A worker adds results of its own, and cannot take others away: a message may ask
// the server to drop all before it.
func TestResultsStay(t *testing.T) {
	f := fleettest.Up(t)
	a, b := f.Worker(t, "attacker"), f.Worker(t, "victim")
	if _, err := b.JS.Publish(t.Context(), fleet.WorkSubject("result", b.Member.ID, "run", "task", "claim"), []byte(`{"schema":1}`)); err != nil {
		t.Fatal(err)
	}
	mine := fleet.WorkSubject("result", a.Member.ID, "run", "task", "claim")
	for header, value := range map[string]string{jetstream.MsgRollup: jetstream.MsgRollupAll, "Nats-TTL": "1s", "Nats-Batch-Id": "x"} {
		if _, err := a.JS.PublishMsg(t.Context(), &nats.Msg{Subject: mine, Header: nats.Header{header: {value}}, Data: []byte("{}")}, jetstream.WithRetryAttempts(0)); err == nil {
			t.Errorf("%s was taken", header)
		}
	}
	if _, err := a.JS.Publish(t.Context(), mine, make([]byte, 1<<20+1)); err == nil {
		t.Error("a huge result was taken")
	}
	stream, err := f.Coordinator.JS.Stream(t.Context(), fleet.StreamResults)
	if err != nil || stream.CachedInfo().State.Msgs != 1 {
		t.Errorf("%+v, %v", stream, err)
	}
}

// A worker that delivers without end loses its own results, and no room is taken
// from others.
func TestResultsWithoutEnd(t *testing.T) {
	f := fleettest.Up(t)
	a, b := f.Worker(t, "attacker"), f.Worker(t, "victim")
	if _, err := b.JS.Publish(t.Context(), fleet.WorkSubject("result", b.Member.ID, "run", "task", "claim"), []byte(`{"schema":1}`)); err != nil {
		t.Fatal(err)
	}
	full := make([]byte, 1<<20-1024)
	for i := range 300 {
		if _, err := a.JS.Publish(t.Context(), fleet.WorkSubject("result", a.Member.ID, "run", "task", fmt.Sprint("claim-", i)), full); err != nil {
			t.Fatal(err)
		}
	}
	f.WaitRecorded(t, hub.RefusedMessage+" "+a.Member.ID, "MiB within a day")
	stream, err := f.Coordinator.JS.Stream(t.Context(), fleet.StreamResults)
	if err != nil {
		t.Fatal(err)
	}
	if s := stream.CachedInfo().State; s.Bytes > 100<<20 {
		t.Errorf("%d bytes are kept", s.Bytes)
	}
	if m, err := stream.GetMsg(t.Context(), 1); err != nil || !strings.Contains(m.Subject, b.Member.ID) {
		t.Errorf("the victim's result: %v", err)
	}
	if _, err := fleet.Remove(t.Context(), f.Coordinator, a.Member.ID); err != nil {
		t.Fatal(err)
	}
	if info, err := stream.Info(t.Context()); err != nil || info.State.Msgs != 1 {
		t.Errorf("results of a removed worker stay: %+v, %v", info, err)
	}
}

// A hello is kept and shown with those of all others, so it is bounded, and so is
// what a machine calls itself.
func TestAbsurdHellos(t *testing.T) {
	f := fleettest.Up(t)
	w := f.Worker(t, "attacker")
	labels := map[string]string{}
	for i := range 100 {
		labels[fmt.Sprint("label-", i)] = "x"
	}
	for what, h := range map[string]fleet.Hello{
		"too long": {Host: strings.Repeat("x", 1<<20)}, "no label": {Labels: map[string]string{"gpu\x1b[2J": "yes"}}, "at most": {Labels: labels},
	} {
		if _, err := w.Hello(t.Context(), h); bridge.CodeOf(err) != bridge.CodeInvalid || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if s, err := fleet.GetStatus(t.Context(), f.Coordinator); err != nil || len(s.Workers) != 1 || s.Workers[0].Hello != nil || len(s.Workers[0].Offers) != 0 {
		t.Errorf("%+v, %v", s.Workers, err)
	}
	line := f.Invite(t, fleet.RoleWorker, 1)
	for _, name := range []string{"build1\n\x1b[31m", "build\u202e1", "build\u200b1", strings.Repeat("x", 101)} {
		if _, err := fleet.Join(t.Context(), line, filepath.Join(f.Dir, "named"), fleet.JoinOptions{Name: name}); bridge.CodeOf(err) != bridge.CodeInvalid {
			t.Errorf("%q: %v", name, err)
		}
	}
	f.Join(t, line, "Böse Maschine 1") // none of that took the use
}

// A worker that says hello without end does not keep the hub from others.
func TestManyHellos(t *testing.T) {
	f := fleettest.Up(t)
	w, a := f.Worker(t, "worker"), f.Worker(t, "attacker")
	for i := range 4000 {
		hello := fmt.Sprintf(`{"schema":1,"labels":{"l":"%d"}}`, i)
		if err := a.NC.PublishRequest(fleet.HelloSubject(a.Member.ID), fleet.Inbox(a.Member.ID)+".x", []byte(hello)); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.NC.Flush(); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if _, err := w.Hello(t.Context(), fleet.Hello{}); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("the hub answered after %s", took)
	}
}

// What a worker needs of its bucket, it may.
func TestWorkerBucket(t *testing.T) {
	f := fleettest.Up(t)
	w := f.Worker(t, "worker")
	mine, err := w.JS.ObjectStore(t.Context(), fleet.WorkerBucket(w.Member.ID))
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := f.Coordinator.JS.ObjectStore(t.Context(), fleet.WorkerBucket(w.Member.ID))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // again under the same name
		if _, err := mine.PutBytes(t.Context(), "result", make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if data, err := theirs.GetBytes(t.Context(), "result"); err != nil || len(data) != 1<<20 {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	if err := mine.Delete(t.Context(), "result"); err != nil {
		t.Error(err)
	}
	if _, err := theirs.PutBytes(t.Context(), "begin", []byte("bundle")); err != nil {
		t.Fatal(err)
	}
	info, err := mine.GetInfo(t.Context(), "begin")
	if err != nil {
		t.Fatal(err)
	}
	stream, err := w.JS.Stream(t.Context(), "OBJ_"+fleet.WorkerBucket(w.Member.ID))
	if err != nil {
		t.Fatal(err)
	}
	if m, err := stream.GetMsg(t.Context(), 1, jetstream.WithGetMsgSubject("$O."+fleet.WorkerBucket(w.Member.ID)+".C."+info.NUID)); err != nil || string(m.Data) != "bundle" {
		t.Errorf("%+v, %v", m, err)
	}
	if _, err := w.JS.Publish(t.Context(), "$O."+fleet.WorkerBucket(w.Member.ID)+".C.x", make([]byte, 1<<20)); err == nil {
		t.Error("chunks have no bound")
	}
	if c := stream.CachedInfo().Config; c.MaxMsgs <= 0 || c.MaxMsgs*int64(c.MaxMsgSize) > 9<<30 || c.Discard != jetstream.DiscardNew {
		t.Errorf("the bucket has no bound: %+v", c)
	}
	if said := f.Recorded(); len(said) > 0 {
		t.Errorf("recorded %q", said)
	}
}

// A removed member is cut at once, on every machine that has its key, and does
// not come back.
func TestRemovedMember(t *testing.T) {
	f := fleettest.Up(t)
	f.Join(t, f.Invite(t, fleet.RoleWorker, 1), "worker")
	if err := os.CopyFS(filepath.Join(f.Dir, "stolen"), os.DirFS(filepath.Join(f.Dir, "worker"))); err != nil {
		t.Fatal(err)
	}
	lost := make(chan time.Time, 10)
	w, err := fleet.Connect(t.Context(), filepath.Join(f.Dir, "worker"), fleet.ConnectOptions{Lost: func(error) { lost <- time.Now() }})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	stolen := f.Connect(t, "stolen")
	begun := time.Now()
	if _, err := fleet.Remove(t.Context(), f.Coordinator, "worker"); err != nil {
		t.Fatal(err)
	}
	answered := time.Since(begun)
	select {
	case at := <-lost:
		t.Logf("cut after %s, answered after %s", at.Sub(begun), answered)
	case <-time.After(fleettest.Timeout):
		t.Fatal("not cut")
	}
	for _, c := range []*fleet.Conn{w, stolen} {
		select {
		case <-c.Done():
		case <-time.After(fleettest.Timeout):
			t.Fatal("not ended")
		}
		if bridge.CodeOf(c.Err()) != bridge.CodeUnauthenticated || !strings.Contains(c.Err().Error(), "removed") {
			t.Error(c.Err())
		}
	}
	f.WaitRecorded(t, hub.RefusedConnection+" "+w.Member.ID, "removed from the fleet")
	again := func() {
		t.Helper()
		if _, err := fleet.Connect(t.Context(), filepath.Join(f.Dir, "stolen"), fleet.ConnectOptions{}); bridge.CodeOf(err) != bridge.CodeUnauthenticated {
			t.Errorf("connected again: %v", err)
		}
	}
	again()
	if _, err := f.Coordinator.JS.Stream(t.Context(), "OBJ_w-"+w.Member.ID); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("its bucket: %v", err)
	}
	if err := f.Hub.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.Start(t)
	again()
}

func TestInvitations(t *testing.T) {
	f := fleettest.Up(t)
	join := func(line, name string) error {
		_, err := fleet.Join(t.Context(), line, filepath.Join(f.Dir, name), fleet.JoinOptions{Name: name})
		return err
	}
	altered := func(line string, change func(*fleet.Invitation)) string {
		i, err := fleet.ParseInvitation(line)
		if err != nil {
			t.Fatal(err)
		}
		change(&i)
		if line, err = i.Line(); err != nil {
			t.Fatal(err)
		}
		return line
	}
	refused := func(err error, word string) {
		t.Helper()
		if bridge.CodeOf(err) != bridge.CodeUnauthenticated || !strings.Contains(err.Error(), word) {
			t.Errorf("%v, not %q", err, word)
		}
	}

	// Two uses, also for those who come at the same time.
	line := f.Invite(t, fleet.RoleWorker, 2)
	errs := make(chan error, 6)
	for i := range cap(errs) {
		go func() { errs <- join(line, "one-of-many-"+string(rune('a'+i))) }()
	}
	in := 0
	for range cap(errs) {
		if err := fleettest.Receive(t, "the end of a join", errs); err == nil {
			in++
		} else {
			refused(err, "used up")
		}
	}
	if in != 2 {
		t.Errorf("%d joined", in)
	}
	f.WaitRecorded(t, hub.RefusedJoin, "one-of-many-", "used up")

	// Ended.
	reply, err := fleet.Invite(t.Context(), f.Coordinator, fleet.RoleWorker, nil, 1, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	fleettest.Wait(t, "the invitation's end", func() bool { return time.Now().After(reply.Expires.Add(time.Second)) })
	refused(join(reply.Line, "late"), "ended on")
	f.WaitRecorded(t, hub.RefusedConnection, "invitation-"+reply.ID, "its right has ended")

	// With rights that nobody signed, or for another invitation.
	line = f.Invite(t, fleet.RoleWorker, 1)
	refused(join(altered(line, func(i *fleet.Invitation) { i.JWT = widened(t, i.JWT) }), "liar"), "does not know")
	f.WaitRecorded(t, hub.RefusedConnection, "authentication error")
	other, err := fleet.ParseInvitation(f.Invite(t, fleet.RoleCoordinator, 1))
	if err != nil {
		t.Fatal(err)
	}
	refused(join(altered(line, func(i *fleet.Invitation) { i.ID = other.ID }), "climber"), "altered")
	f.WaitRecorded(t, hub.RefusedMessage, fleet.JoinSubject(other.ID))
	if err := join(line[:len(line)-9], "half"); bridge.CodeOf(err) != bridge.CodeInvalid {
		t.Error(err)
	}

	// None of this cost the use, and who is in stays in.
	if err := join(line, "honest"); err != nil {
		t.Error(err)
	}
	if err := join(line, "honest"); bridge.CodeOf(err) != bridge.CodeConflict {
		t.Error(err)
	}
}

// What an invitation is worth is in the fleet, not in the line: a used one is of no
// use after the hub has started anew, nor after its member was removed, and its own
// key may do nothing but ask to join.
func TestUsedInvitation(t *testing.T) {
	f := fleettest.Up(t)
	line := f.Invite(t, fleet.RoleWorker, 1)
	m := f.Join(t, line, "first")
	again := func() {
		t.Helper()
		if _, err := fleet.Join(t.Context(), line, filepath.Join(t.TempDir(), "again"), fleet.JoinOptions{Name: "first"}); bridge.CodeOf(err) != bridge.CodeUnauthenticated || !strings.Contains(err.Error(), "used up") {
			t.Error(err)
		}
	}
	again()
	if _, err := fleet.Remove(t.Context(), f.Coordinator, m.ID); err != nil {
		t.Fatal(err)
	}
	again()
	refused := make(chan error, 10)
	_, nc, _ := guest(t, f, line, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	for _, subject := range []string{fleet.HelloSubject(m.ID), fleet.RenewSubject(m.ID), fleet.AdminSubject("invite"), "$JS.API.STREAM.NAMES", fleet.JoinSubject("other")} {
		if err := nc.Publish(subject, []byte(`{"schema":1}`)); err != nil {
			t.Fatal(err)
		}
		if err := fleettest.Receive(t, "the refusal of "+subject, refused); !errors.Is(err, nats.ErrPermissionViolation) {
			t.Error(err)
		}
	}
	nc.Close()
	if err := f.Hub.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.Start(t)
	again()
}

// widened is a right with its permissions changed, as if nobody checked who
// signed it.
func widened(t *testing.T, token string) string {
	t.Helper()
	parts := strings.Split(token, ".")
	data, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	wider := strings.Replace(string(data), `"fleet.join.`, `">","fleet.join.`, 1)
	if wider == string(data) {
		t.Fatalf("nothing to widen in %s", data)
	}
	parts[1] = base64.RawURLEncoding.EncodeToString([]byte(wider))
	return strings.Join(parts, ".")
}

func TestClientsWithoutRight(t *testing.T) {
	f := fleettest.Up(t)
	config, err := fleet.TLS(f.Coordinator.Member.CA)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nats.Connect(f.Hub.URLs()[0], nats.Secure(config)); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("no credentials: %v", err)
	}
	f.WaitRecorded(t, hub.RefusedConnection, "authentication error")

	u, err := url.Parse(f.Hub.URLs()[0])
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(fleettest.Timeout)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "CONNECT {\"verbose\":true}\r\nPING\r\n"); err != nil {
		t.Fatal(err)
	}
	said, _ := io.ReadAll(conn) // the server may close it at any time
	if strings.Contains(string(said), "PONG") || strings.Contains(string(said), "+OK") {
		t.Errorf("plain TCP was served: %q", said)
	}
	f.WaitRecorded(t, hub.RefusedConnection, "TLS handshake error")

	old := config.Clone()
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	if _, err := nats.Connect(f.Hub.URLs()[0], nats.Secure(old)); !errors.Is(err, nats.ErrTLS) {
		t.Errorf("TLS 1.2: %v", err)
	}
}

// Whoever stands between a machine and the fleet is found out before anything is
// said to it.
func TestManInTheMiddle(t *testing.T) {
	f, other := fleettest.Up(t), fleettest.Up(t)
	f.Worker(t, "worker")
	line := f.Invite(t, fleet.RoleWorker, 1)
	i, err := fleet.ParseInvitation(line)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode([]byte(f.Coordinator.Member.CA))
	var heard programtest.Output
	for name, address := range map[string]string{
		"another fleet's server":     other.Hub.URLs()[0],
		"a leaf of its own":          fakeServer(t, &heard, true, nil),
		"the right CA behind a leaf": fakeServer(t, &heard, true, block.Bytes),
		"no TLS":                     fakeServer(t, &heard, false, nil),
	} {
		t.Run(name, func(t *testing.T) {
			i.URLs = []string{address}
			bad, err := i.Line()
			if err != nil {
				t.Fatal(err)
			}
			_, err = fleet.Join(t.Context(), bad, filepath.Join(t.TempDir(), "new"), fleet.JoinOptions{})
			if bridge.CodeOf(err) != bridge.CodeUnauthenticated || !strings.Contains(err.Error(), "not the fleet's") {
				t.Errorf("join: %v", err)
			}
			dir := filepath.Join(t.TempDir(), "worker")
			if err := os.CopyFS(dir, os.DirFS(filepath.Join(f.Dir, "worker"))); err != nil {
				t.Fatal(err)
			}
			m, err := fleet.Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			m.URLs = []string{address}
			data, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "member.json"), data, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err = fleet.Connect(t.Context(), dir, fleet.ConnectOptions{})
			if bridge.CodeOf(err) != bridge.CodeUnauthenticated || !strings.Contains(err.Error(), "not the fleet's") {
				t.Errorf("connect: %v", err)
			}
		})
	}
	if said := heard.String(); said != "" {
		t.Errorf("a foreign server heard %q", said)
	}
	f.Join(t, line, "new")
}

// fakeServer greets like a NATS server and shows a certificate that it made
// itself. What it is told after the handshake goes to heard.
func fakeServer(t *testing.T, heard io.Writer, secure bool, behind []byte) (address string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert := tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}
	if behind != nil {
		cert.Certificate = append(cert.Certificate, behind)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(func() { stop(); _ = listener.Close(); wg.Wait() })
	serve := func(conn net.Conn) {
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
		info := `{"server_id":"x","version":"2.15.2","proto":1,"host":"127.0.0.1","max_payload":1048576,"nonce":"abcdefghijk","auth_required":true`
		if secure {
			info += `,"tls_required":true`
		}
		if _, err := io.WriteString(conn, "INFO "+info+"}\r\n"); err != nil {
			return
		}
		if secure {
			conn = tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{cert}})
		}
		_, _ = io.Copy(heard, conn) // what matters is what it heard
	}
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { serve(conn) })
		}
	})
	return "tls://" + listener.Addr().String()
}
