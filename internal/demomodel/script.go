package demomodel

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Reply is what the model does in answer to one request, step by step. A
// reply is never changed by playing it, so one value may answer many requests
// at once.
type Reply []Step

// Step is one thing that a reply does; the functions below make them.
type Step interface {
	play(p *player) error
}

type (
	textStep      struct{ chunks []string }
	reasoningStep struct{ chunks []string }
	delayStep     struct{ d time.Duration }
	waitStep      struct{ ch <-chan struct{} }
	callStep      struct{ id, name, args string }
	statusStep    struct {
		status     int
		message    string
		limited    bool // retryAfter is sent
		retryAfter time.Duration
	}
	cutStep       struct{}
	silenceStep   struct{}
	usageStep     struct{ prompt, completion, cached, reasoning int }
	finishStep    struct{ reason string }
	malformedStep struct{ raw string }
)

// Text streams s word by word.
func Text(s string) Step { return textStep{words(s)} }

// Chunks streams exactly these chunks.
func Chunks(chunks ...string) Step { return textStep{chunks} }

// Reasoning streams s as reasoning text, word by word.
func Reasoning(s string) Step { return reasoningStep{words(s)} }

// Delay pauses before the next step.
func Delay(d time.Duration) Step { return delayStep{d} }

// WaitFor pauses until ch is closed or yields a value.
func WaitFor(ch <-chan struct{}) Step { return waitStep{ch} }

// ToolCall calls a tool; several in one reply are parallel calls. The server
// numbers them: call_1, call_2 and so on. Arguments are marshalled as JSON,
// except that a string or json.RawMessage is sent as it is, so that broken
// arguments can be sent too.
func ToolCall(name string, args any) Step { return ToolCallID("", name, args) }

// ToolCallID is ToolCall with an id of the caller's choice.
func ToolCallID(id, name string, args any) Step {
	switch a := args.(type) {
	case nil:
		return callStep{id, name, "{}"}
	case string:
		return callStep{id, name, a}
	case json.RawMessage:
		return callStep{id, name, string(a)}
	}
	b, err := json.Marshal(args)
	if err != nil {
		return Status(500, fmt.Sprintf("the script's arguments for %s are not JSON: %v", name, err))
	}
	return callStep{id, name, string(b)}
}

// Status answers with an HTTP error and ends the reply. If part of a stream
// was sent already the error comes as an event of the stream instead.
func Status(code int, message string) Step { return statusStep{status: code, message: message} }

// RateLimit answers 429 with a Retry-After header and ends the reply.
func RateLimit(retryAfter time.Duration) Step {
	message := fmt.Sprintf("Rate limit reached. Please try again in %s.", retryAfter)
	return statusStep{status: 429, message: message, limited: true, retryAfter: retryAfter}
}

// Cut sends what came before and cuts the connection.
func Cut() Step { return cutStep{} }

// Silence sends what came before, and then nothing until the client goes away
// or the server closes.
func Silence() Step { return silenceStep{} }

// Usage sets the token counts that are reported. Without it they are counted,
// at four bytes a token.
func Usage(prompt, completion, cached, reasoning int) Step {
	return usageStep{prompt, completion, cached, reasoning}
}

// Finish sets finish_reason, which otherwise is "stop" or "tool_calls".
func Finish(reason string) Step { return finishStep{reason} }

// Malformed puts raw into the stream as it is; a reply that is not streamed
// becomes raw and nothing else.
func Malformed(raw string) Step { return malformedStep{raw} }

// Push queues replies; each answers one request that no handler took.
func (s *Server) Push(replies ...Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, replies...)
}

// Handle adds a function that may choose the reply by the request. Functions
// are asked in the order in which they were added, each from many goroutines
// at once.
func (s *Server) Handle(f func(Request) (Reply, bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// A new slice, so that requests in flight keep the one they are reading.
	s.handlers = append(s.handlers[:len(s.handlers):len(s.handlers)], f)
}

// choose returns the reply to a request, which is the first of these that
// applies:
//
//  1. what a function given to Handle returns, if it accepts the request;
//  2. the next reply queued with Push;
//  3. the directives in the last user message (see parseScript), or an error
//     that names the line that cannot be read;
//  4. the last user message read as simple requests, such as "create hello.txt
//     saying hi" or "list the files": calls of tools that the request offers,
//     then a sentence about the results. If the orchestrator asks for a plan,
//     the message is divided into its requests;
//  5. an echo.
//
// From 3 on, the same request always gets the same reply, except where
// directives count attempts.
func (s *Server) choose(req *Request) Reply {
	s.mu.Lock()
	handlers := s.handlers
	s.mu.Unlock()
	for _, f := range handlers {
		if reply, ok := f(*req); ok {
			return reply
		}
	}
	if reply, ok := s.pop(); ok {
		return reply
	}
	t := req.turn()
	if sc, found, err := parseScript(t.user); err != nil {
		return Reply{Text(err.Error())}
	} else if found {
		return sc.reply(&t, func() int { return s.attempts.next(req.Raw) })
	}
	return answer(req, &t)
}

func (s *Server) pop() (Reply, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return nil, false
	}
	reply := s.queue[0]
	s.queue[0] = nil
	s.queue = s.queue[1:]
	return reply, true
}

// maxWords bounds the chunks of one text: the runtime slows down more than
// linearly on bursts of thousands.
const maxWords = 400

// words cuts s after runs of white space, losing nothing.
func words(s string) []string {
	var cuts []int
	space := false
	for i, r := range s {
		now := strings.ContainsRune(" \t\r\n", r)
		if space && !now {
			cuts = append(cuts, i)
		}
		space = now
	}
	step := len(cuts)/maxWords + 1
	var out []string
	start := 0
	for i := step - 1; i < len(cuts); i += step {
		out = append(out, s[start:cuts[i]])
		start = cuts[i]
	}
	if start < len(s) {
		out = append(out, s[start:])
	}
	return out
}
