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

// protocol is one of the HTTP APIs, seen from the client.
type protocol interface {
	name() string
	path() string
	// encode makes the body of a request.
	encode(q *question) any
	// event handles one event of a stream, whole the body of a response without
	// streaming, refused the body of an error.
	event(r *reply, name string, data []byte)
	whole(r *reply, body []byte)
	refused(r *reply, body []byte)
}

func protocols() []protocol { return []protocol{completions{}, responses{}, messages{}} }

// question is a request, independent of the protocol.
type question struct {
	system   string
	messages []message
	tools    []tool
	stream   bool
	most     int    // max tokens; 0 for no limit
	previous string // responses API: ID of the previous response
}

type message struct {
	role  string // user, assistant or tool
	text  string
	calls []call // only with role assistant
	id    string // of the call, with role tool
}

type call struct{ id, name, args string }

type tool struct{ name, description string }

// reply is the result of a question.
type reply struct {
	status int
	id     string
	text   string
	calls  []call
	fault  string // the error code or type of the API
	ended  bool   // the stream has its end marker; always true without streaming
	broken error  // connection error
	raw    []byte // all bytes received
	quit   bool   // the client hung up
	retry  string // the Retry-After header of a refusal
}

// good reports whether the answer is complete.
func (r *reply) good() bool {
	return r.broken == nil && r.status == http.StatusOK && r.fault == "" && r.ended
}

// client sends questions. It is safe for concurrent use.
type client struct {
	url   string
	http  *http.Client
	agent string // the User-Agent header
}

func newClient(url string, connections int) *client {
	return &client{url: url, agent: "load", http: &http.Client{Transport: &http.Transport{MaxIdleConns: connections, MaxIdleConnsPerHost: connections}}}
}

func (c *client) close() { c.http.CloseIdleConnections() }

// ask sends a question and reads the answer. onText, if not nil, is called
// after each piece of text; returning false hangs up.
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
	req.Header.Set("User-Agent", c.agent)
	res, err := c.http.Do(req)
	if err != nil {
		r.broken, r.quit = err, ctx.Err() != nil
		return r
	}
	defer func() { _ = res.Body.Close() }() // already read, or not needed
	r.status, r.retry = res.StatusCode, res.Header.Get("Retry-After")
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

// read reads the events of a stream.
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

// decode unmarshals data; a failure is recorded in the reply.
func decode[T any](r *reply, data []byte) (v T) {
	if err := json.Unmarshal(data, &v); err != nil && r.broken == nil {
		r.broken = err
	}
	return v
}

type object = map[string]any

var anything = object{"type": "object", "properties": object{"x": object{"type": "string"}}}
