package front

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// leftover is how long a client may take to send the rest of a body that
// nobody wanted to read.
const leftover = 5 * time.Second

// watch bounds the time that the body of r may take to arrive.
func watch(r *http.Request, rc *http.ResponseController, within time.Duration) *timedBody {
	b := &timedBody{ReadCloser: r.Body, ctx: r.Context(), rc: rc, within: within, calm: func() bool { return true }}
	if r.Body == nil || r.Body == http.NoBody {
		b.ended = true
		return b
	}
	r.Body = b
	return b
}

// timedBody sets the deadline when reading begins, and moves it up when the
// server stops: a client that does not send must not hold that up. At the end
// of the body net/http takes the deadline away, since it reads on to see
// whether the client hangs up.
type timedBody struct {
	io.ReadCloser
	ctx    context.Context // the request's
	rc     *http.ResponseController
	within time.Duration
	begun  bool
	ended  bool
	calm   func() bool // keeps the end of ctx from moving the deadline
}

func (b *timedBody) Read(p []byte) (int, error) {
	if !b.begun {
		b.begun = true
		_ = b.rc.SetReadDeadline(time.Now().Add(b.within))
		b.calm = context.AfterFunc(b.ctx, func() { _ = b.rc.SetReadDeadline(time.Now()) })
	}
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.ended = true
		b.calm()
		return n, err
	}
	var why *bridge.Error
	if err != nil && errors.As(context.Cause(b.ctx), &why) {
		return n, why
	}
	return n, err
}

// leave is for a handler that has returned. If it left some of the body,
// net/http reads a little further so that the connection can be used again; a
// client that does not send must not hold it up.
func (b *timedBody) leave() {
	b.calm()
	switch {
	case b.ended:
	case b.ctx.Err() != nil: // nobody will use it again
		_ = b.rc.SetReadDeadline(time.Now())
	default:
		_ = b.rc.SetReadDeadline(time.Now().Add(leftover))
	}
}
