package load

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
)

// Every caller has a nonce and sends it in every message:
//
//	nonce-12-end turn-3 echo
//
// The last word tells the model what to do; see reply.
var (
	nonces         = regexp.MustCompile(`nonce-[0-9]+-end`)
	messagePattern = regexp.MustCompile(`(nonce-[0-9]+-end) turn-([0-9]+) ([a-z]+)`)
)

func messageText(nonce string, turn int, kind string) string {
	return fmt.Sprintf("%s turn-%d %s", nonce, turn, kind)
}

// expected is the model's answer to a conversation with that many messages.
func expected(nonce string, heard int) string { return fmt.Sprintf("%s heard %d", nonce, heard) }

// Delays of a real model: before the first text, and between pieces.
const (
	realFirst  = 2 * time.Second
	realPiece  = 50 * time.Millisecond
	realPieces = 20
)

// model is the fake model. It checks that no request mixes nonces of different
// callers.
type model struct {
	*demomodel.Server

	mu    sync.Mutex
	asked map[string]int // number of requests by nonce
	total int
	mixed []string // requests with more than one nonce
}

// newModel starts a model. The first functions may answer before it. At the end
// of the test, no request may have mixed callers.
func newModel(t *testing.T, first ...func(demomodel.Request) (demomodel.Reply, bool)) *model {
	t.Helper()
	m := &model{Server: demomodel.New(demomodel.WithJournal(0)), asked: map[string]int{}}
	for _, f := range first {
		m.Handle(f)
	}
	m.Handle(m.reply)
	if err := m.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Errorf("closing the model: %v", err)
		}
		m.check(t)
	})
	return m
}

// record records a request.
func (m *model) record(raw []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	seen := map[string]bool{}
	for _, n := range nonces.FindAll(raw, -1) {
		seen[string(n)] = true
	}
	m.total++
	for n := range seen {
		m.asked[n]++
	}
	if len(seen) != 1 && len(m.mixed) < 10 {
		m.mixed = append(m.mixed, fmt.Sprintf("a request to the model holds the words of %d callers: %s", len(seen), raw))
	}
}

// hasRequest reports whether a request of the caller has arrived.
func (m *model) hasRequest(nonce string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked[nonce] > 0
}

func (m *model) requests() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.total
}

// check fails the test if a request mixed callers.
func (m *model) check(t *testing.T) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, x := range m.mixed {
		t.Error(x)
	}
}

func (m *model) reply(req demomodel.Request) (demomodel.Reply, bool) {
	m.record(req.Raw)
	var all strings.Builder
	for _, x := range req.Messages {
		all.WriteString(x.Content + "\n")
	}
	text := all.String()
	found := messagePattern.FindAllStringSubmatchIndex(text, -1)
	if found == nil {
		return demomodel.Reply{demomodel.Status(400, "no message has a nonce")}, true
	}
	turns := map[string]bool{}
	for _, f := range found {
		turns[text[f[4]:f[5]]] = true
	}
	last := found[len(found)-1]
	nonce, kind, since := text[last[2]:last[3]], text[last[6]:last[7]], text[last[1]:]
	answer := demomodel.Chunks(nonce, " heard ", strconv.Itoa(len(turns)))
	switch kind {
	case "echo":
		return demomodel.Reply{answer}, true
	case "slow": // slow enough that many answers overlap
		beat := demomodel.Delay(20 * time.Millisecond)
		return demomodel.Reply{beat, demomodel.Chunks(nonce), beat, demomodel.Chunks(" heard "), beat, demomodel.Chunks(strconv.Itoa(len(turns)))}, true
	case "real": // as slow as a real model
		reply := demomodel.Reply{demomodel.Delay(realFirst), demomodel.Chunks(nonce)}
		for range realPieces {
			reply = append(reply, demomodel.Delay(realPiece), demomodel.Chunks(" "))
		}
		return append(reply, demomodel.Chunks("heard ", strconv.Itoa(len(turns)))), true
	case "look": // calls two tools, then answers
		if strings.Contains(since, "result of "+nonce) {
			return demomodel.Reply{answer}, true
		}
		return demomodel.Reply{demomodel.ToolCall("look", object{"x": nonce}), demomodel.ToolCall("look", object{"x": "two"})}, true
	case "hang": // starts and never ends
		return demomodel.Reply{demomodel.Chunks(nonce), demomodel.Silence()}, true
	case "runaway": // sends more text than anyone needs, without end
		return demomodel.Reply{demomodel.Chunks(nonce, strings.Repeat(" and so on", 100)), demomodel.Silence()}, true
	case "mute": // never starts
		return demomodel.Reply{demomodel.Silence()}, true
	case "refuse":
		return demomodel.Reply{demomodel.Status(400, "no "+nonce)}, true
	case "limit":
		return demomodel.Reply{demomodel.RateLimit(time.Second)}, true
	case "fail":
		return demomodel.Reply{demomodel.Status(500, "failed "+nonce)}, true
	case "cut": // closes the connection in the middle
		return demomodel.Reply{demomodel.Chunks(nonce), demomodel.Cut()}, true
	}
	return demomodel.Reply{demomodel.Status(400, "what is "+kind+"?")}, true
}
