package hub

import (
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
)

// keys sign the rights of members. The keys of an embedded server are the hub's
// own: an operator, and one account, which is the fleet.
type keys struct {
	fleet   string
	account string        // public
	signer  nkeys.KeyPair // of the account, or one of its signing keys
	lasts   time.Duration // of a member's right

	// For an embedded server only.
	operator nkeys.KeyPair
	file     string // of the account's claims, with who was removed
	mu       sync.Mutex
	claims   *jwt.AccountClaims
}

const (
	// rightLasts is how long a member's right on an embedded server lasts.
	rightLasts = 30 * 24 * time.Hour
	// maxAsking bounds a message of who may do nothing but ask.
	maxAsking = 16 << 10
	// maxSaying bounds a message of a worker: one with a result is the longest. Longer
	// ones would come faster than a coordinator can read them.
	maxSaying  = maxResult + 64<<10
	maxHearing = 4096 // subscriptions of a worker
	// awayAtMost is how long a member may stay away before it has to join again.
	awayAtMost = 90 * 24 * time.Hour
)

func fleetName(account string) string {
	sum := sha256.Sum256([]byte(account))
	return "f-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:]))[:10]
}

// ownKeys reads the keys of an embedded server, or makes them.
func ownKeys(dir string) (*keys, error) {
	operator, err := readOrMakeKey(filepath.Join(dir, "operator.nk"), nkeys.PrefixByteOperator)
	if err != nil {
		return nil, err
	}
	account, err := readOrMakeKey(filepath.Join(dir, "account.nk"), nkeys.PrefixByteAccount)
	if err != nil {
		return nil, err
	}
	public, err := account.PublicKey()
	if err != nil {
		return nil, err
	}
	k := &keys{fleet: fleetName(public), account: public, signer: account, lasts: rightLasts, operator: operator, file: filepath.Join(dir, "account.jwt")}
	data, err := durable.ReadFile(k.file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		k.claims = jwt.NewAccountClaims(public)
	case err != nil:
		return nil, err
	default:
		if k.claims, err = jwt.DecodeAccountClaims(string(data)); err != nil || k.claims.Subject != public {
			return nil, damaged(k.file)
		}
	}
	k.claims.Name = k.fleet
	k.claims.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit}
	k.claims.Limits.DisallowBearer = true
	return k, nil
}

func damaged(file string) error {
	return &bridge.Error{Code: bridge.CodeInvalid, Message: file + " is damaged",
		Remedy: "Restore it from a backup, or remove its directory to set up a new fleet; then all machines have to join again."}
}

func readOrMakeKey(file string, kind nkeys.PrefixByte) (nkeys.KeyPair, error) {
	seed, err := durable.ReadFile(file)
	if err == nil {
		key, err := nkeys.FromSeed(seed)
		if err != nil {
			return nil, damaged(file)
		}
		return key, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	key, err := nkeys.CreatePair(kind)
	if err != nil {
		return nil, err
	}
	if seed, err = key.Seed(); err != nil {
		return nil, err
	}
	return key, durable.WriteFile(file, seed, 0o600)
}

// operatorClaims are what the embedded server trusts.
func (k *keys) operatorClaims() (*jwt.OperatorClaims, error) {
	public, err := k.operator.PublicKey()
	if err != nil {
		return nil, err
	}
	claims := jwt.NewOperatorClaims(public)
	claims.Name = k.fleet
	token, err := claims.Encode(k.operator)
	if err != nil {
		return nil, err
	}
	return jwt.DecodeOperatorClaims(token)
}

// systemAccount makes an account for the server's own messages, which it insists
// on. Nobody gets its key.
func (k *keys) systemAccount() (public, token string, err error) {
	key, err := nkeys.CreateAccount()
	if err != nil {
		return "", "", err
	}
	defer key.Wipe()
	if public, err = key.PublicKey(); err != nil {
		return "", "", err
	}
	token, err = jwt.NewAccountClaims(public).Encode(k.operator)
	return public, token, err
}

// revoke notes that the rights of a key no longer count, on disk, and returns the
// account's new claims. The caller gives them to the server. No key comes back:
// whoever joins again makes a new one.
func (k *keys) revoke(public ...string) (token string, claims *jwt.AccountClaims, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, key := range public {
		k.claims.RevokeAt(key, time.Now().Add(awayAtMost))
	}
	if token, err = k.claims.Encode(k.operator); err != nil {
		return "", nil, err
	}
	if err := durable.WriteFile(k.file, []byte(token), 0o600); err != nil {
		return "", nil, err
	}
	claims, err = jwt.DecodeAccountClaims(token)
	return token, claims, err
}

// askRight signs the right to nothing but asking: to join, or for a new right.
func (k *keys) askRight(public, name string, p jwt.Permissions, lasts time.Duration) (string, error) {
	return k.sign(public, name, p, jwt.NatsLimits{Payload: maxAsking, Subs: 4, Data: jwt.NoLimit}, lasts)
}

// right signs what a member may do.
func (k *keys) right(role fleet.Role, public, id string, lasts time.Duration) (string, error) {
	most := jwt.NatsLimits{Payload: maxSaying, Subs: maxHearing, Data: jwt.NoLimit}
	if role == fleet.RoleCoordinator {
		most.Payload, most.Subs = jwt.NoLimit, jwt.NoLimit
	}
	return k.sign(public, id, fleet.Rights(role, id), most, lasts)
}

func (k *keys) sign(public, name string, p jwt.Permissions, most jwt.NatsLimits, lasts time.Duration) (string, error) {
	claims := jwt.NewUserClaims(public)
	claims.Name = name
	claims.Permissions, claims.NatsLimits = p, most
	claims.AllowedConnectionTypes.Add(jwt.ConnectionTypeStandard, jwt.ConnectionTypeInProcess)
	if lasts > 0 {
		claims.Expires = time.Now().Add(lasts).Unix()
	}
	if signer, err := k.signer.PublicKey(); err != nil {
		return "", err
	} else if signer != k.account {
		claims.IssuerAccount = k.account
	}
	token, err := claims.Encode(k.signer)
	if err != nil {
		return "", fmt.Errorf("sign a right: %w", err)
	}
	return token, nil
}

// memberRights are the right of a member, and the one to renew it, which lasts for
// as long as a member may stay away.
func (k *keys) memberRights(m fleet.MemberRecord) (token, renewal string, err error) {
	if token, err = k.right(m.Role, m.Key, m.ID, k.lasts); err != nil {
		return "", "", err
	}
	renewal, err = k.askRight(m.Key, m.ID, fleet.RenewalRights(m.ID), awayAtMost)
	return token, renewal, err
}

// signed reports whether this fleet has given a right. Anybody can sign one with a
// key of their own, and any name in it.
func (k *keys) signed(claims *jwt.UserClaims) bool {
	signer, err := k.signer.PublicKey()
	return err == nil && claims.Issuer == signer
}

// revoked reports whether a right was taken back.
func (k *keys) revoked(claims *jwt.UserClaims) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.claims != nil && k.claims.IsClaimRevoked(claims)
}
