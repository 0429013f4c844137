package fleet

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// A transfer has the time that its size needs; other steps are cut off and made anew.
func TestTransferHasTime(t *testing.T) {
	for size, want := range map[int64]time.Duration{-1: OneTry, 0: OneTry, math.MaxInt64: OneTry + longest, 1 << 20: OneTry + 16*time.Second} {
		if got := TransferTime(size); got != want {
			t.Errorf("%d bytes have %s, not %s", size, got, want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		slow := func(ctx context.Context) error { // 20 seconds
			tries++
			select {
			case <-time.After(20 * time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := Persist(t.Context(), TransferTime(1<<20), slow); err != nil || tries != 1 {
			t.Errorf("%v after %d tries", err, tries)
		}
		if err := Persist(t.Context(), OneTry, slow); bridge.CodeOf(err) != bridge.CodeUnavailable {
			t.Errorf("a step of 20 seconds is no request: %v", err)
		}
	})
}

// What passes when a server comes back is tried again, and nothing else.
func TestPersistKnowsWhatPasses(t *testing.T) {
	for err, want := range map[error]int{
		nats.ErrDisconnected:             2, // of what was under way when the connection broke
		nats.ErrConnectionReconnecting:   2,
		fmt.Errorf("put: %w", ErrLost):   2,
		jetstream.ErrNoStreamResponse:    2, // a stream that has no leader
		jetstream.ErrJetStreamNotEnabled: 2, // a server that starts
		&jetstream.APIError{Code: 503}:   2, // a cluster without a leader
		&jetstream.APIError{Code: 503, ErrorCode: 10077, Description: "maximum messages exceeded"}: 1, // a bucket is full
		&jetstream.APIError{Code: 400}:         1,
		jetstream.ErrObjectNotFound:            1,
		nats.ErrConnectionClosed:               1,
		errors.New("the disk is full"):         1,
		&bridge.Error{Code: bridge.CodeDenied}: 1,
	} {
		synctest.Test(t, func(t *testing.T) {
			tries := 0
			got := Persist(t.Context(), OneTry, func(context.Context) error {
				if tries++; tries == 1 {
					return err
				}
				return nil
			})
			if tries != want || (got == nil) != (want == 2) {
				t.Errorf("%v: %d tries, %v", err, tries, got)
			}
		})
	}
}
