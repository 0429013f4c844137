package fleet

import (
	"context"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/fleettest"
)

// echo answers on a host with what it is sent, and returns its address.
func echo(t *testing.T, h *fleettest.Host) string {
	t.Helper()
	var l net.Listener
	var err error
	h.In(func() { l, err = net.Listen("tcp4", h.Address+":0") })
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(c, c) // until the other side closes
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String()
}

// roundTrip measures a message there and back, or returns an error.
func roundTrip(c net.Conn, within time.Duration) (time.Duration, error) {
	began := time.Now()
	if err := c.SetDeadline(began.Add(within)); err != nil {
		return 0, err
	}
	if _, err := c.Write([]byte("hello")); err != nil {
		return 0, err
	}
	_, err := io.ReadFull(c, make([]byte, 5))
	return time.Since(began), err
}

// The tests of the fleet say something only if the network does what it is told.
func TestNetwork(t *testing.T) {
	w := fleettest.NewNetwork(t, 3, seedOf(t))
	c, err := w.Host(2).Dial("tcp", echo(t, w.Host(1)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if took, err := roundTrip(c, time.Second); err != nil || took > 100*time.Millisecond {
		t.Error(took, err)
	}
	w.Slow(50*time.Millisecond, 0)
	if took, err := roundTrip(c, time.Second); err != nil || took < 100*time.Millisecond {
		t.Error(took, err)
	}
	w.Slow(0, 0.2)
	for range 20 {
		if _, err := roundTrip(c, 20*time.Second); err != nil { // TCP sends again
			t.Error(err)
		}
	}
	w.Slow(0, 0)
	for _, others := range [][]*fleettest.Host{nil, {w.Host(1)}} {
		w.Cut(w.Host(2), others...)
		if took, err := roundTrip(c, 300*time.Millisecond); err == nil {
			t.Error("a message went through a cut, in", took)
		}
		w.Heal(w.Host(2), others...)
		if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, 5)); err != nil { // the connection lives on
			t.Error(err)
		}
	}
	w.Cut(w.Host(2), w.Host(3))
	if _, err := roundTrip(c, time.Second); err != nil {
		t.Error("cut off from another host:", err)
	}
}

func TestHosts(t *testing.T) {
	w := fleettest.NewNetwork(t, 2, seedOf(t))
	h := w.Host(2)
	if out, err := h.Run(context.Background(), h.Home, "sh", "-c", "hostname; pwd; cat /proc/net/dev"); err != nil ||
		!strings.HasPrefix(out, "host2\n"+h.Home+"\n") || strings.Count(out, ":") != 2 {
		t.Errorf("%v\n%s", err, out)
	}
	p, err := h.Start(h.Home, "sh", "-c", "exec >/dev/null 2>&1; touch $TMPDIR/x; sleep 1000 & sleep 1000")
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "three processes and a file are left", func() string {
		if left := h.Left(); len(left) != 4 {
			return strings.Join(left, "\n")
		}
		return ""
	})
	h.Freeze()
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.Ended:
		t.Error("a frozen program ended")
	case <-time.After(200 * time.Millisecond):
	}
	h.Thaw()
	<-p.Ended
	h.PowerOff()
	if left := h.Left(); len(left) != 1 || left[0] != "temporary file x" {
		t.Error(left)
	}
	if left := w.Host(1).Left(); len(left) != 0 {
		t.Error(left)
	}
}
