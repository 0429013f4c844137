package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	jsonrpc2 "github.com/copilot-bridge/copilot-bridge/internal/jsonrpc"
)

// stdio is a connection of lines. The SDK's own one ends with the first line
// that it does not understand; here such a line is answered with an error and
// the next one is read. Batches are answered whatever the revision: some have
// them, and in the others they do no harm.
type stdio struct {
	io  *jsonrpc2.Lines
	log *slog.Logger

	out    jsonrpc2.Writer
	ended  chan struct{} // closed by close, once
	close  func()
	broken atomic.Pointer[error] // why nothing can be written
	lines  chan []byte           // closed at the end of the input
	err    error                 // why the input ended; set before lines is closed
	done   chan struct{}         // closed when the last answers are out, or cannot be
	queue  []part                // read and not handed over; Read's alone

	mu    sync.Mutex
	calls map[jsonrpc.ID]*batch // not answered yet; nil for one on its own
}

// batch collects the answers to a batch.
type batch struct {
	missing int // answers
	answers [][]byte
}

// newStdio returns a transport. The streams are the process's: they are not
// closed, and a read that waits on them ends with the process.
func newStdio(in io.Reader, out io.Writer, log *slog.Logger) *stdio {
	ended := make(chan struct{})
	return &stdio{io: jsonrpc2.NewLines(in, out, maxMessage), log: log, out: jsonrpc2.NewWriter(ended, ended), ended: ended,
		close: sync.OnceFunc(func() { close(ended) }), lines: make(chan []byte), done: make(chan struct{}), calls: map[jsonrpc.ID]*batch{}}
}

// Connect implements sdk.Transport.
func (c *stdio) Connect(context.Context) (sdk.Connection, error) {
	written := make(chan struct{})
	go c.read()
	go func() {
		defer close(written)
		c.out.Run(c.io.Write, func(err error) { c.broken.Store(&err); c.close() })
	}()
	go func() {
		defer close(c.done)
		<-c.ended
		select {
		case <-written:
		case <-time.After(jsonrpc2.FlushWithin):
		}
	}()
	return c, nil
}

func (c *stdio) read() {
	defer close(c.lines)
	for {
		line, err := c.io.Read()
		switch {
		case errors.Is(err, jsonrpc2.ErrTooLong):
			c.out.Reply(fault(nil, jsonrpc.CodeParseError, "the line is longer than 16 MiB"))
			continue
		case err != nil:
			c.err = err
			return
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		select {
		case c.lines <- slices.Clone(line):
		case <-c.ended:
			c.err = io.EOF
			return
		}
	}
}

// Read implements sdk.Connection.
func (c *stdio) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		for len(c.queue) > 0 {
			next := c.queue[0]
			c.queue = c.queue[1:]
			if next.msg != nil {
				return next.msg, nil
			}
			if err := c.out.Send(ctx, next.fault); err != nil {
				return nil, err
			}
		}
		select {
		case line, ok := <-c.lines:
			if !ok {
				return nil, c.err
			}
			c.take(line)
		case <-c.ended:
			if err := c.broken.Load(); err != nil {
				return nil, *err
			}
			return nil, io.EOF
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// take queues what a line holds.
func (c *stdio) take(line []byte) {
	all, isBatch := parts(line)
	var b *batch
	if isBatch {
		b = &batch{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range all {
		if call, ok := p.msg.(*jsonrpc.Request); ok && call.IsCall() {
			if _, inUse := c.calls[call.ID]; inUse {
				id, _ := json.Marshal(call.ID.Raw()) // a text or a number
				p = part{fault: fault(id, jsonrpc.CodeInvalidRequest, "the id is in use")}
			} else {
				c.calls[call.ID] = b
				if b != nil {
					b.missing++
				}
			}
		}
		if p.fault != nil {
			c.log.Debug("mcp.malformed", "answer", string(p.fault))
		}
		if b != nil && p.fault != nil {
			b.answers = append(b.answers, p.fault)
			continue
		}
		c.queue = append(c.queue, p)
	}
	if b != nil && b.missing == 0 && len(b.answers) > 0 {
		c.queue = append(c.queue, part{fault: b.line()})
	}
}

// Write implements sdk.Connection.
func (c *stdio) Write(ctx context.Context, msg jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return err
	}
	if answer, ok := msg.(*jsonrpc.Response); ok {
		if data = c.answered(answer.ID, data); data == nil {
			return nil // the rest of its batch is missing
		}
	}
	return c.out.Send(ctx, data)
}

// answered returns the line to send for an answer, if there is one yet.
func (c *stdio) answered(id jsonrpc.ID, answer []byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.calls[id]
	delete(c.calls, id)
	if b == nil {
		return answer
	}
	b.answers = append(b.answers, answer)
	if b.missing--; b.missing > 0 {
		return nil
	}
	return b.line()
}

func (b *batch) line() []byte {
	return slices.Concat([]byte("["), bytes.Join(b.answers, []byte(",")), []byte("]"))
}

// Close implements sdk.Connection. Queued answers are still written.
func (c *stdio) Close() error {
	c.close()
	return nil
}

// SessionID implements sdk.Connection.
func (c *stdio) SessionID() string { return "" }
