package mcp

import (
	"net/http"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	maxSessions = 256
	idleSession = 30 * time.Minute
	// patience is how long a client may take to accept a piece of an answer.
	patience = 30 * time.Second
)

// Handler answers clients over HTTP. Who may come in is decided before it: see
// front, which also checks the Host header.
func (s *Server) Handler() http.Handler {
	h := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server {
		open := 0
		for range s.mcp.Sessions() {
			open++
		}
		if open >= maxSessions {
			return nil // which is refused
		}
		return s.mcp
	}, &sdk.StreamableHTTPOptions{Logger: quieter(s.opts.Logger), SessionTimeout: idleSession, DisableLocalhostProtection: true})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(&impatient{ResponseWriter: w, rc: http.NewResponseController(w)}, r)
	})
}

// impatient cuts clients that do not read. Streams last, so the time is that
// of each piece.
type impatient struct {
	http.ResponseWriter
	rc *http.ResponseController
}

func (w *impatient) Write(p []byte) (int, error) {
	_ = w.rc.SetWriteDeadline(time.Now().Add(patience)) // a connection without deadlines is a test's
	return w.ResponseWriter.Write(p)
}

// Flush is for the SDK, which asks for an http.Flusher.
func (w *impatient) Flush() { _ = w.rc.Flush() }

// Unwrap is for http.ResponseController.
func (w *impatient) Unwrap() http.ResponseWriter { return w.ResponseWriter }
