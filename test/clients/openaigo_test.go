package clients

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// Prompts for the demo model; npm/check.mjs has the same.
const (
	hang        = "rehearsal: chunks one |two \nrehearsal: silence"
	cut         = "rehearsal: chunks one |two \nrehearsal: delay 300ms\nrehearsal: cut"
	echoRequest = "What were you told?"
	weather     = "rehearsal: text Let me look.\nrehearsal: tool weather {\"city\":\"Rome\"}\nrehearsal: tool weather {\"city\":\"Oslo\"}"
	// At the end of its script the model repeats the results of its tools, in
	// the order of its calls.
	reported = "The rehearsal script has ended.\nweather answered: sun in Rome\nweather answered: rain in Oslo"
	place    = `rehearsal: text {"city":"Rome","people":2750000}`
	redDot   = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4//8/w38GIAXDIBKE0DHxgljNBAAO9TXL0Y4OHwAAAABJRU5ErkJggg=="
)

// goClient is OpenAI's Go library and the bridge that it talks to.
type goClient struct {
	openai.Client
	*served
}

func newGoClient(s *served, key string) goClient {
	return goClient{openai.NewClient(option.WithBaseURL(s.url+"/v1"), option.WithAPIKey(key), option.WithMaxRetries(0)), s}
}

func TestOpenAIGo(t *testing.T) {
	open, closed := serve(t, "COPILOT_BRIDGE_UNKNOWN_MODEL=error"), serve(t, smallLimits...)
	client, guarded, stranger := newGoClient(open, "any"), newGoClient(closed, token), newGoClient(closed, "wrong")
	t.Run("model list", client.modelList)
	t.Run("chat", func(t *testing.T) {
		t.Run("whole", client.chatWhole)
		t.Run("stream", client.chatStream)
		t.Run("system text and images", client.chatEchoRequest)
		t.Run("two parallel calls", client.chatTools)
		t.Run("structured output", client.chatStructured)
		t.Run("abort", client.chatAbort)
		t.Run("errors", func(t *testing.T) { chatErrors(t, client, guarded, stranger) })
	})
	t.Run("responses", func(t *testing.T) {
		t.Run("whole", client.responsesWhole)
		t.Run("stream", client.responsesStream)
		t.Run("two parallel calls", client.responsesTools)
		t.Run("structured output", client.responsesStructured)
		t.Run("abort", client.responsesAbort)
		t.Run("errors", func(t *testing.T) { responsesErrors(t, client, guarded, stranger) })
	})
}

func (c goClient) modelList(t *testing.T) {
	list, err := c.Models.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, m := range list.Data {
		ids = append(ids, m.ID)
	}
	if want := []string{c.model.Model(), "agent/" + c.model.Model()}; !slices.Equal(ids, want) {
		t.Errorf("models %q, want %q", ids, want)
	}
	if m, err := c.Models.Get(t.Context(), "agent/"+c.model.Model()); err != nil || m.ID != "agent/"+c.model.Model() {
		t.Errorf("one model: %+v, %v", m, err)
	}
}

func (c goClient) prompt(messages ...openai.ChatCompletionMessageParamUnion) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{Model: c.model.Model(), Messages: messages}
}

// stream collects a streamed chat completion.
func (c goClient) stream(ctx context.Context, p openai.ChatCompletionNewParams, each func(delta string)) (openai.ChatCompletionAccumulator, error) {
	s := c.Chat.Completions.NewStreaming(ctx, p)
	acc := openai.ChatCompletionAccumulator{}
	for s.Next() {
		chunk := s.Current()
		if !acc.AddChunk(chunk) {
			return acc, errors.Join(fmt.Errorf("the library refused the chunk %s", chunk.RawJSON()), s.Close())
		}
		if each != nil && len(chunk.Choices) > 0 {
			each(chunk.Choices[0].Delta.Content)
		}
	}
	return acc, errors.Join(s.Err(), s.Close())
}

