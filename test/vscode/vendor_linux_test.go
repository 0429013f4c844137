package vscode

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// part is a piece of a message, as the vendor's extension knows it.
type part struct {
	Type         string         `json:"type,omitempty"`
	Text         string         `json:"text,omitempty"`
	CallID       string         `json:"callId,omitempty"`
	Name         string         `json:"name,omitempty"`
	Input        map[string]any `json:"input,omitempty"`
	MIME         string         `json:"mime,omitempty"`
	Base64       []byte         `json:"base64,omitempty"`
	InputTokens  int            `json:"inputTokens,omitempty"`
	OutputTokens int            `json:"outputTokens,omitempty"`
	Error        string         `json:"error,omitempty"` // thrown instead
	Code         string         `json:"code,omitempty"`  // of a LanguageModelError
}

// asked is what reached the vendor.
type asked struct {
	Model    string
	Messages []struct {
		Role  string
		Parts []part
	}
	Tools        []struct{ Name, Description string }
	ToolMode     int
	ModelOptions map[string]any
}

// text is all that was said, for tests that look for a word.
func (a *asked) text() string {
	var b strings.Builder
	for _, m := range a.Messages {
		for _, p := range m.Parts {
			b.WriteString(p.Text + "\n")
		}
	}
	return b.String()
}

// script answers a request: it says parts until it returns; ctx ends when the
// token of the request is cancelled.
type script func(ctx context.Context, a *asked, say func(part))

// vendor gives the vendor's extension its words.
type vendor struct {
	server *http.Server
	url    string
	done   chan struct{}

	mu       sync.Mutex
	script   script
	signedIn bool
	news     chan struct{} // closed when signedIn changes
	requests []*asked
}

// hello answers whatever nobody has thought of.
func hello(_ context.Context, _ *asked, say func(part)) {
	say(part{Type: "text", Text: "Hello "})
	say(part{Type: "text", Text: "from the model."})
	say(part{Type: "usage", InputTokens: 11, OutputTokens: 5})
}

func newVendor() (*vendor, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	v := &vendor{url: "http://" + l.Addr().String(), done: make(chan struct{}), script: hello, signedIn: true, news: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /chat", v.chat)
	mux.HandleFunc("GET /session", v.session)
	v.server = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() {
		defer close(v.done)
		_ = v.server.Serve(l) // ended by close
	}()
	return v, nil
}

func (v *vendor) close() error {
	err := v.server.Close()
	<-v.done
	return err
}

// says sets what the vendor answers from now on; nil: hello.
func (v *vendor) says(s script) {
	if s == nil {
		s = hello
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.script, v.requests = s, nil
}

// heard returns the requests since says.
func (v *vendor) heard() []*asked {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]*asked(nil), v.requests...)
}

// sign signs the user in or out.
func (v *vendor) sign(in bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.signedIn = in
	close(v.news)
	v.news = make(chan struct{})
}

func (v *vendor) chat(w http.ResponseWriter, r *http.Request) {
	a := &asked{}
	if err := json.NewDecoder(r.Body).Decode(a); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	v.mu.Lock()
	v.requests = append(v.requests, a)
	s := v.script
	v.mu.Unlock()
	flush := http.NewResponseController(w)
	enc := json.NewEncoder(w)
	_ = flush.Flush()
	s(r.Context(), a, func(p part) {
		_ = errors.Join(enc.Encode(p), flush.Flush()) // whoever hung up is told by the context
	})
}

func (v *vendor) session(w http.ResponseWriter, r *http.Request) {
	flush := http.NewResponseController(w)
	enc := json.NewEncoder(w)
	for {
		v.mu.Lock()
		in, news := v.signedIn, v.news
		v.mu.Unlock()
		if errors.Join(enc.Encode(map[string]bool{"signedIn": in}), flush.Flush()) != nil {
			return
		}
		select {
		case <-news:
		case <-r.Context().Done():
			return
		}
	}
}
