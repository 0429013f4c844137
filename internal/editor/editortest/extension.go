// Package editortest plays the extension's side of the editor's protocol in
// tests, with documents of its own and a model whose words are scripted. The
// tests in a real VS Code are elsewhere; this one is for what the bridge makes
// of an editor.
package editortest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/editor"
)

// Extension is an editor's window. Set the fields before it is connected; the
// methods may be called at any time.
type Extension struct {
	Models  []editor.Model
	Folders []editor.Folder
	// Protocol is the version it speaks; 0 for ours.
	Protocol int
	// Chat, if set, answers in place of the script in the prompt.
	Chat func(ctx context.Context, r editor.ChatRequest, say func(editor.Part)) *editor.Fault
	// Confirm answers dialogs with the id of an action, or "".
	Confirm func(ctx context.Context, q editor.Question) string
	// Providers format, organise and list symbols by kind of file, see
	// documents.go; without one there is no provider.
	Providers map[string]Provider
	// Untrusted says that the user does not trust what is open.
	Untrusted bool
	// Mute are methods that are never answered.
	Mute []string

	mu     sync.Mutex
	w      io.Writer
	docs   map[string]*document
	calls  []Call
	cancel map[string]context.CancelFunc
	said   map[string][]json.RawMessage // notifications, by method
	heard  chan struct{}                // closed and replaced with every one
	nextID int
	asked  map[string]chan wire
	undo   []undo
}

// Call is a request that the extension has got.
type Call struct {
	Method string
	Params json.RawMessage
}

// wire is any message.
type wire struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  any             `json:"result,omitempty"`
	Error   *editor.Fault   `json:"error,omitempty"`
}

// Connect runs an extension and returns the bridge's side of it. Both end with
// the test, which fails if they do not.
func Connect(t testing.TB, x *Extension, h editor.Handler) *editor.Conn {
	t.Helper()
	theirs, ours := io.Pipe()
	back, out := io.Pipe()
	if h == nil {
		h = Deaf{}
	}
	c := editor.New(theirs, out, h, nil)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = c.Run(ctx) })
	wg.Go(func() { x.Serve(ctx, back, ours) })
	t.Cleanup(func() {
		_ = ours.Close()
		cancel()
		done := make(chan struct{})
		go func() { wg.Wait(); close(done) }()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Error("the connection to the editor did not end")
		}
	})
	return c
}

// Deaf is a handler that does nothing.
type Deaf struct{}

// Folders, ModelsChanged, Status and Consented are those of editor.Handler.
func (Deaf) Folders([]editor.Folder)                       {}
func (Deaf) ModelsChanged()                                {}
func (Deaf) Status(context.Context) (editor.Status, error) { return editor.Status{}, nil }
func (Deaf) Consented(context.Context) error               { return nil }

// Serve answers what comes from r until it ends or ctx does.
func (x *Extension) Serve(ctx context.Context, r io.Reader, w io.Writer) {
	x.mu.Lock()
	x.w, x.cancel = w, map[string]context.CancelFunc{}
	x.prepare()
	x.mu.Unlock()
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	in := bufio.NewReaderSize(r, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var m wire
		if err := json.Unmarshal(bytes.TrimSpace(line), &m); err != nil {
			return
		}
		id := string(m.ID)
		switch {
		case m.Method == "":
			x.mu.Lock()
			if ch := x.asked[id]; ch != nil {
				ch <- m
			}
			x.mu.Unlock()
		case m.Method == "$/cancel":
			var p struct {
				ID json.RawMessage `json:"id"`
			}
			_ = json.Unmarshal(m.Params, &p)
			x.mu.Lock()
			if stop := x.cancel[string(p.ID)]; stop != nil {
				stop()
			}
			x.mu.Unlock()
			x.note(m)
		case id == "":
			x.note(m)
		default:
			one, cancel := context.WithCancel(ctx)
			x.mu.Lock()
			x.calls = append(x.calls, Call{m.Method, m.Params})
			x.cancel[id] = cancel
			x.mu.Unlock()
			wg.Go(func() {
				defer cancel()
				if slices.Contains(x.Mute, m.Method) {
					return
				}
				result, fault := x.answer(one, m)
				if fault == nil && one.Err() != nil && ctx.Err() == nil {
					fault = Fault(editor.KindCanceled, "canceled")
				}
				x.write(wire{ID: m.ID, Result: result, Error: fault})
			})
		}
	}
}

// prepare makes what a zero Extension lacks. mu is held.
func (x *Extension) prepare() {
	if x.said == nil {
		x.said, x.heard, x.asked = map[string][]json.RawMessage{}, make(chan struct{}), map[string]chan wire{}
	}
	if x.docs == nil {
		x.docs = map[string]*document{}
	}
}

