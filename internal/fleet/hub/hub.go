// Package hub runs the server of a fleet, or looks after one that exists: it
// makes streams and tables, lets machines in by invitation, renews and takes back
// their rights, and knows which workers are there.
package hub

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
)

// DefaultListen is the address of the embedded server.
const DefaultListen = "127.0.0.1:7422"

// Options say what to run.
type Options struct {
	Dir            string    // the hub's keys and data
	CoordinatorDir string    // where this machine's membership as coordinator is
	Listen         string    // "" means where it listened last, or DefaultListen
	Names          []string  // more names and addresses under which machines reach it
	External       *External // a server that exists, instead of an embedded one
	Version        string
	Logger         *slog.Logger                    // nil: none
	Record         func(kind, member, text string) // refusals; called from one goroutine at a time; nil: none
}

// Hub is a running hub. Its methods may be called concurrently.
type Hub struct {
	options Options
	log     *slog.Logger
	keys    *keys
	urls    func() []string // for machines of the fleet
	local   []string        // for this one
	ca      string          // PEM, for members
	pin     string          // of the CA, if the server shows it
	server  *embedded
	nc      *nats.Conn
	js      jetstream.JetStream
	names   fleet.Names // of what is in js
	keeper  *keeper
	unlock  func() error

	stop   context.CancelFunc
	wg     sync.WaitGroup
	record chan refusal
	lost   atomic.Int64 // the second in which it was last said that refusals are not recorded
	done   chan struct{}
	fail   func(error)
	err    error // set before done is closed

	closing  sync.Once
	closeErr error
}

// Up starts a hub. It returns when machines can join.
func Up(ctx context.Context, o Options) (*Hub, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Record == nil {
		o.Record = func(string, string, string) {}
	}
	unlock, err := hold(o.Dir)
	if err != nil {
		return nil, err
	}
	h := &Hub{options: o, log: o.Logger, unlock: unlock, record: make(chan refusal, 256), done: make(chan struct{})}
	var failing sync.Once
	h.fail = func(err error) { failing.Do(func() { h.err = err; close(h.done) }) }
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	h.stop = stop
	if err := h.start(ctx, background); err != nil {
		return nil, errors.Join(err, h.Close(ctx))
	}
	return h, nil
}

// hold makes the directory and takes its lock.
func hold(dir string) (unlock func() error, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the hub's directory: %w", err)
	}
	holder := filepath.Join(dir, "holder")
	unlock, ok, err := durable.TryLock(filepath.Join(dir, "hub.lock"))
	if err != nil {
		return nil, err
	}
	if !ok {
		who := "another process"
		if data, err := durable.ReadFile(holder); err == nil {
			who = strings.TrimSpace(string(data))
		}
		return nil, &bridge.Error{Code: bridge.CodeBusy, Message: "the fleet of this home is already up, by " + who, Remedy: "Use that one, or end it first."}
	}
	host, _ := os.Hostname()
	text := fmt.Sprintf("process %d on %s, since %s\n", os.Getpid(), host, time.Now().Format(time.DateTime))
	return unlock, durable.Replace(holder, []byte(text), 0o600)
}

func (h *Hub) start(ctx, background context.Context) error {
	var err error
	if h.options.External != nil {
		err = h.connectExternal(ctx)
	} else {
		err = h.startServer(ctx)
	}
	if err != nil {
		return err
	}
	if h.js, err = jetstream.New(h.nc, jetstream.WithDefaultTimeout(apiTimeout)); err != nil {
		return err
	}
	h.wg.Go(func() { h.recordRefusals(background) })
	if err := h.openStores(ctx); err != nil {
		return err
	}
	if err := h.keeper.listen(); err != nil {
		return err
	}
	h.wg.Go(func() { h.keeper.run(background) })
	return h.becomeCoordinator(ctx)
}

// openStores makes or opens what the fleet stores. A cluster that has lost a server
// just now chooses new leaders first.
func (h *Hub) openStores(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	return fleet.Persist(ctx, settleTimeout/2, func(ctx context.Context) error {
		replicas, err := h.prepare(ctx)
		if err == nil {
			h.names, err = fleet.FindNames(ctx, h.js)
		}
		if err == nil {
			h.keeper, err = newKeeper(ctx, h, replicas)
		}
		return err
	})
}

// becomeCoordinator makes this machine a coordinator of its own fleet.
func (h *Hub) becomeCoordinator(ctx context.Context) error {
	dir := h.options.CoordinatorDir
	if dir == "" {
		return nil
	}
	m, err := fleet.Load(dir)
	switch {
	case err == nil && m.Fleet != h.keys.fleet:
		return &bridge.Error{Code: bridge.CodeConflict, Message: "this machine is a coordinator of another fleet, " + m.Fleet, Remedy: "To leave that one, remove " + dir + "."}
	case err == nil:
		return h.keeper.refreshCoordinator(dir, m)
	case bridge.CodeOf(err) != bridge.CodeNotFound:
		return err
	}
	return h.keeper.newCoordinator(ctx, dir)
}

// URLs are where machines reach the fleet's servers.
func (h *Hub) URLs() []string { return h.urls() }

// closed is called when the hub's own connection has ended for good.
func (h *Hub) closed(nc *nats.Conn) {
	h.fail(&bridge.Error{Code: bridge.CodeUnavailable, Message: "the hub's connection to the fleet's server has ended", Remedy: "Start the hub again.", Cause: nc.LastError()})
}

// troubled hears of errors that end nothing, such as messages that were dropped
// because too many came. The client would print them.
func (h *Hub) troubled(_ *nats.Conn, sub *nats.Subscription, err error) {
	subject := ""
	if sub != nil {
		subject = sub.Subject
	}
	h.log.Warn("fleet.hub_connection", "subject", subject, "error", err)
}

// Fleet is the fleet's name.
func (h *Hub) Fleet() string { return h.keys.fleet }

// Done is closed when the hub has failed; Err says why.
func (h *Hub) Done() <-chan struct{} { return h.done }

// Err is why Done is closed.
func (h *Hub) Err() error {
	select {
	case <-h.done:
		return h.err
	default:
		return nil
	}
}

// Close ends the hub. What it keeps is on disk. Members connect again when it is
// back.
func (h *Hub) Close(context.Context) error {
	h.closing.Do(func() {
		if h.keeper != nil {
			h.keeper.end()
		}
		h.stop()
		h.wg.Wait()
		if h.nc != nil {
			h.nc.Close()
		}
		if h.server != nil {
			h.server.close()
		}
		if err := os.Remove(filepath.Join(h.options.Dir, "holder")); !errors.Is(err, fs.ErrNotExist) {
			h.closeErr = err
		}
		h.closeErr = errors.Join(h.closeErr, h.unlock())
	})
	return h.closeErr
}
