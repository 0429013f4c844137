// Package chat answers clients that keep no session with us: each request
// brings a whole conversation. It finds the live session in which that
// conversation has been going on and sends only what is new, or has a fresh
// session told the rest; it hands the calls of the client's own tools out and
// takes their results with a later request; and it keeps sessions for the next
// caller instead of making new ones. Doors translate their protocols to
// bridge.Chat and call it; it drives internal/engine and knows no protocol.
//
// No word of one caller reaches another. A session goes on only for a request
// whose messages are, word for word, those that it has heard and said, and it
// is used for somebody else only when its history has been taken away and
// looked at to be empty; otherwise it is deleted.
//
// What the runtime has no parameters for is best effort, said to the model in
// a sentence after the prompt: that a tool must be called (though a tool that
// is named is the only one offered, and with "none" none is), that it be one
// at a time, and that any JSON object will do. A turn that goes on with the
// results of tools is not told again. A JSON schema goes to the provider
// itself, of whatever kind it is; one that cannot follow it says so.
package chat

import (
	"container/list"
	"context"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
)

// Options tune a Service. The zero value of a field means what is said there.
type Options struct {
	Logger *slog.Logger
	// Conversations is how many are held for their next request; 64. Of those
	// with one question and its answer only Openings (4) are: most of them
	// never go on, and each session that is in use costs the runtime memory,
	// 0.2 MB a turn until it is 12 MB (measured).
	Conversations int
	Openings      int
	// ConversationTTL ends one that nobody goes on with; 30 minutes.
	ConversationTTL time.Duration
	// ParkTimeout is how long a client may take to answer a tool call; 10
	// minutes. The engine's own limit should not be shorter.
	ParkTimeout time.Duration
	// HistoryBytes (256 KiB) and HistoryTurns (no limit) bound what a fresh
	// session is told of a conversation.
	HistoryBytes int
	HistoryTurns int
	// Answers is how many answers can be named by Chat.Previous (1024), and
	// AnswerTTL for how long (1 hour).
	Answers   int
	AnswerTTL time.Duration
	// AgentSpec makes the session of an agent profile: working directory,
	// gate and the rest; tools are the client's own, which the gate lets
	// pass. Without it there are no agent models.
	AgentSpec func(tools []bridge.ToolSpec) (bridge.SessionSpec, error)
	// NoAgents says, if there are none, what to do for one.
	NoAgents string
	// Prompt sees every text that a chat sends to the model and returns what
	// is sent instead. Agents have a gate for that.
	Prompt func(ctx context.Context, door, text string) (string, error)
	// Aliases are model names of the user's own making.
	Aliases map[string]string
	// UnknownModel is "default" if a name that nobody knows means
	// DefaultModel; otherwise it is an error.
	UnknownModel string
	// DefaultModel is the first of the list if empty.
	DefaultModel string
	// ProviderKind is that of the configured provider, "" with GitHub's models.
	ProviderKind string
	// MemoryLimit is what a runtime may hold before a new one takes over, in
	// bytes; 1 GiB. Negative means no limit.
	MemoryLimit int64
	// RestAfter is how long there must be little to do before the runtimes give
	// back what they have taken; 15 seconds.
	RestAfter time.Duration
	// Warm is called with a new runtime that has taken over, so that the next
	// caller does not pay for its first turn.
	Warm func(ctx context.Context) error
	// Widen is called when there is more to do than one runtime does well.
	Widen func(ctx context.Context) error
}

func (o Options) withDefaults() Options {
	count := func(n *int, v int) {
		if *n <= 0 {
			*n = v
		}
	}
	span := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	count(&o.Conversations, 64)
	count(&o.Openings, 4)
	count(&o.HistoryBytes, 256<<10)
	count(&o.Answers, 1024)
	span(&o.ConversationTTL, 30*time.Minute)
	span(&o.ParkTimeout, 10*time.Minute)
	span(&o.AnswerTTL, time.Hour)
	span(&o.RestAfter, 15*time.Second)
	if o.MemoryLimit == 0 {
		o.MemoryLimit = 1 << 30
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Service answers. Its methods may be called concurrently.
type Service struct {
	engine  *engine.Engine
	opts    Options
	catalog *catalog
	answers *answers

	ctx  context.Context // ends with Close, and with it every turn
	stop context.CancelFunc
	wg   sync.WaitGroup // all goroutines; added to under mu, while not closed

	mu       sync.Mutex
	closed   bool
	held     map[digest][]*conversation
	order    *list.List // of held conversations, the one used last in front
	pool     *pool
	running  int
	active   time.Time     // when the last turn began or ended
	crowded  time.Time     // when there was last more to do than one runtime does easily
	newest   chan struct{} // answer.first of the turn that began last
	turns    int           // since the memory was looked at
	rotating bool
	widening bool
	widened  time.Time // when that was last tried
}

// New returns a service on an engine, which stays the caller's. Close ends it.
func New(e *engine.Engine, opts Options) *Service {
	opts = opts.withDefaults()
	s := &Service{engine: e, opts: opts, catalog: newCatalog(e, &opts), answers: newAnswers(opts.Answers, opts.AnswerTTL),
		held: map[digest][]*conversation{}, order: list.New(), pool: newPool()}
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
	st := Stats{Conversations: s.order.Len(), Pooled: s.pool.size(), Running: s.running}
	for e := s.order.Front(); e != nil; e = e.Next() {
		if c := conversationAt(e); c.state == parked {
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
	there := s.running > 0 || s.pool.anyCurrent()
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

// Answer runs one request; see bridge.Chat. The last event is TurnEnded; if
// the answer fails, Failed comes before it and the error after it. An error
// before the first event comes alone. Leaving the loop, or the end of ctx,
// aborts the turn behind the answer.
func (s *Service) Answer(ctx context.Context, c bridge.Chat) iter.Seq2[bridge.Event, error] {
	return func(yield func(bridge.Event, error) bool) {
		began := time.Now()
		pieces, leave := s.Stream(ctx, c)
		defer leave()
		begun := false
		for {
			select {
			case p, more := <-pieces:
				if !more || !yield(p.Event, p.Err) {
					return
				}
				begun = true
			case <-ctx.Done():
				leave()
				err := bridge.AsError(context.Cause(ctx))
				end := bridge.TurnEnded{Reason: bridge.EndAborted, Duration: time.Since(began)}
				if !begun || yield(bridge.Failed{Error: err}, nil) && yield(end, nil) {
					yield(nil, err)
				}
				return
			}
		}
	}
}

// Stream is Answer for a reader that has more to wait for than the next event,
// and would need a goroutine of its own for that: the same pieces come through
// a channel, which is closed after the last. Some lie ready while the reader
// is busy. The reader must call leave when it goes, which aborts the turn
// unless the answer was over, and must do so when ctx ends: the channel does
// not know of it.
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

// Close aborts what runs and deletes all sessions. It returns when every
// goroutine has gone; the engine is closed after it.
func (s *Service) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.wg.Wait() // every wait in them ends with s.ctx or by itself
	s.mu.Lock()
	var sessions []*engine.Session
	for e := s.order.Front(); e != nil; e = e.Next() {
		sessions = append(sessions, conversationAt(e).session)
	}
	sessions = append(sessions, s.pool.drain()...)
	s.held, s.order = map[digest][]*conversation{}, list.New()
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
