package approval

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"time"
)

// lines reads a stream line by line, but only while a caller waits for one:
// text typed at other times stays in the stream. A read cannot be taken back. When its caller gives up, the next caller gets the line, unless it
// comes before that: then it is dropped, since no question was there to answer.
type lines struct {
	in io.Reader
	r  *bufio.Reader

	mu      sync.Mutex
	reading chan line     // the read that is under way, if any
	ended   error         // why there are no more lines
	quit    chan struct{} // closed by close
	closed  bool
}

type line struct {
	text string
	err  error
}

const (
	maxLine = 1 << 20
	// closeWithin bounds the wait for a read that nothing can end. It then
	// ends with the process.
	closeWithin = 200 * time.Millisecond
)

var errClosed = errors.New("the terminal is closed")

func newLines(in io.Reader) *lines {
	return &lines{in: in, r: bufio.NewReader(in), quit: make(chan struct{})}
}

// next returns the next line without its end. It calls ready once it waits, so
// that an answer to what ready prints is not lost. It is called by one
// goroutine at a time.
func (l *lines) next(ctx context.Context, ready func()) (string, error) {
	answer, err := l.begin()
	if err != nil {
		return "", err
	}
	ready()
	select {
	case a := <-answer:
		l.end(a)
		return a.text, a.err
	case <-ctx.Done():
		return "", ctx.Err()
	case <-l.quit:
		return "", errClosed
	}
}

// begin returns the read that is under way, or begins one.
func (l *lines) begin() (chan line, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case a := <-l.reading: // a line that was typed before the question
		l.reading, l.ended = nil, a.err
	default:
	}
	switch {
	case l.closed:
		return nil, errClosed
	case l.ended != nil:
		return nil, l.ended
	case l.reading == nil:
		answer := make(chan line, 1)
		l.reading = answer
		go func() {
			text, err := readLine(l.r)
			answer <- line{text, err}
		}()
	}
	return l.reading, nil
}

func (l *lines) end(a line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reading, l.ended = nil, a.err
}

// readLine returns a line without its end; a last line need not have one. Of
// a line that is too long it returns the beginning.
func readLine(r *bufio.Reader) (string, error) {
	var text []byte
	for {
		part, err := r.ReadSlice('\n')
		text = append(text, part[:min(len(part), maxLine-len(text))]...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err == nil || errors.Is(err, io.EOF) && len(text) > 0:
			return strings.TrimRight(string(text), "\r\n"), nil
		}
		return "", err
	}
}

func (l *lines) close() error {
	l.mu.Lock()
	reading, closed := l.reading, l.closed
	if l.closed = true; !closed {
		close(l.quit)
	}
	l.mu.Unlock()
	if closed || reading == nil {
		return nil
	}
	err := l.interrupt()
	select {
	case <-reading:
	case <-time.After(closeWithin):
	}
	return err
}

// interrupt ends a read that waits: by a deadline where the stream has them,
// else by closing it.
func (l *lines) interrupt() error {
	if d, ok := l.in.(interface{ SetReadDeadline(t time.Time) error }); ok && d.SetReadDeadline(time.Now()) == nil {
		return nil
	}
	if c, ok := l.in.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
