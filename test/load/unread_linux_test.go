package load

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
)

// The memory limit for clients that do not read, over all processes.
const unreadMemory = 600 << 20

// flood answers with 50 MB, one megabyte a second.
func flood(req demomodel.Request) (demomodel.Reply, bool) {
	if !strings.Contains(string(req.Raw), "flood") {
		return nil, false
	}
	piece := strings.Repeat("all work and no play ", 10_000/21)
	var reply demomodel.Reply
	for range 50_000_000 / len(piece) {
		reply = append(reply, demomodel.Chunks(piece), demomodel.Delay(10*time.Millisecond))
	}
	return reply, true
}

// Clients that request answers of 50 MB and never read them cost little memory
// and are disconnected. Meanwhile other callers are answered.
func TestUnreadAnswers(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{true, false} {
		t.Run(fmt.Sprintf("stream=%v", stream), func(t *testing.T) {
			t.Parallel()
			m := newModel(t, flood)
			s := serve(t, m.URL(), m.Key())
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			c := newCallerFactory(t, s).newCaller(completions{})
			c.converse(ctx, 1)
			before := s.counts()
			for i := range 6 {
				neverRead(t, s, protocols()[i%3], &question{stream: stream, most: 100_000_000, messages: []message{{role: "user", text: fmt.Sprint("flood ", i)}}})
			}
			most, slowest, began := 0, time.Duration(0), time.Now()
			for calm := time.Tick(500 * time.Millisecond); len(c.fails) == 0 && s.inFlight() > 1; <-calm {
				asked := time.Now()
				c.asks.messages, c.turns = nil, 0 // a long conversation would cost memory, too
				c.converse(ctx, 1)
				slowest = max(slowest, time.Since(asked))
				most = max(most, s.allResident())
			}
			checkCaller(t, c)
			t.Logf("cut after %s; another caller waited %s at most; %.0f MB before, %.0f at most, then %s",
				time.Since(began).Round(time.Second), slowest.Round(time.Millisecond), float64(before.memory)/1e6, float64(most)/1e6, s.counts())
			// The race detector takes several times the memory of the program.
			if grown := most - before.memory; !raced && grown > unreadMemory {
				t.Errorf("it took %.0f MB", float64(grown)/1e6)
			}
		})
	}
}

// neverRead sends a question, waits until the server has it, and never reads
// the answer.
func neverRead(t *testing.T, s *server, p protocol, q *question) {
	t.Helper()
	body, err := json.Marshal(p.encode(q))
	if err != nil {
		t.Fatal(err)
	}
	before := s.inFlight()
	sendPartial(t, s, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", p.path(), len(body), body))
	eventually(t, "the request is there", func() bool { return s.inFlight() > before })
}

// An endless answer stops at the token limit of the client, in all APIs, with
// the same text streamed and not.
func TestMaxTokens(t *testing.T) {
	m := newModel(t)
	s := serve(t, m.URL(), m.Key())
	v := newCallerFactory(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	finishes := map[string]string{"completions": `"finish_reason":"length"`, "messages": `"stop_reason":"max_tokens"`, "responses": `"incomplete_details":{"reason":"max_output_tokens"}`}
	for _, p := range protocols() {
		for _, stream := range []bool{true, false} {
			c := v.newCaller(p)
			c.addUserMessage("runaway")
			c.asks.stream, c.asks.most = stream, 10
			r := c.client.ask(ctx, p, &c.asks, nil)
			want := (c.nonce + strings.Repeat(" and so on", 10))[:60]
			if !r.good() || r.text != want || !strings.Contains(string(r.raw), finishes[p.name()]) {
				t.Errorf("%s, streaming %v: %d %q %q, broken by %v: %s", p.name(), stream, r.status, r.fault, r.text, r.broken, tail(r.raw))
			}
		}
	}
}
