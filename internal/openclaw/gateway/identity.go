package gateway

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
)

// Identity is the key by which gateways know this machine, and the tokens that
// they have given it. Its methods may be called concurrently.
type Identity struct {
	path string
	key  ed25519.PrivateKey

	mu     sync.Mutex
	tokens map[string]string // by gateway
}

// kept is an Identity as it is stored.
type kept struct {
	Version int               `json:"version"`
	Seed    []byte            `json:"seed"`
	Tokens  map[string]string `json:"tokens,omitempty"`
}

// LoadIdentity reads the identity at path, or makes one. The file is for its
// owner only.
func LoadIdentity(ctx context.Context, path string) (*Identity, error) {
	unlock, err := durable.Lock(ctx, path+".lock")
	if err != nil {
		return nil, err
	}
	id, err := loadIdentity(path)
	return id, errors.Join(err, unlock())
}

func loadIdentity(path string) (*Identity, error) {
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return nil, fmt.Errorf("make a key: %w", err)
		}
		id := &Identity{path: path, key: key, tokens: map[string]string{}}
		return id, id.save()
	case err != nil:
		return nil, fmt.Errorf("read the identity for OpenClaw's gateway: %w", err)
	}
	var k kept
	if err := json.Unmarshal(data, &k); err != nil || k.Version != 1 || len(k.Seed) != ed25519.SeedSize {
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: path + " is not an identity for OpenClaw's gateway",
			Remedy: "remove it; the gateway will then ask to pair this machine again"}
	}
	id := &Identity{path: path, key: ed25519.NewKeyFromSeed(k.Seed), tokens: k.Tokens}
	if id.tokens == nil {
		id.tokens = map[string]string{}
	}
	return id, nil
}

func (i *Identity) save() error {
	data, err := json.Marshal(kept{Version: 1, Seed: i.key.Seed(), Tokens: i.tokens})
	if err != nil {
		return err
	}
	return durable.WriteFile(i.path, data, 0o600)
}

// ID is the fingerprint of the public key.
func (i *Identity) ID() string {
	sum := sha256.Sum256(i.public())
	return hex.EncodeToString(sum[:])
}

func (i *Identity) public() ed25519.PublicKey {
	public, _ := i.key.Public().(ed25519.PublicKey)
	return public
}

// token returns what a gateway has given us, or "".
func (i *Identity) token(gateway string) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.tokens[gateway]
}

// remember keeps what a gateway gives us; "" forgets it.
func (i *Identity) remember(gateway, token string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.tokens[gateway] == token {
		return nil
	}
	i.tokens[gateway] = token
	if token == "" {
		delete(i.tokens, gateway)
	}
	return i.save()
}

type signedDevice struct {
	ID        string `json:"id"`
	PublicKey string `json:"publicKey"`
	Signature string `json:"signature"`
	SignedAt  int64  `json:"signedAt"`
	Nonce     string `json:"nonce"`
}

// sign answers a challenge. The signed text names everything that the gateway
// is asked for, so that a signature is of no use for anything else.
func (i *Identity) sign(c challenge, scopes []string, token string) *signedDevice {
	text := strings.Join([]string{"v3", i.ID(), clientID, clientMode, role, strings.Join(scopes, ","),
		strconv.FormatInt(c.TS, 10), token, c.Nonce, runtime.GOOS, ""}, "|")
	encode := base64.RawURLEncoding.EncodeToString
	return &signedDevice{ID: i.ID(), PublicKey: encode(i.public()), Signature: encode(ed25519.Sign(i.key, []byte(text))), SignedAt: c.TS, Nonce: c.Nonce}
}

// challenge is what the gateway wants signed.
type challenge struct {
	Nonce string `json:"nonce"`
	TS    int64  `json:"ts"`
}
