package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/live"
	"github.com/copilot-bridge/copilot-bridge/internal/timeline"
)

// Resumer continues sessions that no process has open. Its methods are called
// concurrently.
type Resumer interface {
	// CanResume says whether this server could. It is cheap.
	CanResume(s timeline.Summary) bool
	// Resume gives a session a message, in its directory and under its rules. It
	// returns once the turn has begun.
	Resume(ctx context.Context, s timeline.Summary, text string) error
}

// byDashboard is where a person was who answered or said something here.
const byDashboard = "dashboard"

const (
	fewSessions  = 50
	mostSessions = 500
	fewEvents    = 500
	mostEvents   = 5000
)

// numberOf is number for offsets.
func numberOf(q url.Values, name string, fallback, most int64) (int64, error) {
	n, err := number(q, name, uint64(fallback), uint64(most))
	return int64(n), err
}

// sessions is GET /sessions.
func (a *API) sessions(_ http.ResponseWriter, r *http.Request) (any, error) {
	q := r.URL.Query()
	limit, err := numberOf(q, "limit", fewSessions, mostSessions)
	if err != nil {
		return nil, err
	}
	state := q.Get("state")
	if state != "" && state != "live" && state != "past" {
		return nil, invalid("state is neither live nor past", "Use state=live, state=past, or leave it out.")
	}
	all, err := a.library.List()
	if err != nil {
		return nil, err
	}
	if before := q.Get("before"); before != "" {
		i := slices.IndexFunc(all, func(s timeline.Summary) bool { return s.ID == before })
		all = all[i+1:] // all of them if that session is gone
	}
	door, words := q.Get("door"), strings.Fields(strings.ToLower(q.Get("q")))
	all = slices.DeleteFunc(all, func(s timeline.Summary) bool {
		return state != "" && s.State.Live() != (state == "live") || door != "" && s.Door != door || !mentions(s, words)
	})
	more := int64(len(all)) > limit
	all = all[:min(int64(len(all)), limit)]
	return map[string]any{"sessions": orEmpty(all), "more": more}, nil
}

// mentions says whether a session has all the words in what a list shows of it.
func mentions(s timeline.Summary, words []string) bool {
	text := strings.ToLower(strings.Join([]string{s.ID, s.Title, s.Dir, s.Door, s.Client, s.Agent, s.Model, s.Run, s.Task}, "\n"))
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
}

// orEmpty makes a list that is written as [] and not as null.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// can says what a person can do to a session.
type can struct {
	Stop   bool `json:"stop"`
	Send   bool `json:"send"`
	Resume bool `json:"resume"`
}

func (a *API) can(s timeline.Summary) can {
	return can{
		Stop:   s.State == timeline.Running || s.State == timeline.Waiting,
		Send:   s.State.Live() && s.Profile == bridge.ProfileAgent, // chats bring their messages themselves
		Resume: !s.State.Live() && a.opts.Resumer != nil && a.opts.Resumer.CanResume(s),
	}
}

// session is GET /sessions/{id}.
func (a *API) session(_ http.ResponseWriter, r *http.Request) (any, error) {
	s, _, err := a.library.Get(r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	questions, err := live.Questions(a.opts.Home)
	if err != nil {
		return nil, err
	}
	questions = slices.DeleteFunc(questions, func(q live.Question) bool { return q.Session != s.ID })
	return map[string]any{"session": s, "questions": orEmpty(questions), "can": a.can(s)}, nil
}

// events is GET /sessions/{id}/events.
func (a *API) events(_ http.ResponseWriter, r *http.Request) (any, error) {
	q := r.URL.Query()
	limit, err := numberOf(q, "limit", fewEvents, mostEvents)
	if err != nil {
		return nil, err
	}
	s, store, err := a.library.Get(r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	var events []json.RawMessage
	var first, next int64
	if q.Has("last") || q.Has("before") {
		var before int64
		if before, err = numberOf(q, "before", s.Size, s.Size); err == nil {
			limit, err = numberOf(q, "last", limit, mostEvents)
		}
		if err != nil {
			return nil, err
		}
		events, first, next, err = store.Before(s.ID, before, int(limit))
	} else if first, err = numberOf(q, "from", 0, s.Size); err == nil {
		events, next, err = store.Read(s.ID, first, int(limit))
	}
	return map[string]any{"events": orEmpty(events), "first": first, "next": next, "size": s.Size}, err
}

// order has the process of a session do what a person wants.
func (a *API) order(r *http.Request, o live.Order) error {
	s, _, err := a.library.Get(r.PathValue("id"))
	if err != nil {
		return err
	}
	if !s.State.Live() {
		return &bridge.Error{Code: bridge.CodeConflict, Message: "no process has the session " + s.ID + " open any more",
			Remedy: "Resume it."}
	}
	o.Session, o.By = s.ID, byDashboard
	return live.Send(r.Context(), a.opts.Home, s.Process, o)
}

// stop is POST /sessions/{id}/stop.
func (a *API) stop(w http.ResponseWriter, r *http.Request) (any, error) {
	if _, err := decode[struct{}](w, r); err != nil {
		return nil, err
	}
	return none{}, a.order(r, live.Order{Kind: live.OrderStop})
}

// message is POST /sessions/{id}/messages.
func (a *API) message(w http.ResponseWriter, r *http.Request) (any, error) {
	given, err := decode[struct {
		Text string `json:"text"`
		Mode string `json:"mode"`
	}](w, r)
	if err != nil {
		return nil, err
	}
	mode := cmp.Or(given.Mode, live.ModeSteer)
	switch {
	case strings.TrimSpace(given.Text) == "":
		return nil, noText()
	case mode != live.ModeSteer && mode != live.ModeQueue:
		return nil, invalid("mode is neither steer nor queue", "Use steer to say it in the running turn, queue to say it after it.")
	}
	return none{}, a.order(r, live.Order{Kind: live.OrderSend, Text: given.Text, Mode: mode})
}

func noText() error { return invalid("there is no text", "Say something in \"text\".") }

// resume is POST /sessions/{id}/resume.
func (a *API) resume(w http.ResponseWriter, r *http.Request) (any, error) {
	given, err := decode[struct {
		Text string `json:"text"`
	}](w, r)
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(given.Text) == "" {
		return nil, noText()
	}
	s, _, err := a.library.Get(r.PathValue("id"))
	switch {
	case err != nil:
		return nil, err
	case s.State.Live():
		return nil, &bridge.Error{Code: bridge.CodeConflict, Message: "the session " + s.ID + " is open in another process", Remedy: "Send it a message."}
	case a.opts.Resumer == nil || !a.opts.Resumer.CanResume(s):
		return nil, &bridge.Error{Code: bridge.CodeUnsupported, Message: "the session " + s.ID + " cannot be resumed here",
			Remedy: "Only sessions of agents that are still kept can be, such as those that `copilot-bridge sessions list` shows."}
	}
	if err := a.opts.Resumer.Resume(r.Context(), s, given.Text); err != nil {
		return nil, err
	}
	return accepted{map[string]string{"session": s.ID}}, nil
}
