// Package editortest plays the extension's side of the editor's protocol in
// tests, with its own documents and a scripted model. The
// tests in a real VS Code are elsewhere; this one is for what the bridge makes
// of an editor.
package editortest

import (
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
	"github.com/copilot-bridge/copilot-bridge/internal/jsonrpc"
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
	// Untrusted says that the user does not trust the open folders.
	Untrusted bool
	// Mute are methods that are never answered.
	Mute []string

	mu    sync.Mutex
	conn  *jsonrpc.Conn
	docs  map[string]*document
	calls []Call
	said  map[string][]json.RawMessage // notifications, by method
	heard chan struct{}                // closed and replaced with every one
	undo  []undo
}

// Call is a request that the extension has got.
type Call struct {
	Method string
	Params json.RawMessage
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
	x.prepare()
	// The streams are the caller's to close.
	in := &watched{Lines: jsonrpc.NewLines(struct{ io.Reader }{r}, struct{ io.Writer }{w}, 64<<20), x: x}
	conn := jsonrpc.New(in, server{x, in}, jsonrpc.Options{MaxRequests: 1000, CancelMethod: "$/cancel", CancelField: "id", Strict: true, ErrorOf: faultOf})
	x.conn = conn
	x.mu.Unlock()
	_ = conn.Run(ctx) // the test closes the streams
}

// watched keeps the notifications that come, those included that jsonrpc
// handles, and the id of the last request.
type watched struct {
	*jsonrpc.Lines
	x      *Extension
	lastID json.RawMessage // for the goroutine that reads
}

func (w *watched) Read() ([]byte, error) {
	text, err := w.Lines.Read()
	if m, bad := jsonrpc.Decode(text, true); bad == nil && m.Method != "" {
		if m.ID == nil {
			w.x.note(m.Method, m.Params)
		} else {
			w.lastID = m.ID
		}
	}
	return text, err
}

// server answers requests of one connection.
type server struct {
	x  *Extension
	in *watched
}

func (server) Notification(string, json.RawMessage) {}

func (s server) Request(ctx context.Context, method string, params json.RawMessage) func() (any, error) {
	x := s.x
	x.mu.Lock()
	x.calls = append(x.calls, Call{method, params})
	x.mu.Unlock()
	id := s.in.lastID // requests may arrive in another order than they are numbered
	return func() (any, error) {
		if slices.Contains(x.Mute, method) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		result, fault := x.answer(ctx, id, method, params)
		switch {
		case fault != nil:
			return nil, fault
		case errors.Is(context.Cause(ctx), jsonrpc.ErrCanceled):
			return nil, jsonrpc.ErrCanceled
		}
		return result, nil
	}
}

func faultOf(err error) *editor.Fault {
	var f *editor.Fault
	if errors.As(err, &f) && f != jsonrpc.ErrCanceled {
		return f
	}
	return Fault(editor.KindCanceled, "canceled")
}

// prepare makes what a zero Extension lacks. mu is held.
func (x *Extension) prepare() {
	if x.said == nil {
		x.said, x.heard = map[string][]json.RawMessage{}, make(chan struct{})
	}
	if x.docs == nil {
		x.docs = map[string]*document{}
	}
}

// Fault is an error of the extension.
func Fault(k editor.Kind, message string) *editor.Fault { return editor.NewFault(k, message) }

// note keeps a notification.
func (x *Extension) note(method string, params json.RawMessage) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.said[method] = append(x.said[method], params)
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

// Notify tells the bridge something. It may have gone.
func (x *Extension) Notify(method string, params any) {
	x.mu.Lock()
	conn := x.conn
	x.mu.Unlock()
	_ = conn.Notify(context.Background(), method, params)
}

// Ask makes a request of the bridge.
func (x *Extension) Ask(t testing.TB, method string, result any) error {
	t.Helper()
	x.mu.Lock()
	conn := x.conn
	x.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Second, errors.New("no answer to "+method))
	defer cancel()
	return conn.Call(ctx, method, struct{}{}, result)
}

func (x *Extension) answer(ctx context.Context, id json.RawMessage, method string, params json.RawMessage) (any, *editor.Fault) {
	switch method {
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
		return x.chat(ctx, id, params)
	case "ui.confirm":
		var q editor.Question
		_ = json.Unmarshal(params, &q)
		if x.Confirm == nil {
			return map[string]any{"choice": nil}, nil
		}
		if id := x.Confirm(ctx, q); id != "" {
			return map[string]any{"choice": id}, nil
		}
		return map[string]any{"choice": nil}, nil
	}
	return x.edit(method, params)
}

// SetModels changes the list of models.
func (x *Extension) SetModels(models ...editor.Model) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.Models = models
}

func (x *Extension) chat(ctx context.Context, id json.RawMessage, params json.RawMessage) (any, *editor.Fault) {
	var r editor.ChatRequest
	if err := json.Unmarshal(params, &r); err != nil {
		return nil, Fault(editor.KindInternal, err.Error())
	}
	say := func(p editor.Part) {
		if ctx.Err() != nil {
			return
		}
		x.Notify("lm.part", map[string]any{"id": id, "part": p})
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
