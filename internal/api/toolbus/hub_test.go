package toolbus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/files"
)

var question1 = approval.Question{Request: bridge.PermissionRequest{Kind: bridge.PermissionShell}, Summary: "run: npm test", Detail: "all of them"}

// asking is a question under way.
type asking struct {
	answer approval.Answer
	err    error
	done   chan struct{}
}

func (h *Hub) ask(ctx context.Context) *asking {
	a := &asking{done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.answer, a.err = h.Ask(ctx, question1)
	}()
	synctest.Wait()
	return a
}

func (a *asking) ended() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// person is a connection that has subscribed.
type person struct {
	*conn
	to *kept
}

func (d *door) person(t *testing.T) person {
	t.Helper()
	p := person{to: &kept{}}
	p.conn = d.connect(t.Context(), p.to)
	if got := p.say(`"bridge.approvals.subscribe"`); !strings.Contains(got, `"result":{"open":[`) {
		t.Fatalf("got %s", got)
	}
	return p
}

func (p person) say(method string) string {
	p.handle([]byte(`{"jsonrpc":"2.0","id":1,"method":` + method + `}`))
	synctest.Wait()
	return strings.Join(p.to.take(), "\n")
}

// asked returns the id of the question that was put.
func (p person) asked(t *testing.T) string {
	t.Helper()
	var m struct {
		Method string   `json:"method"`
		Params Approval `json:"params"`
	}
	got := p.to.take()
	if len(got) != 1 || json.Unmarshal([]byte(got[0]), &m) != nil || m.Method != "bridge.approval.requested" || m.Params.ID == "" ||
		m.Params.Summary != question1.Summary || m.Params.Detail != question1.Detail || m.Params.Kind != bridge.PermissionShell {
		t.Fatalf("got %s", got)
	}
	return m.Params.ID
}

func (p person) answers(id, answer string) string {
	return p.say(fmt.Sprintf(`"bridge.approval.answer","params":{"id":%q,"answer":%q}`, id, answer))
}

func isNobody(err error) bool {
	_, nobody := approval.Nobody{}.Ask(context.Background(), question1)
	return err != nil && err.Error() == nobody.Error() && bridge.CodeOf(err) == bridge.CodeDenied
}

func TestNobodySubscribed(t *testing.T) {
	h := &Hub{}
	if answer, err := h.Ask(t.Context(), question1); answer.Consent != approval.No || !isNobody(err) {
		t.Errorf("got %v, %v", answer, err)
	}
}

// Clients get the text to show, the same for programs, and the hash of it, for
// which they may answer.
func TestApprovalsHaveItAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Hub{}
		d := newDoor(&fake{}, Options{Hub: h})
		p := d.person(t)
		long := strings.Repeat("echo step; ", 500) + "touch evil \u202e"
		q := approval.Question{Summary: "run: \x1bx", Detail: "| " + long, Says: "trust me\r", SHA256: "abc",
			Request: bridge.PermissionRequest{Kind: bridge.PermissionShell, Command: long, Args: map[string]any{"env": "x"}}}
		var said approval.Answer
		done := make(chan struct{})
		go func() {
			defer close(done)
			said, _ = h.Ask(t.Context(), q)
		}()
		synctest.Wait()
		var m struct{ Params Approval }
		if got := p.to.take(); len(got) != 1 || json.Unmarshal([]byte(got[0]), &m) != nil {
			t.Fatalf("got %s", got)
		}
		a := m.Params
		if a.Summary != `run: \x1bx` || a.Detail != "| "+strings.TrimSuffix(long, "\u202e")+`\u202e` || a.Says != `trust me\r` || a.SHA256 != "abc" || a.Permission == nil || a.Permission.Command != long {
			t.Errorf("%+v", a)
		}
		answer := func(sum string) string {
			return p.say(fmt.Sprintf(`"bridge.approval.answer","params":{"id":%q,"answer":"session","sha256":%q}`, a.ID, sum))
		}
		if got := answer("abd"); !strings.Contains(got, "for something else") {
			t.Errorf("another hash: %s", got)
		}
		if got := answer("abc"); !strings.Contains(got, `"result":{}`) {
			t.Errorf("got %s", got)
		}
		<-done
		if said.Consent != approval.Session {
			t.Errorf("said %v", said)
		}
		q.Detail = strings.Repeat("ab ", approval.MaxShown/3)
		if _, err := h.Ask(t.Context(), q); bridge.CodeOf(err) != bridge.CodeDenied || len(p.to.take()) != 0 {
			t.Errorf("too long: %v", err)
		}
	})
}

