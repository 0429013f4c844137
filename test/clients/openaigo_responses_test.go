package clients

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
)

func (c goClient) input(text string) responses.ResponseNewParams {
	return responses.ResponseNewParams{Model: c.model.Model(), Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(text)}}
}

// streamResponse collects a streamed response.
func (c goClient) streamResponse(ctx context.Context, p responses.ResponseNewParams, each func(delta string)) (*responses.Response, error) {
	s := c.Responses.NewStreaming(ctx, p)
	var end *responses.Response
	for s.Next() {
		switch e := s.Current().AsAny().(type) {
		case responses.ResponseTextDeltaEvent:
			if each != nil {
				each(e.Delta)
			}
		case responses.ResponseCompletedEvent:
			end = &e.Response
		}
	}
	return end, errors.Join(s.Err(), s.Close())
}

func (c goClient) responsesWhole(t *testing.T) {
	p := c.input("rehearsal: text Hello, world.")
	p.Instructions = openai.String("Be brief.")
	r, err := c.Responses.New(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if r.OutputText() != "Hello, world." || r.Status != responses.ResponseStatusCompleted || r.Usage.OutputTokens == 0 {
		t.Errorf("got %s", r.RawJSON())
	}
	p = c.input("rehearsal: text Again.")
	p.PreviousResponseID = openai.String(r.ID)
	if next, err := c.Responses.New(t.Context(), p); err != nil || next.OutputText() != "Again." {
		t.Errorf("got %s, %v", next.RawJSON(), err)
	}
}

func (c goClient) responsesStream(t *testing.T) {
	var deltas []string
	end, err := c.streamResponse(t.Context(), c.input("rehearsal: chunks one |two |three"), func(delta string) { deltas = append(deltas, delta) })
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"one ", "two ", "three"}; !slices.Equal(deltas, want) || end == nil || end.OutputText() != "one two three" {
		t.Errorf("deltas %q, end %+v", deltas, end)
	}
}

func (c goClient) responsesTools(t *testing.T) {
	for _, streamed := range []bool{false, true} {
		t.Run("stream "+strconv.FormatBool(streamed), func(t *testing.T) {
			ask := func(p responses.ResponseNewParams) *responses.Response {
				p.Tools = []responses.ToolUnionParam{{OfFunction: &responses.FunctionToolParam{Name: "weather", Parameters: cityOnly, Strict: openai.Bool(true)}}}
				var r *responses.Response
				var err error
				if streamed {
					r, err = c.streamResponse(t.Context(), p, nil)
				} else {
					r, err = c.Responses.New(t.Context(), p)
				}
				if err != nil || r == nil {
					t.Fatal(r, err)
				}
				return r
			}
			first := ask(c.input(weather))
			results := responses.ResponseInputParam{}
			for _, item := range slices.Backward(first.Output) {
				if item.Type != "function_call" {
					continue
				}
				call := item.AsFunctionCall()
				output := responses.ResponseInputItemParamOfFunctionCallOutput(weatherIn(t, call.Arguments))
				output.OfFunctionCallOutput.CallID = openai.String(call.CallID)
				results = append(results, output)
			}
			if len(results) != 2 || first.OutputText() != "Let me look." {
				t.Fatalf("got %s", first.RawJSON())
			}
			second := ask(responses.ResponseNewParams{
				Model: c.model.Model(), PreviousResponseID: openai.String(first.ID), Input: responses.ResponseNewParamsInputUnion{OfInputItemList: results},
			})
			if second.OutputText() != reported {
				t.Errorf("got %s", second.RawJSON())
			}
		})
	}
}

func (c goClient) responsesStructured(t *testing.T) {
	ask := func(text string) string {
		p := c.input(text)
		p.Text.Format = responses.ResponseFormatTextConfigUnionParam{
			OfJSONSchema: &responses.ResponseFormatTextJSONSchemaConfigParam{Name: "place", Schema: placeSchema, Strict: openai.Bool(true)},
		}
		r, err := c.Responses.New(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		return r.OutputText()
	}
	checkPlace(t, ask(place))
	if got := reportOf(t, ask(echoRequest)).Format; got.Type != "json_schema" || !reflect.DeepEqual(got.Schema, placeSchema) {
		t.Errorf("the model got %+v", got)
	}
}

func (c goClient) responsesAbort(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := c.streamResponse(ctx, c.input(hang), func(delta string) {
		if delta == "two " {
			c.waitForTurns(t, 1)
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	c.waitForTurns(t, 0)
}

func responsesErrors(t *testing.T, client, guarded, stranger goClient) {
	hello := client.input("hello")
	unknown, lost, empty := hello, hello, hello
	unknown.Model = "gpt-none"
	lost.PreviousResponseID = openai.String("resp_none")
	empty.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{}}
	for name, tt := range map[string]struct {
		client goClient
		params responses.ResponseNewParams
		want   fault
	}{
		"no token":      {stranger, hello, fault{401, "invalid_api_key", "invalid_request_error", "", "token"}},
		"unknown model": {client, unknown, fault{404, "model_not_found", "invalid_request_error", "model", client.model.Model()}},
		"bad body":      {client, empty, fault{400, "invalid_request", "invalid_request_error", "input", ""}},
		"forgotten":     {client, lost, fault{404, "previous_response_not_found", "invalid_request_error", "previous_response_id", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tt.client.Responses.New(t.Context(), tt.params)
			tt.want.check(t, err)
		})
	}
	t.Run("in mid-stream", func(t *testing.T) {
		text := ""
		end, err := guarded.streamResponse(t.Context(), guarded.input(cut), func(delta string) { text += delta })
		if err == nil || end != nil || text != "one two " {
			t.Errorf("got %q, %v, %v", text, end, err)
		}
	})
}
