package acp

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/acpwire"
	"github.com/copilot-bridge/copilot-bridge/internal/jsonrpc"
)

const (
	// maxClients bounds the connections, those without a token included.
	maxClients = 16
	// tokenWithin is how long a client may take to send its token.
	tokenWithin = 10 * time.Second
	// maxFirst bounds the first line. It is more than a token needs, so that a
	// client that begins with a message reads why it is refused.
	maxFirst = 64 << 10
	// acceptAgain is the pause after a failed accept, as without free descriptors.
	acceptAgain = 50 * time.Millisecond
)

// ServeTCP answers the clients of a listener, each as Serve does, until ctx
// ends or the listener fails. A client's first line is the token: it answers
// for the user where the policy asks.
func ServeTCP(ctx context.Context, l net.Listener, token string, s Service, o Options) error {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(ctx)
	var clients sync.WaitGroup
	defer clients.Wait()
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })() // it is only listened on
	places := make(chan struct{}, maxClients)
	for {
		conn, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil:
			o.Logger.Warn("acp.accept_failed", "error", err)
			select {
			case <-time.After(acceptAgain):
			case <-ctx.Done():
			}
			continue
		}
		select {
		case places <- struct{}{}:
		default:
			refuse(conn, jsonrpc.CodeInternal, "busy: too many clients are connected")
			continue
		}
		clients.Go(func() {
			defer func() { <-places }()
			if err := serveClient(ctx, conn, token, s, o); err != nil && ctx.Err() == nil {
				o.Logger.Warn("acp.client_failed", "client", conn.RemoteAddr(), "error", err)
			}
		})
	}
}

// serveClient answers one client and closes its connection.
func serveClient(ctx context.Context, conn net.Conn, token string, s Service, o Options) error {
	stay := context.AfterFunc(ctx, func() { _ = conn.Close() }) // nothing was begun
	_ = conn.SetDeadline(time.Now().Add(tokenWithin))           // a broken connection fails below
	in := bufio.NewReaderSize(conn, maxFirst)
	line, err := in.ReadSlice('\n')
	given, want := sha256.Sum256(bytes.TrimSpace(line)), sha256.Sum256([]byte(token))
	switch {
	case errors.Is(err, io.EOF) && len(line) == 0:
		return conn.Close() // somebody has looked whether the port is open
	case err != nil || subtle.ConstantTimeCompare(given[:], want[:]) != 1:
		refuse(conn, acpwire.CodeAuthRequired, "the first line must be the token of this server and nothing else; the messages of the protocol follow it")
		return errors.New("it did not send the token")
	case !stay():
		return nil
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return errors.Join(err, conn.Close())
	}
	return Serve(ctx, s, in, conn, o)
}

// refuse tells a client why it is not served, and closes its connection.
func refuse(conn net.Conn, code int, why string) {
	text, _ := json.Marshal(jsonrpc.Message{Version: "2.0", ID: jsonrpc.Null, Error: jsonrpc.Errorf(code, "%s", why)}) // never fails
	_ = conn.SetWriteDeadline(time.Now().Add(jsonrpc.FlushWithin))                                                     // a broken connection fails below
	_, _ = conn.Write(append(text, '\n'))                                                                              // a client that has gone cannot be told
	_ = conn.Close()                                                                                                   // nothing is left to send
}
