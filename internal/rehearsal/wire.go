package rehearsal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"
)

// created is fixed so that the same reply is the same bytes every time.
const created = 1735689600

// writeTimeout cuts clients that stop reading.
const writeTimeout = time.Minute

type wireUsage struct {
	Prompt        int `json:"prompt_tokens"`
	Completion    int `json:"completion_tokens"`
	Total         int `json:"total_tokens"`
	PromptDetails struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

func (s usageStep) wire() *wireUsage {
	u := &wireUsage{Prompt: s.prompt, Completion: s.completion, Total: s.prompt + s.completion}
	u.PromptDetails.Cached = s.cached
	u.CompletionDetails.Reasoning = s.reasoning
	return u
}

type wireError struct {
	Error struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	} `json:"error"`
}

func (s statusStep) body() []byte {
	var e wireError
	e.Error.Message = s.message
	e.Error.Type = "invalid_request_error"
	code := ""
	switch {
	case s.status == http.StatusUnauthorized:
		code = "invalid_api_key"
	case s.status == http.StatusTooManyRequests:
		e.Error.Type, code = "requests", "rate_limit_exceeded"
	case s.status >= 500:
		e.Error.Type = "server_error"
	}
	if code != "" {
		e.Error.Code = &code
	}
	b, err := json.Marshal(&e)
	if err != nil {
		return []byte(`{"error":{"message":"the error cannot be encoded","type":"server_error","param":null,"code":null}}`)
	}
	return b
}

// send writes the error as an HTTP answer.
func (s statusStep) send(w http.ResponseWriter) error {
	if s.message == "" {
		s.message = http.StatusText(s.status)
	}
	if s.limited {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(s.retryAfter.Seconds()))))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(s.status)
	_, err := w.Write(s.body())
	return err
}

// hangUp sends what is buffered and closes the connection under the answer.
func hangUp(rc *http.ResponseController) error {
	conn, buf, err := rc.Hijack()
	if err != nil {
		return err
	}
	return errors.Join(buf.Flush(), conn.Close())
}

// eventSink streams chunks, each flushed by itself. The parts of a chunk that
// do not change are rendered once.
type eventSink struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	usage   bool
	head    []byte // up to the inside of choices
	buf     bytes.Buffer
	enc     *json.Encoder // into buf
	started bool
	spoke   bool // a delta was sent, so the role was too
}

func newEventSink(w http.ResponseWriter, id string, req *Request) *eventSink {
	s := &eventSink{w: w, rc: http.NewResponseController(w), usage: req.IncludeUsage}
	s.enc = json.NewEncoder(&s.buf)
	s.enc.SetEscapeHTML(false)
	fmt.Fprintf(&s.buf, `data: {"id":%q,"object":"chat.completion.chunk","created":%d,"model":`, id, created)
	s.encode(&req.Model)
	s.buf.WriteString(`,"choices":[`)
	s.head = bytes.Clone(s.buf.Bytes())
	s.buf.Reset()
	return s
}

// encode appends v as JSON to the chunk. Only strings and plain structs come
// here, which always encode.
func (s *eventSink) encode(v any) {
	if s.enc.Encode(v) == nil {
		s.buf.Truncate(s.buf.Len() - 1) // the encoder's newline
	}
}

func (s *eventSink) open() {
	s.buf.Write(s.head)
	s.buf.WriteString(`{"index":0,"delta":{`)
	if !s.spoke {
		s.buf.WriteString(`"role":"assistant",`)
		s.spoke = true
	}
}

func (s *eventSink) shut() error {
	s.buf.WriteString("},\"finish_reason\":null}]}\n\n")
	return s.flush()
}

func (s *eventSink) text(chunk string) error {
	s.open()
	s.buf.WriteString(`"content":`)
	s.encode(&chunk)
	return s.shut()
}

func (s *eventSink) reasoning(chunk string) error {
	s.open()
	s.buf.WriteString(`"reasoning_content":`)
	s.encode(&chunk)
	return s.shut()
}

func (s *eventSink) call(index int, c Call) error {
	s.open()
	fmt.Fprintf(&s.buf, `"tool_calls":[{"index":%d,"id":`, index)
	s.encode(&c.ID)
	s.buf.WriteString(`,"type":"function","function":{"name":`)
	s.encode(&c.Name)
	s.buf.WriteString(`,"arguments":`)
	s.encode(&c.Arguments)
	s.buf.WriteString(`}}]`)
	return s.shut()
}

func (s *eventSink) raw(text string) error {
	s.buf.WriteString(text)
	return s.flush()
}

func (s *eventSink) finish(reason string, u usageStep) error {
	s.buf.Write(s.head)
	s.buf.WriteString(`{"index":0,"delta":{},"finish_reason":`)
	s.encode(&reason)
	s.buf.WriteString("}]}\n\n")
	if s.usage {
		s.buf.Write(s.head)
		s.buf.WriteString(`],"usage":`)
		s.encode(u.wire())
		s.buf.WriteString("}\n\n")
	}
	s.buf.WriteString("data: [DONE]\n\n")
	return s.flush()
}

func (s *eventSink) fail(e statusStep) error {
	if !s.started {
		return e.send(s.w)
	}
	s.buf.WriteString("data: ")
	s.buf.Write(e.body())
	s.buf.WriteString("\n\n")
	return s.flush()
}

func (s *eventSink) cut() error { return hangUp(s.rc) }

func (s *eventSink) flush() error {
	if !s.started {
		s.started = true
		s.w.Header().Set("Content-Type", "text/event-stream")
		s.w.Header().Set("Cache-Control", "no-store")
	}
	if err := s.rc.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	if _, err := s.w.Write(s.buf.Bytes()); err != nil {
		return err
	}
	s.buf.Reset()
	return s.rc.Flush()
}
