package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
)

// Member is a machine's membership of a fleet, as it is on its disk.
type Member struct {
	Fleet  string   `json:"fleet"`
	ID     string   `json:"id"`
	Name   string   `json:"name"`
	Role   Role     `json:"role"`
	URLs   []string `json:"urls"`
	CA     string   `json:"ca,omitempty"` // PEM; "" means the system's
	Labels []string `json:"labels,omitempty"`
}

// The files of a membership.
const (
	memberFile = "member.json"
	jwtFile    = "user.jwt"
	renewFile  = "renew.jwt"
	keyFile    = "user.nk"
)

// Load reads the membership in a directory.
func Load(dir string) (Member, error) {
	var m Member
	data, err := durable.ReadFile(filepath.Join(dir, memberFile))
	if errors.Is(err, fs.ErrNotExist) {
		return m, &bridge.Error{Code: bridge.CodeNotFound, Message: "this machine is in no fleet",
			Remedy: "On a machine of the fleet, run `copilot-bridge fleet invite`, and join here with the line that it prints; or start a fleet with `copilot-bridge fleet up`."}
	} else if err != nil {
		return m, fmt.Errorf("read the membership: %w", err)
	}
	if err := json.Unmarshal(data, &m); err != nil || m.ID == "" || len(m.URLs) == 0 {
		return m, &bridge.Error{Code: bridge.CodeInvalid, Message: "the membership in " + dir + " is damaged", Remedy: "Remove the directory and join again.", Cause: err}
	}
	return m, nil
}

// Store writes a membership with its key and right. The membership itself comes
// last: without it the rest does not count.
func Store(dir string, m Member, seed []byte, token, renewal string) error {
	if err := durable.WriteFile(filepath.Join(dir, keyFile), seed, 0o600); err != nil {
		return err
	}
	return Renew(dir, m, token, renewal)
}

// Renew writes a membership and its rights, and keeps the key.
func Renew(dir string, m Member, token, renewal string) error {
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if err := storeRights(dir, token, renewal); err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, memberFile), append(data, '\n'), 0o600)
}

func storeRights(dir, token, renewal string) error {
	if renewal != "" {
		if err := durable.WriteFile(filepath.Join(dir, renewFile), []byte(renewal), 0o600); err != nil {
			return err
		}
	}
	return durable.WriteFile(filepath.Join(dir, jwtFile), []byte(token), 0o600)
}

// Forget ends a membership. The rest of the directory stays.
func Forget(dir string) error { return os.Remove(filepath.Join(dir, memberFile)) }

// credentials are a member's key and rights.
type credentials struct {
	key     nkeys.KeyPair
	token   string
	claims  *jwt.UserClaims // of token
	renewal string
}

func loadCredentials(dir string) (credentials, error) {
	var c credentials
	seed, err := durable.ReadFile(filepath.Join(dir, keyFile))
	if err != nil {
		return c, fmt.Errorf("read the key of the fleet: %w", err)
	}
	token, err := durable.ReadFile(filepath.Join(dir, jwtFile))
	if err != nil {
		return c, fmt.Errorf("read the right to the fleet: %w", err)
	}
	renewal, err := durable.ReadFile(filepath.Join(dir, renewFile))
	if err != nil {
		return c, fmt.Errorf("read the renewal of the right to the fleet: %w", err)
	}
	c.token, c.renewal = string(token), string(renewal)
	if c.key, err = nkeys.FromSeed(seed); err == nil {
		c.claims, err = claimsFor(c.key, c.token)
	}
	if err != nil {
		return c, &bridge.Error{Code: bridge.CodeInvalid, Message: "the key or the right in " + dir + " is damaged", Remedy: "Remove the directory and join again."}
	}
	return c, nil
}

// claimsFor decodes a right, which has to be one for the key.
func claimsFor(key nkeys.KeyPair, token string) (*jwt.UserClaims, error) {
	public, err := key.PublicKey()
	if err != nil {
		return nil, err
	}
	claims, err := jwt.DecodeUserClaims(token)
	if err != nil {
		return nil, err
	}
	if claims.Subject != public {
		return nil, errors.New("the right is for another key")
	}
	return claims, nil
}
