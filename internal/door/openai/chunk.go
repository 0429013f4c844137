package openai

import (
	"strconv"

	"github.com/copilot-bridge/copilot-bridge/internal/door/wire"
)

// chunks encodes the chunks of one stream. Each delta of a text costs a chunk,
// and all of them are the same but for the delta: so they are put together
// from parts that are made once, not by reflection. Their bytes are those that
// encoding/json makes.
type chunks struct {
	head []byte // up to the delta
	tail []byte // after it, where nothing has ended
	end  []byte // after the finish reason
	buf  []byte
}

// newChunks is for streams with one id. WithUsage adds the empty usage that
// clients who asked for it expect in every chunk.
func newChunks(id string, created int64, model string, withUsage bool) *chunks {
	c := &chunks{}
	c.head = append(c.head, `{"id":`...)
	c.head = wire.AppendString(c.head, id)
	c.head = append(c.head, `,"object":"chat.completion.chunk","created":`...)
	c.head = strconv.AppendInt(c.head, created, 10)
	c.head = append(c.head, `,"model":`...)
	c.head = wire.AppendString(c.head, model)
	c.head = append(c.head, `,"choices":[`...)
	c.end = append(c.end, `}]`...)
	if withUsage {
		c.end = append(c.end, `,"usage":null`...)
	}
	c.end = append(c.end, '}')
	c.tail = append(c.tail, `,"logprobs":null,"finish_reason":null`...)
	c.tail = append(c.tail, c.end...)
	return c
}

// Each of these returns bytes that are good until the next call.

func (c *chunks) role() []byte {
	return c.delta(`{"role":"assistant","content":"","refusal":null}`)
}

func (c *chunks) content(text string) []byte { return c.field(`{"content":`, text) }

func (c *chunks) reasoning(text string) []byte { return c.field(`{"reasoning_content":`, text) }

// call opens a tool call; callArguments adds to its arguments.
func (c *chunks) call(index int, id, name string) []byte {
	c.open(`{"tool_calls":[{"index":`)
	c.buf = strconv.AppendInt(c.buf, int64(index), 10)
	c.buf = append(c.buf, `,"id":`...)
	c.buf = wire.AppendString(c.buf, id)
	c.buf = append(c.buf, `,"type":"function","function":{"name":`...)
	c.buf = wire.AppendString(c.buf, name)
	c.buf = append(c.buf, `,"arguments":""}}]}`...)
	return c.close()
}

func (c *chunks) callArguments(index int, text string) []byte {
	c.open(`{"tool_calls":[{"index":`)
	c.buf = strconv.AppendInt(c.buf, int64(index), 10)
	c.buf = append(c.buf, `,"function":{"arguments":`...)
	c.buf = wire.AppendString(c.buf, text)
	c.buf = append(c.buf, `}}]}`...)
	return c.close()
}

// function and functionArguments are the same in the words of before there
// were tools.
func (c *chunks) function(name string) []byte {
	c.open(`{"function_call":{"name":`)
	c.buf = wire.AppendString(c.buf, name)
	c.buf = append(c.buf, `,"arguments":""}}`...)
	return c.close()
}

func (c *chunks) functionArguments(text string) []byte {
	c.open(`{"function_call":{"arguments":`)
	c.buf = wire.AppendString(c.buf, text)
	c.buf = append(c.buf, `}}`...)
	return c.close()
}

func (c *chunks) finish(reason string) []byte {
	c.open(`{}`)
	c.buf = append(c.buf, `,"logprobs":null,"finish_reason":`...)
	c.buf = wire.AppendString(c.buf, reason)
	c.buf = append(c.buf, c.end...)
	return c.buf
}

// usage is the last chunk: it has no choices.
func (c *chunks) usage(u chatUsage) []byte {
	c.buf = append(c.buf[:0], c.head...)
	c.buf = append(c.buf, `],"usage":{"prompt_tokens":`...)
	c.buf = strconv.AppendInt(c.buf, u.Prompt, 10)
	c.buf = append(c.buf, `,"completion_tokens":`...)
	c.buf = strconv.AppendInt(c.buf, u.Completion, 10)
	c.buf = append(c.buf, `,"total_tokens":`...)
	c.buf = strconv.AppendInt(c.buf, u.Total, 10)
	c.buf = append(c.buf, `,"prompt_tokens_details":{"cached_tokens":`...)
	c.buf = strconv.AppendInt(c.buf, u.PromptDetails.Cached, 10)
	c.buf = append(c.buf, `},"completion_tokens_details":{"reasoning_tokens":`...)
	c.buf = strconv.AppendInt(c.buf, u.CompletionDetails.Reasoning, 10)
	c.buf = append(c.buf, `}}}`...)
	return c.buf
}

func (c *chunks) open(delta string) {
	c.buf = append(c.buf[:0], c.head...)
	c.buf = append(c.buf, `{"index":0,"delta":`...)
	c.buf = append(c.buf, delta...)
}

func (c *chunks) close() []byte {
	c.buf = append(c.buf, c.tail...)
	return c.buf
}

func (c *chunks) delta(delta string) []byte {
	c.open(delta)
	return c.close()
}

func (c *chunks) field(name, text string) []byte {
	c.open(name)
	c.buf = wire.AppendString(c.buf, text)
	c.buf = append(c.buf, '}')
	return c.close()
}
