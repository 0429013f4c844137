package githubtest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// conversion turns one stream of the demo model's into one of another form,
// piece by piece as it comes.
type conversion struct {
	form  form
	model string
	to    http.ResponseWriter

	sent  int // events
	parts []part
	usage tokens
	why   string // it finished
}

// run converts until the stream has ended. An error says that it has not ended
// well, or that the client has gone.
func (c *conversion) run(from io.Reader, credits json.RawMessage) error {
	if err := c.send(c.form.begin(c.model)); err != nil {
		return err
	}
	for lines := bufio.NewReader(from); ; {
		line, err := lines.ReadBytes('\n')
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			if bytes.HasPrefix(data, []byte("[DONE]")) {
				return c.finish(credits)
			}
			var piece reply
			if json.Unmarshal(data, &piece) != nil {
				if _, err := c.to.Write(line); err != nil { // malformed on purpose
					return err
				}
			} else if err := c.take(piece); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
	}
}

func (c *conversion) take(piece reply) error {
	if piece.Usage.Prompt > 0 {
		c.usage = piece.Usage
	}
	for _, choice := range piece.Choices {
		if choice.Finish != "" {
			c.why = choice.Finish
		}
		if err := errors.Join(c.add(part{kind: partReasoning}, choice.Delta.Reasoning), c.add(part{kind: partText}, choice.Delta.Content)); err != nil {
			return err
		}
		for _, call := range choice.Delta.ToolCalls {
			if err := c.add(part{kind: partCall, call: call}, call.Function.Arguments); err != nil {
				return err
			}
		}
	}
	return nil
}

// add adds to the part that is open if it is of the same kind, or else starts p.
func (c *conversion) add(p part, more string) error {
	if more == "" && p.call.ID == "" {
		return nil
	}
	last := len(c.parts) - 1
	if last < 0 || c.parts[last].kind != p.kind || p.call.ID != "" && p.call.ID != c.parts[last].call.ID {
		if err := c.stop(); err != nil {
			return err
		}
		c.parts, last = append(c.parts, p), last+1
		if err := c.send(c.form.start(last, p)); err != nil {
			return err
		}
	}
	c.parts[last].text += more
	return c.send(c.form.grow(last, c.parts[last], more))
}

// stop closes the part that is open.
func (c *conversion) stop() error {
	if last := len(c.parts) - 1; last >= 0 {
		return c.send(c.form.stop(last, c.parts[last]))
	}
	return nil
}

func (c *conversion) finish(credits json.RawMessage) error {
	if err := c.stop(); err != nil {
		return err
	}
	whole := choice{Finish: c.why}
	for _, p := range c.parts {
		switch p.kind {
		case partText:
			whole.Message.Content += p.text
		case partReasoning:
			whole.Message.Reasoning += p.text
		case partCall:
			p.call.Function.Arguments = p.text
			whole.Message.ToolCalls = append(whole.Message.ToolCalls, p.call)
		}
	}
	events := c.form.end(c.model, reply{Choices: []choice{whole}, Usage: c.usage})
	if credits != nil {
		events[0].data["copilot_usage"] = credits
	}
	return c.send(events)
}

func (c *conversion) send(events []event) error {
	for _, e := range events {
		e.data["type"], e.data["sequence_number"] = e.name, c.sent
		c.sent++
		data, err := json.Marshal(e.data)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(c.to, "event: %s\ndata: %s\n\n", e.name, data); err != nil {
			return err
		}
	}
	return http.NewResponseController(c.to).Flush()
}
