package toolbus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

// answerWait is how long a canceled call may take to say so.
const answerWait = 3 * time.Second

// Dialing says how to reach a tool bus.
type Dialing struct {
	URL   string // http, https, ws or wss; without a path it means /rpc
	Token string
	// Notify hears notifications other than progress, in order; while it
	// runs nothing else is read. It may be nil.
	Notify func(method string, params json.RawMessage)
	// Asker, if set, is asked for consent to what the calls of this client
	// would do, where the bridge lets its clients consent.
	Asker approval.Asker

	client *http.Client // in tests
}

// Client is a connection to a tool bus. Its methods may be called
// concurrently.
type Client struct {
	ws   *websocket.Conn
	opts Dialing
	cut  context.CancelFunc
	done chan struct{} // closed when nothing is read any more

	consent *consent // nil without an Asker

	mu      sync.Mutex
	next    int
	pending map[string]*pending
	err     error // why done is closed
}

// pending is a call that waits for its answer.
type pending struct {
	progress Progress
	answer   chan reply // of one
}

// reply is what a server sends: an answer or a notification.
type reply struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	ID     json.RawMessage `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *fault          `json:"error"`
}

// Dial connects. The caller must call Close.
func Dial(ctx context.Context, o Dialing) (*Client, error) {
	at, err := address(o.URL)
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	if o.Token != "" {
		header.Set("Authorization", "Bearer "+o.Token)
	}
	client := o.client
	if client == nil {
		client = &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}}
	}
	client = &http.Client{Transport: client.Transport,
		// The token is for the address that was named.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	ws, resp, err := websocket.Dial(ctx, at, &websocket.DialOptions{HTTPClient: client, HTTPHeader: header, Subprotocols: []string{plain}})
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, unreached(at, resp, err)
	}
	ws.SetReadLimit(-1) // the bridge bounds its results
	dialing := ctx
	ctx, cut := context.WithCancel(context.WithoutCancel(ctx))
	c := &Client{ws: ws, opts: o, cut: cut, done: make(chan struct{}), pending: map[string]*pending{}}
	if o.Asker != nil {
		c.consent = newConsent(ctx, c, o.Asker)
	}
	go c.read(ctx)
	if c.consent == nil {
		return c, nil
	}
	// One that knows of no questions will put none.
	if err := c.consent.subscribe(dialing); err != nil && bridge.CodeOf(err) != bridge.CodeInvalid {
		c.Close()
		return nil, err
	}
	return c, nil
}

// address makes of what people type where to connect.
func address(text string) (string, error) {
	u, err := url.Parse(text)
	if err == nil && (u.Host == "" || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "ws" && u.Scheme != "wss") {
		err = errors.New("expected http, https, ws or wss")
	}
	if err != nil {
		return "", &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("%q is not the URL of a tool bus", clip(text, 200)), Cause: err,
			Remedy: "give one such as http://127.0.0.1:8788"}
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/rpc"
	}
	u.User, u.Fragment = nil, ""
	return u.String(), nil
}

// unreached says why there is no connection. A body says more, if it is one
// of ours.
func unreached(at string, resp *http.Response, err error) error {
	if resp == nil {
		return &bridge.Error{Code: bridge.CodeUnavailable, Message: "there is no tool bus at " + at, Cause: err, Remedy: "start one with `copilot-bridge serve`, or say where it is with --url"}
	}
	var body struct {
		Error fault `json:"error"`
	}
	if resp.Body != nil {
		// What is no JSON is not ours.
		_ = json.NewDecoder(resp.Body).Decode(&body)
		_ = resp.Body.Close()
	}
	e := &bridge.Error{Status: resp.StatusCode, Message: strings.TrimSuffix(fmt.Sprintf("%s refused the connection (%s): %s", at, resp.Status, body.Error.Message), ": ")}
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		e.Code, e.Remedy = bridge.CodeUnauthenticated, "give the bridge's token: set COPILOT_BRIDGE_TOKEN, or --token"
	case http.StatusForbidden:
		e.Code = bridge.CodeDenied
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		e.Code, e.Remedy = bridge.CodeBusy, "try again later"
	default:
		e.Code, e.Remedy = bridge.CodeUnavailable, "see that the URL is that of a bridge with a tool bus"
	}
	return e
}

// Close ends the connection. Calls under way fail.
func (c *Client) Close() {
	defer time.AfterFunc(goodbye, c.cut).Stop()
	_ = c.ws.Close(websocket.StatusNormalClosure, "") // it fails if the other side was quicker
	c.cut()
	<-c.done
	if c.consent != nil {
		c.consent.wait()
	}
}

// Call calls a method. params is what encoding/json makes an object of, or
// nil. progress, if set, hears the output of what runs. When ctx ends the
// call is canceled at the other side too.
func (c *Client) Call(ctx context.Context, method string, params any, progress Progress) (json.RawMessage, error) {
	p := &pending{progress: progress, answer: make(chan reply, 1)}
	c.mu.Lock()
	c.next++
	id := strconv.Itoa(c.next)
	c.pending[id] = p
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.pending, id)
	}()
	message, err := encode(struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Method  string          `json:"method"`
		Params  any             `json:"params,omitempty"`
	}{"2.0", json.RawMessage(id), method, params})
	if err != nil {
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: "the parameters cannot be encoded", Cause: err}
	}
	if err := c.write(message); err != nil {
		return nil, err
	}
	select {
	case r := <-p.answer:
		return r.outcome()
	case <-c.done:
		return nil, c.failure()
	case <-ctx.Done():
	}
	return c.abandon(ctx, id, p)
}

// abandon cancels a call and waits a little for what becomes of it: it may
// have been done by then.
func (c *Client) abandon(ctx context.Context, id string, p *pending) (json.RawMessage, error) {
	message, err := notification("$/cancelRequest", cancelParams{json.RawMessage(id)})
	if err == nil {
		err = c.write(message)
	}
	timer := time.NewTimer(answerWait)
	defer timer.Stop()
	if err == nil {
		select {
		case r := <-p.answer:
			if r.Error == nil {
				return r.outcome()
			}
		case <-c.done:
		case <-timer.C:
		}
	}
	return nil, context.Cause(ctx)
}

func (r reply) outcome() (json.RawMessage, error) {
	if r.Error != nil {
		return nil, r.Error.asError()
	}
	return r.Result, nil
}

func (c *Client) write(message []byte) error {
	// Not with the call's context: the library closes the connection when one
	// ends during a write.
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second+time.Duration(len(message))*time.Second/slowest)
	defer cancel()
	if err := c.ws.Write(ctx, websocket.MessageText, message); err != nil {
		select {
		case <-c.done: // the reader knows why
			return c.failure()
		case <-time.After(time.Second):
		}
		return &bridge.Error{Code: bridge.CodeUnavailable, Message: "the tool bus cannot be written to", Cause: err}
	}
	return nil
}

// read hands out what comes in until the connection ends.
func (c *Client) read(ctx context.Context) {
	defer close(c.done)
	for {
		_, message, err := c.ws.Read(ctx)
		if err != nil {
			c.lost(err)
			return
		}
		var r reply
		if json.Unmarshal(message, &r) != nil {
			continue // an answer to nothing that was asked
		}
		c.deliver(r)
	}
}

func (c *Client) deliver(r reply) {
	var progress progressParams
	id := string(r.ID)
	told := r.Method == "bridge.progress" && json.Unmarshal(r.Params, &progress) == nil
	if told {
		id = string(progress.ID)
	}
	c.mu.Lock()
	p := c.pending[id]
	c.mu.Unlock()
	switch {
	case told:
		if p != nil && p.progress != nil {
			p.progress(progress.Stream, progress.Text)
		}
	case c.consent != nil && c.consent.hears(r.Method, r.Params):
	case r.Method != "":
		if c.opts.Notify != nil {
			c.opts.Notify(r.Method, r.Params)
		}
	case p != nil:
		select {
		case p.answer <- r:
		default: // a second answer
		}
	}
}

// lost keeps why the connection ended, in words.
func (c *Client) lost(err error) {
	e := &bridge.Error{Code: bridge.CodeUnavailable, Message: "the connection to the tool bus is lost", Cause: err}
	var closed websocket.CloseError
	if errors.As(err, &closed) {
		e.Message, e.Cause = fmt.Sprintf("the tool bus closed the connection: %s", closed.Reason), nil
		switch closed.Code {
		case websocket.StatusGoingAway:
		case websocket.StatusMessageTooBig:
			e.Code, e.Message = bridge.CodeInvalid, "the request is too large for the tool bus"
		default:
			e.Message = fmt.Sprintf("the tool bus closed the connection: %v %s", closed.Code, closed.Reason)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = e
}

func (c *Client) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}
