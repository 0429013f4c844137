package hub_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet/hub"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/fleettest"
)

// A worker joins, says hello, learns of queues, and is seen in the status.
func TestWorkerJoins(t *testing.T) {
	begun := time.Now()
	f := fleettest.Up(t)
	t.Logf("up after %s", time.Since(begun))
	w := f.Worker(t, "Anna's laptop", "gpu")
	if w.Member.Role != fleet.RoleWorker || !slices.Equal(w.Member.Labels, []string{"gpu"}) || w.Member.Fleet != f.Hub.Fleet() {
		t.Errorf("member %+v", w.Member)
	}
	orders, err := w.NC.SubscribeSync(fleet.OrderSubject(w.Member.ID))
	if err != nil {
		t.Fatal(err)
	}
	reply, err := w.Hello(t.Context(), fleet.Hello{Host: "anna", Capacity: 3, Labels: map[string]string{"os": "linux", "gpu": "no"}})
	if err != nil || len(reply.Queues) != 0 || reply.Draining || reply.JWT != "" {
		t.Fatalf("hello: %+v, %v", reply, err)
	}

	queues, err := f.Coordinator.JS.KeyValue(t.Context(), f.Names(t).Of(fleet.TableQueues))
	if err != nil {
		t.Fatal(err)
	}
	for queue, text := range map[string]string{"q-other": `{"schema":1,"labels":["gpu=big"]}`, "q-mine": `{"schema":1,"labels":["gpu","os=linux"]}`} {
		if _, err := queues.Put(t.Context(), queue, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	msg, err := orders.NextMsg(fleettest.Timeout)
	if err != nil {
		t.Fatal(err)
	}
	var order fleet.Order
	if err := fleet.Decode(msg.Data, &order); err != nil || order.Kind != fleet.OrderQueues || !slices.Equal(order.Queues, []string{"q-mine"}) {
		t.Errorf("order %s, %v", msg.Data, err)
	}
	if reply, err = w.Hello(t.Context(), fleet.Hello{Capacity: 3, Labels: map[string]string{"os": "linux"}}); err != nil || !slices.Equal(reply.Queues, []string{"q-mine"}) {
		t.Errorf("second hello: %+v, %v", reply, err)
	}
	s, err := fleet.GetStatus(t.Context(), f.Coordinator)
	if err != nil || len(s.Workers) != 1 || !s.Workers[0].Online || s.Workers[0].Hello.Capacity != 3 || s.Workers[0].Lag <= 0 || len(s.Queues) != 2 ||
		!slices.Equal(s.Workers[0].Offers, []string{"gpu", "os=linux"}) {
		t.Errorf("status %+v, %v", s, err)
	}
	if _, err := fleet.Drain(t.Context(), f.Coordinator, "Anna's laptop"); err != nil {
		t.Error(err)
	}
	if reply, err = w.Hello(t.Context(), fleet.Hello{}); err != nil || !reply.Draining {
		t.Errorf("hello of a draining worker: %+v, %v", reply, err)
	}
	for _, h := range []fleet.Hello{{Anew: true}, {}} {
		if reply, err = w.Hello(t.Context(), h); err != nil || reply.Draining {
			t.Errorf("hello of a worker that was started anew: %+v, %v", reply, err)
		}
	}
	if said := f.Recorded(); len(said) > 0 {
		t.Errorf("recorded %q", said)
	}
	if len(s.Coordinators) != 1 || s.Coordinators[0].ID != f.Coordinator.Member.ID {
		t.Errorf("coordinators %+v", s.Coordinators)
	}
	if _, err := fleet.Remove(t.Context(), f.Coordinator, f.Coordinator.Member.ID); bridge.CodeOf(err) != bridge.CodeInvalid {
		t.Errorf("a coordinator that removes itself: %v", err)
	}
	if _, err := fleet.Remove(t.Context(), f.Coordinator, w.Member.ID); err != nil {
		t.Error(err)
	}
	for name, act := range map[string]func(context.Context, *fleet.Conn, string) (fleet.MemberReply, error){"drain": fleet.Drain, "remove": fleet.Remove} {
		if _, err := act(t.Context(), f.Coordinator, w.Member.ID); bridge.CodeOf(err) != bridge.CodeNotFound || !strings.Contains(err.Error(), "removed") {
			t.Errorf("%s of a removed worker: %v", name, err)
		}
	}
}

// Only one hub may run in a home.
func TestSecondHub(t *testing.T) {
	f := fleettest.Up(t)
	_, err := hub.Up(t.Context(), hub.Options{Dir: filepath.Join(f.Dir, "hub"), Listen: "127.0.0.1:0"})
	if bridge.CodeOf(err) != bridge.CodeBusy {
		t.Fatal(err)
	}
	t.Log(err)
}
