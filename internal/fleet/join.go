package fleet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
)

// joinTries is how often a request to join is sent. The same key takes only one
// use of the invitation.
const joinTries = 3

// JoinOptions are what a machine says about itself. Name is the hostname if empty.
type JoinOptions struct{ Name, Host, Version string }

// Join makes this machine a member by the right of an invitation, and stores the
// membership in a directory, which must not hold one. The private key does not
// leave the machine.
func Join(ctx context.Context, line, dir string, o JoinOptions) (Member, error) {
	i, err := ParseInvitation(line)
	if err != nil {
		return Member{}, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Member{}, err
	}
	unlock, err := durable.Lock(ctx, filepath.Join(dir, "join.lock"))
	if err != nil {
		return Member{}, err
	}
	defer func() { _ = unlock() }() // the system takes it away too
	if m, err := Load(dir); err == nil {
		return m, &bridge.Error{Code: bridge.CodeConflict, Message: fmt.Sprintf("this machine is already in fleet %s, as %s", m.Fleet, m.Name),
			Remedy: "To leave that one, remove " + dir + "."}
	} else if bridge.CodeOf(err) != bridge.CodeNotFound {
		return m, err
	}
	if o.Host == "" {
		o.Host, _ = os.Hostname()
	}
	if o.Name == "" {
		o.Name = o.Host
	}
	key, err := nkeys.CreateUser()
	if err != nil {
		return Member{}, err
	}
	defer key.Wipe()
	return join(ctx, i, dir, key, o)
}

func join(ctx context.Context, i Invitation, dir string, key nkeys.KeyPair, o JoinOptions) (Member, error) {
	public, err := key.PublicKey()
	if err != nil {
		return Member{}, err
	}
	seed, err := key.Seed()
	if err != nil {
		return Member{}, err
	}
	proof, err := key.Sign([]byte(i.ID))
	if err != nil {
		return Member{}, err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	nc, ca, err := knock(ctx, i)
	if err != nil {
		return Member{}, err
	}
	defer nc.Close()
	nc.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrPermissionViolation) {
			stop(&bridge.Error{Code: bridge.CodeUnauthenticated, Message: "the invitation gives no right to join: it was altered", Remedy: newInvitation})
		}
	})
	request := JoinRequest{Schema: Schema, Key: public, Proof: base64.StdEncoding.EncodeToString(proof), Name: o.Name, Host: o.Host, Version: o.Version}
	var reply JoinReply
	for try := range joinTries {
		bounded, cancel := context.WithTimeout(ctx, requestTimeout)
		reply, err = Request[JoinReply](bounded, nc, JoinSubject(i.ID), request)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || try == joinTries-1 || ctx.Err() != nil {
			break
		}
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return Member{}, err
	}
	if _, err := claimsFor(key, reply.JWT); err != nil {
		return Member{}, fmt.Errorf("the right that the fleet gave: %w", err)
	}
	m := Member{Fleet: reply.Fleet, ID: reply.Member, Name: o.Name, Role: reply.Role, URLs: i.URLs, CA: ca, Labels: reply.Labels}
	return m, Store(dir, m, seed, reply.JWT, reply.Renewal)
}

// knock connects with the invitation's own key, and says which CA the fleet has.
func knock(ctx context.Context, i Invitation) (nc *nats.Conn, ca string, err error) {
	key, err := nkeys.FromSeed([]byte(i.Seed))
	if err != nil {
		return nil, "", &bridge.Error{Code: bridge.CodeInvalid, Message: "the invitation is damaged", Remedy: "Copy the whole line again, or make a new one with `copilot-bridge fleet invite`."}
	}
	if err := CheckURLs(i.URLs); err != nil {
		return nil, "", err
	}
	for _, u := range i.URLs {
		var config *tls.Config
		ca = i.CA
		if i.Pin == "" {
			config, err = TLS(i.CA)
		} else {
			parsed, _ := url.Parse(u) // CheckURLs has
			config = pinned(i.Pin, parsed.Hostname(), func(c *x509.Certificate) { ca = EncodeCertificate(c) })
		}
		if err != nil {
			return nil, "", err
		}
		options := append(DialOptions(config), nats.Name("join"), nats.NoReconnect(), nats.CustomInboxPrefix(Inbox(i.ID)),
			nats.UserJWT(func() (string, error) { return i.JWT, nil }, key.Sign))
		if nc, err = Dial(ctx, []string{u}, options...); err == nil {
			return nc, ca, nil
		}
	}
	return nil, "", explainKnock(i, err)
}

const newInvitation = "Make a new invitation with `copilot-bridge fleet invite`."

func explainKnock(i Invitation, err error) error {
	switch {
	case refused(err):
		why := "the fleet does not know this invitation"
		if claims, bad := jwt.DecodeUserClaims(i.JWT); bad == nil && claims.Expires != 0 && time.Now().Unix() >= claims.Expires {
			why = "the invitation ended on " + time.Unix(claims.Expires, 0).Format(time.DateTime)
		}
		return &bridge.Error{Code: bridge.CodeUnauthenticated, Message: why, Remedy: newInvitation}
	case foreign(err):
		return &bridge.Error{Code: bridge.CodeUnauthenticated, Message: "the server at " + i.URLs[0] + " is not the fleet's that the invitation names",
			Remedy: "Nothing was sent to it. Another server answers at that address, or something on the way reads along; ask whoever made the invitation.", Cause: err}
	case errors.Is(err, context.Canceled):
		return err
	}
	return &bridge.Error{Code: bridge.CodeUnavailable, Message: "the fleet at " + i.URLs[0] + " cannot be reached",
		Remedy: "Look whether `copilot-bridge fleet up` is running there, with a --listen address that this machine can reach.", Cause: telling(err)}
}

// CheckURLs refuses servers that are not reached through TLS.
func CheckURLs(urls []string) error {
	for _, u := range urls {
		if parsed, err := url.Parse(u); err != nil || parsed.Scheme != "tls" || parsed.Hostname() == "" || parsed.User != nil {
			return &bridge.Error{Code: bridge.CodeInvalid, Message: "the address of a fleet's server has to look like tls://host:4222",
				Remedy: "A fleet always uses TLS, since code and questions travel through it. Give the server a certificate, and keep names and passwords out of the address."}
		}
	}
	return nil
}
