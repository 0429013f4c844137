package githubtest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
	credits := s.creditUsage()
	flush := http.NewResponseController(w)
	for lines := bufio.NewReader(answer.Body); ; {
		line, err := lines.ReadBytes('\n')
		if credits != nil {
			line = bytes.Replace(line, []byte(`"usage":{`), append(append([]byte(`"copilot_usage":`), credits...), `,"usage":{`...), 1)
		}
		if _, e := w.Write(line); e != nil || flush.Flush() != nil {
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
	Stream   bool      `json:"stream,omitempty"`
	Options  any       `json:"stream_options,omitempty"`
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
	Index    int    `json:"index,omitempty"` // of a piece in a stream
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

// reply is what the demo model answered, at once or in pieces.
type reply struct {
	Choices []choice `json:"choices"`
	Usage   tokens   `json:"usage"`
}

type choice struct {
	Message said   `json:"message"`
	Delta   said   `json:"delta"` // of a stream
	Finish  string `json:"finish_reason"`
}

type said struct {
	Content   string     `json:"content"`
	Reasoning string     `json:"reasoning_content"`
	ToolCalls []toolCall `json:"tool_calls"`
}

type tokens struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Details    struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// form is one of the two other kinds of endpoints.
type form interface {
	decode(body []byte) (chatBody, error)
	refuse(message string) any
	document(model string, r reply) any
	// A stream begins; each part of the answer starts, grows and stops; it ends.
	begin(model string) []event
	start(i int, p part) []event
	grow(i int, p part, more string) []event
	stop(i int, p part) []event
	end(model string, r reply) []event
}

type event struct {
	name string // also the field type of the data
	data map[string]any
}

// part is a passage of text or of reasoning, or a call of a tool.
type part struct {
	kind partKind
	call toolCall // its arguments are in text
	text string   // so far
}

type partKind int

const (
	partText partKind = iota
	partReasoning
	partCall
)

// converted answers requests of another form with the demo model's replies.
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
		if body.Stream {
			body.Options = map[string]bool{"include_usage": true}
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
		if answer.StatusCode == http.StatusOK && body.Stream {
			w.Header().Set("Content-Type", "text/event-stream")
			c := &conversion{form: f, model: body.Model, to: w}
			if err := c.run(answer.Body, s.creditUsage()); err != nil {
				panic(http.ErrAbortHandler)
			}
			return
		}
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
		writeJSON(w, http.StatusOK, f.document(body.Model, played))
	}
}

// IssueText is what the MCP server's one tool, list_issues, answers.
const IssueText = "issue 1: the stand-in works"

// mcpHandler is GitHub's MCP server with a tool that reads and, unless it is the
// endpoint for reading, one that writes.
func mcpHandler() http.Handler {
	reads, all := mcpServer(), mcpServer()
	mcp.AddTool(all, &mcp.Tool{Name: "create_issue", Description: "Create an issue in a repository."},
		func(context.Context, *mcp.CallToolRequest, struct {
			Title string `json:"title"`
		}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "issue 2 was created"}}}, nil, nil
		})
	choose := func(r *http.Request) *mcp.Server {
		if r.URL.Path == MCPPath {
			return reads
		}
		return all
	}
	return mcp.NewStreamableHTTPHandler(choose, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
}

func mcpServer() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "github-mcp-server", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "list_issues", Description: "List the issues of a repository.", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(context.Context, *mcp.CallToolRequest, struct {
			Owner string `json:"owner"`
			Repo  string `json:"repo"`
		}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: IssueText}}}, nil, nil
		})
	return server
}
