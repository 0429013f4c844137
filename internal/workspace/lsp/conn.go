package lsp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/copilot-bridge/copilot-bridge/internal/jsonrpc"
)

// maxMessage bounds one message of a server, in bytes.
const maxMessage = 64 << 20

// codeContentModified is the protocol's error for a document that changed
// meanwhile.
const codeContentModified = -32801

var errClosed = errors.New("the connection was closed")

// conn is the connection with a server.
type conn struct {
	*jsonrpc.Conn
	heard *atomic.Int64 // messages received
}

// connect makes the client's connection; noise gets what the server prints
// between messages.
func (c *client) connect(in io.Reader, out, noise io.Writer) {
	c.conn.heard = &atomic.Int64{}
	c.conn.Conn = jsonrpc.New(counted{jsonrpc.NewHeaders(in, out, noise, maxMessage), c.conn.heard}, incoming{c},
		jsonrpc.Options{CancelMethod: "$/cancelRequest", CancelField: "id", Malformed: func(_ []byte, err error) {
			c.conn.Fail(fmt.Errorf("a message that is no JSON-RPC: %w", err))
		}})
}

// counted counts the messages of a server: one that sends none hangs.
type counted struct {
	*jsonrpc.Headers
	heard *atomic.Int64
}

func (s counted) Read() ([]byte, error) {
	message, err := s.Headers.Read()
	if err == nil {
		s.heard.Add(1)
	}
	return message, err
}

// incoming takes what the server sends unasked. An edit must be known before
// the answer to the command that makes it, so requests are served in order.
type incoming struct{ *client }

func (c incoming) Request(_ context.Context, method string, params json.RawMessage) func() (any, error) {
	result, err := c.serve(method, params)
	if result == nil {
		result = jsonrpc.Null
	}
	return func() (any, error) { return result, err }
}

func (c incoming) Notification(method string, params json.RawMessage) { c.notified(method, params) }
