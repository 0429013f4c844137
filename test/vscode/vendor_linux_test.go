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

// part is a part of a message, in the format of the vendor's extension.
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
	Error        string         `json:"error,omitempty"` // thrown instead of sent
	Code         string         `json:"code,omitempty"`  // of a LanguageModelError
}

// vendorRequest is a request to the vendor.
type vendorRequest struct {
	Model    string
	Messages []struct {
		Role  string
		Parts []part
	}
	Tools        []struct{ Name, Description string }
	ToolMode     int
	ModelOptions map[string]any
}

// text is the text of all messages, for tests that search it.
func (a *vendorRequest) text() string {
	var b strings.Builder
	for _, m := range a.Messages {
		for _, p := range m.Parts {
			b.WriteString(p.Text + "\n")
		}
	}
	return b.String()
}

// script answers a request: it sends parts with say until it returns. ctx ends
// when the request's token is cancelled.
type script func(ctx context.Context, a *vendorRequest, say func(part))

// vendor provides the answers of the vendor's extension.
type vendor struct {
	server *http.Server
	url    string
	done   chan struct{}

	mu       sync.Mutex
	script   script
	signedIn bool
	news     chan struct{} // closed when signedIn changes
	requests []*vendorRequest
}

// defaultAnswer says hello.
func defaultAnswer(_ context.Context, _ *vendorRequest, say func(part)) {
	say(part{Type: "text", Text: "Hello "})
	say(part{Type: "text", Text: "from the model."})
	say(part{Type: "usage", InputTokens: 11, OutputTokens: 5})
}

func newVendor() (*vendor, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	v := &vendor{url: "http://" + l.Addr().String(), done: make(chan struct{}), script: defaultAnswer, signedIn: true, news: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /chat", v.chat)
	mux.HandleFunc("GET /session", v.session)
	v.server = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() {
		defer close(v.done)
		_ = v.server.Serve(l) // stopped by close
	}()
	return v, nil
}

func (v *vendor) close() error {
	err := v.server.Close()
	<-v.done
	return err
}

// setScript sets the script for further requests; nil means defaultAnswer.
func (v *vendor) setScript(s script) {
	if s == nil {
		s = defaultAnswer
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.script, v.requests = s, nil
}

// received returns the requests since the last call of setScript.
func (v *vendor) received() []*vendorRequest {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]*vendorRequest(nil), v.requests...)
}

// setSignedIn signs the user in or out.
func (v *vendor) setSignedIn(in bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.signedIn = in
	close(v.news)
	v.news = make(chan struct{})
}

func (v *vendor) chat(w http.ResponseWriter, r *http.Request) {
	a := &vendorRequest{}
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
		_ = errors.Join(enc.Encode(p), flush.Flush()) // if the client disconnects, the context ends
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
