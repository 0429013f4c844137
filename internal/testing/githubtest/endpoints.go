package githubtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// ask passes a chat-completions request to the demo model.
func (s *Server) ask(ctx context.Context, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Model.URL()+ChatPath, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+s.Model.Key())
	return (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
}

// chat is the endpoint that the demo model has itself.
func (s *Server) chat(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	answer, err := s.ask(r.Context(), body)
	if err != nil {
		panic(http.ErrAbortHandler) // as the model did
	}
	defer func() { _ = answer.Body.Close() }() // only read from
	for _, name := range []string{"Content-Type", "Retry-After"} {
		if v := answer.Header.Get(name); v != "" {
			w.Header().Set(name, v)
		}
	}
	w.WriteHeader(answer.StatusCode)
	flush := http.NewResponseController(w)
	for buf := make([]byte, 32<<10); ; {
		n, err := answer.Body.Read(buf)
		if _, e := w.Write(buf[:n]); e != nil || flush.Flush() != nil {
			return // the client has gone
		}
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			panic(http.ErrAbortHandler)
		}
	}
}

// chatBody is a chat-completions request for the demo model.
type chatBody struct {
	Model    string    `json:"model"`
	Messages []message `json:"messages"`
	Tools    []any     `json:"tools,omitempty"`
	Choice   any       `json:"tool_choice,omitempty"`
	Format   any       `json:"response_format,omitempty"`
	Stream   bool      `json:"-"` // what the client wants
}

type message struct {
	Role       string     `json:"role"`
	Content    any        `json:"content"`
	ToolCalls  []toolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

type toolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

func newCall(id, name, arguments string) toolCall {
	c := toolCall{ID: id, Type: "function"}
	c.Function.Name, c.Function.Arguments = name, arguments
	return c
}

func function(name, description string, parameters json.RawMessage) any {
	return map[string]any{"type": "function", "function": map[string]any{"name": name, "description": description, "parameters": parameters}}
}

// call adds a call to the assistant's last message, or begins one.
func (b *chatBody) call(c toolCall) {
	if n := len(b.Messages); n == 0 || b.Messages[n-1].Role != "assistant" {
		b.Messages = append(b.Messages, message{Role: "assistant"})
	}
	last := &b.Messages[len(b.Messages)-1]
	last.ToolCalls = append(last.ToolCalls, c)
}

// reply is what the demo model answered.
type reply struct {
	Choices []struct {
		Message struct {
			Content   string     `json:"content"`
			Reasoning string     `json:"reasoning_content"`
			ToolCalls []toolCall `json:"tool_calls"`
		} `json:"message"`
		Finish string `json:"finish_reason"`
	} `json:"choices"`
	Usage struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Details    struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
}

// form is one of the two other kinds of endpoints.
type form interface {
	decode(body []byte) (chatBody, error)
	refuse(message string) any
	document(model string, r reply) any
	events(model string, r reply) []event
}

type event struct {
	name string // also the field type of the data
	data map[string]any
}

// converted answers requests of another form with the demo model's replies. A
// stream has each passage as one piece.
func (s *Server) converted(f form) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		body, err := f.decode(raw)
		if err != nil {
			writeJSON(w, http.StatusBadRequest, f.refuse(err.Error()))
			return
		}
		request, err := json.Marshal(body)
		if err != nil {
			writeJSON(w, http.StatusInternalServerError, f.refuse(err.Error()))
			return
		}
		answer, err := s.ask(r.Context(), request)
		if err != nil {
			panic(http.ErrAbortHandler) // as the model did
		}
		defer func() { _ = answer.Body.Close() }() // only read from
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		if answer.StatusCode != http.StatusOK {
			var e struct{ Error struct{ Message string } }
			_ = json.Unmarshal(text, &e) // a text of another kind has no message
			if after := answer.Header.Get("Retry-After"); after != "" {
				w.Header().Set("Retry-After", after)
			}
			writeJSON(w, answer.StatusCode, f.refuse(e.Error.Message))
			return
		}
		var played reply
		if err := json.Unmarshal(text, &played); err != nil || len(played.Choices) == 0 {
			_, _ = w.Write(text) // a malformed reply is passed on as it is
			return
		}
		if !body.Stream {
			writeJSON(w, http.StatusOK, f.document(body.Model, played))
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for i, e := range f.events(body.Model, played) {
			e.data["type"], e.data["sequence_number"] = e.name, i
			data, err := json.Marshal(e.data)
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e.name, data); err != nil {
				return // the client has gone
			}
		}
	}
}

// IssueText is what the MCP server's one tool, list_issues, answers.
const IssueText = "issue 1: the stand-in works"

// mcpHandler is GitHub's MCP server with one tool.
func mcpHandler() http.Handler {
	server := mcp.NewServer(&mcp.Implementation{Name: "github-mcp-server", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "list_issues", Description: "List the issues of a repository.", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(context.Context, *mcp.CallToolRequest, struct {
			Owner string `json:"owner"`
			Repo  string `json:"repo"`
		}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: IssueText}}}, nil, nil
		})
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
}
