package demomodel

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"
)

// created is fixed so that the same reply is the same bytes every time.
const created = 1735689600

// writeTimeout cuts clients that stop reading.
const writeTimeout = time.Minute

// completion is a whole answer, or a chunk of a streamed one.
type completion struct {
	ID      string     `json:"id"`
	Object  string     `json:"object"`
	Created int        `json:"created"`
	Model   string     `json:"model"`
	Choices []choice   `json:"choices"`
	Usage   *wireUsage `json:"usage,omitempty"`
}

type choice struct {
	Index        int           `json:"index"`
	Message      *wholeMessage `json:"message,omitempty"`
	Delta        *message      `json:"delta,omitempty"` // of a chunk
	FinishReason *string       `json:"finish_reason"`
}

type message struct {
	Role      string     `json:"role,omitempty"`
	Content   *string    `json:"content,omitempty"`
	Reasoning string     `json:"reasoning_content,omitempty"`
	ToolCalls []wireCall `json:"tool_calls,omitempty"`
}

// wholeMessage is one whose content is null if there is none.
type wholeMessage struct {
	message
	Content *string `json:"content"`
	Refusal *string `json:"refusal"`
}

type wireCall struct {
	Index    *int   `json:"index,omitempty"` // of a chunk
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

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

func (s statusStep) wire() wireError {
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
	return e
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
	_, err := w.Write(encoded(s.wire()))
	return err
}

// encoded is v as JSON in which & and < stay as they are.
func encoded(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil { // only strings, numbers and maps of them come here
		return []byte("{}")
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// output is where a reply goes: a stream of events, each flushed by itself, or
// one JSON document at the end.
type output struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	req     *Request
	id      string
	started bool // something was sent
	message message
	text    bytes.Buffer // of the message
	raw     bytes.Buffer // replaces the document
}

func (o *output) completion(object string, choices []choice, usage *wireUsage) completion {
	return completion{ID: o.id, Object: object, Created: created, Model: o.req.Model, Choices: choices, Usage: usage}
}

// event sends one event of the stream.
func (o *output) event(v any) error { return o.write("data: " + string(encoded(v)) + "\n\n") }

func (o *output) chunk(usage *wireUsage, choices ...choice) error {
	return o.event(o.completion("chat.completion.chunk", append([]choice{}, choices...), usage))
}

// add adds a part of the message.
func (o *output) add(part message) error {
	if o.req.Stream {
		if o.message.Role == "" {
			o.message.Role, part.Role = "assistant", "assistant"
		}
		return o.chunk(nil, choice{Delta: &part})
	}
	if part.Content != nil {
		o.text.WriteString(*part.Content)
	}
	o.message.Reasoning += part.Reasoning
	for _, c := range part.ToolCalls {
		c.Index = nil
		o.message.ToolCalls = append(o.message.ToolCalls, c)
	}
	return nil
}

// malformed sends text as it is; it replaces a document.
func (o *output) malformed(text string) error {
	if o.req.Stream {
		return o.write(text)
	}
	o.raw.WriteString(text)
	return nil
}

func (o *output) finish(reason string, u usageStep) error {
	if o.req.Stream {
		err := o.chunk(nil, choice{Delta: &message{}, FinishReason: &reason})
		if err == nil && o.req.IncludeUsage {
			err = o.chunk(u.wire())
		}
		if err != nil {
			return err
		}
		return o.write("data: [DONE]\n\n")
	}
	if o.raw.Len() > 0 {
		return o.write(o.raw.String())
	}
	o.message.Role = "assistant"
	whole := wholeMessage{message: o.message}
	if text := o.text.String(); text != "" || len(o.message.ToolCalls) == 0 {
		whole.Content = &text
	}
	return o.write(string(encoded(o.completion("chat.completion", []choice{{Message: &whole, FinishReason: &reason}}, u.wire()))))
}

func (o *output) fail(e statusStep) error {
	if o.started {
		return o.event(e.wire())
	}
	return e.send(o.w)
}

// cut flushes the buffer and closes the connection under the answer.
func (o *output) cut() error {
	conn, buf, err := o.rc.Hijack()
	if err != nil {
		return err
	}
	return errors.Join(buf.Flush(), conn.Close())
}

// write sends text, after the headers.
func (o *output) write(text string) error {
	if !o.started {
		o.started = true
		o.w.Header().Set("Content-Type", "application/json")
		if o.req.Stream {
			o.w.Header().Set("Content-Type", "text/event-stream")
			o.w.Header().Set("Cache-Control", "no-store")
		}
	}
	if err := o.rc.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	if _, err := o.w.Write([]byte(text)); err != nil {
		return err
	}
	return o.rc.Flush()
}
