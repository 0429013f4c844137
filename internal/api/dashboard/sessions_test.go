package dashboard

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/live"
	"github.com/copilot-bridge/copilot-bridge/internal/timeline"
)

type listed struct {
	Sessions []timeline.Summary
	More     bool
}

func (l listed) ids() string {
	var out []string
	for _, s := range l.Sessions {
		out = append(out, s.ID)
	}
	return strings.Join(out, " ")
}

func TestSessions(t *testing.T) {
	home := t.TempDir()
	s := start(t, home, 0, nil)
	var empty listed
	if s.read(t, "/sessions", &empty); empty.Sessions == nil || len(empty.Sessions) != 0 {
		t.Errorf("of an empty home: %+v", empty)
	}
	p := startLocal(t, home)
	p.open(t, "first", timeline.Idle)
	p.open(t, "second", timeline.Running)
	ended := p.open(t, "third", timeline.Idle)
	ended.Change(func(s *timeline.Summary) { s.State, s.Door, s.Title = timeline.Ended, "acp", "Über Ärger" })
	eventually(t, "the end", func() bool { sum, err := p.store.Summary("third"); return err == nil && sum.State == timeline.Ended })
	for query, want := range map[string]string{
		"":                          "third second first",
		"?state=live":               "second first",
		"?state=past":               "third",
		"?door=acp":                 "third",
		"?q=title+SECOND":           "second",
		"?q=über":                   "third",
		"?q=nothing":                "",
		"?limit=1":                  "third",
		"?limit=1&before=third":     "second",
		"?limit=5&before=second":    "first",
		"?before=first":             "",
		"?limit=0":                  "",
		"?state=live&before=second": "first",
	} {
		var got listed
		s.read(t, "/sessions"+query, &got)
		if strings.Join(strings.Fields(got.ids()), " ") != want || got.More != (strings.Contains(query, "limit=1") || query == "?limit=0") {
			t.Errorf("%s: %s, more %v", query, got.ids(), got.More)
		}
	}
	for _, query := range []string{"?limit=x", "?limit=-1", "?state=dead", "?limit=99999999999999999999"} {
		if got := s.get(t, "/sessions"+query); got.status != 400 || got.errorCode() != "invalid" {
			t.Errorf("%s: %d %s", query, got.status, got.body)
		}
	}
	var one struct {
		Session   timeline.Summary
		Questions []live.Question
		Can       map[string]bool
	}
	s.read(t, "/sessions/second", &one)
	if one.Session.ID != "second" || one.Questions == nil || !one.Can["stop"] || !one.Can["send"] || one.Can["resume"] {
		t.Errorf("%+v", one)
	}
	if s.read(t, "/sessions/first", &one); one.Can["stop"] || !one.Can["send"] {
		t.Errorf("%+v", one)
	}
}

