package worker

import (
	"encoding/json"

	"github.com/nats-io/nats.go"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
)

// takeOrders does what the fleet orders, until stop is called. Orders that get
// lost come again as answers to hellos and beats.
func (w *worker) takeOrders() (stop func(), err error) {
	sub, err := w.conn.NC.Subscribe(fleet.OrderSubject(w.id), func(m *nats.Msg) {
		var o fleet.Order
		if err := json.Unmarshal(m.Data, &o); err != nil || o.Schema != fleet.Schema {
			w.log.Warn("worker.order_refused: it is of another version", "schema", o.Schema, "kind", o.Kind)
			return
		}
		w.order(o)
	})
	if err != nil {
		return nil, err
	}
	done := make(chan struct{})
	sub.SetClosedHandler(func(string) { close(done) })
	return func() {
		if sub.Unsubscribe() == nil {
			<-done // the last order is done with
		}
	}, nil
}

func (w *worker) order(o fleet.Order) {
	switch o.Kind {
	case fleet.OrderCancel, fleet.OrderAccepted, fleet.OrderRefused:
		for _, c := range w.named(o) {
			c.end(o)
		}
	case fleet.OrderQueues:
		w.setQueues(o.Queues)
	case fleet.OrderDrain:
		w.beginDrain()
	case fleet.OrderRemoved:
		message := o.Message
		if message == "" {
			message = "this machine was removed from the fleet"
		}
		w.end(&bridge.Error{Code: bridge.CodeDenied, Message: message, Remedy: "join again with a new invitation"})
	default:
		w.log.Warn("worker.order_unknown", "kind", o.Kind)
	}
}

// named are the claims that an order is about.
func (w *worker) named(o fleet.Order) []*claim {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []*claim
	for id, c := range w.claims {
		if id == o.Claim || o.Claim == "" && o.Kind == fleet.OrderCancel && c.Run == o.Run {
			out = append(out, c)
		}
	}
	return out
}
