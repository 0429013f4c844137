package hub_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/fleettest"
)

// What one member puts, another gets with the client's own means, and nothing stays
// of what was put before or in part.
func TestPutObject(t *testing.T) {
	f := fleettest.Up(t)
	w := f.Worker(t, "worker")
	bucket := fleet.WorkerBucket(w.Member.ID)
	theirs, err := f.Coordinator.JS.ObjectStore(t.Context(), bucket)
	if err != nil {
		t.Fatal(err)
	}
	stored := func() uint64 {
		s, err := f.Coordinator.JS.Stream(t.Context(), "OBJ_"+bucket)
		if err != nil {
			t.Fatal(err)
		}
		return s.CachedInfo().State.Msgs
	}
	for _, size := range []int{0, 1, 128 << 10, 128<<10 + 1, 10 << 20, 3} {
		data := make([]byte, size)
		if _, err := rand.Read(data); err != nil {
			t.Fatal(err)
		}
		if err := fleet.PutObject(t.Context(), w.JS, bucket, "result", iotest.OneByteReader(bytes.NewReader(data[:min(size, 3)]))); err != nil {
			t.Fatal(err)
		}
		if err := fleet.PutObject(t.Context(), w.JS, bucket, "result", bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
		if got, err := theirs.GetBytes(t.Context(), "result"); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes became %d, %v", size, len(got), err)
		}
		if n, want := stored(), uint64(1+(size+(128<<10)-1)/(128<<10)); n != want {
			t.Errorf("%d messages are stored of %d bytes, want %d", n, size, want)
		}
	}
	was := stored()
	broken := errors.New("the disk is broken")
	if err := fleet.PutObject(t.Context(), w.JS, bucket, "other", io.MultiReader(bytes.NewReader(make([]byte, 1<<20)), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Error(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	slow := readerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil })
	if err := fleet.PutObject(gone, w.JS, bucket, "other", slow); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	fleettest.Wait(t, "the parts to go", func() bool { return stored() == was })
}

// A bucket that is full says so, and what to do; nothing stays of what it did not take.
func TestFullBucket(t *testing.T) {
	f := fleettest.Up(t)
	w := f.Worker(t, "worker")
	bucket := fleet.WorkerBucket(w.Member.ID)
	stream, err := f.Coordinator.JS.Stream(t.Context(), "OBJ_"+bucket)
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	config.MaxMsgs = 8
	if _, err := f.Coordinator.JS.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	for _, who := range []*fleet.Conn{w, f.Coordinator} {
		err := fleet.Persist(t.Context(), fleettest.Timeout, func(ctx context.Context) error {
			return fleet.PutObject(ctx, who.JS, bucket, "result", bytes.NewReader(make([]byte, 2<<20)))
		})
		if e := bridge.AsError(err); e == nil || e.Code != bridge.CodeBudget || !strings.Contains(e.Message, "8 GiB") || !strings.Contains(e.Remedy, "fleet remove") {
			t.Errorf("%v", err)
		}
	}
	if i, err := stream.Info(t.Context()); err != nil || i.State.Msgs != 0 {
		t.Errorf("%d chunks stay: %v", i.State.Msgs, err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
