package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/guard"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/redact"
	"github.com/copilot-bridge/copilot-bridge/internal/live"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
	"github.com/copilot-bridge/copilot-bridge/internal/timeline"
)

// observer makes this process known to others, writes the timelines of its
// sessions, and carries out what others ask of them. Its methods may be called
// concurrently.
type observer struct {
	local    *live.Local
	writer   *timeline.Writer
	kept     *timeline.Store // of agents' sessions
	passing  *timeline.Store // of chats; they end with the process
	redactor *redact.Redactor
	answers  func(agent string) string
	logger   *slog.Logger

	ctx    context.Context // ends the turns that others have asked for
	cancel context.CancelFunc
	turns  sync.WaitGroup

	mu       sync.Mutex
	sessions map[string]*watchedSession // open, by the engine's id
	lines    map[string]*watchedSession // open, by the timeline's
	used     map[string]int             // how many timelines a session has had
	ended    []*timeline.Recorder       // of chats that are over, the oldest first
}

// endedMost is how many timelines of chats that are over a process keeps.
const endedMost = 200

// observe starts the observer. A home that cannot be written is no reason not to
// work: nothing is observed then.
func (b *Bridge) observe() {
	o := b.opts
	local, err := live.Start(o.Config.Home, live.Process{Command: o.Command, Workspace: o.Workspace, Version: o.Version})
	if err != nil {
		o.Logger.Warn("observe.off: this process is not shown to others", "error", err)
		return
	}
	passing := timeline.Open(live.Timelines(o.Config.Home, local.ID()))
	w := &observer{
		local: local, writer: timeline.NewWriter(o.Logger), kept: passing, passing: passing, logger: o.Logger,
		redactor: redact.New(redact.Options{Secrets: o.Config.Secrets()}),
		answers: func(agent string) string {
			return cmp.Or(b.answers(agent).Detail, b.nowadays(b.Answers.Answers).Detail)
		},
		sessions: map[string]*watchedSession{}, lines: map[string]*watchedSession{}, used: map[string]int{},
	}
	if _, keep := o.Config.Sessions.TimelineDays(); keep {
		w.kept = timeline.Open(timeline.Dir(o.Config.Home))
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	local.Handle(w.order)
	b.observer = w
}

// Live is this process as others see it; nil if it is not shown.
func (b *Bridge) Live() *live.Local {
	if b.observer == nil {
		return nil
	}
	return b.observer.local
}

// tellURL tells others where this process serves.
func (b *Bridge) tellURL(url string) {
	if b.observer == nil {
		return
	}
	if err := b.observer.local.SetURL(url); err != nil {
		b.opts.Logger.Warn("observe.url_not_told", "error", err)
	}
}

// stopTurns ends the turns that others have asked for.
func (o *observer) stopTurns() {
	o.cancel()
	o.turns.Wait()
}

// close writes what is left. The sessions have been closed.
func (o *observer) close(ctx context.Context) error {
	return errors.Join(o.writer.Close(ctx), o.local.Close())
}

// hide takes the secrets out of a text of which only the beginning is kept. It
// returns the length of the whole if that was cut.
func (o *observer) hide(s string) (clean string, clipped int) {
	// More is looked at than is kept: a secret that is cut is not recognised.
	const looked = timeline.Most + 16<<10
	if len(s) > looked {
		clipped = len(s)
		s = strings.ToValidUTF8(s[:looked], "")
	}
	clean, _ = o.redactor.String(s)
	if clipped > 0 {
		clean = text.Clip(clean, timeline.Most)
	}
	return clean, clipped
}

// SessionOpened begins to watch a session. Its timeline begins with its first
// turn: many are opened in advance.
func (o *observer) SessionOpened(s *engine.Session, r engine.Request) engine.Watcher {
	w := &watchedSession{o: o, session: s, request: r, opened: time.Now(), names: map[string]string{}}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sessions[s.ID()] = w
	return w
}

// begin gives a session its timeline.
func (o *observer) begin(w *watchedSession, title string) *timeline.Recorder {
	info := w.session.Opened()
	store := o.kept
	if info.Profile == bridge.ProfileChat {
		store = o.passing
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	id := info.Session
	if n := o.used[id]; n > 0 { // it has forgotten a conversation
		id += fmt.Sprintf("-%d", n+1)
	}
	if info.Profile == bridge.ProfileChat {
		o.used[info.Session]++
	}
	o.lines[id] = w
	return o.writer.Record(store, timeline.Summary{
		ID: id, Process: o.local.ID(), Door: w.session.Door(), Client: w.request.Client, Profile: info.Profile, Agent: info.Agent, Model: info.Model,
		Dir: info.WorkingDir, Title: title, State: timeline.Running, Started: w.opened, Run: w.request.Run, Task: w.request.Task, Answers: o.answers(info.Agent),
	})
}

// end forgets a session.
func (o *observer) end(w *watchedSession, rec *timeline.Recorder) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if id := w.session.ID(); o.sessions[id] == w {
		delete(o.sessions, id)
	}
	if rec == nil {
		return
	}
	delete(o.lines, rec.Session())
	if w.request.Spec.Profile != bridge.ProfileChat {
		return
	}
	if o.ended = append(o.ended, rec); len(o.ended) > endedMost {
		o.ended[0].Discard()
		o.ended = slices.Delete(o.ended, 0, 1)
	}
}

func (o *observer) session(id string) *watchedSession {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sessions[id]
}

// Decided and Asked are told by the guards of all sessions.
func (o *observer) Decided(v guard.Verdict) {
	if w := o.session(v.Session); w != nil {
		w.decided(v)
	}
}

func (o *observer) Asked(session string, q approval.Question) (answered func(bridge.Decision)) {
	w := o.session(session)
	if w == nil {
		return func(bridge.Decision) {}
	}
	lead, _, err := q.Whole(approval.MaxShown)
	if err != nil {
		lead = approval.Visible(q.Summary)
	}
	w.asked(q.Request.ID, lead)
	return func(d bridge.Decision) {
		w.answered(q.Request.ID, timeline.Event{Answer: d.Verdict.String(), Reason: d.Reason, By: d.By})
	}
}

// order carries out what another process asks of a session.
func (o *observer) order(ctx context.Context, order live.Order) error {
	o.mu.Lock()
	w := o.lines[order.Session]
	o.mu.Unlock()
	if w == nil {
		return &bridge.Error{Code: bridge.CodeNotFound, Message: "the session " + order.Session + " is not open in this process"}
	}
	s := w.session
	p := bridge.Prompt{Text: order.Text, By: order.By}
	switch {
	case order.Kind == live.OrderStop && !s.Busy():
		return &bridge.Error{Code: bridge.CodeConflict, Message: "no turn is running in the session " + order.Session}
	case order.Kind == live.OrderStop:
		w.note(timeline.Event{Type: timeline.TypeNotice, Level: "info", Text: "the turn is stopped", By: order.By})
		return s.Abort(ctx)
	case order.Kind != live.OrderSend:
		return &bridge.Error{Code: bridge.CodeUnsupported, Message: "this process does not know the order " + order.Kind}
	case strings.TrimSpace(order.Text) == "":
		return &bridge.Error{Code: bridge.CodeInvalid, Message: "the message is empty"}
	case w.request.Spec.Profile == bridge.ProfileChat:
		return &bridge.Error{Code: bridge.CodeUnsupported, Message: "a chat takes messages from its client only", Remedy: "stop it, or write in the client"}
	case s.Busy() && order.Mode == live.ModeSteer:
		return s.Steer(ctx, p)
	case s.Busy():
		return s.Enqueue(p)
	}
	o.turn(s, p)
	return nil
}

// turn runs a turn that nobody but the timeline reads.
func (o *observer) turn(s *engine.Session, p bridge.Prompt) {
	o.turns.Go(func() {
		for _, err := range s.Send(o.ctx, p) {
			if err != nil {
				o.logger.Warn("observe.turn_failed", "session", s.ID(), "error", err)
			}
		}
	})
}
