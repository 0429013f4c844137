package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/door/wire"
)

// responseEvent is any event of a stream but those that carry a response, an
// error, or a piece of text. Which fields there are depends on the type.
type responseEvent struct {
	Type         string  `json:"type"`
	Sequence     int     `json:"sequence_number"`
	ItemID       string  `json:"item_id,omitempty"`
	OutputIndex  int     `json:"output_index"`
	ContentIndex *int    `json:"content_index,omitempty"`
	SummaryIndex *int    `json:"summary_index,omitempty"`
	Item         any     `json:"item,omitempty"`
	Part         any     `json:"part,omitempty"`
	Name         string  `json:"name,omitempty"`
	Delta        *string `json:"delta,omitempty"`
	Text         *string `json:"text,omitempty"`
	Arguments    *string `json:"arguments,omitempty"`
	Input        *string `json:"input,omitempty"`
	Logprobs     *[]any  `json:"logprobs,omitempty"`
}

// responseStream numbers and encodes the events of a stream. What it is told
// waits in out until that is flushed. A nil one is told in vain. It belongs to
// the handler.
type responseStream struct {
	out      *wire.Stream
	object   responseObject
	begun    bool
	sequence int
	buf      []byte
	log      func(error)
}

// begin says that there is a response. That waits until there is something to
// show, because an error until then still has its own status.
func (s *responseStream) begin() {
	if s.begun {
		return
	}
	s.begun = true
	s.lifecycle("response.created", "response.in_progress")
}

// lifecycle sends the response under the given types, encoded once: with the
// client's tools in it it can be long.
func (s *responseStream) lifecycle(types ...string) {
	object, err := compact(s.object)
	if err != nil {
		s.log(err)
		return
	}
	for _, typ := range types {
		s.open(typ)
		s.buf = append(s.buf, `,"response":`...)
		s.buf = append(s.buf, object...)
		s.close(typ)
	}
}

func (s *responseStream) open(typ string) {
	s.buf = append(append(append(s.buf[:0], `{"type":"`...), typ...), `","sequence_number":`...)
	s.buf = strconv.AppendInt(s.buf, int64(s.sequence), 10)
	s.sequence++
}

func (s *responseStream) close(typ string) {
	s.buf = append(s.buf, '}')
	s.out.Append(typ, s.buf)
}

func (s *responseStream) event(e *responseEvent) {
	if s == nil {
		return
	}
	s.begin()
	e.Sequence = s.sequence
	data, err := compact(e)
	if err != nil {
		s.log(err)
		return
	}
	s.sequence++
	s.out.Append(e.Type, data)
}

func (s *responseStream) added(index int, item any) {
	s.event(&responseEvent{Type: "response.output_item.added", OutputIndex: index, Item: item})
}

func (s *responseStream) done(index int, item any) {
	s.event(&responseEvent{Type: "response.output_item.done", OutputIndex: index, Item: item})
}

// delta is a piece of text. There is one for each token, so it is put together
// by hand.
func (s *responseStream) delta(typ, itemID string, outputIndex int, part string, partIndex int, text string) {
	if s == nil {
		return
	}
	s.begin()
	s.open(typ)
	s.buf = append(append(append(s.buf, `,"item_id":"`...), itemID...), `","output_index":`...)
	s.buf = strconv.AppendInt(s.buf, int64(outputIndex), 10)
	s.buf = append(append(append(s.buf, `,"`...), part...), `":`...)
	s.buf = strconv.AppendInt(s.buf, int64(partIndex), 10)
	s.buf = append(s.buf, `,"delta":`...)
	s.buf = wire.AppendString(s.buf, text)
	if part == "content_index" {
		s.buf = append(s.buf, `,"logprobs":[]`...)
	}
	s.close(typ)
}

// finish ends the stream with the response as it is now.
func (s *responseStream) finish(object responseObject) {
	s.begin()
	s.object = object
	s.lifecycle("response." + object.Status)
}

// errorEvent is the API's error event. Libraries differ in where they look
// for the error: beside the type, as it is documented, or below it.
type errorEvent struct {
	Type     string      `json:"type"`
	Sequence int         `json:"sequence_number"`
	Code     *string     `json:"code"`
	Message  string      `json:"message"`
	Param    *string     `json:"param"`
	Error    errorObject `json:"error"`
}

// fail ends a stream that has begun. Some clients look for the error event,
// some for the failed response.
func (s *responseStream) fail(object responseObject, err error) {
	body := errorBody(err).Error
	data, encodeErr := compact(errorEvent{"error", s.sequence, orNull(body.Code), body.Message, orNull(body.Param), body})
	if encodeErr != nil {
		s.log(encodeErr)
	} else {
		s.sequence++
		s.out.Append("error", data)
	}
	e := bridge.AsError(err)
	object.Status = statusFailed
	object.Error = &responseError{Code: failureCode(e), Message: failureMessage(e, body.Message)}
	s.finish(object)
}

// failureCode is what a failed response calls its error. The API has few
// words for that; Codex tries again after all of them but invalid_prompt and
// insufficient_quota.
func failureCode(e *bridge.Error) string {
	switch e.Code {
	case bridge.CodeInvalid, bridge.CodeNotFound, bridge.CodeUnauthenticated, bridge.CodeDenied, bridge.CodeConsent,
		bridge.CodeConflict, bridge.CodeUnsupported:
		return "invalid_prompt"
	case bridge.CodeBusy, bridge.CodeRateLimited:
		return "rate_limit_exceeded"
	case bridge.CodeBudget:
		return typeQuota
	case bridge.CodeProvider:
		if e.Status == http.StatusTooManyRequests {
			return "rate_limit_exceeded"
		}
		if 400 <= e.Status && e.Status < 500 && e.Status != http.StatusRequestTimeout {
			return "invalid_prompt"
		}
		return typeServer
	case bridge.CodeUnavailable, bridge.CodeCrashed, bridge.CodeTimeout, bridge.CodeCanceled, bridge.CodeInternal:
		return typeServer
	}
	return typeServer
}

// failureMessage adds how long to wait in the words that Codex looks for: an
// event has no Retry-After.
func failureMessage(e *bridge.Error, text string) string {
	if e.RetryAfter <= 0 || failureCode(e) != "rate_limit_exceeded" {
		return text
	}
	return fmt.Sprintf("%s Please try again in %.3gs.", text, e.RetryAfter.Round(time.Millisecond).Seconds())
}

// compact is v as JSON in one line, without the escapes that only HTML needs.
func compact(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}