// Names that lead elsewhere are names of sessions that are not there.
func TestSessionNames(t *testing.T) {
	home := t.TempDir()
	s := start(t, home, 0, nil)
	startLocal(t, home).open(t, "one", timeline.Idle)
	for _, id := range []string{"none", "..%2f..%2fdashboard.key", "%2e%2e%2fone", "..%2ftimelines%2fone", "one%00", "one.json", "%5c..%5cone", "x.1", strings.Repeat("a", 5000)} {
		for _, path := range []string{"", "/events", "/stream"} {
			if got := s.get(t, "/sessions/"+id+path); got.status != 404 || got.errorCode() != "not_found" {
				t.Errorf("%.40s%s: %d %.200s", id, path, got.status, got.body)
			}
		}
		for _, path := range []string{"/stop", "/messages", "/resume"} {
			if got := s.post(t, "/sessions/"+id+path, `{"text":"x"}`); got.status != 404 {
				t.Errorf("%.40s%s: %d %.200s", id, path, got.status, got.body)
			}
		}
	}
	for path, want := range map[string]int{"/sessions/../sessions": 307, "/sessions/%2e%2e/one": 307, "/nothing": 404, "/sessions/one/nothing": 404, "/": 404} {
		if got := s.get(t, path); got.status != want && (want != 307 || got.status/100 != 3 && got.status != 404) {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	if got := s.post(t, "/sessions", "{}"); got.status != 405 || got.errorCode() != "method_not_allowed" {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestEvents(t *testing.T) {
	home := t.TempDir()
	s := start(t, home, 0, nil)
	p := startLocal(t, home)
	r := p.open(t, "one", timeline.Running)
	for n := range 99 {
		r.Add(timeline.Event{Type: timeline.TypeTurn, N: n})
	}
	count := func() int {
		events, _, err := p.store.Read("one", 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		return len(events)
	}
	eventually(t, "all events", func() bool { return count() == 100 })
	type page struct {
		Events            []timeline.Event
		First, Next, Size int64
	}
	var all, some page
	s.read(t, "/sessions/one/events?from=0&limit=1000", &all)
	if len(all.Events) != 100 || all.First != 0 || all.Next != all.Size || all.Events[99].ID != all.Size {
		t.Fatalf("%d events, %d to %d of %d", len(all.Events), all.First, all.Next, all.Size)
	}
	var n int
	for from := int64(0); from < all.Size; n++ { // forwards
		s.read(t, "/sessions/one/events?limit=7&from="+itoa(from), &some)
		if some.Events[0].ID != all.Events[n*7].ID || some.Next <= from {
			t.Fatalf("from %d: %+v", from, some)
		}
		from = some.Next
	}
	s.read(t, "/sessions/one/events?last=10", &some)
	for i := 100; i > 0; i -= 10 { // backwards
		if len(some.Events) != 10 || some.Events[9].ID != all.Events[i-1].ID || some.Next != all.Events[i-1].ID {
			t.Fatalf("before %d: %+v", i, some)
		}
		if some.First > 0 {
			s.read(t, "/sessions/one/events?limit=10&before="+itoa(some.First), &some)
		}
	}
	if some.First != 0 {
		t.Errorf("the first begins at %d", some.First)
	}
	for _, query := range []string{"?from=x", "?from=-1", "?before=x", "?last=-5"} {
		if got := s.get(t, "/sessions/one/events"+query); got.status != 400 {
			t.Errorf("%s: %d %s", query, got.status, got.body)
		}
	}
	s.read(t, "/sessions/one/events?from=99999999", &some)
	if len(some.Events) != 0 || some.Next != all.Size {
		t.Errorf("behind the end: %+v", some)
	}
}

// resumer resumes what is asked of it.
type resumer struct {
	mu   sync.Mutex
	said string
	err  error
}

func (r *resumer) CanResume(s timeline.Summary) bool { return s.ID != "never" }

func (r *resumer) Resume(_ context.Context, s timeline.Summary, text string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = s.ID + ": " + text
	return r.err
}

func TestSteering(t *testing.T) {
	home := t.TempDir()
	again := &resumer{}
	s := start(t, home, 0, func(o *Options) { o.Resumer = again })
	p := startLocal(t, home)
	orders := make(chan live.Order, 1)
	p.Handle(func(_ context.Context, o live.Order) error {
		if orders <- o; o.Text == "fail" {
			return &bridge.Error{Code: bridge.CodeBusy, Message: "not now", Remedy: "later"}
		}
		return nil
	})
	p.open(t, "one", timeline.Running)
	past := p.open(t, "past", timeline.Idle)
	past.Change(func(s *timeline.Summary) { s.State = timeline.Ended })
	never := p.open(t, "never", timeline.Idle)
	never.Change(func(s *timeline.Summary) { s.State = timeline.Ended })
	eventually(t, "the end", func() bool { sum, err := p.store.Summary("never"); return err == nil && sum.State == timeline.Ended })
	for _, tt := range []struct {
		path, body string
		want       live.Order
		status     int
	}{
		{"/sessions/one/stop", `{}`, live.Order{Kind: live.OrderStop, Session: "one"}, 200},
		{"/sessions/one/messages", `{"text":"hurry","mode":"steer"}`, live.Order{Kind: live.OrderSend, Session: "one", Text: "hurry", Mode: live.ModeSteer}, 200},
		{"/sessions/one/messages", `{"text":"then this","mode":"queue"}`, live.Order{Kind: live.OrderSend, Session: "one", Text: "then this", Mode: live.ModeQueue}, 200},
		{"/sessions/one/messages", `{"text":"fail"}`, live.Order{Kind: live.OrderSend, Session: "one", Text: "fail", Mode: live.ModeSteer}, 429},
	} {
		got := s.post(t, tt.path, tt.body)
		o := <-orders
		tt.want.ID, tt.want.By = o.ID, byDashboard
		if got.status != tt.status || o != tt.want {
			t.Errorf("%s %s: %d %s, %+v", tt.path, tt.body, got.status, got.body, o)
		}
	}
	for _, tt := range []struct {
		path, body string
		status     int
	}{
		{"/sessions/one/messages", `{"text":" \n"}`, 400}, {"/sessions/one/messages", `{"text":"x","mode":"loud"}`, 400}, {"/sessions/one/messages", `{"text":7}`, 400},
		{"/sessions/one/messages", `{`, 400}, {"/sessions/one/messages", ``, 400}, {"/sessions/one/stop", `[]`, 400},
		{"/sessions/one/messages", `{"text":"` + strings.Repeat("x", maxBody) + `"}`, 413},
		{"/sessions/past/messages", `{"text":"x"}`, 409}, {"/sessions/past/stop", `{}`, 409},
		{"/sessions/one/resume", `{"text":"x"}`, 409}, {"/sessions/never/resume", `{"text":"x"}`, 400}, {"/sessions/past/resume", `{}`, 400},
	} {
		if got := s.post(t, tt.path, tt.body); got.status != tt.status || got.errorCode() == "" {
			t.Errorf("%s %.40s: %d %s", tt.path, tt.body, got.status, got.body)
		}
	}
	got := s.post(t, "/sessions/past/resume", `{"text":"go on"}`)
	var v struct{ Session string }
	if err := json.Unmarshal([]byte(got.body), &v); got.status != http.StatusAccepted || err != nil || v.Session != "past" || again.said != "past: go on" {
		t.Errorf("resumed: %d %s, %q", got.status, got.body, again.said)
	}
	again.err = &bridge.Error{Code: bridge.CodeConflict, Message: "in use"}
	if got := s.post(t, "/sessions/past/resume", `{"text":"go on"}`); got.status != 409 || !strings.Contains(got.body, "in use") {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// A body that is no use is told in words for people, with what to do.
func TestBodies(t *testing.T) {
	s := start(t, t.TempDir(), 0, nil)
	for _, tt := range []struct {
		name, body, want string
		status           int
	}{
		{"none", "", `{"error":{"code":"invalid","message":"the body is empty: expected JSON","remedy":"docs/reference/dashboard-api.md says what a body has."}}`, 400},
		{"of another type", `{"text":5}`, `{"error":{"code":"invalid","message":"text: expected a string, got a number","remedy":"docs/reference/dashboard-api.md says what a body has."}}`, 400},
		{"too large", `{"text":"` + strings.Repeat("x", 1<<20) + `"}`, `{"error":{"code":"invalid","message":"the body is larger than 1 MiB","remedy":"Send less at a time."}}`, 413},
	} {
		got := s.post(t, "/sessions/x/messages", tt.body)
		if got.status != tt.status || strings.TrimSpace(got.body) != tt.want {
			t.Errorf("%s: %d %s", tt.name, got.status, got.body)
		}
	}
}
