package worker

import (
	"context"
	"encoding/json"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
)

// deliver publishes the result until the server has it, and waits for a word on it.
func (c *claim) deliver(r fleet.Result, release func()) {
	bound := time.NewTimer(keepBound)
	defer bound.Stop()
	for pause := firstBackOff / 4; ; pause = min(2*pause, fleet.BeatEvery) {
		err := c.publish(r)
		if err == nil {
			break
		}
		if c.ctx.Err() != nil { // the word may come before the server's answer
			return
		}
		c.w.log.Debug("worker.not_delivered", "run", c.Run, "task", c.Task, "claim", c.Claim, "error", err)
		again := time.NewTimer(pause)
		select {
		case <-again.C:
			continue
		case <-c.ctx.Done():
		case <-bound.C:
			c.w.log.Warn("worker.result_dropped: the fleet cannot be reached", "run", c.Run, "task", c.Task, "claim", c.Claim)
		}
		again.Stop()
		return
	}
	c.delivered.Store(true)
	release()
	c.await(bound)
}

// await waits until the coordinator has said something about the result. A
// worker that drains does not wait long; the server keeps the result.
func (c *claim) await(bound *time.Timer) {
	drained := c.w.idle.Done()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-bound.C:
			c.w.log.Warn("worker.no_word: nobody has taken the result", "run", c.Run, "task", c.Task, "claim", c.Claim)
			return
		case <-drained:
			drained = nil
			bound.Reset(drainBound)
		}
	}
}

func (c *claim) publish(r fleet.Result) error {
	ctx, cancel := context.WithTimeout(c.ctx, answerBound)
	defer cancel()
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	c.sent.Store(true)
	_, err = c.w.conn.JS.PublishMsg(ctx, &nats.Msg{Subject: c.subject("result"), Data: data}, jetstream.WithMsgID(c.Claim))
	return err
}