func TestFirstAnswerCounts(t *testing.T) {
	for word, want := range map[string]approval.Consent{"once": approval.Once, "session": approval.Session, "no": approval.No} {
		synctest.Test(t, func(t *testing.T) {
			h := &Hub{}
			d := newDoor(&fake{}, Options{Hub: h})
			first, second := d.person(t), d.person(t)
			a := h.ask(t.Context())
			id := first.asked(t)
			if second.asked(t) != id || a.ended() {
				t.Fatal("not the same question, or answered already")
			}
			if got := first.answers(id, word); !strings.Contains(got, `"result":{}`) || strings.Contains(got, "closed") {
				t.Errorf("got %s", got)
			}
			<-a.done
			if a.answer.Consent != want || a.err != nil {
				t.Errorf("got %v, %v; want %v", a.answer, a.err, want)
			}
			if got := strings.Join(second.to.take(), ""); got != `{"jsonrpc":"2.0","method":"bridge.approval.closed","params":{"id":"`+id+`","reason":"answered"}}` {
				t.Errorf("the other was told %s", got)
			}
			if got := second.answers(id, "once"); !strings.Contains(got, "-32012") {
				t.Errorf("a second answer got %s", got)
			}
		})
	}
}

// Always is an answer where there are rules for it.
func TestAlwaysNeedsRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Hub{}
		p := newDoor(&fake{}, Options{Hub: h}).person(t)
		a := h.ask(t.Context())
		id := p.asked(t)
		if got := p.answers(id, "always"); !strings.Contains(got, "no rule can be written") || a.ended() {
			t.Errorf("got %s", got)
		}
		p.answers(id, "no")
		<-a.done
		ruled := question1
		ruled.Rules = []string{`sandbox.shell: "npm test"`}
		said := make(chan approval.Answer, 1)
		go func() {
			answer, _ := h.Ask(t.Context(), ruled)
			said <- answer
		}()
		synctest.Wait()
		if got := strings.Join(p.to.take(), ""); !strings.Contains(got, `"rules":["sandbox.shell: \"npm test\""]`) {
			t.Errorf("got %s", got)
		} else {
			_, rest, _ := strings.Cut(got, `"id":"`)
			id, _, _ = strings.Cut(rest, `"`)
		}
		p.answers(id, "always")
		if answer := <-said; answer.Consent != approval.Always {
			t.Errorf("got %v", answer)
		}
	})
}

func TestQuestionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Hub{}
		d := newDoor(&fake{}, Options{Hub: h})
		p := d.person(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		a := h.ask(ctx)
		id := p.asked(t)
		<-a.done
		if a.answer.Consent != approval.No || !errors.Is(a.err, context.DeadlineExceeded) {
			t.Errorf("got %v, %v", a.answer, a.err)
		}
		if got := strings.Join(p.to.take(), ""); !strings.Contains(got, `{"id":"`+id+`","reason":"expired"}`) {
			t.Errorf("told %s", got)
		}
		if got := p.answers(id, "once"); !strings.Contains(got, "-32012") {
			t.Errorf("a late answer got %s", got)
		}
	})
}

func TestAllLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Hub{}
		d := newDoor(&fake{}, Options{Hub: h})
		first, second := d.person(t), d.person(t)
		a, b := h.ask(t.Context()), h.ask(t.Context())
		first.end(errGone)
		synctest.Wait()
		if a.ended() || b.ended() {
			t.Fatal("ended though somebody is there")
		}
		second.end(errGone)
		<-a.done
		<-b.done
		if !isNobody(a.err) || !isNobody(b.err) {
			t.Errorf("got %v, %v", a.err, b.err)
		}
		if _, err := h.Ask(t.Context(), question1); !isNobody(err) {
			t.Errorf("then got %v", err)
		}
	})
}

// A client that subscribes later can answer too.
func TestOpenQuestionsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Hub{}
		d := newDoor(&fake{}, Options{Hub: h})
		first := d.person(t)
		a := h.ask(t.Context())
		id := first.asked(t)
		late := person{to: &kept{}}
		late.conn = d.connect(t.Context(), late.to)
		if got := late.say(`"bridge.approvals.subscribe"`); !strings.Contains(got, `"open":[{"id":"`+id+`"`) {
			t.Errorf("got %s", got)
		}
		late.answers(id, "once")
		<-a.done
		if a.answer.Consent != approval.Once {
			t.Errorf("got %v, %v", a.answer, a.err)
		}
	})
}

