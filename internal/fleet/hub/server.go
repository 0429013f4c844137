package hub

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
)

const (
	startTimeout = 60 * time.Second // reading a large store again takes a while
	maxMemory    = 256 << 20        // for what JetStream keeps in memory
	maxPending   = 32 << 20         // that a slow member may leave unread
	maxConn      = 4096
)

// embedded is the server of a fleet in this process.
type embedded struct {
	*server.Server
	resolver *server.MemAccResolver
	ca       *authority
	cert     atomic.Pointer[tls.Certificate]
	names    func() []string
	log      *serverLog
}

// state is what a hub remembers of its server.
type state struct {
	Listen string `json:"listen"`
}

// startServer starts the embedded server and connects to it.
func (h *Hub) startServer(ctx context.Context) error {
	host, port, err := h.address()
	if err != nil {
		return err
	}
	if h.keys, err = ownKeys(h.options.Dir); err != nil {
		return err
	}
	e := &embedded{resolver: &server.MemAccResolver{}, log: &serverLog{hub: h}, names: func() []string { return serverNames(host, h.options.Names) }}
	if e.ca, err = openAuthority(h.options.Dir, h.keys.fleet); err != nil {
		return err
	}
	if err := e.renew(); err != nil {
		return err
	}
	options, err := h.serverOptions(e, host, port)
	if err != nil {
		return err
	}
	if e.Server, err = server.NewServer(options); err != nil {
		return fmt.Errorf("start the fleet's server: %w", err)
	}
	h.server = e
	e.SetLoggerV2(e.log, true, false, false)
	e.Start()
	if err := e.ready(ctx, net.JoinHostPort(host, strconv.Itoa(max(port, 0)))); err != nil {
		return err
	}
	bound, ok := e.Addr().(*net.TCPAddr)
	if !ok {
		return errors.New("the fleet's server has no address")
	}
	h.urls = func() []string { return memberURLs(host, bound.Port, h.options.Names) }
	h.local = localURLs(host, bound.Port)
	h.ca, h.pin = fleet.EncodeCertificate(e.ca.cert), fleet.Pin(e.ca.cert)
	if err := h.remember(state{Listen: net.JoinHostPort(host, strconv.Itoa(bound.Port))}); err != nil {
		return err
	}
	return h.connectEmbedded()
}

// address is where to listen: a fleet keeps its address, since members know it.
func (h *Hub) address() (host string, port int, err error) {
	var last state
	data, err := durable.ReadFile(filepath.Join(h.options.Dir, "hub.json"))
	if err == nil {
		err = json.Unmarshal(data, &last)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", 0, damaged(filepath.Join(h.options.Dir, "hub.json"))
	}
	listen := h.options.Listen
	if listen == "" {
		listen = last.Listen
	}
	if listen == "" {
		listen = DefaultListen
	}
	if host, port, err = splitListen(listen); err != nil {
		return "", 0, err
	}
	if lastHost, lastPort, err := splitListen(last.Listen); port == 0 && err == nil && lastHost == host {
		port = lastPort
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	return host, port, nil
}

func splitListen(listen string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(listen)
	if err == nil {
		port, err = strconv.Atoi(text)
	}
	if err != nil || port < 0 || port > 65535 {
		return "", 0, &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("the fleet cannot listen on %q", listen), Remedy: "Say an address and a port, such as " + DefaultListen + " or 0.0.0.0:7422."}
	}
	if host == "" {
		host = "0.0.0.0"
	}
	return host, port, nil
}

func (h *Hub) remember(s state) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(h.options.Dir, "hub.json"), append(data, '\n'), 0o600)
}

