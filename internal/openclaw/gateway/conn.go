package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

const (
	writeWait  = 10 * time.Second
	maxFrame   = 32 << 20 // more than any gateway allows
	maxGarbage = 16       // frames that cannot be understood, one after another, before we start afresh
)

// conn is one connection. It is made by dial and used by serve; call may be
// called meanwhile from anywhere.
type conn struct {
	ws    *websocket.Conn
	hello Hello
	opts  Options
	beat  time.Duration // the longest silence

	mu      sync.Mutex
	next    int
	pending map[string]chan frame // of one, by call
	ended   error                 // why there are no more answers
}

// dial connects and is let in, or not.
func (c *Client) dial(ctx context.Context, useDevice bool) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Handshake)
	defer cancel()
	ws, resp, err := websocket.Dial(ctx, c.opts.URL, &websocket.DialOptions{CompressionMode: websocket.CompressionDisabled})
	if resp != nil && resp.Body != nil {
		_ = resp.Body.Close() // what the handshake left
	}
	if err != nil && resp != nil {
		return nil, &bridge.Error{Code: bridge.CodeUnavailable, Message: fmt.Sprintf("what is at %s does not let us in: it answers with status %d", c.opts.URL, resp.StatusCode),
			Remedy: "see that it is OpenClaw's gateway (OPENCLAW_HOST, OPENCLAW_PORT), and that it trusts a proxy before it (gateway.trustedProxies)"}
	}
	if err != nil {
		return nil, &bridge.Error{Code: bridge.CodeUnavailable, Message: "OpenClaw's gateway cannot be reached at " + c.opts.URL, Cause: err,
			Remedy: "start it with `openclaw gateway run`, or set OPENCLAW_HOST and OPENCLAW_PORT"}
	}
	ws.SetReadLimit(maxFrame)
	n := &conn{ws: ws, opts: c.opts, pending: map[string]chan frame{}, beat: c.opts.Silence}
	if err := n.greet(ctx, c, useDevice); err != nil {
		n.close()
		return nil, lost(err)
	}
	return n, nil
}

func (n *conn) close() { _ = n.ws.CloseNow() }

// greet waits for the challenge, says who we are, and hears the answer.
func (n *conn) greet(ctx context.Context, c *Client, useDevice bool) error {
	var asked challenge
	for {
		f, err := n.read(ctx)
		if err != nil {
			return err
		}
		if f.Type == "event" && f.Event == "connect.challenge" {
			if err := json.Unmarshal(f.Payload, &asked); err != nil || asked.Nonce == "" || asked.TS < 0 {
				return errors.New("the gateway's challenge is not understood")
			}
			break
		}
	}
	if err := n.write(ctx, frame{Type: "req", ID: "connect", Method: "connect", Params: c.introduce(asked, useDevice)}); err != nil {
		return err
	}
	for {
		f, err := n.read(ctx)
		switch {
		case err != nil:
			return err
		case f.Type != "res" || f.ID != "connect":
			continue
		case !f.OK:
			return connectRefused(f.Error)
		}
		if err := json.Unmarshal(f.Payload, &n.hello); err != nil {
			return fmt.Errorf("the gateway's welcome is not understood: %w", err)
		}
		break
	}
	if ms := n.hello.Policy.TickIntervalMs; ms > 0 {
		n.beat = 2 * time.Duration(min(ms, int64(time.Hour/time.Millisecond))) * time.Millisecond
	}
	if id, token := c.opts.Identity, n.hello.Auth.DeviceToken; id != nil && token != "" {
		if err := id.remember(c.opts.URL, token); err != nil {
			c.opts.Logger.Warn("the gateway's token for this machine cannot be kept", "error", err)
		}
	}
	return nil
}

