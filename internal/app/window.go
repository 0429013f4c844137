package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/vscode"
	"github.com/copilot-bridge/copilot-bridge/internal/answers"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/editor"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/httpserver"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace"
)

// stateEvery is the shortest time between two notes to the extension about the
// state of things.
const stateEvery = time.Second

// windowHistoryTurns is how many turns a fresh session is told in a window,
// where the configuration says nothing.
const windowHistoryTurns = 3

// Window is the editor's window in which the bridge runs: the extension there
// has started this program and speaks to it on its standard streams.
type Window struct {
	conn  *editor.Conn
	hello editor.Hello
	log   *slog.Logger
	ran   chan error // of one: how the connection ended
	ended sync.Once
	err   error // of the connection, once it has ended

	requests atomic.Int64
	news     chan struct{} // of one: the state may have changed
	look     chan struct{} // of one: models or consent have changed
	moved    chan struct{} // of one: the folders have changed

	mu      sync.Mutex
	agent   *vscode.Agent // nil before Start
	server  *Server       // nil before Listen
	folders []editor.Folder
}

// OpenWindow takes up the connection to the extension. The caller must call
// Close.
func OpenWindow(ctx context.Context, in io.Reader, out io.Writer, version string, log *slog.Logger) (*Window, error) {
	w := &Window{log: log, ran: make(chan error, 1), news: make(chan struct{}, 1), look: make(chan struct{}, 1), moved: make(chan struct{}, 1)}
	w.conn = editor.New(in, out, w, log)
	go func() { w.ran <- w.conn.Run(context.WithoutCancel(ctx)) }()
	hello, err := w.conn.Hello(ctx, version)
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	w.mu.Lock()
	w.hello = hello
	if w.folders == nil { // nothing newer has come meanwhile
		w.folders = hello.Folders
	}
	w.mu.Unlock()
	return w, nil
}

// Close ends the connection and waits for it. The error says that it was
// broken, nil that the extension or we ended it.
func (w *Window) Close() error {
	w.ended.Do(func() {
		w.conn.Fail(nil)
		w.err = <-w.ran
	})
	return w.err
}

// Attend returns a context that ends with the window.
func (w *Window) Attend(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-w.conn.Done():
			cancel(&bridge.Error{Code: bridge.CodeCanceled, Message: "the editor has gone"})
		case <-stop:
		}
	})
	return ctx, func() { close(stop); wg.Wait(); cancel(nil) }
}

// windowAgent is the way to Copilot in a window.
func (b *Bridge) windowAgent(w *Window) engine.Agent {
	name := w.hello.Editor
	if w.hello.Version != "" {
		name += " " + w.hello.Version
	}
	b.Answers = answers.Who{Answers: bridge.Answers{Kind: bridge.AnswersEditor, Detail: "Copilot's models in " + name}}
	b.who.Store("vscode", b.Answers.Answers)
	a := vscode.New(vscode.Options{Editor: w.conn, Idle: b.opts.Config.Engine.IdleTimeout, Logger: b.opts.Logger, Changed: w.changed})
	w.mu.Lock()
	w.agent = a
	w.mu.Unlock()
	return a
}

// historyTurns is how much of a conversation a fresh session is told.
func (b *Bridge) historyTurns() int {
	c := b.opts.Config
	if b.opts.Window != nil && c.Origin("facade.history_turns").Source == config.SourceDefault {
		return windowHistoryTurns
	}
	return c.Facade.HistoryTurns
}

// changed notes that there may be something to tell.
func (w *Window) changed() { poke(w.news) }

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Folders hears that the window has other folders now.
func (w *Window) Folders(folders []editor.Folder) {
	if folders == nil {
		folders = []editor.Folder{}
	}
	w.mu.Lock()
	w.folders = folders
	w.mu.Unlock()
	poke(w.moved)
}

// Trusted says whether the user trusts the folders of the window.
func (w *Window) Trusted() bool { return w.hello.Trusted }

// Open names the directories that are open, if the window itself has not.
func (w *Window) Open(dirs []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.folders) > 0 {
		return
	}
	for _, d := range dirs {
		w.folders = append(w.folders, editor.Folder{Name: filepath.Base(d), Path: d})
	}
}

// openFolders opens the folders of the window. One that cannot be opened is an
// error for the client that uses it.
func (w *Window) openFolders(ctx context.Context, in *workspace.Folders) {
	w.mu.Lock()
	var folders []workspace.Folder
	for _, f := range w.folders {
		folders = append(folders, workspace.Folder{Name: f.Name, Dir: filepath.Clean(f.Path)})
	}
	w.mu.Unlock()
	if err := in.Set(ctx, folders); err != nil {
		w.log.Warn("window.folder_failed", "error", err)
	}
}

