package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
	"github.com/copilot-bridge/copilot-bridge/internal/live"
	"github.com/copilot-bridge/copilot-bridge/internal/timeline"
)

const (
	maxStreams = 256
	// pollTimeline is how often a stream looks for more events of its session, and
	// so how many of them are sent together.
	pollTimeline = 100 * time.Millisecond
	// pollHome is how often the watcher looks for changes in the home, and pollRuns
	// how often it reads the orchestrations, whose changes the home does not show.
	pollHome  = 200 * time.Millisecond
	pollRuns  = 2 * time.Second
	heartbeat = 15 * time.Second
	// lastWrite is how long a client has to read when the server stops.
	lastWrite = time.Second
)

// openStream admits a stream. While one is open, questions wait for a person.
func (a *API) openStream(w http.ResponseWriter, r *http.Request) (*wire.Stream, func(), error) {
	a.watcher.mu.Lock()
	full := a.watcher.streams >= maxStreams
	a.watcher.mu.Unlock()
	if full {
		return nil, nil, &bridge.Error{Code: bridge.CodeBusy, Message: "there are " + strconv.Itoa(maxStreams) + " streams already", Remedy: "Close pages that are not needed."}
	}
	unwatch := a.watcher.join()
	// A client that does not read must not hold the end of the server up.
	rc := http.NewResponseController(w)
	unblock := context.AfterFunc(wire.Draining(r.Context()), func() { _ = rc.SetWriteDeadline(time.Now().Add(lastWrite)) })
	leave := func() { unblock(); unwatch() }
	out := wire.NewStream(w, r)
	out.Comment("open")
	if err := out.Flush(); err != nil {
		leave()
		return nil, nil, err
	}
	return out, leave, nil
}

// sessionStream is GET /sessions/{id}/stream. It reads the file at the pace of its
// client: the session does not know that it is watched.
func (a *API) sessionStream(w http.ResponseWriter, r *http.Request) error {
	s, store, err := a.library.Get(r.PathValue("id"))
	if err != nil {
		return err
	}
	at, err := numberOf(r.URL.Query(), "from", 0, s.Size)
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		at, err = numberOf(map[string][]string{"Last-Event-ID": {last}}, "Last-Event-ID", 0, s.Size)
	}
	if err != nil {
		return err
	}
	out, leave, err := a.openStream(w, r)
	if err != nil {
		return err
	}
	defer leave()
	tick, alive := time.NewTicker(pollTimeline), time.NewTicker(heartbeat)
	defer tick.Stop()
	defer alive.Stop()
	for {
		// A timeline that has been removed, as those of chats are, has nothing more.
		if size, err := store.Size(s.ID); err == nil && size > at {
			events, next, err := store.Read(s.ID, at, fewEvents)
			if err == nil && len(events) > 0 {
				out.ID(strconv.FormatInt(next, 10))
				out.Add("timeline", events)
				if out.Flush() != nil {
					return nil // the client has gone
				}
			}
			if err == nil && next > at {
				at = next
				continue // there may be more already
			}
		}
		if !wait(r.Context(), tick.C, alive.C, out) {
			return nil
		}
	}
}

// wait waits until there may be something new. It reports false when the stream is over.
func wait[T any](ctx context.Context, news <-chan T, alive <-chan time.Time, out *wire.Stream) bool {
	for {
		select {
		case <-news:
			return true
		case <-alive:
			if out.Comment("ping"); out.Flush() != nil {
				return false
			}
		case <-wire.Draining(ctx).Done():
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// state is what the overall stream tells. It is always whole, so that a client that
// comes back needs nothing of what it has missed.
type state struct {
	Sessions  []timeline.Summary `json:"sessions"` // those that live
	Approvals []live.Question    `json:"approvals"`
	Runs      []Run              `json:"runs"` // the newest
	At        time.Time          `json:"at"`
}

// stateStream is GET /stream.
func (a *API) stateStream(w http.ResponseWriter, r *http.Request) error {
	out, leave, err := a.openStream(w, r)
	if err != nil {
		return err
	}
	defer leave()
	alive := time.NewTicker(heartbeat)
	defer alive.Stop()
	for {
		data, next := a.watcher.now()
		if data != nil {
			out.Append("state", data)
			if out.Flush() != nil {
				return nil
			}
		}
		if !wait(r.Context(), next, alive.C, out) {
			return nil
		}
	}
}

// watcher keeps the state up to date while there are streams, for all of them
// together. Meanwhile the home is marked as watched.
type watcher struct {
	home  string
	state func() state

	mu      sync.Mutex
	streams int
	end     context.CancelFunc // of the goroutine that runs while there are streams
	ended   chan struct{}
	current []byte        // the state as JSON, nil while it is not known
	said    string        // the same without its time
	next    chan struct{} // closed when there is another one
}

func newWatcher(home string, state func() state) *watcher {
	return &watcher{home: home, state: state, next: make(chan struct{})}
}

// join counts a stream until leave, which waits for what the last one ends.
func (w *watcher) join() (leave func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.streams++; w.streams == 1 {
		var ctx context.Context
		ctx, w.end = context.WithCancel(context.Background())
		w.current, w.said, w.ended = nil, "", make(chan struct{})
		go w.run(ctx, w.ended)
	}
	return func() {
		w.mu.Lock()
		end, ended := func() {}, make(chan struct{})
		if w.streams--; w.streams == 0 {
			end, ended = w.end, w.ended
		} else {
			close(ended)
		}
		w.mu.Unlock()
		end()
		<-ended
	}
}

// run updates the state until ctx ends.
func (w *watcher) run(ctx context.Context, ended chan<- struct{}) {
	defer close(ended)
	changed := make(chan struct{}, 1)
	var watching sync.WaitGroup
	watching.Go(func() {
		live.Watch(ctx, w.home, pollHome, func() {
			select {
			case changed <- struct{}{}:
			default: // it will be seen
			}
		})
	})
	defer watching.Wait()
	tick := time.NewTicker(pollRuns)
	defer tick.Stop()
	for {
		select {
		case <-changed:
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		w.update()
	}
}

// update finds the state and tells the streams if it is another one.
func (w *watcher) update() {
	s := w.state()
	said := string(wire.Encode(s))
	s.At = time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if said == w.said {
		return
	}
	w.said, w.current = said, wire.Encode(s)
	close(w.next)
	w.next = make(chan struct{})
}

// now is the state, nil if it is not known yet, and what is closed when it changes.
func (w *watcher) now() (json.RawMessage, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.current, w.next
}

// state is what happens now. What cannot be read is left out: it is tried again soon.
func (a *API) state() state {
	s := state{Sessions: []timeline.Summary{}, Approvals: []live.Question{}, Runs: []Run{}}
	all, err := a.library.List()
	if err == nil {
		for _, one := range all {
			if one.State.Live() {
				s.Sessions = append(s.Sessions, one)
			}
		}
	}
	questions, err2 := live.Questions(a.opts.Home)
	if err2 == nil {
		s.Approvals = orEmpty(questions)
	}
	var err3 error
	if a.opts.Records != nil {
		var runs []Run
		runs, err3 = a.opts.Records.Runs(runsStreamed)
		s.Runs = orEmpty(runs)
	}
	if err := errors.Join(err, err2, err3); err != nil {
		a.opts.Logger.Debug("dashboard.state_incomplete", "error", err)
	}
	return s
}