// introduce says who we are.
func (c *Client) introduce(asked challenge, useDevice bool) connectParams {
	p := connectParams{MinProtocol: protocol, MaxProtocol: protocol, Role: role, Scopes: c.opts.Scopes, Caps: []string{},
		Client: clientInfo{ID: clientID, DisplayName: "copilot-bridge", Version: c.opts.Version, Platform: runtime.GOOS, Mode: clientMode}}
	token, device := c.opts.Token, c.deviceToken()
	switch {
	case useDevice && token != "":
		p.Auth = &auth{Token: token, DeviceToken: device}
	case token != "":
		p.Auth = &auth{Token: token}
	case device != "":
		token = device
		p.Auth = &auth{Token: device}
	}
	if id := c.opts.Identity; id != nil {
		p.Device = id.sign(asked, p.Scopes, token)
	}
	return p
}

// read returns the next frame that can be understood. A well-formed frame
// of an unknown kind is passed over.
func (n *conn) read(ctx context.Context) (frame, error) {
	for garbage := 0; garbage <= maxGarbage; {
		kind, data, err := n.ws.Read(ctx)
		if err != nil {
			return frame{}, err
		}
		f, known, err := decode(data)
		switch {
		case err != nil || kind != websocket.MessageText:
			garbage++
		case known:
			return f, nil
		}
	}
	return frame{}, errors.New("the gateway sends what is not understood")
}

// decode reads a frame, and says whether it is of a kind that we know.
func decode(data []byte) (f frame, known bool, err error) {
	var wire struct {
		frame
		Params json.RawMessage `json:"params"`
	}
	if err := json.Unmarshal(data, &wire); err != nil {
		return frame{}, false, err
	}
	f = wire.frame
	return f, f.Type == "res" && f.ID != "" || f.Type == "event" && f.Event != "", nil
}

func (n *conn) write(ctx context.Context, f frame) error {
	data, err := json.Marshal(f)
	if err != nil {
		return err
	}
	if most := n.hello.Policy.MaxPayload; most > 0 && int64(len(data)) > most {
		return &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("the request is larger than the %d bytes that OpenClaw's gateway takes", most)}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	// Not under the caller's context: one that ends in the middle of a write
	// would cost everybody the connection.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeWait)
	defer cancel()
	return n.ws.Write(ctx, websocket.MessageText, data)
}

// serve reads until the connection ends, and says why. Then it has failed all
// calls.
func (n *conn) serve(ctx context.Context) (err error) {
	defer func() {
		n.close()
		n.fail(err)
	}()
	for {
		quiet, cancel := context.WithTimeout(ctx, n.beat)
		f, err := n.read(quiet)
		silent := quiet.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case silent:
			return lost(fmt.Errorf("nothing was heard for %s", n.beat))
		case err != nil:
			return lost(err)
		case f.Type == "res":
			n.answered(f)
		}
	}
}

func (n *conn) answered(f frame) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if answer := n.pending[f.ID]; answer != nil {
		delete(n.pending, f.ID)
		answer <- f
	}
}

// fail ends the calls that wait.
func (n *conn) fail(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended = err
	for id, answer := range n.pending {
		delete(n.pending, id)
		close(answer)
	}
}

func (n *conn) call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	answer := make(chan frame, 1)
	n.mu.Lock()
	if n.ended != nil {
		defer n.mu.Unlock()
		return nil, n.ended
	}
	if len(n.pending) >= n.opts.MaxPending {
		n.mu.Unlock()
		return nil, &bridge.Error{Code: bridge.CodeBusy, Message: fmt.Sprintf("%d requests wait for OpenClaw's gateway already", n.opts.MaxPending), Remedy: "try again later"}
	}
	n.next++
	id := strconv.Itoa(n.next)
	n.pending[id] = answer
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		delete(n.pending, id)
		n.mu.Unlock()
	}()
	if err := n.write(ctx, frame{Type: "req", ID: id, Method: method, Params: params}); err != nil {
		var own *bridge.Error
		if errors.As(err, &own) {
			return nil, err
		}
		return nil, lost(err)
	}
	select {
	case f, ok := <-answer:
		switch {
		case !ok:
			n.mu.Lock()
			defer n.mu.Unlock()
			return nil, n.ended
		case !f.OK:
			return nil, refused(f.Error)
		}
		return f.Payload, nil
	case <-ctx.Done():
		return nil, &bridge.Error{Code: bridge.CodeOf(ctx.Err()), Message: "OpenClaw's gateway did not answer " + method, Cause: context.Cause(ctx)}
	}
}
