package acp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/acpschema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// schema is read once for all tests.
var schema = sync.OnceValues(acpschema.Load)

// patience is long because machines that run tests are busy.
const patience = 20 * time.Second

// client is the other side of a door, by hand. Every line that the door writes
// is held to the protocol's schema.
type client struct {
	t       *testing.T
	in      *io.PipeWriter
	out     *io.PipeReader
	checker *acpschema.Checker
	cancel  context.CancelFunc
	served  chan error
	lastID  int

	mu      sync.Mutex
	lines   []line
	changed chan struct{}
	reads   chan struct{} // closed when the door writes no more
}

// line is a message of the door.
type line struct {
	raw    string
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// connect starts a door. It must have ended cleanly when the test ends.
func connect(t *testing.T, s Service, o Options) *client {
	t.Helper()
	c := dial(t, s, o)
	go c.read()
	return c
}

// dial is connect without a reader of what the door writes.
func dial(t *testing.T, s Service, o Options) *client {
	t.Helper()
	known, err := schema()
	if err != nil {
		t.Fatal(err)
	}
	theirs, in := io.Pipe()
	out, ours := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	c := &client{t: t, in: in, out: out, checker: known.Follow(t), cancel: cancel, served: make(chan error, 1), changed: make(chan struct{}), reads: make(chan struct{})}
	go func() { c.served <- Serve(ctx, s, theirs, ours, o) }()
	t.Cleanup(func() {
		if err := c.hangUp(); err != nil {
			t.Errorf("the door ended with %v", err)
		}
	})
	return c
}

// hangUp ends the client's stream and waits for the door's end.
func (c *client) hangUp() error {
	_ = c.in.Close() // cannot fail
	select {
	case err := <-c.served:
		c.served <- nil // for the next who asks
		c.cancel()
		_ = c.out.Close() // cannot fail
		return err
	case <-time.After(patience):
		c.t.Error("the door does not end")
		return nil
	}
}

func (c *client) read() {
	defer close(c.reads)
	s := bufio.NewScanner(c.out)
	s.Buffer(nil, 64<<20)
	for s.Scan() {
		c.checker.Agent(s.Bytes())
		l := line{raw: s.Text()}
		if err := json.Unmarshal(s.Bytes(), &l); err != nil {
			c.t.Errorf("the door wrote %q", s.Text())
		}
		c.mu.Lock()
		c.lines = append(c.lines, l)
		close(c.changed)
		c.changed = make(chan struct{})
		c.mu.Unlock()
	}
}

// send writes a line as it is.
func (c *client) send(text string) {
	c.t.Helper()
	c.checker.Client([]byte(text))
	if _, err := io.WriteString(c.in, text+"\n"); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		c.t.Error(err)
	}
}

// request sends a request and returns its id.
func (c *client) request(method, params string) string {
	c.t.Helper()
	c.lastID++
	c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, c.lastID, method, params))
	return fmt.Sprint(c.lastID)
}

func (c *client) notify(method, params string) {
	c.t.Helper()
	c.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":%s}`, method, params))
}

// await waits for a line.
func (c *client) await(what string, is func(line) bool) line {
	c.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for from := 0; ; {
		c.mu.Lock()
		lines, changed := c.lines[from:], c.changed
		c.mu.Unlock()
		for _, l := range lines {
			if is(l) {
				return l
			}
		}
		from += len(lines)
		select {
		case <-changed:
		case <-late.C:
			c.t.Fatalf("there is no %s in\n%s", what, c.transcript())
		}
	}
}

// answer waits for the answer to a request.
func (c *client) answer(id string) line {
	c.t.Helper()
	return c.await("answer to "+id, func(l line) bool { return l.Method == "" && string(l.ID) == id })
}

// call is request and answer, for those that succeed.
func (c *client) call(method, params string) string {
	c.t.Helper()
	l := c.answer(c.request(method, params))
	if l.Error != nil {
		c.t.Fatalf("%s: %s", method, l.raw)
	}
	return string(l.Result)
}

// refused is a call that fails, with the code and a part of the message.
func (c *client) refused(method, params string, code int, message string) {
	c.t.Helper()
	l := c.answer(c.request(method, params))
	if l.Error == nil || l.Error.Code != code || !strings.Contains(l.Error.Message, message) {
		c.t.Errorf("%s %s: %s; want %d, %q", method, params, l.raw, code, message)
	}
}

// asked waits for a request of the door, and answers it.
func (c *client) asked(method, answer string) line {
	c.t.Helper()
	l := c.await(method, func(l line) bool { return l.Method == method })
	if answer != "" {
		c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, l.ID, answer))
	}
	return l
}

func (c *client) transcript() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b bytes.Buffer
	for _, l := range c.lines {
		b.WriteString(l.raw + "\n")
	}
	return b.String()
}

// updates are those of one kind.
func (c *client) updates(kind string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, l := range c.lines {
		var p struct {
			Update json.RawMessage `json:"update"`
		}
		var u struct {
			Kind string `json:"sessionUpdate"`
		}
		if l.Method == "session/update" && json.Unmarshal(l.Params, &p) == nil && json.Unmarshal(p.Update, &u) == nil && u.Kind == kind {
			out = append(out, string(p.Update))
		}
	}
	return out
}

// says are the words of all chunks of a kind.
func (c *client) says(kind string) string {
	var b strings.Builder
	for _, u := range c.updates(kind) {
		var chunk struct {
			Content struct{ Text string }
		}
		if json.Unmarshal([]byte(u), &chunk) == nil {
			b.WriteString(chunk.Content.Text)
		}
	}
	return b.String()
}
