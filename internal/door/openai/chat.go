package openai

import (
	"context"
	"net/http"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/door/wire"
)

// chat is POST /v1/chat/completions.
func (d *door) chat(w http.ResponseWriter, r *http.Request) {
	var req chatRequest
	if err := wire.Decode(w, r, d.opts.MaxBody, &req); err != nil {
		d.fail(w, err)
		return
	}
	model, err := d.resolve(w, r, req.Model)
	if err != nil {
		d.fail(w, err)
		return
	}
	c, dropped, err := req.chat(model)
	if err != nil {
		d.fail(w, err)
		return
	}
	if len(dropped) > 0 {
		d.opts.Logger.DebugContext(r.Context(), "tools that are not functions were left out", "kinds", dropped)
	}
	if req.Stream {
		d.streamChat(w, r, &req, c)
	} else {
		d.wholeChat(w, r, &req, c)
	}
}

// wholeChat answers in one piece.
func (d *door) wholeChat(w http.ResponseWriter, r *http.Request, req *chatRequest, c bridge.Chat) {
	ctx := r.Context()
	a := newWhole(req.Stop)
	stopped := false
	for ev, err := range d.svc.Answer(ctx, c) {
		if err != nil {
			d.fail(w, endedBy(ctx, err))
			return
		}
		if stopped = a.next(ev); stopped {
			break // which aborts the turn
		}
	}
	if !stopped && !a.complete() {
		d.fail(w, endedBy(ctx, a.incomplete()))
		return
	}
	finish := finishReason(&a.outcome, stopped, req.legacy() && len(a.calls) > 0)
	wire.JSON(w, http.StatusOK, completion{
		ID: d.id("chatcmpl-"), Object: "chat.completion", Created: d.now().Unix(), Model: req.Model,
		Choices: []completionChoice{{Message: a.completionMessage(finish), FinishReason: finish}},
		Usage:   usageOf(a.usage),
	})
}

// streamChat answers with server-sent events. Nothing is sent before there is
// something to show, so that an error until then still has its own status.
func (d *door) streamChat(w http.ResponseWriter, r *http.Request, req *chatRequest, c bridge.Chat) {
	ctx := r.Context()
	pieces, leave := d.svc.Stream(ctx, c)
	defer leave()
	s := &chatStream{
		door: d, ctx: ctx, w: w, out: wire.NewStream(w, r), withUsage: req.StreamOptions.IncludeUsage, legacy: req.legacy(),
		live:   live{stop: stopper{stops: req.Stop}},
		chunks: newChunks(d.id("chatcmpl-"), d.now().Unix(), req.Model, req.StreamOptions.IncludeUsage),
	}
	// The runtime tries a failing provider again for some 15 s by itself. A
	// sign of life in that time would cost the error its status.
	silence := time.NewTimer(2 * d.opts.KeepAlive)
	defer silence.Stop()
	for {
		select {
		case p, open := <-pieces:
			done := s.take(p, open)
			for !done && open && len(pieces) > 0 { // sent together
				p, open = <-pieces
				done = s.take(p, open)
			}
			if s.out.Flush() != nil || done {
				return
			}
			if !s.fresh {
				continue // there was nothing to show, and the silence goes on
			}
			s.fresh = false
		case <-silence.C:
			if s.out.Comment("keep-alive") != nil {
				return
			}
		case <-ctx.Done():
			s.fail(ctx.Err())
			return
		}
		silence.Reset(d.opts.KeepAlive)
	}
}

// chatStream is the state of one stream. It belongs to the handler.
type chatStream struct {
	live
	door      *door
	ctx       context.Context // the request's
	w         http.ResponseWriter
	out       *wire.Stream
	chunks    *chunks
	withUsage bool // it was asked for
	legacy    bool
	begun     bool // the role has been told
	fresh     bool // something was sent since this was last looked at
}

// take puts an event into chunks; it reports whether it was the last one.
func (s *chatStream) take(p bridge.Piece, open bool) (done bool) {
	switch {
	case !open:
		s.fail(s.incomplete())
		return true
	case p.Err != nil:
		s.fail(p.Err)
		return true
	}
	text, reasoning := s.next(p.Event)
	if reasoning != "" {
		s.begin()
		s.send(s.chunks.reasoning(reasoning))
	}
	if text != "" {
		s.begin()
		s.send(s.chunks.content(text))
	}
	if !s.complete() && !s.stop.hit {
		return false
	}
	s.finish()
	return true
}

func (s *chatStream) send(chunk []byte) {
	s.out.Append("", chunk)
	s.fresh = true
}

func (s *chatStream) begin() {
	if !s.begun {
		s.begun = true
		s.send(s.chunks.role())
	}
}

// finish sends the tool calls, how it ended, and the usage.
func (s *chatStream) finish() {
	s.begin()
	reason := finishReason(&s.outcome, s.stop.hit, s.legacy && len(s.calls) > 0)
	switch reason {
	case "tool_calls":
		for i, c := range s.calls {
			s.send(s.chunks.call(i, c.ID, c.Name))
			s.send(s.chunks.callArguments(i, argumentsOf(c)))
		}
	case "function_call":
		s.send(s.chunks.function(s.calls[0].Name))
		s.send(s.chunks.functionArguments(argumentsOf(s.calls[0])))
	}
	s.send(s.chunks.finish(reason))
	if s.withUsage {
		s.send(s.chunks.usage(usageOf(s.usage)))
	}
	s.send([]byte("[DONE]"))
}

// fail ends the stream with an error: with its status if nothing was sent,
// and as an event otherwise.
func (s *chatStream) fail(err error) {
	err = endedBy(s.ctx, err)
	if !s.begun && !s.out.Started() {
		s.door.fail(s.w, err)
		return
	}
	s.door.logFailure(bridge.AsError(err))
	if s.out.Event("", errorBody(err)) == nil {
		_ = s.out.Data("[DONE]") // nobody is left to tell
	}
}