func (c goClient) chatWhole(t *testing.T) {
	r, err := c.Chat.Completions.New(t.Context(), c.prompt(openai.SystemMessage("Be brief."), openai.UserMessage("rehearsal: text Hello, world.")))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Choices) != 1 || r.Choices[0].Message.Content != "Hello, world." || r.Choices[0].FinishReason != "stop" {
		t.Errorf("got %s", r.RawJSON())
	}
	if u := r.Usage; u.PromptTokens == 0 || u.CompletionTokens == 0 || u.TotalTokens != u.PromptTokens+u.CompletionTokens {
		t.Errorf("usage %+v", u)
	}
}

func (c goClient) chatStream(t *testing.T) {
	p := c.prompt(openai.UserMessage("rehearsal: chunks one |two |three"))
	p.StreamOptions.IncludeUsage = openai.Bool(true)
	var deltas []string
	acc, err := c.stream(t.Context(), p, func(delta string) {
		if delta != "" {
			deltas = append(deltas, delta)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"one ", "two ", "three"}; !slices.Equal(deltas, want) || acc.Choices[0].Message.Content != "one two three" {
		t.Errorf("deltas %q, message %q", deltas, acc.Choices[0].Message.Content)
	}
	if acc.Usage.CompletionTokens == 0 || acc.Choices[0].FinishReason != "stop" {
		t.Errorf("usage %+v, finish %q", acc.Usage, acc.Choices[0].FinishReason)
	}
}

// report is the model's answer to the prompt echoRequest.
type report struct {
	System string
	Images int
	Format struct {
		Type   string
		Schema map[string]any
	}
}

func reportOf(t *testing.T, text string) report {
	t.Helper()
	var r report
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("%v: %q", err, text)
	}
	return r
}

func (c goClient) chatEchoRequest(t *testing.T) {
	r, err := c.Chat.Completions.New(t.Context(), c.prompt(openai.SystemMessage("Speak Latin."), openai.UserMessage([]openai.ChatCompletionContentPartUnionParam{
		openai.TextContentPart(echoRequest), openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: redDot}),
	})))
	if err != nil {
		t.Fatal(err)
	}
	if got := reportOf(t, r.Choices[0].Message.Content); got.Images != 1 || got.System != "Speak Latin." {
		t.Errorf("the model got %+v", got)
	}
}

var cityOnly = map[string]any{
	"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}, "required": []any{"city"}, "additionalProperties": false,
}

// weatherIn is the tool that the model calls.
func weatherIn(t *testing.T, arguments string) string {
	t.Helper()
	var args struct{ City string }
	if err := json.Unmarshal([]byte(arguments), &args); err != nil {
		t.Fatal(err)
	}
	return map[string]string{"Rome": "sun in Rome", "Oslo": "rain in Oslo"}[args.City]
}

func (c goClient) chatTools(t *testing.T) {
	for _, streamed := range []bool{false, true} {
		t.Run("stream "+strconv.FormatBool(streamed), func(t *testing.T) {
			ask := func(p openai.ChatCompletionNewParams) openai.ChatCompletionChoice {
				if streamed {
					acc, err := c.stream(t.Context(), p, nil)
					if err != nil {
						t.Fatal(err)
					}
					return acc.Choices[0]
				}
				r, err := c.Chat.Completions.New(t.Context(), p)
				if err != nil {
					t.Fatal(err)
				}
				return r.Choices[0]
			}
			p := c.prompt(openai.UserMessage(weather))
			p.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{Name: "weather", Parameters: cityOnly})}
			first := ask(p)
			calls := first.Message.ToolCalls
			if first.FinishReason != "tool_calls" || len(calls) != 2 || first.Message.Content != "Let me look." {
				t.Fatalf("got %+v", first)
			}
			p.Messages = append(p.Messages, first.Message.ToParam())
			for _, call := range slices.Backward(calls) {
				p.Messages = append(p.Messages, openai.ToolMessage(weatherIn(t, call.Function.Arguments), call.ID))
			}
			if second := ask(p); second.Message.Content != reported || second.FinishReason != "stop" {
				t.Errorf("got %+v", second)
			}
		})
	}
}

// placeSchema is the schema of an answer to the prompt place.
var placeSchema = map[string]any{
	"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}, "people": map[string]any{"type": "integer"}},
	"required": []any{"city", "people"}, "additionalProperties": false,
}

