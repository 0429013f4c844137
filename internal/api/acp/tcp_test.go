package acp

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// listening serves clients over TCP for one test and returns the address. The
// server must have ended cleanly when the test ends.
func listening(t *testing.T, s Service) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- ServeTCP(ctx, l, "t0ken", s, Options{}) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-served:
			if err != nil {
				t.Errorf("the server ended with %v", err)
			}
		case <-time.After(patience):
			t.Error("the server does not end")
		}
	})
	return l.Addr().String()
}

// connection is a client that sends lines, the first of which comes at once.
type connection struct {
	t *testing.T
	net.Conn
	lines *bufio.Reader
}

func connectTo(t *testing.T, address, first string) *connection {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // most tests have closed it
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	c := &connection{t, conn, bufio.NewReader(conn)}
	c.send(first)
	return c
}

func (c *connection) send(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.Conn, line); err != nil {
		c.t.Error(err)
	}
}

// reads reads lines up to one that has the text.
func (c *connection) reads(text string) {
	c.t.Helper()
	for {
		line, err := c.lines.ReadString('\n')
		if strings.Contains(line, text) {
			return
		}
		if err != nil {
			c.t.Fatalf("there is no %q: %v", text, err)
		}
	}
}

func TestTokenOverTCP(t *testing.T) {
	address := listening(t, &script{})
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}` + "\n"
	for name, first := range map[string]string{"none": hello, "another": "token\n" + hello, "a part": "t0ke\n", "more": "t0ken " + hello, "nothing": "\n",
		"endless": strings.Repeat("x", maxFirst)} {
		t.Run(name, func(t *testing.T) {
			c := connectTo(t, address, first)
			c.reads("the first line must be the token")
			if rest, _ := io.ReadAll(c.lines); len(rest) > 0 {
				t.Errorf("then came %q", rest)
			}
		})
	}
	for _, end := range []string{"\n", "\r\n"} {
		connectTo(t, address, "t0ken"+end+hello).reads(`"protocolVersion":1`)
	}
}

// Who disconnects has no turn and no session any more, and others go on.
func TestDisconnectOverTCP(t *testing.T) {
	begun, ended := make(chan struct{}), make(chan error, 1)
	s := &script{turn: func(ctx context.Context, _ *played, _ bridge.Prompt, _ func(bridge.Event, error) bool) {
		close(begun)
		<-ctx.Done()
		ended <- context.Cause(ctx)
	}}
	address := listening(t, s)
	other := connectTo(t, address, "t0ken\n")
	c := connectTo(t, address, "t0ken\n"+fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":%q,"mcpServers":[]}}`, t.TempDir())+"\n")
	c.reads(`"sessionId":"s1"`)
	c.send(`{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":` + prompt("go") + "}\n")
	<-begun
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("the turn goes on")
	}
	for deadline := time.Now().Add(patience); s.count() > 0; {
		if time.Now().After(deadline) {
			t.Fatalf("%d sessions are open", s.count())
		}
		other.send(`{"jsonrpc":"2.0","id":3,"method":"initialize","params":{"protocolVersion":1}}` + "\n")
		other.reads(`"id":3`)
	}
}

func TestTooManyClientsOverTCP(t *testing.T) {
	address := listening(t, &script{})
	hello := "t0ken\n" + `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}` + "\n"
	for range maxClients {
		connectTo(t, address, hello).reads(`"id":1`)
	}
	c := connectTo(t, address, "")
	c.reads("too many clients")
}
