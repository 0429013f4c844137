package fleettest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Network joins hosts. Each host is a network namespace whose only device but
// the loopback is a TUN device, and the test itself carries the packets between
// them. So it needs no qdisc that a kernel may lack, nothing of the computer's own
// network is touched, and nothing is left when the test is killed.
type Network struct {
	tb    testing.TB
	root  string // of the hosts' directories
	hosts []*Host
	wg    sync.WaitGroup

	mu    sync.Mutex // guards what follows
	rng   *rand.Rand
	delay time.Duration
	loss  float64
	cut   map[[2]int]bool // by sender and receiver
}

// packet is on its way to a host.
type packet struct {
	data []byte
	due  time.Time
}

// maxQueued bounds the packets that are on their way to a host. More are lost,
// as in a real router.
const maxQueued = 4096

// NewNetwork makes n hosts named host1 and so on, with the addresses 10.77.0.1
// and so on. The random numbers decide which packets are lost.
func NewNetwork(tb testing.TB, n int, seed uint64) *Network {
	tb.Helper()
	removeLeftovers(tb)
	root, err := TempDir()
	if err != nil {
		tb.Fatal(err)
	}
	w := &Network{tb: tb, root: root, rng: rand.New(rand.NewPCG(seed, 0x6e6574)), cut: map[[2]int]bool{}}
	tb.Cleanup(w.close)
	for i := range n {
		h, err := w.newHost(i)
		if err != nil {
			tb.Fatal(err)
		}
		w.hosts = append(w.hosts, h)
	}
	for _, h := range w.hosts {
		w.wg.Go(func() { w.read(h) })
		w.wg.Go(h.deliver)
	}
	return w
}

// Host returns the host with this number, from 1.
func (w *Network) Host(n int) *Host { return w.hosts[n-1] }

// Slow delays each packet and loses this part of them.
func (w *Network) Slow(delay time.Duration, loss float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.delay, w.loss = delay, loss
}

// Cut stops all packets between a host and others; without others, all of the
// host's.
func (w *Network) Cut(h *Host, others ...*Host) { w.setCut(true, h, others) }

// Heal undoes Cut.
func (w *Network) Heal(h *Host, others ...*Host) { w.setCut(false, h, others) }

func (w *Network) setCut(cut bool, h *Host, others []*Host) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(others) == 0 {
		others = w.hosts
	}
	for _, o := range others {
		if o != h {
			w.cut[[2]int{h.index, o.index}], w.cut[[2]int{o.index, h.index}] = cut, cut
		}
	}
}

// read takes the packets that a host sends until its device is closed.
func (w *Network) read(from *Host) {
	defer close(from.read)
	buf := make([]byte, 1<<16)
	for {
		n, err := from.device.Read(buf)
		if err != nil {
			return
		}
		if to := w.route(buf[:n]); to != nil && to != from {
			w.send(from, to, buf[:n])
		}
	}
}

// route returns the host to which an IPv4 packet is addressed, or nil.
func (w *Network) route(p []byte) *Host {
	if len(p) < 20 || p[0]>>4 != 4 || p[16] != 10 || p[17] != 77 || p[18] != 0 {
		return nil
	}
	if i := int(p[19]) - 1; i >= 0 && i < len(w.hosts) {
		return w.hosts[i]
	}
	return nil
}

func (w *Network) send(from, to *Host, data []byte) {
	w.mu.Lock()
	due := time.Now().Add(w.delay)
	lost := w.cut[[2]int{from.index, to.index}] || w.loss > 0 && w.rng.Float64() < w.loss
	w.mu.Unlock()
	if lost {
		return
	}
	select {
	case to.queue <- packet{append([]byte(nil), data...), due}:
	default: // lost
	}
}

// deliver writes the packets to a host when they are due.
func (h *Host) deliver() {
	for {
		select {
		case p := <-h.queue:
			if wait := time.Until(p.due); wait > 0 {
				select {
				case <-time.After(wait):
				case <-h.read:
					return
				}
			}
			_, _ = h.device.Write(p.data) // a packet that a host does not take is lost
		case <-h.read:
			return
		}
	}
}

// close kills what still runs on the hosts and removes them.
func (w *Network) close() {
	for _, h := range w.hosts {
		h.killAll()
	}
	for _, h := range w.hosts {
		for _, p := range h.processes() {
			<-p.Ended
		}
		_ = h.device.Close() // ends read, and with that deliver
	}
	w.wg.Wait()
	for _, h := range w.hosts {
		close(h.calls)
		<-h.gone
	}
	if err := os.RemoveAll(w.root); err != nil {
		w.tb.Error(err)
	}
}

// serveCalls makes the namespaces of a host and then calls functions in them. The
// thread belongs to it and ends with it. A program that is started by the thread
// is in the namespaces, and is killed if the thread ends.
func (h *Host) serveCalls(ready chan<- error) {
	runtime.LockOSThread() // and never unlocked: the thread is of no use to others
	defer close(h.gone)
	err := h.makeNamespaces()
	ready <- err
	if err != nil {
		return
	}
	for call := range h.calls {
		call()
	}
}

// In calls a function in the host's namespaces. It must not start goroutines that
// open sockets.
func (h *Host) In(call func()) {
	if h.calls == nil {
		call()
		return
	}
	done := make(chan struct{})
	h.calls <- func() {
		defer close(done)
		call()
	}
	<-done
}

func (h *Host) makeNamespaces() error {
	if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWUTS); err != nil {
		return fmt.Errorf("make namespaces (this needs root): %w", err)
	}
	if err := unix.Sethostname([]byte(h.Name)); err != nil {
		return fmt.Errorf("name the host: %w", err)
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open /dev/net/tun: %w", err)
	}
	if err := h.configure(fd); err != nil {
		return errors.Join(fmt.Errorf("configure the network: %w", err), unix.Close(fd))
	}
	h.device = os.NewFile(uintptr(fd), "tun")
	return nil
}

// configure attaches the device and brings both devices up.
func (h *Host) configure(tun int) (err error) {
	device, err := unix.NewIfreq("eth0")
	if err != nil {
		return err
	}
	device.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := errors.Join(unix.IoctlIfreq(tun, unix.TUNSETIFF, device), unix.SetNonblock(tun, true)); err != nil {
		return err
	}
	control, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unix.Close(control)) }()
	address := func(request uint, value []byte) error {
		if err := device.SetInet4Addr(value); err != nil {
			return err
		}
		return unix.IoctlIfreq(control, request, device)
	}
	if err := errors.Join(address(unix.SIOCSIFADDR, net.ParseIP(h.Address).To4()), address(unix.SIOCSIFNETMASK, []byte{255, 255, 255, 0})); err != nil {
		return err
	}
	loopback, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	for _, d := range []*unix.Ifreq{device, loopback} {
		d.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
		if err := unix.IoctlIfreq(control, unix.SIOCSIFFLAGS, d); err != nil {
			return err
		}
	}
	return nil
}
