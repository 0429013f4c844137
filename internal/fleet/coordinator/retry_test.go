package coordinator

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// A transfer has the time that its size needs; other steps are cut off and made anew.
func TestTransferHasTime(t *testing.T) {
	for size, want := range map[int64]time.Duration{-1: oneTry, 0: oneTry, math.MaxInt64: oneTry + longest, 1 << 20: oneTry + 16*time.Second} {
		if got := transferTime(size); got != want {
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
		if err := transfer(t.Context(), 1<<20, slow); err != nil || tries != 1 {
			t.Errorf("%v after %d tries", err, tries)
		}
		if err := persist(t.Context(), slow); err == nil {
			t.Error("a step of 20 seconds is no request")
		}
	})
}
