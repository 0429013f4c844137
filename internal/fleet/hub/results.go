package hub

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
)

// What a worker may deliver in a day, which is far more than one does. Beyond it
// its results are removed, which are refused or done again by another: a limit of
// the stream would have one worker take the room of all. What it can fill is so
// much for each day that results are kept.
const (
	resultsWindow   = 24 * time.Hour
	resultsMessages = 64 << 10
	resultsBytes    = 256 << 20
)

// delivered is what a worker has delivered since a time.
type delivered struct {
	since           time.Time
	messages, bytes int
}

// countResult hears of each result that a worker publishes.
func (k *keeper) countResult(msg *nats.Msg) {
	parts := strings.Split(msg.Subject, ".") // fleet.result.<worker>.…
	if len(parts) < 3 {
		return
	}
	worker, now := parts[2], time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, known := k.members[worker]; !known {
		return // an answer of the server that somebody had sent there: short, and slow to make
	}
	d := k.delivered[worker]
	if now.Sub(d.since) > resultsWindow {
		d = delivered{since: now}
	}
	d.messages, d.bytes = d.messages+1, d.bytes+len(msg.Data)
	if d.messages > resultsMessages || d.bytes > resultsBytes {
		select {
		case k.floods <- worker:
			d.messages, d.bytes = d.messages-resultsMessages/16, d.bytes-resultsBytes/16
		default: // with the next one
		}
	}
	k.delivered[worker] = d
}

// removeFloods removes the results of workers that deliver too many.
func (k *keeper) removeFloods(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case worker := <-k.floods:
			err := k.purgeResults(ctx, worker)
			k.hub.refuse(refusal{kind: RefusedMessage, member: worker,
				text: fmt.Sprintf("it delivered more than %d results or %d MiB within a day; they were removed", resultsMessages, resultsBytes>>20)})
			if err != nil && ctx.Err() == nil {
				k.hub.log.Warn("fleet.results_not_removed", "worker", worker, "error", err)
			}
		}
	}
}

func (k *keeper) purgeResults(ctx context.Context, worker string) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	stream, err := k.hub.js.Stream(ctx, fleet.StreamResults)
	if err != nil {
		return err
	}
	return stream.Purge(ctx, jetstream.WithPurgeSubject("fleet.result."+worker+".>"))
}
