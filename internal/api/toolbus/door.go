package toolbus

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
	"github.com/copilot-bridge/copilot-bridge/internal/jsonrpc"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// Options tune the door. The zero value is ready to use.
type Options struct {
	// Token is what clients have to show: as a bearer token in the
	// Authorization header or, if they cannot set one, in a sub-protocol
	// "bearer.<token>". "" admits every client.
	Token string
	// Admitted reports whether what stands in front has seen the token of a
	// request already, and taken it away; nil: nothing has.
	Admitted func(*http.Request) bool
	// Hub puts questions to those who subscribe; nil: the methods
	// for that do not exist.
	Hub      *Hub
	Sessions Sessions // those of agents; needed with a Hub
	Version  string   // of the bridge
	Logger   *slog.Logger

	// Limits; 0 means the default.
	MaxMessage     int64         // bytes of a message: 8 MiB. Requests under way may have four times that together
	MaxConnections int           // 64, HTTP requests included
	MaxConcurrent  int           // requests of one connection that run: 16
	MaxQueued      int           // and that wait for those: 128; more get "busy"
	MaxBatch       int           // requests in a batch: 100
	PingInterval   time.Duration // 30 s; a client that does not answer for that long is cut
	WriteTimeout   time.Duration // 10 s, and more for large messages, until a client that does not read is cut
	StopTimeout    time.Duration // 5 s for running calls at shutdown, after they were canceled
}

func (o Options) defaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Version == "" {
		o.Version = "0"
	}
	o.MaxMessage = or(o.MaxMessage, 8<<20)
	o.MaxConnections = or(o.MaxConnections, 64)
	o.MaxConcurrent = or(o.MaxConcurrent, 16)
	o.MaxQueued = or(o.MaxQueued, 128)
	o.MaxBatch = or(o.MaxBatch, 100)
	o.PingInterval = or(o.PingInterval, 30*time.Second)
	o.WriteTimeout = or(o.WriteTimeout, 10*time.Second)
	o.StopTimeout = or(o.StopTimeout, 5*time.Second)
	return o
}

func or[T int | int64 | time.Duration](given, otherwise T) T {
	if given > 0 {
		return given
	}
	return otherwise
}

type door struct {
	ws       Workspace
	opts     Options
	hash     [sha256.Size]byte // of the token
	methods  map[string]*method
	places   chan struct{} // held by connections
	found    atomic.Int64  // bytes of hits that running calls hold; see maxFoundAll
	discover func() (json.RawMessage, error)
}

// New returns the handler of the tool bus, whatever its path: WebSocket
// connections, and POST for single messages.
func New(ws Workspace, opts Options) http.Handler { return newDoor(ws, opts) }

func newDoor(ws Workspace, opts Options) *door {
	opts = opts.defaults()
	d := &door{ws: ws, opts: opts, hash: sha256.Sum256([]byte(opts.Token)), methods: map[string]*method{}, places: make(chan struct{}, opts.MaxConnections)}
	all := d.table()
	for i := range all {
		d.methods[all[i].name] = &all[i]
	}
	d.discover = sync.OnceValues(func() (json.RawMessage, error) {
		doc, err := d.describe(all)
		if err != nil {
			return nil, err
		}
		return encode(doc)
	})
	return d
}

// ServeHTTP lets a client in. For a WebSocket it returns when that has ended.
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// Web pages are refused. The HTTP server lets pages of its own origin pass,
	// since they may use other APIs.
	if len(r.Header.Values("Origin")) > 0 {
		refuse(w, http.StatusForbidden, &bridge.Error{Code: bridge.CodeDenied, Message: "requests from web pages are refused"})
		return
	}
	protocol, ok := d.admits(r)
	if !ok {
		w.Header().Set("WWW-Authenticate", `Bearer realm="copilot-bridge"`)
		refuse(w, http.StatusUnauthorized, &bridge.Error{Code: bridge.CodeUnauthenticated, Message: "the token is missing or wrong",
			Remedy: `send the one that the bridge was started with as "Authorization: Bearer …", or as the WebSocket sub-protocol "bearer.…"`})
		return
	}
	switch {
	case r.Method == http.MethodPost:
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", "GET, POST")
		refuse(w, http.StatusMethodNotAllowed, &bridge.Error{Code: bridge.CodeInvalid, Message: text.Clip(r.Method, 32) + " is not possible here",
			Remedy: "connect a WebSocket, or POST a JSON-RPC request"})
		return
	case !strings.EqualFold(r.Header.Get("Upgrade"), "websocket"):
		w.Header().Set("Upgrade", "websocket")
		w.Header().Set("Connection", "Upgrade")
		refuse(w, http.StatusUpgradeRequired, &bridge.Error{Code: bridge.CodeInvalid, Message: "this is a JSON-RPC tool bus",
			Remedy: "connect a WebSocket, or POST a JSON-RPC request; rpc.discover lists the methods"})
		return
	}
	select {
	case d.places <- struct{}{}:
		defer func() { <-d.places }()
	default:
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusServiceUnavailable, &bridge.Error{Code: bridge.CodeBusy, Message: "there are too many connections", Remedy: "close some, or try again later"})
		return
	}
	if r.Method == http.MethodPost {
		d.post(w, r)
		return
	}
	d.upgrade(w, r, protocol)
}

// bearer begins a sub-protocol that carries the token, and plain is the one to
// offer beside it, so that the token is not sent back.
const (
	bearer = "bearer."
	plain  = "jsonrpc"
)

// admits reports whether a request shows the token, and which of the
// sub-protocols that it offers to agree on: clients that offer any insist on
// one.
func (d *door) admits(r *http.Request) (protocol string, ok bool) {
	ok = d.opts.Token == "" || d.opts.Admitted != nil && d.opts.Admitted(r)
	for _, value := range r.Header.Values("Authorization") {
		if scheme, token, found := strings.Cut(value, " "); found && strings.EqualFold(scheme, "Bearer") {
			ok = d.matches(strings.TrimSpace(token)) || ok
		}
	}
	for _, value := range r.Header.Values("Sec-WebSocket-Protocol") {
		for offered := range strings.SplitSeq(value, ",") {
			offered = strings.TrimSpace(offered)
			token, found := strings.CutPrefix(offered, bearer)
			switch {
			case offered == plain:
				protocol = plain
			case found:
				ok = d.matches(token) || ok
				if protocol == "" {
					protocol = offered
				}
			}
		}
	}
	return protocol, ok
}

// matches compares hashes, so that neither the time nor the length tells
// anything.
func (d *door) matches(token string) bool {
	hash := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(hash[:], d.hash[:]) == 1
}

// refuse answers a request that is not let in, in the words of JSON-RPC.
func refuse(w http.ResponseWriter, status int, e *bridge.Error) {
	f := faultOf(context.Background(), e)
	f.Message = e.Message
	wire.JSON(w, status, json.RawMessage(faultMessage(nullID, f)))
}

// logFailure keeps what the client is not told.
func (d *door) logFailure(ctx context.Context, name string, f *fault, err error) {
	level := slog.LevelDebug
	if f.Code == jsonrpc.CodeInternal {
		level = slog.LevelError
	}
	d.opts.Logger.Log(ctx, level, "toolbus.request_failed", "method", name, "code", f.Code, "error", err)
}

// Methods lists the methods that a tool bus may have, each with its summary.
func Methods() [][2]string {
	var out [][2]string
	for _, m := range (&door{opts: Options{Hub: &Hub{}}}).table() {
		out = append(out, [2]string{m.name, m.summary})
	}
	return out
}
