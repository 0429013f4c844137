package fleet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

const (
	dialTimeout = 5 * time.Second
	pingEvery   = 3 * time.Second // two without an answer: the connection is dead
	apiTimeout  = 10 * time.Second
)

// ConnectOptions are how to connect. Lost and Back are called from a goroutine of
// the connection, one at a time; they must not block.
type ConnectOptions struct {
	Logger *slog.Logger // nil: none
	Name   string       // of the process, for the server's list
	Lost   func(error)  // the connection is away; it is being made again
	Back   func()       // it is there again
}

// Conn is a member's connection to its fleet. It is made again for ever, until
// Close, or until the fleet refuses the member. Its methods may be called
// concurrently.
type Conn struct {
	Member Member
	NC     *nats.Conn
	JS     jetstream.JetStream

	dir  string
	tls  *tls.Config
	done chan struct{} // closed when NC has ended for good
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu    sync.Mutex
	creds credentials
	lag   time.Duration
	err   error
}

// Connect connects as the member in a directory.
func Connect(ctx context.Context, dir string, o ConnectOptions) (*Conn, error) {
	m, err := Load(dir)
	if err != nil {
		return nil, err
	}
	c := &Conn{Member: m, dir: dir, done: make(chan struct{})}
	if c.creds, err = loadCredentials(dir); err != nil {
		return nil, err
	}
	config, err := TLS(m.CA)
	if err != nil {
		return nil, err
	}
	c.tls = config
	options := append(DialOptions(config), nats.Name(o.Name), nats.CustomInboxPrefix(Inbox(m.ID)),
		nats.UserJWT(c.token, c.sign), nats.MaxReconnects(-1), nats.CustomReconnectDelay(reconnectDelay),
		nats.ClosedHandler(c.closed))
	options = append(options, handlers(o)...)
	if c.NC, err = Dial(ctx, m.URLs, options...); err != nil {
		return nil, c.explain(err)
	}
	if c.JS, err = jetstream.New(c.NC, jetstream.WithDefaultTimeout(apiTimeout), jetstream.WithPublishAsyncTimeout(longest)); err != nil {
		c.NC.Close()
		return nil, err
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.stop = stop
	if m.Role == RoleCoordinator {
		c.wg.Go(func() { c.keepRight(background) })
	}
	return c, nil
}

// handlers tell of a connection that goes and comes back.
func handlers(o ConnectOptions) []nats.Option {
	logger := o.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return []nats.Option{
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			logger.Info("fleet.connection_lost", "error", err)
			if o.Lost != nil {
				o.Lost(err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			logger.Info("fleet.connection_back", "server", nc.ConnectedUrlRedacted())
			if o.Back != nil {
				o.Back()
			}
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			logger.Warn("fleet.connection_error", "error", err)
		}),
	}
}

// DialOptions are those of every connection to a fleet.
func DialOptions(config *tls.Config) []nats.Option {
	return []nats.Option{
		nats.Secure(config), nats.Timeout(dialTimeout), nats.PingInterval(pingEvery), nats.MaxPingsOutstanding(2),
		// What cannot be sent now fails now: a claim that arrives late only takes a
		// task away from others.
		nats.ReconnectBufSize(-1), nats.NoCallbacksAfterClientClose(), nats.SkipHostLookup(),
	}
}

// Dial connects to the first of the servers that answers. Only tls:// will do.
func Dial(ctx context.Context, urls []string, options ...nats.Option) (*nats.Conn, error) {
	if err := CheckURLs(urls); err != nil {
		return nil, err
	}
	all := nats.GetDefaultOptions()
	all.Servers = urls
	for _, option := range options {
		if err := option(&all); err != nil {
			return nil, err
		}
	}
	type result struct {
		nc  *nats.Conn
		err error
	}
	made := make(chan result)
	go func() { // ends by itself: each server has a time-out
		nc, err := all.Connect()
		select {
		case made <- result{nc, err}:
		case <-ctx.Done():
			if err == nil {
				nc.Close()
			}
		}
	}()
	select {
	case r := <-made:
		return r.nc, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("connect to the fleet: %w", ctx.Err())
	}
}

func reconnectDelay(attempts int) time.Duration {
	most := min(50*time.Millisecond<<min(attempts, 7), 5*time.Second)
	return most/2 + rand.N(most/2+1)
}

// explain words why there is no connection.
func (c *Conn) explain(err error) error {
	where := "the fleet at " + c.Member.URLs[0]
	c.mu.Lock()
	ends := c.creds.ends()
	c.mu.Unlock()
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return err
	case refused(err) && !ends.IsZero() && time.Now().After(ends):
		return &bridge.Error{Code: bridge.CodeUnauthenticated, Message: "this machine's right to the fleet ended on " + ends.Format(time.DateTime), Remedy: joinAgain, Cause: err}
	case refused(err):
		return &bridge.Error{Code: bridge.CodeUnauthenticated, Message: where + " refuses this machine: it was removed", Remedy: joinAgain}
	case foreign(err):
		return &bridge.Error{Code: bridge.CodeUnauthenticated, Message: where + " shows a certificate that is not the fleet's",
			Remedy: "Another server answers at that address, or something on the way reads along. If the fleet was set up anew, join it again.", Cause: err}
	}
	return &bridge.Error{Code: bridge.CodeUnavailable, Message: where + " cannot be reached",
		Remedy: "Look on its machine whether `copilot-bridge fleet up` is running, and whether a firewall is between.", Cause: telling(err)}
}

