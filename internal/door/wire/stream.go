package wire

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// Stream writes server-sent events. Each write has a deadline, so slow clients
// are cut; headers are sent with the first event. Once a client could not be
// written to, every call returns the same *bridge.Error with CodeCanceled.
//
// A Stream belongs to the handler's goroutine: it is not safe for concurrent
// use, and must not outlive the handler.
//
// When the front shuts down, the request's context ends with a *bridge.Error
// as its cause (CodeUnavailable, see context.Cause), and the stream can still
// be written to: the door sends its last event, or its error event, and
// returns. When the client hung up the cause is context.Canceled and writing
// fails.
type Stream struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	ctx     context.Context
	buf     []byte // events not sent yet
	started bool
	err     error
}

// NewStream prepares a stream. Nothing is sent, and the status and headers
// are still free, until the first event.
func NewStream(w http.ResponseWriter, r *http.Request) *Stream {
	return &Stream{w: w, rc: http.NewResponseController(w), ctx: r.Context()}
}

// Started reports whether anything has been sent. From then on an error has
// to be an event.
func (s *Stream) Started() bool { return s.started }

// Event sends v as JSON under the given event name; "" leaves the name out.
func (s *Stream) Event(name string, v any) error {
	data, err := encode(v)
	if err != nil {
		// Only this event is lost; the stream stays usable for an error.
		return &bridge.Error{Code: bridge.CodeInternal, Message: "an event could not be encoded", Cause: err}
	}
	s.Append(name, data)
	return s.Flush()
}

// Data sends text as it is, for "[DONE]" and the like.
func (s *Stream) Data(raw string) error { return s.lines("data: ", raw) }

// Comment sends a line that clients ignore, to keep the connection alive.
func (s *Stream) Comment(text string) error { return s.lines(": ", text) }

func (s *Stream) lines(prefix, text string) error {
	for line := range strings.SplitSeq(text, "\n") {
		s.buf = append(s.buf, prefix...)
		s.buf = append(s.buf, line...)
		s.buf = append(s.buf, '\n')
	}
	s.buf = append(s.buf, '\n')
	return s.Flush()
}

// Append adds an event whose JSON, in one line, the door has encoded itself.
// It is sent with the next Flush, or whatever is sent next: several events
// that are ready at once cost one write.
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

// Flush sends what Append has gathered.
func (s *Stream) Flush() error {
	if len(s.buf) > 0 && s.err == nil {
		s.err = s.flush()
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