// Fault is an error of the extension's.
func Fault(k editor.Kind, message string) *editor.Fault {
	return &editor.Fault{Code: -32000, Message: message, Data: &editor.FaultData{Kind: k}}
}

func (x *Extension) write(m wire) {
	m.Version = "2.0"
	if m.ID != nil && m.Method == "" && m.Error == nil && m.Result == nil {
		m.Result = struct{}{}
	}
	line, err := json.Marshal(m)
	if err != nil {
		panic(err) // a test's own literal
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	_, _ = x.w.Write(append(line, '\n')) // the other side may have gone
}

// note keeps a notification.
func (x *Extension) note(m wire) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.said[m.Method] = append(x.said[m.Method], m.Params)
	close(x.heard)
	x.heard = make(chan struct{})
}

// Await waits until a notification has come for which ok says yes, and returns
// it.
func (x *Extension) Await(t testing.TB, method string, ok func(json.RawMessage) bool) json.RawMessage {
	t.Helper()
	late := time.After(10 * time.Second)
	for {
		x.mu.Lock()
		x.prepare()
		list, heard := slices.Clone(x.said[method]), x.heard
		x.mu.Unlock()
		for _, p := range list {
			if ok == nil || ok(p) {
				return p
			}
		}
		select {
		case <-heard:
		case <-late:
			t.Fatalf("%s did not come; there were %s", method, list)
		}
	}
}

// Calls are the requests of one method so far.
func (x *Extension) Calls(method string) []json.RawMessage {
	x.mu.Lock()
	defer x.mu.Unlock()
	var out []json.RawMessage
	for _, c := range x.calls {
		if c.Method == method {
			out = append(out, c.Params)
		}
	}
	return out
}

// Notify tells the bridge something.
func (x *Extension) Notify(method string, params any) {
	raw, err := json.Marshal(params)
	if err != nil {
		panic(err) // a test's own literal
	}
	x.write(wire{Method: method, Params: raw})
}

// Ask makes a request of the bridge.
func (x *Extension) Ask(t testing.TB, method string, result any) error {
	t.Helper()
	x.mu.Lock()
	x.nextID++
	id, err := json.Marshal("x" + string(rune('a'+x.nextID)))
	if err != nil {
		t.Fatal(err)
	}
	answer := make(chan wire, 1)
	x.asked[string(id)] = answer
	x.mu.Unlock()
	x.write(wire{ID: id, Method: method, Params: json.RawMessage("{}")})
	select {
	case m := <-answer:
		if m.Error != nil {
			return m.Error
		}
		raw, err := json.Marshal(m.Result)
		if err == nil && result != nil {
			err = json.Unmarshal(raw, result)
		}
		return err
	case <-time.After(10 * time.Second):
		return errors.New("no answer to " + method)
	}
}

func (x *Extension) answer(ctx context.Context, m wire) (any, *editor.Fault) {
	switch m.Method {
	case "host.hello":
		p := x.Protocol
		if p == 0 {
			p = editor.Protocol
		}
		return editor.Hello{Protocol: p, Editor: "Test", Version: "1", Folders: x.Folders, Trusted: !x.Untrusted}, nil
	case "lm.models":
		x.mu.Lock()
		defer x.mu.Unlock()
		return map[string]any{"models": slices.Clone(x.Models)}, nil
	case "lm.chat":
		return x.chat(ctx, m)
	case "ui.confirm":
		var q editor.Question
		_ = json.Unmarshal(m.Params, &q)
		if x.Confirm == nil {
			return map[string]any{"choice": nil}, nil
		}
		if id := x.Confirm(ctx, q); id != "" {
			return map[string]any{"choice": id}, nil
		}
		return map[string]any{"choice": nil}, nil
	}
	return x.edit(m)
}

// SetModels changes the list of models.
func (x *Extension) SetModels(models ...editor.Model) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.Models = models
}

func (x *Extension) chat(ctx context.Context, m wire) (any, *editor.Fault) {
	var r editor.ChatRequest
	if err := json.Unmarshal(m.Params, &r); err != nil {
		return nil, Fault(editor.KindInternal, err.Error())
	}
	say := func(p editor.Part) {
		if ctx.Err() != nil {
			return
		}
		raw, err := json.Marshal(map[string]any{"id": m.ID, "part": p})
		if err != nil {
			panic(err) // a test's own literal
		}
		x.write(wire{Method: "lm.part", Params: raw})
	}
	if x.Chat != nil {
		return nil, x.Chat(ctx, r, say)
	}
	return nil, Play(ctx, r, say)
}

// readDisk is a file's text, or "" and false.
func readDisk(path string) (string, bool) {
	b, err := os.ReadFile(path)
	return string(b), err == nil
}
