package hub_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/fleettest"
)

// endSoon gives a member a right that ends soon, in place of its own, and says
// when.
func endSoon(t *testing.T, f *fleettest.Fleet, name string, lasts time.Duration) time.Time {
	t.Helper()
	seed, err := os.ReadFile(filepath.Join(f.Dir, "hub", "account.nk"))
	if err != nil {
		t.Fatal(err)
	}
	account, err := nkeys.FromSeed(seed)
	if err != nil {
		t.Fatal(err)
	}
	claims := rightOf(t, f, name)
	claims.Expires = time.Now().Add(lasts).Unix()
	token, err := claims.Encode(account)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(f.Dir, name, "user.jwt"), []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	return time.Unix(claims.Expires, 0)
}

func rightOf(t *testing.T, f *fleettest.Fleet, name string) *jwt.UserClaims {
	t.Helper()
	token, err := os.ReadFile(filepath.Join(f.Dir, name, "user.jwt"))
	if err != nil {
		t.Fatal(err)
	}
	claims, err := jwt.DecodeUserClaims(string(token))
	if err != nil {
		t.Fatal(err)
	}
	return claims
}

// A right is renewed by a hello before it ends, by itself after it has ended, and
// not at all for who was removed.
func TestRenewedRight(t *testing.T) {
	f := fleettest.Up(t)
	f.Join(t, f.Invite(t, fleet.RoleWorker, 1), "worker")
	far := time.Now().Add(20 * 24 * time.Hour).Unix()

	endSoon(t, f, "worker", time.Hour)
	w := f.Connect(t, "worker")
	if reply, err := w.Hello(t.Context(), fleet.Hello{}); err != nil || reply.JWT == "" || rightOf(t, f, "worker").Expires < far {
		t.Errorf("not renewed by a hello: %v", err)
	}
	if reply, err := w.Hello(t.Context(), fleet.Hello{}); err != nil || reply.JWT != "" {
		t.Errorf("renewed again: %v", err)
	}
	w.Close()

	endSoon(t, f, "worker", 2*time.Second)
	lost, back := make(chan struct{}, 10), make(chan struct{}, 10)
	w, err := fleet.Connect(t.Context(), filepath.Join(f.Dir, "worker"), fleet.ConnectOptions{Lost: func(error) { lost <- struct{}{} }, Back: func() { back <- struct{}{} }})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, wait := range []chan struct{}{lost, back} {
		select {
		case <-wait:
		case <-w.Done():
			t.Fatal(w.Err())
		case <-time.After(fleettest.Timeout):
			t.Fatal("the right did not end, or did not come back")
		}
	}
	if rightOf(t, f, "worker").Expires < far {
		t.Error("the new right is not stored")
	}

	ends := endSoon(t, f, "worker", time.Second)
	fleettest.Wait(t, "the right's end", func() bool { return time.Now().After(ends) })
	f.Connect(t, "worker").Close() // was away for too long

	ends = endSoon(t, f, "worker", time.Second)
	if _, err := fleet.Remove(t.Context(), f.Coordinator, "worker"); err != nil {
		t.Fatal(err)
	}
	fleettest.Wait(t, "the right's end", func() bool { return time.Now().After(ends) })
	if _, err := fleet.Connect(t.Context(), filepath.Join(f.Dir, "worker"), fleet.ConnectOptions{}); bridge.CodeOf(err) != bridge.CodeUnauthenticated {
		t.Errorf("removed, and yet: %v", err)
	}
}
