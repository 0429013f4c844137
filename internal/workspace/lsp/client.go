package lsp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/jsonrpc"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
)

const (
	politeWait = time.Second            // for a server to go by itself
	termWait   = time.Second            // between SIGTERM and SIGKILL
	drainWait  = 500 * time.Millisecond // for the last output of a server that has gone
)

// client is one live server: its process and the connection with it. It
// works concurrently on several documents, but on each for one caller only.
type client struct {
	m        *Manager
	language string
	server   Server
	program  program.Command
	process  *program.Piped
	conn     conn
	said     *program.Tail // what it printed where it should not, and its log

	caps capabilities

	completed atomic.Int64  // operations that succeeded
	gone      chan struct{} // closed when nothing of it is left, goroutines included

	changes changes

	mu         sync.Mutex
	documents  map[string]chan struct{} // held by whoever works on a document
	registered map[string]string        // registration id → method
	captured   map[string]*capture      // by document, while a command runs
}

// capture collects the edits that a server sends while it runs a command.
type capture struct{ edits []workspaceEdit }

// startClient starts a server and shakes hands with it. The caller's own
// count in m.wg lets the client's goroutines be counted there too.
func (m *Manager) startClient(ctx context.Context, server Server, start Start) (*client, error) {
	options := server.InitializationOptions
	if server.configure != nil {
		var err error
		if options, err = server.configure(m, start.Program.Path); err != nil {
			return nil, err
		}
	}
	c := &client{
		m: m, language: start.Language, server: server, program: start.Program, said: &program.Tail{Limit: saidSize}, gone: make(chan struct{}),
		documents: map[string]chan struct{}{}, registered: map[string]string{}, captured: map[string]*capture{},
	}
	c.changes.look(m.dir, server) // what the server reads from now on
	if err := c.spawn(); err != nil {
		return nil, &bridge.Error{
			Code: bridge.CodeUnavailable, Message: fmt.Sprintf("the language server %s cannot be started", c.program.Path),
			Remedy: server.Install, Cause: err,
		}
	}
	ctx, cancel := context.WithTimeout(ctx, m.opts.StartTimeout)
	defer cancel()
	if err := c.initialize(ctx, options); err != nil {
		c.kill()
		said := quoted(c.said.String()) // afterwards, so that its last words are there
		if m.ctx.Err() != nil {
			return nil, closedError()
		}
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("no answer within %s", m.opts.StartTimeout)
		}
		return nil, &bridge.Error{
			Code: bridge.CodeUnavailable, Message: fmt.Sprintf("the language server %s did not start%s", c.program.Path, said),
			Remedy: "See whether it runs by itself in this directory. " + server.Install, Cause: err,
		}
	}
	m.log.Info("language server started", "language", c.language, "command", c.program.Path, "pid", c.process.PID())
	return c, nil
}

// spawn starts the process and the goroutines that end with it.
func (c *client) spawn() error {
	made, trees, err := c.program.WithTemp(c.m.opts.Trees) // some never tidy up theirs
	if err != nil {
		return err
	}
	if confine := c.m.opts.Confine; confine != nil {
		if made, err = confine(c.m.ctx, made); err != nil {
			return err
		}
	}
	g, err := made.Pipe(trees)
	if err != nil {
		return err
	}
	c.process = g
	c.connect(g.Out, g.In, c.said)

	c.m.wg.Add(1)
	go func() {
		defer c.m.wg.Done()
		defer close(c.gone)
		var wg sync.WaitGroup
		wg.Go(func() { _ = c.conn.Run(context.Background()) }) // why it ended is asked of it
		wg.Go(func() { _, _ = io.Copy(c.said, g.Err) })        // it ends with the server
		select {
		case <-g.Done():
		case <-c.conn.Done():
			if err := g.End(context.Background(), termWait); err != nil {
				c.m.log.Warn("language server did not end", "language", c.language, "error", err)
			}
		}
		deadline := time.Now().Add(drainWait)
		for _, f := range []*os.File{g.Out, g.Err} {
			_ = f.SetReadDeadline(deadline) // something may still hold the other end
		}
		_ = g.In.Close() // stop may have closed it
		wg.Wait()
		_, _ = g.Out.Close(), g.Err.Close() // they were only read
	}()
	return nil
}

func (c *client) dead() bool {
	select {
	case <-c.conn.Done():
		return true
	case <-c.process.Done():
		return true
	default:
		return false
	}
}

// lostError says that the server is gone, and what it said.
func (c *client) lostError(cause error) error {
	select {
	case <-c.gone: // so that its last words are in
	case <-time.After(politeWait):
	}
	how := "broke the connection"
	select {
	case <-c.process.Done():
		code, signal := c.process.Exit()
		how = fmt.Sprintf("ended with code %d", code)
		if signal != "" {
			how = "was ended by " + signal
		}
	default:
	}
	if errors.Is(cause, io.EOF) || errors.Is(cause, os.ErrDeadlineExceeded) || errors.Is(cause, os.ErrClosed) {
		cause = nil
	}
	return &bridge.Error{
		Code:    bridge.CodeCrashed,
		Message: fmt.Sprintf("the language server %s %s%s", filepath.Base(c.program.Path), how, quoted(c.said.String())),
		Remedy:  "Try again: it is started anew. If it happens every time, see whether it runs by itself in this directory.",
		Cause:   cause,
	}
}

