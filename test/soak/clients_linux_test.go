package soak

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

type object = map[string]any

// api is one of the three HTTP APIs, as far as this test uses it.
type api struct {
	path string
	body func(prompt string) object
	text func(e event) string // the text in one event of a stream, or in a whole response
}

// event has the fields of all APIs that contain text or the end of a stream.
type event struct {
	Choices []struct {
		Delta, Message struct{ Content string }
	}
	Type  string
	Delta json.RawMessage
	// Of responses without streaming.
	Output []struct {
		Content []struct{ Text string }
	}
	Content []struct{ Text string }
}

var apis = []api{
	{path: "/v1/chat/completions",
		body: func(p string) object { return object{"messages": []object{{"role": "user", "content": p}}} },
		text: func(e event) (s string) {
			for _, c := range e.Choices {
				s += c.Delta.Content + c.Message.Content
			}
			return s
		}},
	{path: "/v1/responses",
		body: func(p string) object { return object{"input": p, "store": false} },
		text: func(e event) (s string) {
			if e.Type == "response.output_text.delta" {
				_ = json.Unmarshal(e.Delta, &s) // a failure leaves "", which is not the expected text
			}
			for _, o := range e.Output {
				for _, c := range o.Content {
					s += c.Text
				}
			}
			return s
		}},
	{path: "/v1/messages",
		body: func(p string) object {
			return object{"max_tokens": 100000, "messages": []object{{"role": "user", "content": p}}}
		},
		text: func(e event) (s string) {
			var d struct{ Text string }
			_ = json.Unmarshal(e.Delta, &d)
			for _, c := range e.Content {
				s += c.Text
			}
			return s + d.Text
		}},
}

// ends are the possible last events of a stream.
var ends = []string{"[DONE]", `"type":"response.completed"`, `"type":"response.failed"`, `"type":"response.incomplete"`, `"type":"message_stop"`, `"type":"error"`, `"error":`}

// ask sends a request whose answer must end in want. Every request must have
// exactly one outcome: an answer, an error, or a broken connection.
func (w *world) ask(ctx context.Context, a api, model, prompt, want string, stream bool) error {
	body := a.body(prompt)
	body["model"], body["stream"] = model, stream
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.address()+a.path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }() // read, or abandoned
	if res.StatusCode != http.StatusOK || !stream {
		whole, err := io.ReadAll(res.Body)
		var e event
		if err := errors.Join(err, json.Unmarshal(whole, &e)); err != nil {
			return fmt.Errorf("%s: %d, %w: %.500s", a.path, res.StatusCode, err, whole)
		}
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %d: %.500s", a.path, res.StatusCode, whole)
		}
		if got := a.text(e); !strings.HasSuffix(got, want) {
			return fmt.Errorf("%s: answered %.200q instead of %q", a.path, got, want)
		}
		return nil
	}
	var got strings.Builder
	last := ""
	for in := bufio.NewReader(res.Body); ; {
		line, err := in.ReadString('\n')
		if data, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "data: "); ok {
			var e event
			if last = data; json.Unmarshal([]byte(data), &e) == nil {
				got.WriteString(a.text(e))
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("%s: the stream broke: %w", a.path, err)
		}
	}
	ended := false
	for _, end := range ends {
		ended = ended || strings.Contains(last, end)
	}
	switch {
	case !ended:
		return fmt.Errorf("%w: %s: the stream ended without an end: %.300q", errBroken, a.path, last)
	case strings.Contains(last, `"error":{`) || strings.Contains(last, "response.failed"):
		return fmt.Errorf("%s: %.500s", a.path, last)
	case !strings.HasSuffix(got.String(), want):
		return fmt.Errorf("%s: answered %.200q instead of %q, at the end %.300q", a.path, got.String(), want, last)
	}
	return nil
}

// slowPrompt returns a prompt for which the model pauses and then says a word.
func slowPrompt(rng *rand.Rand, word string) string {
	return fmt.Sprintf("Say %s.\nrehearsal: delay %dms\nrehearsal: text one two three\nrehearsal: delay %dms\nrehearsal: text  %s", word, 100+rng.IntN(1500), rng.IntN(500), word)
}

// toolPrompt returns a prompt for which an agent calls a tool and then says a
// word.
func toolPrompt(rng *rand.Rand, word, tool string, args object) string {
	data, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("Work on %s.\nrehearsal: delay %dms\nrehearsal: tool %s %s\nrehearsal: next\nrehearsal: text %s", word, 100+rng.IntN(1000), tool, data, word)
}

// chat is a client of the HTTP APIs. Some clients disconnect early.
func (w *world) chat(ctx context.Context, rng *rand.Rand) error {
	a, word := apis[rng.IntN(len(apis))], fmt.Sprintf("word-%d", rng.Int64())
	if rng.IntN(4) > 0 {
		return w.ask(ctx, a, modelName, slowPrompt(rng, word), word, rng.IntN(3) > 0)
	}
	ctx, leave := context.WithTimeout(ctx, time.Duration(rng.IntN(2000))*time.Millisecond)
	defer leave()
	if err := w.ask(ctx, a, modelName, slowPrompt(rng, word), word, rng.IntN(3) > 0); ctx.Err() == nil || errors.Is(err, errBroken) {
		return err
	}
	return nil
}

// neverRead requests megabytes and does not read them.
func (w *world) neverRead(ctx context.Context, rng *rand.Rand) error {
	a := apis[rng.IntN(len(apis))]
	body := a.body("Say much.\nrehearsal: text " + strings.Repeat("much ", 200_000))
	body["model"], body["stream"] = modelName, true
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	ctx, leave := context.WithTimeout(ctx, time.Duration(rng.IntN(8000))*time.Millisecond)
	defer leave()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.address()+a.path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	<-ctx.Done()
	return res.Body.Close()
}

// rpc calls a method of the tool bus.
func (w *world) rpc(ctx context.Context, method string, params, result any) error {
	data, err := json.Marshal(object{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.address()+"/rpc", bytes.NewReader(data))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	whole, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return err
	}
	var answer struct {
		Result json.RawMessage
		Error  json.RawMessage
	}
	if json.Unmarshal(whole, &answer) != nil || answer.Error != nil || answer.Result == nil {
		return fmt.Errorf("%s: %d: %.500s", method, res.StatusCode, whole)
	}
	return json.Unmarshal(answer.Result, result)
}
