package anthropic

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/door/wire"
)

// streamed answers with server-sent events.
func (d *door) streamed(w http.ResponseWriter, r *http.Request, p *prompt, id string) {
	pieces, leave := d.svc.Stream(r.Context(), p.chat)
	defer leave()
	s := newStream(w, r, id, p.model)
	s.input = promptTokens(&p.chat) // while the model makes up its mind
	a := newAnswer(p, s)

	err := d.relay(r.Context(), s, a, pieces)
	if err == nil {
		return
	}
	err = endedBy(r.Context(), err)
	if !s.out.Started() {
		d.fail(w, r, err) // what was not flushed is forgotten
		return
	}
	d.logFailure(bridge.AsError(err))
	s.add("error", errorBody(err, w.Header().Get("Request-Id")))
	_, _ = s.flush() // nobody is left to tell
}

// together is how many events that lie ready are sent in one go.
const together = 64

// relay writes events as they come, those that lie ready in one go. An error
// that it returns has not been told to the client.
func (d *door) relay(ctx context.Context, s *stream, a *answer, pieces <-chan bridge.Piece) error {
	silence := time.NewTimer(d.opts.Patience)
	defer silence.Stop()
	for gathered := 1; ; gathered++ {
		select {
		case p, open := <-pieces:
			switch {
			case !open:
				return a.failure()
			case p.Err != nil:
				return p.Err
			case p.Event == nil:
				continue
			}
			if a.next(p.Event); a.enough() {
				a.finish()
				return s.finish(a)
			}
			if a.ended {
				return s.last(a, pieces)
			}
			if len(pieces) > 0 && gathered < together {
				continue
			}
		case <-silence.C:
			s.ping()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		gathered = 0
		sent, err := s.flush()
		if err != nil {
			return err
		}
		if sent {
			silence.Reset(d.opts.KeepAlive)
		}
	}
}

// last ends the message. If it has failed the error that follows says why; it
// lies ready, since an answer's end comes in one go.
func (s *stream) last(a *answer, pieces <-chan bridge.Piece) error {
	err := a.failure()
	if err == nil {
		return s.finish(a)
	}
	for p := range pieces {
		if p.Err != nil {
			err = p.Err
		}
	}
	return err
}

// stream is the sink of an answer that is streamed. Nothing is sent before
// flush.
type stream struct {
	out   *wire.Stream
	id    string
	model string
	input int64 // tokens, estimated

	begun  bool
	dirty  bool   // there is something to flush
	index  int    // of the open block, or of the next one
	prefix []byte // of the open block's pieces
	buf    []byte
}

func newStream(w http.ResponseWriter, r *http.Request, id, model string) *stream {
	return &stream{out: wire.NewStream(w, r), id: id, model: model}
}

type (
	startEvent struct {
		Type    string      `json:"type"`
		Message messageBody `json:"message"`
	}
	blockEvent struct {
		Type  string `json:"type"`
		Index int    `json:"index"`
		Block any    `json:"content_block,omitempty"`
		Delta any    `json:"delta,omitempty"`
	}
	signatureDelta struct {
		Type      string `json:"type"`
		Signature string `json:"signature"`
	}
	jsonDelta struct {
		Type string `json:"type"`
		JSON string `json:"partial_json"`
	}
	endEvent struct {
		Type  string   `json:"type"`
		Delta endDelta `json:"delta"`
		Usage usage    `json:"usage"`
	}
	endDelta struct {
		StopReason   string  `json:"stop_reason"`
		StopSequence *string `json:"stop_sequence"`
	}
	bareEvent struct {
		Type string `json:"type"`
	}
)

func (s *stream) begin() {
	if s.begun {
		return
	}
	s.begun = true
	s.add("message_start", startEvent{"message_start", newMessage(s.id, s.model, usage{Input: s.input})})
	s.add("ping", bareEvent{"ping"})
}

// ping shows a sign of life, if need be by beginning the message.
func (s *stream) ping() {
	if !s.begun {
		s.begin()
		return
	}
	s.add("ping", bareEvent{"ping"})
}

func (s *stream) open(k kind, call *bridge.ToolCall) {
	s.begin()
	switch k {
	case textBlock:
		s.start(textContent{Type: "text"})
		s.pieces(`{"type":"text_delta","text":`)
	case thinkingBlock:
		s.start(thinkingContent{Type: "thinking"})
		s.pieces(`{"type":"thinking_delta","thinking":`)
	case toolBlock:
		s.start(toolContent{"tool_use", toolID(call.ID), call.Name, json.RawMessage("{}")})
		s.add("content_block_delta", blockEvent{Type: "content_block_delta", Index: s.index,
			Delta: jsonDelta{"input_json_delta", string(arguments(call.Args))}})
	case noBlock:
	}
}

func (s *stream) start(b any) {
	s.add("content_block_start", blockEvent{Type: "content_block_start", Index: s.index, Block: b})
}

func (s *stream) pieces(delta string) {
	s.prefix = append(s.prefix[:0], `{"type":"content_block_delta","index":`...)
	s.prefix = strconv.AppendInt(s.prefix, int64(s.index), 10)
	s.prefix = append(append(s.prefix, `,"delta":`...), delta...)
}

// piece is what happens most often by far, and is encoded by hand.
func (s *stream) piece(_ kind, text string) {
	s.buf = wire.AppendString(append(s.buf[:0], s.prefix...), text)
	s.buf = append(s.buf, "}}"...)
	s.out.Append("content_block_delta", s.buf)
	s.dirty = true
}

func (s *stream) close(k kind) {
	if k == thinkingBlock {
		s.add("content_block_delta", blockEvent{Type: "content_block_delta", Index: s.index, Delta: signatureDelta{"signature_delta", signature}})
	}
	s.add("content_block_stop", blockEvent{Type: "content_block_stop", Index: s.index})
	s.index++
}

// finish sends the end of an answer that is complete.
func (s *stream) finish(a *answer) error {
	s.end(a.stopReason(), a.cut.matched, a.used(s.input))
	_, err := s.flush()
	return err
}

func (s *stream) end(reason, sequence string, u usage) {
	s.begin()
	s.add("message_delta", endEvent{"message_delta", endDelta{reason, orNull(sequence)}, u})
	s.add("message_stop", bareEvent{"message_stop"})
}

// add puts an event in line.
func (s *stream) add(name string, v any) {
	s.out.Append(name, encode(v))
	s.dirty = true
}

// flush sends what is in line, and tells whether that was anything.
func (s *stream) flush() (sent bool, err error) {
	sent, s.dirty = s.dirty, false
	return sent, s.out.Flush()
}
