package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
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
	}, &sdk.StreamableHTTPOptions{Logger: quieter(s.opts.Logger), SessionTimeout: idleSession, DisableLocalhostProtection: true,
		MaxRequestBodyBytes: maxMessage})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w = &impatient{ResponseWriter: w, rc: http.NewResponseController(w)}
		if r.Method == http.MethodPost {
			if s.count() { // sessions end after the last answer was sent
				defer s.running.Done()
			}
			posted(h, w, r)
		} else {
			h.ServeHTTP(w, r)
		}
	})
}

// posted has the SDK answer a message, and words in JSON-RPC what the SDK
// refuses in plain text, which clients cannot read.
func posted(h http.Handler, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessage))
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		reply(w, http.StatusRequestEntityTooLarge, fault(nil, jsonrpc.CodeInvalidRequest, "the body is larger than 16 MiB"))
		return
	case err != nil:
		reply(w, http.StatusBadRequest, fault(nil, jsonrpc.CodeParseError, "the body did not arrive"))
		return
	}
	all, _ := parts(body)
	if bad := slices.IndexFunc(all, func(p part) bool { return p.fault != nil }); bad >= 0 {
		reply(w, http.StatusBadRequest, all[bad].fault)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	refused := &refusal{ResponseWriter: w}
	h.ServeHTTP(refused, r)
	if refused.text != nil {
		refused.translate(all)
	}
}

func reply(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // nobody is left to tell
}

// refusal holds an answer back if it is the SDK's 400 in plain text.
type refusal struct {
	http.ResponseWriter
	text *bytes.Buffer // of the answer, if it is held back
}

func (w *refusal) WriteHeader(status int) {
	if status == http.StatusBadRequest && strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
		w.text = &bytes.Buffer{}
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *refusal) Write(p []byte) (int, error) {
	if w.text != nil {
		return w.text.Write(p)
	}
	return w.ResponseWriter.Write(p)
}

// Flush is for the SDK, which asks for an http.Flusher.
func (w *refusal) Flush() {
	if w.text == nil {
		_ = http.NewResponseController(w.ResponseWriter).Flush() // best effort, as there
	}
}

// Unwrap is for http.ResponseController.
func (w *refusal) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// notHandled begins the SDK's words for a method that it does not know.
const notHandled = "JSON RPC not handled"

// translate answers in JSON-RPC. A method that does not exist is an ordinary
// answer to a call, and nothing to a notification.
func (w *refusal) translate(all []part) {
	message := strings.TrimSpace(w.text.String())
	var id json.RawMessage
	call, _ := all[0].msg.(*jsonrpc.Request)
	if call != nil && call.IsCall() && len(all) == 1 {
		id, _ = json.Marshal(call.ID.Raw()) // a text or a number
	}
	switch unknown := strings.HasPrefix(message, notHandled); {
	case unknown && id != nil:
		reply(w.ResponseWriter, http.StatusOK, fault(id, jsonrpc.CodeMethodNotFound, "there is no method "+strconv.Quote(call.Method)))
	case unknown && len(all) == 1:
		w.Header().Del("Content-Type")
		w.ResponseWriter.WriteHeader(http.StatusAccepted)
	default:
		reply(w.ResponseWriter, http.StatusBadRequest, fault(id, jsonrpc.CodeInvalidRequest, message))
	}
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
