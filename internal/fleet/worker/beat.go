package worker

import (
	"context"
	"encoding/json"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// eventEvery is how often the progress of a claim is sent at most.
const eventEvery = 200 * time.Millisecond

// beat sends the progress and the signs of life of all claims until ctx ends.
// While there is no connection it sends nothing: what is late is of no use.
func (w *worker) beat(ctx context.Context) {
	tick := time.NewTicker(eventEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !w.conn.NC.IsConnected() {
			continue
		}
		w.mu.Lock()
		all := make([]*claim, 0, len(w.claims))
		for _, c := range w.claims {
			all = append(all, c)
		}
		w.mu.Unlock()
		for _, c := range all {
			c.tell(false)
		}
	}
}

// report notes progress. Newer takes the place of older that is not sent yet.
func (c *claim) report(e fleet.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.Text != "" {
		c.event.Text = text.Clip(e.Text, maxText)
	}
	if e.Usage != (bridge.Usage{}) {
		c.event.Usage = e.Usage
	}
	if e.Session != "" {
		c.event.Session = e.Session
	}
	c.fresh = true
}

// tell sends what was reported, or a beat if one is due. With now it sends what
// was reported only.
func (c *claim) tell(now bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := time.Now()
	switch {
	case c.fresh:
		c.event.Schema = fleet.Schema
		c.send("event", c.event)
		c.fresh = false
	case !now && at.Sub(c.alive) >= fleet.BeatEvery:
		c.send("beat", fleet.Beat{Schema: fleet.Schema})
	default:
		return
	}
	c.alive = at
}

// send publishes a message of the claim.
func (c *claim) send(kind string, message any) {
	data, err := json.Marshal(message)
	if err == nil {
		err = c.w.conn.NC.Publish(c.subject(kind), data)
	}
	if err != nil {
		c.w.log.Debug("worker.not_sent", "kind", kind, "claim", c.Claim, "error", err)
	}
}
