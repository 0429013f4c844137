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

// lines reads a stream line by line, but only while somebody waits for one:
// what is typed at other times stays where it is, for whoever comes next. A
// read cannot be taken back, so when the waiting ends early the line that it
// brings goes to the next who waits, or to nobody.
type lines struct {
	in io.Reader

	mu      sync.Mutex
	started bool
	reading bool      // a read is under way or asked for
	waiting chan line // nil while nobody waits
	ended   error     // why there will be no more
	closed  bool

	demand chan struct{} // one token for each read
	quit   chan struct{}
	done   chan struct{}
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
	return &lines{in: in, demand: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
}

// next returns the next line without its end. It calls ready once it waits, so
// that an answer to what ready prints is not lost. It is called by one
// goroutine at a time.
func (l *lines) next(ctx context.Context, ready func()) (string, error) {
	l.mu.Lock()
	if err := l.unavailable(); err != nil {
		l.mu.Unlock()
		return "", err
	}
	if !l.started {
		l.started = true
		go l.run()
	}
	answer := make(chan line, 1)
	l.waiting = answer
	if !l.reading {
		l.reading = true
		l.demand <- struct{}{}
	}
	l.mu.Unlock()
	ready()

	select {
	case a := <-answer:
		return a.text, a.err
	case <-ctx.Done():
		l.mu.Lock()
		l.waiting = nil
		l.mu.Unlock()
		return "", ctx.Err()
	case <-l.quit:
		return "", errClosed
	}
}

func (l *lines) unavailable() error {
	if l.closed {
		return errClosed
	}
	return l.ended
}

func (l *lines) run() {
	defer close(l.done)
	r := bufio.NewReader(l.in)
	for {
		select {
		case <-l.demand:
		case <-l.quit:
			return
		}
		text, err := readLine(r)
		l.deliver(line{text, err})
		if err != nil {
			return
		}
	}
}

func (l *lines) deliver(a line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reading = false
	if a.err != nil {
		l.ended = a.err
	}
	if l.waiting != nil {
		l.waiting <- a
		l.waiting = nil
	}
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
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	close(l.quit)
	started, reading := l.started, l.reading
	l.mu.Unlock()
	if !started {
		return nil
	}
	var err error
	if reading {
		err = l.interrupt()
	}
	select {
	case <-l.done:
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