// stuck is a transport of a client that does not read.
type stuck struct{}

func (stuck) send(ctx context.Context, _ ...[]byte) error { <-ctx.Done(); return ctx.Err() }
func (stuck) offer([]byte)                                {}
func (stuck) notifies() bool                              { return true }

func TestSlowSubscribersHoldUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Hub{}
		d := newDoor(&fake{}, Options{Hub: h})
		slow := d.connect(t.Context(), stuck{})
		if _, err := slow.subscribe(h, subscribeParams{}); err != nil {
			t.Fatal(err)
		}
		quick := d.person(t)
		a := h.ask(t.Context())
		quick.answers(quick.asked(t), "once")
		<-a.done
		if a.answer.Consent != approval.Once || a.err != nil {
			t.Errorf("got %v, %v", a.answer, a.err)
		}
	})
}

// A connection that is full with calls that wait for consent can still give
// it.
func TestConsentPassesWaitingCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Hub{}
		f := &fake{read: func(ctx context.Context, _ string) (files.Content, error) {
			_, err := h.Ask(ctx, question1)
			return files.Content{}, err
		}}
		d := newDoor(f, Options{Hub: h, MaxConcurrent: 1, MaxQueued: 1})
		p := d.person(t)
		p.handle([]byte(ask("7", "x")))
		synctest.Wait()
		p.handle([]byte(ask("8", "x")))
		// The second call runs, and asks, when the first was answered.
		if got := p.answers(p.asked(t), "once"); !strings.Contains(got, `"id":7,"result"`) || !strings.Contains(got, "bridge.approval.requested") {
			t.Errorf("got %s", got)
		}
		p.end(errGone)
		p.wait()
	})
}

func TestWithoutAHub(t *testing.T) {
	got := exchange(t, newDoor(&fake{}, Options{}), `{"jsonrpc":"2.0","id":1,"method":"bridge.approvals.subscribe"}`)
	if outcomes(t, got) != "1: -32601" {
		t.Errorf("got %s", got)
	}
}

// A client that subscribes to its own questions gets no others, and is told
// which request they are about.
func TestOwnQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Hub{}
		f := &fake{read: func(ctx context.Context, _ string) (files.Content, error) {
			answer, err := h.Ask(ctx, question1)
			if answer.Consent != approval.Once {
				return files.Content{}, &bridge.Error{Code: bridge.CodeDenied, Message: "no", Cause: err}
			}
			return files.Content{}, nil
		}}
		d := newDoor(f, Options{Hub: h})
		mine, theirs := person{to: &kept{}}, person{to: &kept{}}
		mine.conn, theirs.conn = d.connect(t.Context(), mine.to), d.connect(t.Context(), theirs.to)
		mine.say(`"bridge.approvals.subscribe","params":{"own":true}`)
		if h.Hears(t.Context()) {
			t.Error("a question about nothing has a hearer")
		}
		theirs.handle([]byte(ask(`"x"`, "f")))
		synctest.Wait()
		if got := theirs.to.take(); len(got) != 1 || !strings.Contains(got[0], `"code":-32010`) {
			t.Errorf("another's request: %s", got)
		}
		mine.handle([]byte(ask(`"m"`, "f")))
		synctest.Wait()
		got := mine.to.take()
		if len(got) != 1 || !strings.Contains(got[0], `"request":"m"`) {
			t.Fatalf("got %s", got)
		}
		var q struct{ Params Approval }
		if err := json.Unmarshal([]byte(got[0]), &q); err != nil {
			t.Fatal(err)
		}
		// One that hears everything is told of it as well, without the id.
		all := d.person(t)
		if got := mine.answers(q.Params.ID, "once"); !strings.Contains(got, `"id":"m","result"`) {
			t.Errorf("got %s", got)
		}
		if got := strings.Join(all.to.take(), ""); !strings.Contains(got, "bridge.approval.closed") || strings.Contains(got, `"request"`) {
			t.Errorf("got %s", got)
		}
		// The client that asked has left, so no client can answer.
		mine.handle([]byte(ask(`"n"`, "f")))
		all.end(errGone)
		synctest.Wait()
		if h.Hears(t.Context()) {
			t.Error("somebody still hears everything")
		}
		mine.end(errGone)
		mine.wait()
		theirs.end(errGone)
		theirs.wait()
		all.wait()
	})
}