// telling returns err if it gives a reason, and nil if it only says that no server answered.
func telling(err error) error {
	if errors.Is(err, nats.ErrNoServers) {
		return nil
	}
	return err
}

const joinAgain = "If it should be in the fleet, make an invitation with `copilot-bridge fleet invite` and join with it."

// foreign reports whether err means that the server is not the fleet's, rather
// than that the connection broke.
func foreign(err error) bool {
	var verification *tls.CertificateVerificationError
	return errors.As(err, &verification) || errors.Is(err, errNotPinned) || errors.Is(err, nats.ErrSecureConnWanted)
}

func refused(err error) bool {
	for _, known := range []error{nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// closed notes why the connection has ended for good.
func (c *Conn) closed(nc *nats.Conn) {
	err := c.explain(nc.LastError())
	c.mu.Lock()
	c.err = err
	c.mu.Unlock()
	close(c.done)
}

// Done is closed when the fleet has refused this member for good; Err says why.
// Close does not close it.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err is why Done is closed.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the connection.
func (c *Conn) Close() {
	c.stop()
	c.NC.Close()
	c.wg.Wait()
}

// token is the right to show. One that has ended is renewed first, past the
// connection that it is for.
func (c *Conn) token() (string, error) {
	c.mu.Lock()
	creds := c.creds
	c.mu.Unlock()
	if ends := creds.ends(); ends.IsZero() || time.Now().Before(ends) {
		return creds.token, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), apiTimeout)
	defer cancel()
	err := c.renew(ctx, creds)
	if err != nil && !refused(err) && bridge.CodeOf(err) != bridge.CodeDenied {
		return "", err // it is tried again
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.creds.token, nil // the old one, if there is no new one: the server says no
}

// renew asks the hub for a new right.
func (c *Conn) renew(ctx context.Context, creds credentials) error {
	nc, err := Dial(ctx, c.Member.URLs, append(DialOptions(c.tls), nats.Name("renew"), nats.NoReconnect(), nats.CustomInboxPrefix(Inbox(c.Member.ID)),
		nats.UserJWT(func() (string, error) { return creds.renewal, nil }, creds.key.Sign))...)
	if err != nil {
		return err
	}
	defer nc.Close()
	reply, err := Request[HelloReply](ctx, nc, RenewSubject(c.Member.ID), Hello{Schema: Schema, Name: c.Member.Name})
	if err != nil {
		return err
	}
	return c.setRights(reply.JWT, reply.Renewal)
}

func (c *Conn) sign(nonce []byte) ([]byte, error) { return c.creds.key.Sign(nonce) } // the key never changes

func (c credentials) ends() time.Time {
	if c.claims == nil || c.claims.Expires == 0 {
		return time.Time{}
	}
	return time.Unix(c.claims.Expires, 0)
}

// SetJWT stores a new right. It is used from the next time on that the connection
// is made; the server ends the present one when the old right ends.
func (c *Conn) SetJWT(token string) error { return c.setRights(token, "") }

// setRights stores a new right and, if there is one, a new renewal.
func (c *Conn) setRights(token, renewal string) error {
	claims, err := claimsFor(c.creds.key, token)
	if err != nil {
		return fmt.Errorf("the new right to the fleet: %w", err)
	}
	if err := storeRights(c.dir, token, renewal); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.creds.token, c.creds.claims = token, claims
	if renewal != "" {
		c.creds.renewal = renewal
	}
	return nil
}

// Hello tells the hub that this member is there, and stores the new right that
// the answer may hold. It fills in Schema, Name, Expires and Lag.
func (c *Conn) Hello(ctx context.Context, h Hello) (HelloReply, error) {
	c.mu.Lock()
	h.Schema, h.Name, h.Expires, h.Lag = Schema, c.Member.Name, c.creds.ends(), c.lag
	c.mu.Unlock()
	begun := time.Now()
	reply, err := Request[HelloReply](ctx, c.NC, HelloSubject(c.Member.ID), h)
	if err != nil {
		return reply, err
	}
	c.mu.Lock()
	c.lag = time.Since(begun)
	c.mu.Unlock()
	if reply.JWT != "" {
		return reply, c.setRights(reply.JWT, reply.Renewal)
	}
	return reply, nil
}

// keepRight renews a coordinator's right, which says no hellos otherwise.
func (c *Conn) keepRight(ctx context.Context) {
	for {
		_, err := c.Hello(ctx, Hello{})
		c.mu.Lock()
		ends := c.creds.ends()
		c.mu.Unlock()
		wait := max(time.Until(ends)/4, time.Minute)
		if ends.IsZero() {
			wait = time.Hour
		}
		if err != nil {
			wait = time.Minute
		}
		select {
		case <-ctx.Done():
			return
		case <-c.done:
			return
		case <-time.After(wait):
		}
	}
}
