package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// Stream writes server-sent events. Each write has a deadline, so slow clients
// are cut; headers are sent with the first event. After a failed write every
// call returns the same *bridge.Error with CodeCanceled. A Stream belongs to the
// handler's goroutine.
//
// When the server stops, the request's context ends with a *bridge.Error as its
// cause, and the stream can still be written to: the handler sends a last event
// and returns. When the client hung up the cause is context.Canceled and writing
// fails.
type Stream struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	ctx     context.Context
	facts   *Facts
	buf     []byte // events not sent yet
	started bool
	err     error
}

// NewStream prepares a stream. Nothing is sent until the first event.
func NewStream(w http.ResponseWriter, r *http.Request) *Stream {
	return &Stream{w: w, rc: http.NewResponseController(w), ctx: r.Context(), facts: FactsOf(r.Context())}
}

// Started reports whether anything was sent. Later errors have to be events.
func (s *Stream) Started() bool { return s.started }

// Event sends v as JSON under the given event name; "" leaves the name out.
func (s *Stream) Event(name string, v any) error {
	s.Add(name, v)
	return s.Flush()
}

// Add adds v as JSON under the given event name, for the next Flush.
func (s *Stream) Add(name string, v any) { s.Append(name, Encode(v)) }

// Data sends a line as it is, for "[DONE]" and the like.
func (s *Stream) Data(raw string) error {
	s.Append("", []byte(raw))
	return s.Flush()
}

// ID adds the id of the next event, from which a client goes on after a break.
func (s *Stream) ID(id string) {
	if s.err == nil {
		s.buf = append(append(append(s.buf, "id: "...), id...), '\n')
	}
}

// Comment adds a line that clients ignore, to keep the connection alive.
func (s *Stream) Comment(text string) {
	s.buf = append(append(append(s.buf, ": "...), text...), "\n\n"...)
}

// Append adds an event with encoded data, in one line, for the next Flush.
func (s *Stream) Append(name string, data []byte) {
	if s.err != nil {
		return
	}
	if name != "" {
		s.buf = append(s.buf, "event: "...)
		s.buf = append(s.buf, name...)
		s.buf = append(s.buf, '\n')
	}
	s.buf = append(s.buf, "data: "...)
	s.buf = append(s.buf, data...)
	s.buf = append(s.buf, "\n\n"...)
}

// empty reports whether there is nothing to flush, and full whether the buffer
// should be flushed before more is added. Both work without a stream.
func (s *Stream) empty() bool { return s == nil || len(s.buf) == 0 }
func (s *Stream) full() bool  { return s != nil && len(s.buf) > piece }

// Flush sends the events that were added.
func (s *Stream) Flush() error {
	if s == nil {
		return nil
	}
	if len(s.buf) > 0 && s.err == nil {
		s.err = s.flush()
		s.facts.Left = s.err != nil
	}
	s.buf = s.buf[:0]
	if cap(s.buf) > 2*piece {
		s.buf = nil // one large event must not cost memory for the whole stream
	}
	return s.err
}

func (s *Stream) flush() error {
	if cause := context.Cause(s.ctx); errors.Is(cause, context.Canceled) {
		return gone(cause)
	}
	if !s.started {
		s.begin()
	}
	err := send(s.w, s.rc, s.buf)
	if err == nil {
		err = s.rc.Flush()
	}
	if err != nil {
		return gone(err)
	}
	return nil
}

func (s *Stream) begin() {
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no") // proxies must not hold events back
	h.Del("Content-Length")
	s.w.WriteHeader(http.StatusOK)
	s.started = true
}

// patience is how long a client may take to accept one piece of an answer.
const (
	patience = 30 * time.Second
	piece    = 32 << 10
)

// JSON writes v with a status. A client that does not read it is cut.
func JSON(w http.ResponseWriter, status int, v any) {
	data, err := encode(v)
	if err != nil {
		status, data = http.StatusInternalServerError, []byte(`{"error":{"message":"the answer could not be encoded","type":"server_error"}}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(status)
	_ = send(w, http.NewResponseController(w), data) // fails only if the client has left
}

// Encode returns v as JSON in one line, without escapes for HTML, or an empty
// object if it cannot be encoded.
func Encode(v any) json.RawMessage {
	data, err := encode(v)
	if err != nil {
		return json.RawMessage("{}")
	}
	return data
}

func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), err
}

// send writes data in pieces with a deadline each: slow networks are not cut.
func send(w http.ResponseWriter, rc *http.ResponseController, data []byte) error {
	for len(data) > 0 {
		n := min(len(data), piece)
		// Recorders in tests have no deadline.
		if err := rc.SetWriteDeadline(time.Now().Add(patience)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
		if _, err := w.Write(data[:n]); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// gone is the error for a client that cannot be written to.
func gone(err error) *bridge.Error {
	message := "the client went away"
	if errors.Is(err, os.ErrDeadlineExceeded) {
		message = "the client did not read for " + patience.String()
	}
	return &bridge.Error{Code: bridge.CodeCanceled, Message: message, Cause: err}
}
