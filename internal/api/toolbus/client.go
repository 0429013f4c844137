package toolbus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/jsonrpc"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
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
	rpc  *jsonrpc.Conn
	opts Dialing
	cut  context.CancelFunc
	done chan struct{} // closed when all goroutines of rpc have ended

	consent *consent // nil without an Asker

	mu       sync.Mutex
	progress map[string]Progress // of calls under way, by id
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
	c := &Client{opts: o, cut: cut, done: make(chan struct{}), progress: map[string]Progress{}}
	c.rpc = jsonrpc.New(&socket{ws: ws, ctx: ctx, cut: cut, ended: make(chan struct{})}, incoming{c}, jsonrpc.Options{CancelMethod: "$/cancelRequest", CancelField: "id"})
	if o.Asker != nil {
		c.consent = newConsent(ctx, c, o.Asker)
	}
	go func() {
		defer close(c.done)
		_ = c.rpc.Run(ctx) // c.rpc keeps the error for its callers
	}()
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
func address(given string) (string, error) {
	u, err := url.Parse(given)
	if err == nil && (u.Host == "" || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "ws" && u.Scheme != "wss") {
		err = errors.New("expected http, https, ws or wss")
	}
	if err != nil {
		return "", &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("%q is not the URL of a tool bus", text.Clip(given, 200)), Cause: err,
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
		var refused *net.OpError
		if errors.As(err, &refused) {
			err = refused
		}
		return &bridge.Error{Code: bridge.CodeUnavailable, Message: "there is no tool bus at " + at, Cause: err, Remedy: "start one with `copilot-bridge serve`, or say where it is with --url"}
	}
	var body struct {
		Error fault `json:"error"`
	}
	if resp.Body != nil {
		// A body that is not JSON comes from another program.
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
	c.rpc.Fail(nil)
	<-c.done
	c.cut()
	if c.consent != nil {
		c.consent.wait()
	}
}

// Call calls a method. params is what encoding/json makes an object of, or
// nil. progress, if set, hears the output of what runs. When ctx ends the
// call is canceled at the other side too.
func (c *Client) Call(ctx context.Context, method string, params any, progress Progress) (json.RawMessage, error) {
	call := c.rpc.NewCall()
	defer call.Forget()
	c.mu.Lock()
	c.progress[call.ID] = progress
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.progress, call.ID)
	}()
	var result json.RawMessage
	err := call.Send(ctx, method, params)
	if err == nil {
		err = call.Wait(ctx, &result)
	}
	if err != nil && ctx.Err() != nil {
		// The call may have been done by the time that it is canceled.
		call.Cancel()
		wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerWait)
		defer cancel()
		if call.Wait(wait, &result) == nil {
			return result, nil
		}
		return nil, context.Cause(ctx)
	}
	var refused *jsonrpc.Error
	switch {
	case errors.As(err, &refused):
		return nil, received(refused).asError()
	case errors.Is(err, jsonrpc.ErrClosed):
		return nil, lost(c.rpc.Err())
	case err != nil:
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: "the parameters cannot be encoded", Cause: err}
	}
	return result, nil
}

// received is an error of the other side with the data of this door.
func received(e *jsonrpc.Error) *fault {
	f := &fault{Code: e.Code, Message: e.Message}
	if data := (&faultData{}); json.Unmarshal(e.Data, data) == nil {
		f.Data = data
	}
	return f
}

// incoming takes what the bridge sends unasked.
type incoming struct{ *Client }

// Request implements jsonrpc.Handler. The bridge asks by notifications.
func (incoming) Request(context.Context, string, json.RawMessage) func() (any, error) { return nil }

// Notification implements jsonrpc.Handler.
func (c incoming) Notification(method string, params json.RawMessage) {
	var told progressParams
	switch {
	case method == "bridge.progress" && json.Unmarshal(params, &told) == nil:
		c.mu.Lock()
		progress := c.progress[string(told.ID)]
		c.mu.Unlock()
		if progress != nil {
			progress(told.Stream, told.Text)
		}
	case c.consent != nil && c.consent.hears(method, params):
	case c.opts.Notify != nil:
		c.opts.Notify(method, params)
	}
}

// socket is a WebSocket as a stream of messages.
type socket struct {
	ws    *websocket.Conn
	ctx   context.Context
	cut   context.CancelFunc
	ended chan struct{} // closed when nothing can be read
	err   error         // why, set before ended is closed
}

func (s *socket) Read() ([]byte, error) {
	_, message, err := s.ws.Read(s.ctx)
	if err != nil {
		s.err = err
		close(s.ended)
	}
	return message, err
}

func (s *socket) Write(message []byte) error {
	ctx, cancel := context.WithTimeout(s.ctx, 30*time.Second+time.Duration(len(message))*time.Second/slowest)
	defer cancel()
	err := s.ws.Write(ctx, websocket.MessageText, message)
	if err == nil {
		return nil
	}
	select {
	case <-s.ended: // the close frame says why
		return s.err
	case <-time.After(time.Second):
		return err
	}
}

func (s *socket) Close() {
	defer time.AfterFunc(goodbye, s.cut).Stop()
	_ = s.ws.Close(websocket.StatusNormalClosure, "") // it fails if the other side was quicker
	s.cut()
}

// lost says in words why the connection ended.
func lost(err error) *bridge.Error {
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
	return e
}
