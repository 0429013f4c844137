package hub

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
)

// The most that one request of a worker can ask for.
const (
	nextBatch = 1024
	nextWaits = 10 * time.Second
)

// next passes on a worker's request for tickets, of a queue whose labels it has.
// The server answers to the worker's inbox, which answer has checked.
func (k *keeper) next(msg *nats.Msg, worker, queue string) {
	var r fleet.NextRequest
	err := fleet.Decode(msg.Data, &r)
	if err == nil {
		err = k.mayTake(worker, queue)
	}
	if err != nil {
		k.hub.refuse(refusal{kind: RefusedMessage, member: worker, text: "a request for tickets: " + err.Error()})
		// As the server says no: the worker does not wait for an answer then.
		if err := msg.RespondMsg(&nats.Msg{Header: nats.Header{"Status": {"409"}}}); err != nil {
			k.hub.log.Warn("fleet.answer_failed", "subject", msg.Subject, "error", err)
		}
		return
	}
	pull := struct {
		Batch   int           `json:"batch"`
		Expires time.Duration `json:"expires,omitempty"`
		NoWait  bool          `json:"no_wait,omitempty"`
	}{min(max(r.Batch, 1), nextBatch), max(min(r.Expires, nextWaits), 0), r.Expires <= 0}
	data, err := json.Marshal(pull)
	if err == nil {
		err = k.hub.nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+fleet.StreamTasks+"."+queue, msg.Reply, data)
	}
	if err != nil {
		k.hub.log.Warn("fleet.request_not_passed_on", "worker", worker, "queue", queue, "error", err)
	}
}

// mayTake says why a worker may not take tickets of a queue, if so.
func (k *keeper) mayTake(worker, queue string) error {
	m, err := k.present(worker)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if row, known := k.queues[queue]; known && !fleet.Fits(m.Offers, row.Labels) {
		return fmt.Errorf("it does not have the labels of the queue %s", queue)
	} else if !known {
		return fmt.Errorf("there is no queue %.60q", queue)
	}
	return nil
}