// ModelsChanged hears that models or consent have changed.
func (w *Window) ModelsChanged() {
	if a := w.way(); a != nil {
		a.Doubt()
	}
	poke(w.look)
}

// Consented hears that the user has just agreed.
func (w *Window) Consented(context.Context) error {
	if a := w.way(); a != nil {
		a.Consented()
	}
	return nil
}

func (w *Window) way() *vscode.Agent {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.agent
}

// Status tells the extension all there is to know.
func (w *Window) Status(context.Context) (editor.Status, error) {
	w.mu.Lock()
	s := w.server
	w.mu.Unlock()
	if s == nil {
		return editor.Status{}, &bridge.Error{Code: bridge.CodeUnavailable, Message: "the bridge is starting"}
	}
	return editor.Status{Ready: s.windowReady(), State: w.state(), Policy: s.backend.policy()}, nil
}

func (w *Window) state() editor.State {
	out := editor.State{Copilot: editor.CopilotUnknown, Requests: w.requests.Load()}
	if a := w.way(); a != nil {
		out.Copilot, out.Reason = a.Health()
	}
	return out
}

func (s *Server) windowReady() editor.Ready {
	return editor.Ready{URL: s.URL(), RPC: s.RPC(), MCP: s.URL() + "/mcp", ReadOnly: s.ReadOnly(), PID: os.Getpid()}
}

// opened is what other programs are told.
func (w *Window) opened(s *Server) editor.Window {
	out := editor.Window{Ready: s.windowReady(), Editor: w.hello.Editor, Folders: []string{}, Token: string(s.bridge.opts.Config.Serve.Token)}
	for _, f := range s.backend.List() {
		out.Folders = append(out.Folders, f.Dir)
	}
	return out
}

// health is what the last request to the editor's models says.
func (w *Window) health(answers string) httpserver.Health {
	st := w.state()
	h := httpserver.Health{OK: true, Copilot: string(st.Copilot), Reason: st.Reason,
		Details: map[string]any{"answers": answers, "requests": st.Requests}}
	h.Ready = st.Copilot == editor.CopilotOK || st.Copilot == editor.CopilotUnknown
	return h
}

// counted counts the requests to a door.
func (w *Window) counted(h http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.requests.Add(1)
		w.changed()
		h.ServeHTTP(rw, r)
	})
}

// announce tells the extension that requests are answered and then, until ctx
// ends, what changes.
func (w *Window) announce(ctx context.Context, s *Server) {
	tell := func(err error) {
		if err != nil && ctx.Err() == nil {
			w.log.Warn("window.notify_failed", "error", err)
		}
	}
	entry, err := editor.AddWindow(ctx, s.bridge.opts.Config.Path("windows"))
	if err != nil {
		w.log.Warn("window.not_listed", "error", err)
	} else {
		defer func() {
			if err := entry.Remove(); err != nil {
				w.log.Warn("window.not_unlisted", "error", err)
			}
		}()
	}
	list := func() {
		if entry == nil {
			return
		}
		if err := entry.Write(w.opened(s)); err != nil {
			w.log.Warn("window.not_listed", "error", err)
		}
	}
	list()
	tell(w.conn.Ready(ctx, s.windowReady()))
	poke(w.look) // whether there are models is known without asking one
	last, quiet := editor.State{}, time.NewTimer(0)
	defer quiet.Stop()
	news := w.news
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.look:
			s.chat.Refresh()
			if a := w.way(); a != nil {
				if _, err := a.Models(ctx); err != nil && ctx.Err() == nil {
					w.log.Info("window.no_models", "error", err)
				}
			}
		case <-w.moved:
			w.openFolders(ctx, s.backend.Folders)
			list()
		case <-quiet.C:
			news = w.news
		case <-news:
			if now := w.state(); now != last {
				last = now
				tell(w.conn.State(ctx, now))
				news = nil // until the quiet is over
				quiet.Reset(stateEvery)
			}
		}
	}
}

// portName is under which a window's port is remembered: the same folders get
// the same port again, and two windows do not fight over one.
func (w *Window) portName() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := sha256.New()
	for _, f := range w.folders {
		_, _ = io.WriteString(h, f.Path+"\x00") // a hash never fails
	}
	return "vscode-" + hex.EncodeToString(h.Sum(nil)[:6])
}
