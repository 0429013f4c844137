package load

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
)

// protocol is one of the APIs as its clients speak it.
type protocol interface {
	name() string
	path() string
	// encode makes the body of a request.
	encode(q *question) any
	// event takes one event of a stream, whole the body of an answer that
	// does not stream, and refused that of an error.
	event(r *reply, name string, data []byte)
	whole(r *reply, body []byte)
	refused(r *reply, body []byte)
}

func protocols() []protocol { return []protocol{completions{}, responses{}, messages{}} }

// question is a request, before a protocol gives it its form.
type question struct {
	system   string
	messages []message
	tools    []tool
	stream   bool
	previous string // of the responses API: the answer that this one follows
}

type message struct {
	role  string // user, assistant or tool
	text  string
	calls []call // of the assistant
	id    string // of the call that a tool answers
}

type call struct{ id, name, args string }

type tool struct{ name, description string }

// reply is what came of a question.
type reply struct {
	status int
	id     string
	text   string
	calls  []call
	fault  string // the API's name for what went wrong
	ended  bool   // with what the API ends its streams with; always, if it does not stream
	broken error  // of the connection
	raw    []byte // all that came
	quit   bool   // the client has left
}

// good says that the answer is complete.
func (r *reply) good() bool {
	return r.broken == nil && r.status == http.StatusOK && r.fault == "" && r.ended
}

// client asks questions. It may be used concurrently.
type client struct {
	url  string
	http *http.Client
}

func newClient(url string, connections int) *client {
	return &client{url, &http.Client{Transport: &http.Transport{MaxIdleConns: connections, MaxIdleConnsPerHost: connections}}}
}

func (c *client) close() { c.http.CloseIdleConnections() }

// ask sends a question and reads the answer. onText, if it is given, is called
// after each piece of text that came; false hangs up.
func (c *client) ask(ctx context.Context, p protocol, q *question, onText func() bool) *reply {
	ctx, hangUp := context.WithCancel(ctx)
	defer hangUp()
	r := &reply{}
	body, err := json.Marshal(p.encode(q))
	if err != nil {
		r.broken = err
		return r
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+p.path(), bytes.NewReader(body))
	if err != nil {
		r.broken = err
		return r
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := c.http.Do(req)
	if err != nil {
		r.broken, r.quit = err, ctx.Err() != nil
		return r
	}
	defer func() { _ = res.Body.Close() }() // the answer is read or not wanted
	r.status = res.StatusCode
	switch {
	case r.status != http.StatusOK:
		r.raw, r.broken = io.ReadAll(res.Body)
		p.refused(r, r.raw)
		r.ended = r.broken == nil
	case q.stream:
		if onText == nil {
			onText = func() bool { return true }
		}
		r.read(p, res.Body, onText)
	default:
		r.raw, r.broken = io.ReadAll(res.Body)
		p.whole(r, r.raw)
		r.ended = r.broken == nil
	}
	r.quit = r.quit || ctx.Err() != nil
	return r
}

// read takes the events of a stream.
func (r *reply) read(p protocol, body io.Reader, onText func() bool) {
	in := bufio.NewReader(body)
	name := ""
	for {
		line, err := in.ReadString('\n')
		r.raw = append(r.raw, line...)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				r.broken = err
			}
			return
		}
		line = strings.TrimRight(line, "\n")
		if n, ok := strings.CutPrefix(line, "event: "); ok {
			name = n
			continue
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		before := len(r.text)
		p.event(r, name, []byte(data))
		name = ""
		if len(r.text) > before && !onText() {
			r.quit = true
			return
		}
	}
}

// decode fails into the reply: a client that cannot read an answer has none.
func decode[T any](r *reply, data []byte) (v T) {
	if err := json.Unmarshal(data, &v); err != nil && r.broken == nil {
		r.broken = err
	}
	return v
}

type object = map[string]any

var anything = object{"type": "object", "properties": object{"x": object{"type": "string"}}}
