package dashboard

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/live"
)

func ask(t *testing.T, p *local, q live.Question) *live.Open {
	t.Helper()
	if q.Answers == nil {
		q.Answers = []string{live.Once, live.Session, live.Deny}
	}
	o, err := p.Open(q)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Close)
	return o
}

// replied is the reply to a question.
func replied(t *testing.T, q *live.Open) live.Reply {
	t.Helper()
	select {
	case r := <-q.Replied():
		return r
	case <-time.After(patient):
		t.Fatal("there is no reply")
		return live.Reply{}
	}
}

func TestApprovals(t *testing.T) {
	home := t.TempDir()
	s := start(t, home, 0, nil)
	p := startLocal(t, home)
	q := ask(t, p, live.Question{Session: "one", Lead: "Copilot wants to run:", Body: "rm -rf build"})
	var open struct{ Approvals []live.Question }
	s.read(t, "/approvals", &open)
	if len(open.Approvals) != 1 || open.Approvals[0].ID != q.ID || open.Approvals[0].Body != "rm -rf build" {
		t.Fatalf("%+v", open)
	}
	for body, want := range map[string]int{`{}`: 400, `{"answer":"always"}`: 400, `{"answer":"yes"}`: 400, `[]`: 400, `{"answer":"once","text":"` + strings.Repeat("x", maxBody) + `"}`: 413} {
		if got := s.post(t, "/approvals/"+q.ID, body); got.status != want {
			t.Errorf("%.40s: %d %s", body, got.status, got.body)
		}
	}
	if got := s.post(t, "/approvals/"+q.ID, `{"answer":"deny","reason":"use git clean"}`); got.status != 200 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	if r := replied(t, q); r.Answer != live.Deny || r.Reason != "use git clean" || r.By != byDashboard {
		t.Errorf("%+v", r)
	}
	if got := s.post(t, "/approvals/"+q.ID, `{"answer":"once"}`); got.status != 409 || got.errorCode() != "answered" || !strings.Contains(got.body, "(denied) at: dashboard") {
		t.Errorf("too late: %d %s", got.status, got.body)
	}
	taken := ask(t, p, live.Question{})
	if _, won := taken.Claim(live.Reply{Answer: live.Once, By: "terminal"}); !won {
		t.Fatal("it cannot be claimed")
	}
	if got := s.post(t, "/approvals/"+taken.ID, `{"answer":"deny"}`); got.status != 409 || !strings.Contains(got.body, "(allowed once) at: terminal") {
		t.Errorf("answered at the terminal: %d %s", got.status, got.body)
	}
	for _, id := range []string{"NONE", "..%2f" + q.ID, "%2e%2e"} {
		if got := s.post(t, "/approvals/"+id, `{"answer":"once"}`); got.status != 410 || got.errorCode() != "gone" {
			t.Errorf("%s: %d %s", id, got.status, got.body)
		}
	}
}

// Of many who answer at once exactly one does.
func TestManyAnswer(t *testing.T) {
	home := t.TempDir()
	s := start(t, home, 0, nil)
	q := ask(t, startLocal(t, home), live.Question{})
	var won atomic.Int32
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			switch got := s.post(t, "/approvals/"+q.ID, `{"answer":"once"}`); got.status {
			case 200:
				won.Add(1)
			case 409:
			default:
				t.Errorf("%d %s", got.status, got.body)
			}
		})
	}
	if all.Wait(); won.Load() != 1 {
		t.Errorf("%d have won", won.Load())
	}
}

// linking is a server whose links refuse into a list.
func linking(t *testing.T) (*server, *local, func() []string) {
	t.Helper()
	var mu sync.Mutex
	var refused []string
	home := t.TempDir()
	s := start(t, home, 0, func(o *Options) {
		o.Token = "t0ken"
		o.LinkRefused = func(_ context.Context, question, why string) {
			mu.Lock()
			defer mu.Unlock()
			refused = append(refused, question+": "+why)
		}
	})
	return s, startLocal(t, home), func() []string {
		mu.Lock()
		defer mu.Unlock()
		return refused
	}
}

// link makes a link and returns its path.
func (s *server) link(t *testing.T, question string) (path string, expires time.Time) {
	t.Helper()
	got := s.post(t, "/approvals/"+question+"/link", "{}")
	var v struct {
		URL     string
		Expires time.Time
	}
	if err := json.Unmarshal([]byte(got.body), &v); got.status != 200 || err != nil {
		t.Fatalf("%d %s", got.status, got.body)
	}
	path, ok := strings.CutPrefix(v.URL, s.URL())
	if !ok || !strings.HasPrefix(path, "/approve/") || len(path) < len("/approve/")+20 {
		t.Fatalf("the link is %s", v.URL)
	}
	return path, v.Expires
}

func (s *server) use(t *testing.T, path, say string) answer {
	t.Helper()
	return s.do(t, "POST", path, url.Values{"answer": {say}, "text": {" green "}}.Encode(), "Content-Type", "application/x-www-form-urlencoded", "Origin", s.URL())
}

