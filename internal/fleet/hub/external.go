package hub

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
)

// External is a server, or a cluster, that exists.
type External struct {
	URLs       []string
	Creds      string // file of a user with all rights in the account
	AccountKey string // file of the seed of the account's key or of one of its signing keys
	CA         string // file in PEM; "" means the system's CAs
}

// externalLasts is how long a removed member keeps its connection to a server of
// others, which nobody tells.
const externalLasts = time.Hour

// connectExternal connects to the server that exists, and proves that the account
// key works there.
func (h *Hub) connectExternal(ctx context.Context) error {
	x := h.options.External
	if err := fleet.CheckURLs(x.URLs); err != nil {
		return err
	}
	if x.CA != "" {
		data, err := os.ReadFile(x.CA)
		if err != nil {
			return fmt.Errorf("read the CA's certificate: %w", err)
		}
		h.ca = string(data)
	}
	var err error
	if h.keys, err = externalKeys(x); err != nil {
		return err
	}
	config, err := fleet.TLS(h.ca)
	if err != nil {
		return err
	}
	h.urls, h.local = func() []string { return x.URLs }, x.URLs
	common := append(fleet.DialOptions(config), nats.Name(hubName), nats.CustomInboxPrefix(fleet.Inbox(hubName)))
	if h.nc, err = fleet.Dial(ctx, x.URLs, append(common, nats.UserCredentials(x.Creds), nats.MaxReconnects(-1), nats.ClosedHandler(h.closed), nats.ErrorHandler(h.troubled))...); err != nil {
		return &bridge.Error{Code: bridge.CodeUnavailable, Message: "no connection to " + x.URLs[0], Remedy: "Look at the address, --creds and --ca.", Cause: err}
	}
	if err := checkVersion(h.nc.ConnectedServerVersion()); err != nil {
		return err
	}
	return h.tryKey(ctx, common)
}

// checkVersion refuses servers that take any message for a request to their
// interface. From 2.12 on one is refused that has fields of something else, such as
// the server's own answer to a worker, which can be sent there (see fleet.Rights).
func checkVersion(version string) error {
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err == nil && (major > 2 || major == 2 && minor >= 12) {
		return nil
	}
	return &bridge.Error{Code: bridge.CodeUnsupported, Message: fmt.Sprintf("the server is NATS %q, which is too old for a fleet", version), Remedy: "Update it to 2.12 or newer."}
}

// tryKey connects once with a right that the account key has signed.
func (h *Hub) tryKey(ctx context.Context, common []nats.Option) error {
	key, err := nkeys.CreateUser()
	if err != nil {
		return err
	}
	defer key.Wipe()
	public, err := key.PublicKey()
	if err != nil {
		return err
	}
	token, err := h.keys.askRight(public, "hub-try", fleet.InvitationRights("try"), time.Minute)
	if err != nil {
		return err
	}
	nc, err := fleet.Dial(ctx, h.local, append(common, nats.NoReconnect(), nats.UserJWT(func() (string, error) { return token, nil }, key.Sign))...)
	if errors.Is(err, nats.ErrAuthorization) {
		return &bridge.Error{Code: bridge.CodeInvalid, Message: "the server does not accept what --account-key signs",
			Remedy: "Give the seed of the account of --creds, or of a signing key of it without a scope.", Cause: err}
	} else if err != nil {
		return err
	}
	nc.Close()
	return nil
}

// externalKeys reads the account's key, and the account from the credentials.
func externalKeys(x *External) (*keys, error) {
	creds, err := os.ReadFile(x.Creds)
	if err != nil {
		return nil, fmt.Errorf("read the credentials: %w", err)
	}
	token, err := nkeys.ParseDecoratedJWT(creds)
	if err != nil {
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: x.Creds + " holds no credentials of NATS", Remedy: "Make them with `nsc generate creds`."}
	}
	user, err := jwt.DecodeUserClaims(token)
	if err != nil {
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: x.Creds + " holds no right of a NATS user", Remedy: "Make it with `nsc generate creds`."}
	}
	account := user.IssuerAccount
	if account == "" {
		account = user.Issuer
	}
	seed, err := os.ReadFile(x.AccountKey)
	if err != nil {
		return nil, fmt.Errorf("read the account's key: %w", err)
	}
	signer, err := nkeys.ParseDecoratedNKey(seed)
	if err == nil {
		var public string
		if public, err = signer.PublicKey(); err == nil && !nkeys.IsValidPublicAccountKey(public) {
			err = errors.New("not an account's")
		}
	}
	if err != nil {
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: x.AccountKey + " holds no seed of an account's key", Remedy: "It begins with SA; `nsc export keys --accounts` writes it."}
	}
	return &keys{fleet: fleetName(account), account: account, signer: signer, lasts: externalLasts}, nil
}

// prepare makes what the fleet stores: in a cluster, on three servers. What there
// is keeps their number, also while servers are away.
func (h *Hub) prepare(ctx context.Context) (replicas int, err error) {
	if h.server != nil {
		return 1, Prepare(ctx, h.js, 1)
	}
	tasks, err := h.js.Stream(ctx, fleet.StreamTasks)
	switch {
	case err == nil:
		replicas = tasks.CachedInfo().Config.Replicas
		return replicas, Prepare(ctx, h.js, replicas)
	case !errors.Is(err, jetstream.ErrStreamNotFound):
		return 0, fmt.Errorf("look at the streams of the fleet: %w", err)
	}
	switch err = Prepare(ctx, h.js, 3); {
	case says(err, notClustered):
		return 1, Prepare(ctx, h.js, 1)
	case says(err, noPeers):
		return 0, &bridge.Error{Code: bridge.CodeUnavailable, Message: "the cluster has fewer than three servers now, and three are to keep what the fleet stores",
			Remedy: "Start the others and try again, or use `copilot-bridge fleet up` without --nats.", Cause: err}
	}
	return 3, err
}

// What a server answers that cannot have the replicas.
const (
	noPeers      = 10005 // there are not enough servers in the cluster now
	notClustered = 10074
)

func says(err error, code jetstream.ErrorCode) bool {
	var answer *jetstream.APIError
	return errors.As(err, &answer) && answer.ErrorCode == code
}