func (h *Hub) serverOptions(e *embedded, host string, port int) (*server.Options, error) {
	operator, err := h.keys.operatorClaims()
	if err != nil {
		return nil, err
	}
	token, _, err := h.keys.revoke()
	if err != nil {
		return nil, err
	}
	if err := e.resolver.Store(h.keys.account, token); err != nil {
		return nil, err
	}
	system, systemToken, err := h.keys.systemAccount()
	if err != nil {
		return nil, err
	}
	if err := e.resolver.Store(system, systemToken); err != nil {
		return nil, err
	}
	return &server.Options{
		ServerName: "hub-" + h.keys.fleet, Host: host, Port: port,
		NoSigs: true, NoLog: true, DisableJetStreamBanner: true,
		TrustedOperators: []*jwt.OperatorClaims{operator}, AccountResolver: e.resolver, SystemAccount: system,
		TLS: true, TLSTimeout: 5, AuthTimeout: 5,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return e.cert.Load(), nil }},
		JetStream: true, StoreDir: h.options.Dir, SyncAlways: true, JetStreamMaxMemory: maxMemory,
		MaxPayload: maxPayload, MaxPending: maxPending, MaxConn: maxConn, MaxControlLine: 4096, MaxClosedClients: 1000,
		Cluster: server.ClusterOpts{NoAdvertise: true},
	}, nil
}

// renew reads the server's certificate, or makes a new one where that is due.
func (e *embedded) renew() error {
	cert, err := e.ca.server(e.names())
	if err == nil {
		e.cert.Store(cert)
	}
	return err
}

// ready waits for the server to take connections.
func (e *embedded) ready(ctx context.Context, listen string) error {
	for end := time.Now().Add(startTimeout); !e.ReadyForConnections(100 * time.Millisecond); {
		if text := e.log.fatal.Load(); text != nil {
			return &bridge.Error{Code: bridge.CodeUnavailable, Message: "the fleet's server cannot start on " + listen + ": " + *text,
				Remedy: "If another program has the port, end it, or choose another address with --listen; machines that have joined know the old one."}
		}
		if ctx.Err() != nil || time.Now().After(end) {
			return &bridge.Error{Code: bridge.CodeTimeout, Message: "the fleet's server did not start in time", Cause: ctx.Err()}
		}
	}
	return nil
}

func (e *embedded) close() {
	e.Shutdown()
	e.WaitForShutdown()
}

// cut ends the connections of all keys that are revoked, and lets them in no more.
func (h *Hub) cut(public ...string) error {
	if h.server == nil {
		return nil // an external server learns of it when the right ends
	}
	token, claims, err := h.keys.revoke(public...)
	if err != nil {
		return err
	}
	if err := h.server.resolver.Store(h.keys.account, token); err != nil {
		return err
	}
	account, err := h.server.LookupAccount(h.keys.account)
	if err != nil {
		return err
	}
	h.server.UpdateAccountClaims(account, claims)
	return nil
}

// connectEmbedded connects the hub itself, past the network.
func (h *Hub) connectEmbedded() error {
	key, err := nkeys.CreateUser()
	if err != nil {
		return err
	}
	public, err := key.PublicKey()
	if err != nil {
		return err
	}
	token, err := h.keys.right(fleet.RoleCoordinator, public, hubName, 0)
	if err != nil {
		return err
	}
	h.nc, err = nats.Connect("", nats.InProcessServer(h.server), nats.Name(hubName), nats.CustomInboxPrefix(fleet.Inbox(hubName)),
		nats.UserJWT(func() (string, error) { return token, nil }, key.Sign), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond), nats.ClosedHandler(h.closed), nats.ErrorHandler(h.troubled), nats.NoCallbacksAfterClientClose())
	if err != nil {
		return fmt.Errorf("connect to the fleet's server: %w", err)
	}
	return nil
}

const hubName = "hub"

// memberURLs are the addresses to give to members: first what was asked for, then
// what the machine has. Loopback only if it listens nowhere else.
func memberURLs(host string, port int, extra []string) (urls []string) {
	hosts := slices.Clone(extra)
	if ip := net.ParseIP(host); ip == nil || !ip.IsUnspecified() {
		hosts = append(hosts, host)
	} else if own := addresses(); len(own) > 0 {
		hosts = append(hosts, own...)
	} else {
		hosts = append(hosts, "127.0.0.1")
	}
	for _, h := range hosts {
		urls = append(urls, "tls://"+net.JoinHostPort(h, strconv.Itoa(port)))
	}
	slices.Sort(urls[len(extra):])
	return slices.Compact(urls)
}

// localURLs are those by which this machine itself reaches the server: by loopback
// if it listens there, since that stays when a network goes.
func localURLs(host string, port int) []string {
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return []string{"tls://" + net.JoinHostPort(host, strconv.Itoa(port))}
}
