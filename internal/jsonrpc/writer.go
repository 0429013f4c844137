package jsonrpc

import "context"

// Writer queues messages for a goroutine that writes them.
type Writer struct {
	queue   chan []byte
	ended   chan struct{} // closed by the owner: nothing new is sent
	flushed chan struct{} // closed by the owner: not even answers are
}

// NewWriter returns a writer for Run. Closing ended refuses further messages, and
// closing flushed after it refuses answers too.
func NewWriter(ended, flushed chan struct{}) Writer {
	return Writer{queue: make(chan []byte, 64), ended: ended, flushed: flushed}
}

// Run writes messages until flushed is closed and the queue is empty. After an error
// it drops them, so that no sender waits.
func (w Writer) Run(write func([]byte) error, failed func(error)) {
	broken := false
	put := func(message []byte) {
		if broken {
			return
		}
		if err := write(message); err != nil {
			broken = true
			failed(err)
		}
	}
	for {
		select {
		case message := <-w.queue:
			put(message)
			continue
		case <-w.flushed:
		}
		for {
			select {
			case message := <-w.queue:
				put(message)
			default:
				return
			}
		}
	}
}

// Send queues a message, and waits while the other side does not read. It fails with
// ErrClosed or the cause of ctx's end.
func (w Writer) Send(ctx context.Context, message []byte) error {
	select {
	case <-w.ended:
		return ErrClosed
	default:
	}
	select {
	case w.queue <- message:
		return nil
	case <-w.ended:
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Reply queues a message, also after the end if the other side takes it.
func (w Writer) Reply(message []byte) {
	select {
	case w.queue <- message:
	case <-w.flushed:
	}
}
