// Package gateway is a client for OpenClaw's gateway: JSON frames on a
// WebSocket, protocol 4. It knows the frames and the handshake, not what the
// methods mean. internal/openclaw asks for memory with it, and whether the
// gateway answers.
package gateway

import (
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"math/big"
	"time"
)

// protocol is the version that we speak.
const protocol = 4

// The client as the gateway's lists have it: names of our own are refused.
const (
	clientID   = "gateway-client"
	clientMode = "backend"
	role       = "operator"
)

// Options make a Client. URL is required.
type Options struct {
	URL     string // ws:// or wss://
	Token   string // secret; "" if the gateway wants none
	Version string
	// Scopes are what the client wants to be allowed; reading if empty.
	Scopes []string
	// Identity signs the gateway's challenge; nil on loopback, where the
	// gateway does without.
	Identity *Identity
	Logger   *slog.Logger

	// Handshake bounds a connection's beginning, 15 s; Answer a call whose
	// context has no end, 60 s; First and Most the pauses between attempts,
	// 1 s and 30 s.
	Handshake, Answer, First, Most time.Duration
	// Silence is how long the gateway may say nothing before it says how often
	// it will, 60 s.
	Silence time.Duration
	// MaxPending is how many calls may wait for their answers, 64.
	MaxPending int
}

func (o Options) defaults() Options {
	set := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	set(&o.Handshake, 15*time.Second)
	set(&o.Answer, time.Minute)
	set(&o.First, time.Second)
	set(&o.Most, 30*time.Second)
	set(&o.Silence, time.Minute)
	if o.MaxPending <= 0 {
		o.MaxPending = 64
	}
	if len(o.Scopes) == 0 {
		o.Scopes = []string{"operator.read"}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Version == "" {
		o.Version = "dev"
	}
	return o
}

// pause is how long to wait before the next attempt: doubled each time, a
// random half of it taken off, so that many clients do not come at once, and
// no less than the gateway asked for.
func (o Options) pause(attempt int, asked time.Duration) time.Duration {
	d := o.First
	for range attempt {
		if d >= o.Most/2 {
			d = o.Most
			break
		}
		d *= 2
	}
	n, err := rand.Int(rand.Reader, big.NewInt(int64(d/2)+1))
	if err == nil {
		d -= time.Duration(n.Int64())
	}
	return max(d, min(asked, o.Most))
}

// frame is any of the three kinds.
type frame struct {
	Type    string          `json:"type"`
	ID      string          `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	OK      bool            `json:"ok,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"`
	Error   *refusal        `json:"error,omitempty"`
	Event   string          `json:"event,omitempty"`
}

// refusal is an error as the gateway words it.
type refusal struct {
	Code         string          `json:"code"`
	Message      string          `json:"message"`
	Details      json.RawMessage `json:"details"`
	Retryable    bool            `json:"retryable"`
	RetryAfterMs int64           `json:"retryAfterMs"`
}

// Hello is what the gateway says of itself when it lets a client in.
type Hello struct {
	Server struct {
		Version string `json:"version"`
	} `json:"server"`
	Features struct {
		Methods []string `json:"methods"`
	} `json:"features"`
	Auth struct {
		Scopes      []string `json:"scopes"`
		DeviceToken string   `json:"deviceToken"`
	} `json:"auth"`
	Policy struct {
		MaxPayload     int64 `json:"maxPayload"`
		TickIntervalMs int64 `json:"tickIntervalMs"`
	} `json:"policy"`
}

type connectParams struct {
	MinProtocol int           `json:"minProtocol"`
	MaxProtocol int           `json:"maxProtocol"`
	Client      clientInfo    `json:"client"`
	Role        string        `json:"role"`
	Scopes      []string      `json:"scopes"`
	Caps        []string      `json:"caps"`
	Auth        *auth         `json:"auth,omitempty"`
	Device      *signedDevice `json:"device,omitempty"`
}

type clientInfo struct {
	ID          string `json:"id"`
	DisplayName string `json:"displayName"`
	Version     string `json:"version"`
	Platform    string `json:"platform"`
	Mode        string `json:"mode"`
}

type auth struct {
	Token       string `json:"token,omitempty"`
	DeviceToken string `json:"deviceToken,omitempty"`
}
