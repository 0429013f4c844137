// Package chat answers clients that keep no session: each request brings a
// whole conversation. It continues the live session in which the conversation
// took place, or gives a fresh session the history. Calls of the client's own
// tools are handed out, and a later request brings their results. It drives
// internal/engine and knows no protocol. The HTTP APIs call it through
// interfaces; internal/app connects them.
package chat

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
)

// Options tune a Service. Each field names the meaning of its zero value.
type Options struct {
	Logger *slog.Logger
	// Conversations is how many are held for their next request; 64. At most
	// Openings (4) of them have only one question and its answer: most of these
	// are never continued, and each session in use costs the runtime memory,
	// 0.2 MB a turn up to 12 MB (measured).
	Conversations int
	Openings      int
	// ConversationTTL ends one that is not continued; 30 minutes.
	ConversationTTL time.Duration
	// ParkTimeout is how long a client may take to answer a tool call; 10
	// minutes. The engine's own limit should not be shorter.
	ParkTimeout time.Duration
	// HistoryBytes and HistoryTurns bound the history that a fresh session is
	// told; no limit.
	HistoryBytes int
	HistoryTurns int
	// AgentSpec makes the session of an agent profile: working directory,
	// gate and the rest; tools are the client's own, which the gate lets
	// pass. Without it there are no agent models.
	AgentSpec func(tools []bridge.ToolSpec) (bridge.SessionSpec, error)
	// NoAgents is the remedy for a request that asks for an agent where there
	// are none.
	NoAgents string
	// Workers, if set, opens the sessions of agents whose work is done elsewhere:
	// agent/MODEL@WORKER. The spec's model is then MODEL@WORKER. Such a session is
	// for one turn.
	Workers *engine.Engine
	// Prompt sees every text that a chat sends to the model and may rewrite it.
	// Agents have a gate for that.
	Prompt func(ctx context.Context, door, text string) (string, error)
	// Aliases are model names of the user's own making.
	Aliases map[string]string
	// UnknownModel is "default" if an unknown name means DefaultModel;
	// otherwise it is an error.
	UnknownModel string
	// DefaultModel is the first of the list if empty.
	DefaultModel string
	// Headers go with every request of a chat to the model's provider.
	Headers map[string]string
	// ProviderKind is that of the configured provider, "" with GitHub's models.
	ProviderKind string
	// Warm is called when a runtime has been replaced, so that the next caller
	// does not pay for the first turn of the new one.
	Warm func(ctx context.Context) error
}

func (o Options) withDefaults() Options {
	o.Conversations = cmp.Or(o.Conversations, 64)
	o.Openings = cmp.Or(o.Openings, 4)
	o.ConversationTTL = cmp.Or(o.ConversationTTL, 30*time.Minute)
	o.ParkTimeout = cmp.Or(o.ParkTimeout, 10*time.Minute)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Service answers. Its methods may be called concurrently. No text of one
// caller reaches another: a session continues only for a request whose messages
// equal the session's own, and it serves another caller only after its history
// was removed and shown to be empty.
type Service struct {
	engine  *engine.Engine
	opts    Options
	catalog *catalog
	answers answers

	ctx  context.Context // ends with Close, and with it every turn
	stop context.CancelFunc
	wg   sync.WaitGroup // all goroutines; added to under mu, while not closed

	mu      sync.Mutex
	closed  bool
	held    []*conversation // for their next request; the one used last comes last
	pool    []pooled        // empty sessions; the one used last comes last
	running int
	active  time.Time     // when the last turn began or ended
	crowded time.Time     // when there were last more turns than a few
	newest  chan struct{} // answer.first of the turn that began last
}

// New returns a service on an engine, which stays the caller's. Close ends it.
func New(e *engine.Engine, opts Options) *Service {
	opts = opts.withDefaults()
	s := &Service{engine: e, opts: opts, catalog: newCatalog(e)}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.wg.Go(s.sweep)
	return s
}

// Stats counts what a service holds.
type Stats struct {
	Conversations int `json:"conversations"` // held for their next request, parked ones included
	Parked        int `json:"parked"`        // of these, waiting for the client's tools
	ParkedCalls   int `json:"parked_calls"`  // tool calls that they wait for
	Pooled        int `json:"pooled"`        // empty sessions for the next caller
	Running       int `json:"running"`       // turns, without the parked ones
}

// Stats returns the counts of now.
func (s *Service) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Stats{Conversations: len(s.held), Pooled: len(s.pool), Running: s.running}
	for _, c := range s.held {
		if c.state == parked {
			st.Parked++
			st.ParkedCalls += len(c.calls)
		}
	}
	return st
}

// Ready makes sure that a session can be had, which starts the runtime, and
// keeps it for the first caller.
func (s *Service) Ready(ctx context.Context) error {
	s.mu.Lock()
	there := s.running > 0 || slices.ContainsFunc(s.pool, func(p pooled) bool { return p.session.Current() })
	s.mu.Unlock()
	if there {
		return nil
	}
	sh, err := shapeOf(&bridge.Chat{Profile: bridge.ProfileChat})
	if err != nil {
		return err
	}
	session, err := s.open(ctx, &bridge.Chat{Door: "ready"}, sh)
	if err != nil {
		return err
	}
	s.keep(sh, session)
	return nil
}

// Stream runs one request; see bridge.Chat. The last event is TurnEnded; if the
// answer fails, Failed comes before it and the error after it. An error before
// the first event comes alone. Then the channel is closed. The channel buffers
// some pieces. The reader must call leave at its end, and when ctx ends, which
// the channel does not notice; leave aborts the turn unless the answer is over.
func (s *Service) Stream(ctx context.Context, c bridge.Chat) (pieces <-chan bridge.Piece, leave func()) {
	a, err := s.begin(ctx, &c)
	if err != nil {
		failed := make(chan bridge.Piece, 1)
		failed <- bridge.Piece{Err: err}
		close(failed)
		return failed, func() {}
	}
	return a.items, a.leave
}

// Close aborts all turns and deletes all sessions. It returns when every
// goroutine has ended; close the engine after it.
func (s *Service) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.wg.Wait() // every wait in them ends with s.ctx or by itself
	s.mu.Lock()
	var sessions []*engine.Session
	for _, c := range s.held {
		sessions = append(sessions, c.session)
	}
	for _, p := range s.pool {
		sessions = append(sessions, p.session)
	}
	s.held, s.pool = nil, nil
	s.mu.Unlock()
	return s.discardAll(ctx, sessions)
}

// start runs f as one of the service's goroutines.
func (s *Service) start(f func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return &bridge.Error{Code: bridge.CodeUnavailable, Message: "the service is closed"}
	}
	s.wg.Go(f)
	return nil
}
