package front

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// leftover is how long a client may take to send the rest of a body that
// nobody wanted to read.
const leftover = 5 * time.Second

// watch bounds the time that the body of r may take to arrive.
func watch(r *http.Request, rc *http.ResponseController, within time.Duration) *timedBody {
	b := &timedBody{ReadCloser: r.Body, rc: rc, within: within}
	if r.Body == nil || r.Body == http.NoBody {
		b.ended = true
		return b
	}
	r.Body = b
	return b
}

// timedBody sets the deadline when reading begins. At the end of the body
// net/http takes it away, since it reads on to see whether the client hangs
// up.
type timedBody struct {
	io.ReadCloser
	rc     *http.ResponseController
	within time.Duration
	begun  bool
	ended  bool
}

func (b *timedBody) Read(p []byte) (int, error) {
	if !b.begun {
		b.begun = true
		_ = b.rc.SetReadDeadline(time.Now().Add(b.within))
	}
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.ended = true
	}
	return n, err
}

// leave is for a handler that has returned. If it left some of the body,
// net/http reads a little further so that the connection can be used again; a
// client that does not send must not hold it up.
func (b *timedBody) leave() {
	if !b.ended {
		_ = b.rc.SetReadDeadline(time.Now().Add(leftover))
	}
}