func TestLinks(t *testing.T) {
	s, p, refused := linking(t)
	q := ask(t, p, live.Question{Lead: "Copilot wants to run:", Body: "echo '<b>&</b>'", Until: time.Now().Add(time.Minute)})
	path, expires := s.link(t, q.ID)
	if !expires.Equal(q.Until) {
		t.Errorf("it ends at %s, the question at %s", expires, q.Until)
	}
	for range 2 { // previews load it too
		got := s.do(t, "GET", path, "")
		for _, part := range []string{"Copilot wants to run:", "echo &#39;&lt;b&gt;&amp;&lt;/b&gt;&#39;", `value="once"`, `value="deny"`, `method="post"`} {
			if got.status != 200 || !strings.Contains(got.body, part) {
				t.Errorf("lacks %q: %d %s", part, got.status, got.body)
			}
		}
		if strings.Contains(got.body, "<script") || !strings.Contains(got.header.Get("Content-Security-Policy"), "frame-ancestors 'none'") || got.header.Get("X-Frame-Options") != "DENY" || got.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%v", got.header)
		}
	}
	for _, say := range []string{"always", "session", "", "yes"} {
		if got := s.use(t, path, say); got.status != 400 {
			t.Errorf("answered %q: %d %s", say, got.status, got.body)
		}
	}
	if got := s.do(t, "POST", path, "answer=once", "Content-Type", "application/x-www-form-urlencoded", "Origin", "http://evil.example"); got.status != 403 {
		t.Errorf("from another origin: %d", got.status)
	}
	if got := s.do(t, "POST", path, strings.Repeat("x", 1<<20), "Content-Type", "application/x-www-form-urlencoded"); got.status != 400 {
		t.Errorf("a huge body: %d", got.status)
	}
	if len(refused()) > 0 {
		t.Errorf("recorded %q", refused())
	}
	if got := s.use(t, path, "once"); got.status != 200 || !strings.Contains(got.body, "Allowed once.") {
		t.Fatalf("%d %s", got.status, got.body)
	}
	if r := replied(t, q); r.Answer != live.Once || r.By != byLink {
		t.Errorf("%+v", r)
	}
	for _, say := range []string{"once", "deny"} { // a stolen link
		if got := s.use(t, path, say); got.status != 410 || !strings.Contains(got.body, "has been used") {
			t.Errorf("a second time: %d %s", got.status, got.body)
		}
	}
	if got := s.do(t, "GET", path, ""); got.status != 410 || strings.Contains(got.body, "echo") {
		t.Errorf("shown after its use: %d %s", got.status, got.body)
	}
	if got := refused(); len(got) != 2 || got[0] != q.ID+": This link has been used." {
		t.Errorf("recorded %q", got)
	}
	if said := s.log.String(); strings.Contains(said, strings.TrimPrefix(path, "/approve/")) {
		t.Error("the link is in the log")
	}
}

func TestLinksEnd(t *testing.T) {
	s, p, refused := linking(t)
	q := ask(t, p, live.Question{Lead: "first"})
	other := ask(t, p, live.Question{Lead: "second"})
	path, expires := s.link(t, q.ID)
	if left := time.Until(expires); left > linkTime || left < linkTime-time.Minute {
		t.Errorf("it ends in %s", left)
	}
	second, _ := s.link(t, other.ID)
	if got := s.do(t, "GET", second, ""); !strings.Contains(got.body, "second") || strings.Contains(got.body, "first") {
		t.Errorf("a link shows %s", got.body)
	}
	q.Close() // it was taken back
	for _, got := range []answer{s.use(t, path, "once"), s.do(t, "GET", path, "")} {
		if got.status != 410 {
			t.Errorf("after its question: %d %s", got.status, got.body)
		}
	}
	if got := s.post(t, "/approvals/"+q.ID+"/link", "{}"); got.status != 410 {
		t.Errorf("a link of a closed question: %d %s", got.status, got.body)
	}
	s.api.links.mu.Lock()
	for _, l := range s.api.links.open {
		l.until = time.Now().Add(-time.Second)
	}
	s.api.links.mu.Unlock()
	if got := s.use(t, second, "once"); got.status != 410 || !strings.Contains(got.body, "time of this link is over") {
		t.Errorf("after its time: %d %s", got.status, got.body)
	}
	select {
	case r := <-other.Replied():
		t.Errorf("answered %+v", r)
	default:
	}
	if got := refused(); len(got) != 2 {
		t.Errorf("recorded %q", got)
	}
	for _, token := range []string{"X", "", "%2e%2e", "..%2f..%2fapi", strings.Repeat("A", 3000)} {
		if got := s.use(t, "/approve/"+token, "once"); got.status != 404 && got.status/100 != 3 && got.status != 401 {
			t.Errorf("%.20s: %d %s", token, got.status, got.body)
		}
	}
}

// A link also answers a question of the agent's own.
func TestLinkWithText(t *testing.T) {
	s, p, _ := linking(t)
	q := ask(t, p, live.Question{Lead: "Which colour?", Form: &live.Form{Choices: []string{"red", "green"}, Freeform: true}, Answers: []string{live.Text, live.Decline}})
	path, _ := s.link(t, q.ID)
	if got := s.do(t, "GET", path, ""); !strings.Contains(got.body, "<textarea") || strings.Contains(got.body, `value="once"`) {
		t.Errorf("%s", got.body)
	}
	if got := s.use(t, path, "text"); got.status != 200 {
		t.Errorf("%d %s", got.status, got.body)
	}
	if r := replied(t, q); r.Text != "green" {
		t.Errorf("%+v", r)
	}
	form := ask(t, p, live.Question{Form: &live.Form{Fields: []approval.Field{{Name: "a"}, {Name: "b"}}}, Answers: []string{live.Text}})
	if got := s.post(t, "/approvals/"+form.ID+"/link", "{}"); got.status != 400 || got.errorCode() != "unsupported" {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// Of many who have one link, one answers.
func TestStolenLink(t *testing.T) {
	s, p, refused := linking(t)
	q := ask(t, p, live.Question{})
	path, _ := s.link(t, q.ID)
	var won atomic.Int32
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if got := s.use(t, path, "once"); got.status == 200 {
				won.Add(1)
			}
		})
	}
	if all.Wait(); won.Load() != 1 || len(refused()) != 9 {
		t.Errorf("%d have won, %d were recorded", won.Load(), len(refused()))
	}
}
