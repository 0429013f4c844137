package toolbus

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// What an agent asks goes to those who want it; the first answer counts, and
// only one of its kind.
func TestAgentsAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Hub{}
		d := newDoor(&fake{}, Options{Hub: h})
		plain := d.person(t)
		if h.Person() != nil {
			t.Error("somebody answers agents though nobody has subscribed to their questions")
		}
		first, second := &kept{}, &kept{}
		var conns []person
		for _, to := range []*kept{first, second} {
			p := person{d.connect(t.Context(), to), to}
			conns = append(conns, p)
			if got := p.say(`"bridge.approvals.subscribe","params":{"agents":true}`); !strings.Contains(got, `"open":[]`) {
				t.Fatal(got)
			}
		}
		who := h.Person()
		type said struct {
			answer bridge.Answer
			err    error
		}
		ask := func(ctx context.Context) chan said {
			out := make(chan said, 1)
			go func() {
				a, err := who.Ask(ctx, bridge.Question{Text: "Which\x1b colour?", Choices: []string{"red", "green"}})
				out <- said{a, err}
			}()
			synctest.Wait()
			return out
		}
		open := func() Question {
			t.Helper()
			var m struct{ Params Question }
			got := strings.Join(first.take(), "\n")
			if !strings.Contains(got, `"bridge.question.requested"`) || json.Unmarshal([]byte(got), &m) != nil || m.Params.Message != `Which\x1b colour?` || !strings.Contains(string(m.Params.Schema), `"green"`) {
				t.Fatal(got)
			}
			second.take()
			return m.Params
		}

		out := ask(t.Context())
		q := open()
		if got := conns[0].answers(q.ID, "once"); !strings.Contains(got, "no such question") {
			t.Errorf("consent for a question: %s", got)
		}
		reply := func(action string) string {
			return conns[0].say(fmt.Sprintf(`"bridge.question.answer","params":{"id":%q,"action":%q,"content":{"answer":"green"}}`, q.ID, action))
		}
		if got := reply("perhaps"); !strings.Contains(got, "error") {
			t.Errorf("an action that there is not: %s", got)
		}
		if got := reply("accept"); !strings.Contains(got, `"result":{}`) {
			t.Error(got)
		}
		if s := <-out; s.err != nil || s.answer.Text != "green" || s.answer.Freeform {
			t.Errorf("%+v", s)
		}
		if got := strings.Join(second.take(), "\n"); !strings.Contains(got, `"bridge.question.closed"`) || !strings.Contains(got, "answered") {
			t.Errorf("the other one is told %s", got)
		}
		if got := reply("accept"); !strings.Contains(got, "no such question") {
			t.Errorf("a second answer: %s", got)
		}

		out = ask(t.Context())
		q = open()
		reply("decline")
		if s := <-out; bridge.CodeOf(s.err) != bridge.CodeDenied {
			t.Errorf("declined: %+v", s)
		}
		ctx, cancel := context.WithCancel(t.Context())
		out = ask(ctx)
		open()
		cancel()
		if s := <-out; s.err == nil {
			t.Errorf("the turn has ended: %+v", s)
		}
		first.take()
		out = ask(t.Context())
		open()
		for _, p := range conns {
			p.end(context.Canceled)
		}
		synctest.Wait()
		if s := <-out; bridge.CodeOf(s.err) != bridge.CodeDenied || !strings.Contains(s.err.Error(), "nobody is there") {
			t.Errorf("all have left: %+v", s)
		}
		if got := plain.to.take(); len(got) > 0 {
			t.Errorf("one who did not want them was asked: %s", got)
		}
		plain.end(context.Canceled)
	})
}