func (c *client) initialize(ctx context.Context, options any) error {
	uri := fileURI(c.m.dir)
	params := map[string]any{
		"processId":             os.Getpid(), // servers end when it does
		"clientInfo":            map[string]any{"name": "copilot-bridge"},
		"rootUri":               uri,
		"rootPath":              c.m.dir,
		"workspaceFolders":      c.folders(),
		"capabilities":          clientCapabilities(),
		"initializationOptions": options,
	}
	if c.m.opts.Confine != nil {
		params["processId"] = nil // they would look for it in vain and end
	}
	var answer struct {
		Capabilities capabilities `json:"capabilities"`
	}
	if err := c.conn.Call(ctx, "initialize", params, &answer); err != nil {
		return err
	}
	c.caps = answer.Capabilities
	if units := c.caps.PositionEncoding; units != "" && units != positionEncoding {
		return fmt.Errorf("it counts characters in %q, which it was not offered", units)
	}
	if err := c.conn.Notify(ctx, "initialized", struct{}{}); err != nil {
		return err
	}
	if len(c.server.Settings) > 0 { // for servers that do not ask
		return c.conn.Notify(ctx, "workspace/didChangeConfiguration", map[string]any{"settings": c.server.Settings})
	}
	return nil
}

func (c *client) folders() any {
	return []map[string]string{{"uri": fileURI(c.m.dir), "name": filepath.Base(c.m.dir)}}
}

// stop ends the server: it is asked, then told by its input's end, then
// killed with all that it started. ctx cuts the asking short.
func (c *client) stop(ctx context.Context) error {
	polite, cancel := context.WithTimeout(ctx, politeWait)
	defer cancel()
	if err := c.conn.Call(polite, "shutdown", nil, nil); err == nil {
		_ = c.conn.Notify(polite, "exit", nil) // it may have gone
		select {
		case <-c.process.Done():
		case <-polite.Done():
		}
	}
	_ = c.process.In.Close() // the server may have gone, and closed it
	if err := c.process.End(ctx, termWait); err != nil {
		return err
	}
	c.conn.Fail(errClosed)
	<-c.gone
	return nil
}

func (c *client) kill() {
	if err := c.process.Kill(); err != nil {
		c.m.log.Warn("language server did not end", "language", c.language, "error", err)
		return
	}
	c.conn.Fail(errClosed)
	<-c.gone
}

// notified takes notifications; those about progress and diagnostics are of no
// use here.
func (c *client) notified(method string, params json.RawMessage) {
	if method != "window/showMessage" && method != "window/logMessage" {
		return
	}
	var p struct {
		Type    int    `json:"type"`
		Message string `json:"message"`
	}
	if json.Unmarshal(params, &p) == nil && p.Type == 1 {
		c.m.log.Debug("language server says", "language", c.language, "message", p.Message)
	}
}

// serve answers what a server asks of us.
func (c *client) serve(method string, params json.RawMessage) (any, error) {
	switch method {
	case "workspace/configuration":
		return c.configuration(params)
	case "client/registerCapability", "client/unregisterCapability":
		return c.register(method == "client/registerCapability", params)
	case "workspace/applyEdit":
		return c.applyEdit(params)
	case "workspace/workspaceFolders":
		return c.folders(), nil
	case "window/workDoneProgress/create", "window/showMessageRequest": // nobody is there to choose
		return nil, nil
	case "window/showDocument":
		return map[string]bool{"success": false}, nil
	}
	if strings.HasPrefix(method, "workspace/") && strings.HasSuffix(method, "/refresh") {
		return nil, nil
	}
	return nil, jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "not supported: %s", method)
}

func (c *client) configuration(params json.RawMessage) (any, error) {
	var p struct {
		Items []struct {
			Section string `json:"section"`
		} `json:"items"`
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%s", err)
	}
	answers := make([]any, len(p.Items))
	for i, item := range p.Items {
		answers[i] = setting(c.server.Settings, item.Section)
	}
	return answers, nil
}

// setting finds "a.b" as {"a.b": …} or {"a": {"b": …}}; "" is everything.
func setting(settings map[string]any, section string) any {
	if section == "" {
		return settings
	}
	if v, ok := settings[section]; ok {
		return v
	}
	first, rest, nested := strings.Cut(section, ".")
	if inner, ok := settings[first].(map[string]any); ok && nested {
		return setting(inner, rest)
	}
	return nil
}

func (c *client) register(add bool, params json.RawMessage) (any, error) {
	type registration struct {
		ID     string `json:"id"`
		Method string `json:"method"`
	}
	var p struct {
		Registrations   []registration `json:"registrations"`
		Unregistrations []registration `json:"unregisterations"` // the protocol's spelling
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%s", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !add {
		for _, r := range p.Unregistrations {
			delete(c.registered, r.ID)
		}
		return nil, nil
	}
	for _, r := range p.Registrations {
		c.registered[r.ID] = r.Method
	}
	return nil, nil
}

func (c *client) hasRegistered(method string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.registered {
		if m == method {
			return true
		}
	}
	return false
}

// applyEdit keeps an edit for the caller that runs the command. A
// server that would edit on its own account is refused.
func (c *client) applyEdit(params json.RawMessage) (any, error) {
	var p struct {
		Edit workspaceEdit `json:"edit"`
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%s", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for uri, into := range c.captured {
		if p.Edit.touches(uri) {
			into.edits = append(into.edits, p.Edit)
			return map[string]any{"applied": true}, nil
		}
	}
	return map[string]any{"applied": false, "failureReason": "no command of this client asked for it"}, nil
}