func (c goClient) chatStructured(t *testing.T) {
	p := c.prompt(openai.UserMessage(place))
	p.ResponseFormat.OfJSONSchema = &openai.ResponseFormatJSONSchemaParam{
		JSONSchema: openai.ResponseFormatJSONSchemaJSONSchemaParam{Name: "place", Schema: placeSchema, Strict: openai.Bool(true)},
	}
	r, err := c.Chat.Completions.New(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	checkPlace(t, r.Choices[0].Message.Content)
	p.Messages = []openai.ChatCompletionMessageParamUnion{openai.UserMessage(echoRequest)}
	if r, err = c.Chat.Completions.New(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if got := reportOf(t, r.Choices[0].Message.Content).Format; got.Type != "json_schema" || !reflect.DeepEqual(got.Schema, placeSchema) {
		t.Errorf("the model got %+v", got)
	}
}

func checkPlace(t *testing.T, text string) {
	t.Helper()
	var got struct {
		City   string
		People int
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil || got.City != "Rome" || got.People != 2750000 {
		t.Errorf("got %+v, %v from %q", got, err, text)
	}
}

func (c goClient) chatAbort(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	acc, err := c.stream(ctx, c.prompt(openai.UserMessage(hang)), func(delta string) {
		if delta == "two " {
			c.waitForTurns(t, 1)
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || acc.Choices[0].Message.Content != "one two " {
		t.Errorf("got %q, %v", acc.Choices[0].Message.Content, err)
	}
	c.waitForTurns(t, 0)
}

// fault is an expected error.
type fault struct {
	status            int
	code, kind, param string
	message           string // a pattern
}

// check compares the error and returns the response header.
func (f fault) check(t *testing.T, err error) http.Header {
	t.Helper()
	var e *openai.Error
	if !errors.As(err, &e) {
		t.Fatalf("%T is not the library's error: %v", err, err)
	}
	if e.StatusCode != f.status || e.Code != f.code || e.Type != f.kind || e.Param != f.param || !regexp.MustCompile(f.message).MatchString(e.Message) {
		t.Errorf("got status %d, code %q, type %q, param %q, message %q; want %+v", e.StatusCode, e.Code, e.Type, e.Param, e.Message, f)
	}
	return e.Response.Header
}

func chatErrors(t *testing.T, client, guarded, stranger goClient) {
	hello := client.prompt(openai.UserMessage("hello"))
	unknown, empty := hello, hello
	unknown.Model = "gpt-none"
	empty.Messages = []openai.ChatCompletionMessageParamUnion{}
	provider := client.prompt(openai.UserMessage("rehearsal: status 400 too many bananas"))
	for name, tt := range map[string]struct {
		client goClient
		params openai.ChatCompletionNewParams
		want   fault
	}{
		"no token":      {stranger, hello, fault{401, "invalid_api_key", "invalid_request_error", "", "token"}},
		"unknown model": {client, unknown, fault{404, "model_not_found", "invalid_request_error", "model", client.model.Model()}},
		"bad body":      {client, empty, fault{400, "invalid_request", "invalid_request_error", "messages", ""}},
		"provider":      {guarded, provider, fault{400, "provider_error", "invalid_request_error", "", "too many bananas"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tt.client.Chat.Completions.New(t.Context(), tt.params)
			tt.want.check(t, err)
		})
	}
	t.Run("busy", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_, err := guarded.stream(ctx, guarded.prompt(openai.UserMessage(hang)), func(delta string) {
			if delta == "two " {
				_, err := guarded.Chat.Completions.New(t.Context(), hello)
				header := fault{429, "rate_limit_exceeded", "rate_limit_error", "", ""}.check(t, err)
				if n, err := strconv.Atoi(header.Get("Retry-After")); err != nil || n < 1 {
					t.Errorf("Retry-After %d, %v", n, err)
				}
				cancel()
			}
		})
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		guarded.waitForTurns(t, 0)
	})
	t.Run("in mid-stream", func(t *testing.T) {
		acc, err := guarded.stream(t.Context(), guarded.prompt(openai.UserMessage(cut)), nil)
		if err == nil || acc.Choices[0].Message.Content != "one two " {
			t.Errorf("got %q, %v", acc.Choices[0].Message.Content, err)
		}
	})
}
