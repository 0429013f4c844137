package rehearsal

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// documentSink collects a reply and sends it as one JSON document.
type documentSink struct {
	w         http.ResponseWriter
	rc        *http.ResponseController
	id, model string
	content   strings.Builder
	thoughts  strings.Builder
	calls     []wireCall
	malformed strings.Builder
}

type wireCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type completion struct {
	ID      string     `json:"id"`
	Object  string     `json:"object"`
	Created int        `json:"created"`
	Model   string     `json:"model"`
	Choices [1]choice  `json:"choices"`
	Usage   *wireUsage `json:"usage"`
}

type choice struct {
	Index   int `json:"index"`
	Message struct {
		Role      string     `json:"role"`
		Content   *string    `json:"content"`
		Reasoning string     `json:"reasoning_content,omitempty"`
		ToolCalls []wireCall `json:"tool_calls,omitempty"`
		Refusal   *string    `json:"refusal"`
	} `json:"message"`
	FinishReason string `json:"finish_reason"`
}

func newDocumentSink(w http.ResponseWriter, id string, req *Request) *documentSink {
	return &documentSink{w: w, rc: http.NewResponseController(w), id: id, model: req.Model}
}

func (s *documentSink) text(chunk string) error {
	s.content.WriteString(chunk)
	return nil
}

func (s *documentSink) reasoning(chunk string) error {
	s.thoughts.WriteString(chunk)
	return nil
}

func (s *documentSink) call(_ int, c Call) error {
	w := wireCall{ID: c.ID, Type: "function"}
	w.Function.Name, w.Function.Arguments = c.Name, c.Arguments
	s.calls = append(s.calls, w)
	return nil
}

func (s *documentSink) raw(text string) error {
	s.malformed.WriteString(text)
	return nil
}

func (s *documentSink) finish(reason string, u usageStep) error {
	body := []byte(s.malformed.String())
	if len(body) == 0 {
		doc := completion{ID: s.id, Object: "chat.completion", Created: created, Model: s.model, Usage: u.wire()}
		c := &doc.Choices[0]
		c.FinishReason = reason
		c.Message.Role = "assistant"
		if text := s.content.String(); text != "" || len(s.calls) == 0 {
			c.Message.Content = &text
		}
		c.Message.Reasoning = s.thoughts.String()
		c.Message.ToolCalls = s.calls
		var err error
		if body, err = json.Marshal(&doc); err != nil {
			return err
		}
	}
	s.w.Header().Set("Content-Type", "application/json")
	if err := s.rc.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	_, err := s.w.Write(body)
	return err
}

func (s *documentSink) fail(e statusStep) error { return e.send(s.w) }

func (s *documentSink) cut() error { return hangUp(s.rc) }

// flush sends the headers: all that can be sent of an unfinished document.
func (s *documentSink) flush() error {
	s.w.Header().Set("Content-Type", "application/json")
	return s.rc.Flush()
}
