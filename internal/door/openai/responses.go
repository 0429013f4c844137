package openai

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/door/wire"
)

// responses is POST /v1/responses.
func (d *door) responses(w http.ResponseWriter, r *http.Request) {
	var req responseRequest
	if err := wire.Decode(w, r, d.opts.MaxBody, &req); err != nil {
		d.fail(w, err)
		return
	}
	c, tools, err := req.chat()
	if err != nil {
		d.fail(w, err)
		return
	}
	model, err := d.resolve(w, r, req.Model)
	if err != nil {
		d.fail(w, err)
		return
	}
	c.Model, c.Profile = model.ID, model.Profile
	if effort := req.Reasoning.Effort; effort != nil {
		c.Effort = *effort
		if err := checkEffort("reasoning.effort", c.Effort, model); err != nil {
			d.fail(w, err)
			return
		}
	}
	if len(tools.dropped) > 0 {
		d.opts.Logger.DebugContext(r.Context(), "tools that do not run in the client were left out", "kinds", tools.dropped)
	}
	id := d.id(responsePrefix)
	if req.stored() {
		c.Answer = id
	}
	a := &responseAnswer{
		door: d, w: w, chat: c, object: req.object(id, d.now().Unix()),
		responseOutput: responseOutput{id: id, tools: tools, sealed: slices.Contains(req.Include, "reasoning.encrypted_content")},
	}
	if req.Stream {
		a.stream = &responseStream{out: wire.NewStream(w, r), object: a.object, log: func(err error) {
			d.opts.Logger.ErrorContext(r.Context(), "an event could not be encoded", "error", err)
		}}
		a.streamed(r.Context())
	} else {
		a.whole(r.Context())
	}
}

// responseAnswer is one request on its way. It belongs to the handler.
type responseAnswer struct {
	responseOutput
	door   *door
	w      http.ResponseWriter
	chat   bridge.Chat
	object responseObject
}

// completed is the response when all of it is there.
func (a *responseAnswer) completed() responseObject {
	o := a.object
	o.Status, o.Output, o.Usage = statusCompleted, a.items, newUsage(a.usage)
	o.CompletedAt = new(a.door.now().Unix())
	if a.end == bridge.EndDone && a.finish != "" {
		reason := a.finish
		if reason == "length" {
			reason = "max_output_tokens"
		}
		o.Status, o.IncompleteDetails, o.CompletedAt = statusIncomplete, &incompleteness{reason}, nil
	}
	if o.Output == nil {
		o.Output = []any{}
	}
	return o
}

// whole answers in one piece.
func (a *responseAnswer) whole(ctx context.Context) {
	for ev, err := range a.door.svc.Answer(ctx, a.chat) {
		if err != nil {
			a.fail(ctx, err)
			return
		}
		a.next(ev)
	}
	if !a.complete() {
		a.fail(ctx, a.incomplete())
		return
	}
	wire.JSON(a.w, http.StatusOK, a.completed())
}

// streamed answers with server-sent events.
func (a *responseAnswer) streamed(ctx context.Context) {
	pieces, leave := a.door.svc.Stream(ctx, a.chat)
	defer leave()
	// The runtime tries a failing provider again for some 15 s by itself. A
	// sign of life in that time would cost the error its status.
	silence := time.NewTimer(2 * a.door.opts.KeepAlive)
	defer silence.Stop()
	for {
		select {
		case p, open := <-pieces:
			done := a.take(ctx, p, open)
			for !done && open && len(pieces) > 0 { // sent together
				p, open = <-pieces
				done = a.take(ctx, p, open)
			}
			if a.stream.out.Flush() != nil || done {
				return
			}
		case <-silence.C:
			if a.alive() != nil {
				return
			}
		case <-ctx.Done():
			a.fail(ctx, ctx.Err())
			_ = a.stream.out.Flush() // nobody is left to tell
			return
		}
		silence.Reset(a.door.opts.KeepAlive)
	}
}

// alive shows that something goes on.
func (a *responseAnswer) alive() error {
	if !a.stream.begun {
		a.stream.begin()
		return a.stream.out.Flush()
	}
	return a.stream.out.Comment("keep-alive")
}

// take puts an event into the stream; it reports whether it was the last one.
func (a *responseAnswer) take(ctx context.Context, p bridge.Piece, open bool) (done bool) {
	switch {
	case !open:
		a.fail(ctx, a.incomplete())
		return true
	case p.Err != nil:
		a.fail(ctx, p.Err)
		return true
	}
	a.next(p.Event)
	if !a.complete() {
		return false
	}
	a.stream.finish(a.completed())
	return true
}

// fail ends the request with an error: with its status if nothing was sent,
// and as events otherwise.
func (a *responseAnswer) fail(ctx context.Context, err error) {
	err = endedBy(ctx, err)
	if a.chat.Previous != "" && bridge.CodeOf(err) == bridge.CodeNotFound {
		err = &named{err: err, param: "previous_response_id", code: "previous_response_not_found"}
	}
	if a.stream == nil || !a.stream.begun {
		a.door.fail(a.w, err)
		return
	}
	a.door.logFailure(bridge.AsError(err))
	o := a.object
	o.Output = a.partial()
	if a.usage != (bridge.Usage{}) {
		o.Usage = newUsage(a.usage)
	}
	a.stream.fail(o, err)
}

// storedResponse is everything below /v1/responses/: answers are kept so that
// a later request can go on from them, not to be read, deleted or listed.
func (d *door) storedResponse(w http.ResponseWriter, r *http.Request) {
	wire.JSON(w, http.StatusNotFound, errorEnvelope{errorObject{
		Message: "Responses cannot be read, deleted, cancelled, counted or compacted here: " + r.Method + " " + r.URL.Path +
			" does not exist. POST /v1/responses makes one, and previous_response_id goes on from it.",
		Type: typeInvalid,
		Code: "unknown_url",
	}})
}
