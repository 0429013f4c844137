package task

import (
	"bytes"
	"fmt"
	"sync"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// output keeps the head and the tail of one stream and passes pieces on. One
// goroutine writes to it; the rest is used when that has ended.
type output struct {
	stream string
	limit  int
	turn   *sync.Mutex
	emit   func(string, []byte)

	head, tail []byte
	total      int64

	part    []byte // of a character that is not complete yet
	emitted int
}

func newOutput(stream string, limit int, turn *sync.Mutex, emit func(string, []byte)) *output {
	return &output{stream: stream, limit: limit, turn: turn, emit: emit}
}

// Write takes the next piece; flush follows the last.
func (o *output) Write(b []byte) (int, error) {
	written := len(b)
	o.total += int64(written)
	o.pass(b)
	size := o.limit / 2 // of the tail; the head has the rest
	n := min(o.limit-size-len(o.head), len(b))
	o.head, b = append(o.head, b[:n]...), b[n:]
	o.tail = append(o.tail, b[max(0, len(b)-size):]...)
	o.tail = o.tail[max(0, len(o.tail)-size):]
	return written, nil
}

// pass hands whole characters on, as far as the limit allows.
func (o *output) pass(b []byte) {
	if o.emit == nil || o.emitted >= o.limit {
		return
	}
	b = append(o.part, b...)
	cut := len(b) - text.Incomplete(b)
	o.part = append([]byte(nil), b[cut:]...)
	o.send(b[:cut])
}

func (o *output) flush() {
	if o.emit != nil && len(o.part) > 0 {
		o.send(o.part)
		o.part = nil
	}
}

func (o *output) send(b []byte) {
	if room := o.limit - o.emitted; len(b) > room {
		b = b[:room]
		b = b[:len(b)-text.Incomplete(b)]
		o.emitted = o.limit
	} else {
		o.emitted += len(b)
	}
	if len(b) == 0 {
		return
	}
	o.turn.Lock()
	defer o.turn.Unlock()
	o.emit(o.stream, bytes.ToValidUTF8(b, []byte("\uFFFD")))
}

func (o *output) truncated() bool { return o.total > int64(len(o.head)+len(o.tail)) }

func (o *output) String() string {
	if !o.truncated() {
		return string(bytes.ToValidUTF8(append(o.head, o.tail...), []byte("\uFFFD")))
	}
	head := o.head[:len(o.head)-text.Incomplete(o.head)]
	tail := o.tail
	for n := 0; n < utf8.UTFMax && len(tail) > 0 && !utf8.RuneStart(tail[0]); n++ {
		tail = tail[1:]
	}
	missing := o.total - int64(len(head)) - int64(len(tail))
	var b bytes.Buffer
	b.Write(bytes.ToValidUTF8(head, []byte("\uFFFD")))
	_, _ = fmt.Fprintf(&b, "\n[… %d bytes left out …]\n", missing) // a buffer takes all
	b.Write(bytes.ToValidUTF8(tail, []byte("\uFFFD")))
	return b.String()
}
