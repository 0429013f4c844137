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

	"github.com/copilot-bridge/copilot-bridge/internal/rehearsal"
)

// A caller has a word of its own, its nonce, and says it in every message:
//
//	nonce-12-end turn-3 echo
//
// The last word tells the model what to do; each kind is explained in reply.
var (
	nonces = regexp.MustCompile(`nonce-[0-9]+-end`)
	said   = regexp.MustCompile(`(nonce-[0-9]+-end) turn-([0-9]+) ([a-z]+)`)
)

func words(nonce string, turn int, kind string) string {
	return fmt.Sprintf("%s turn-%d %s", nonce, turn, kind)
}

// expected is what the model says to the last of so many messages.
func expected(nonce string, heard int) string { return fmt.Sprintf("%s heard %d", nonce, heard) }

// model answers, and looks at every request for words that do not belong
// together.
type model struct {
	*rehearsal.Server

	mu    sync.Mutex
	asked map[string]int // requests by nonce
	total int
	mixed []string // what was wrong with some
}

// newModel starts a model. At the test's end it must have been asked for one
// caller at a time.
func newModel(t *testing.T) *model {
	t.Helper()
	m := &model{Server: rehearsal.New(rehearsal.WithJournal(0)), asked: map[string]int{}}
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

// note takes a request to the books.
func (m *model) note(raw []byte) {
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

// heard says whether a caller's request has come.
func (m *model) heard(nonce string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked[nonce] > 0
}

func (m *model) requests() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.total
}

// check fails the test if callers were mixed.
func (m *model) check(t *testing.T) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, x := range m.mixed {
		t.Error(x)
	}
}

func (m *model) reply(req rehearsal.Request) (rehearsal.Reply, bool) {
	m.note(req.Raw)
	var all strings.Builder
	for _, x := range req.Messages {
		all.WriteString(x.Content + "\n")
	}
	text := all.String()
	found := said.FindAllStringSubmatchIndex(text, -1)
	if found == nil {
		return rehearsal.Reply{rehearsal.Status(400, "nobody said anything")}, true
	}
	turns := map[string]bool{}
	for _, f := range found {
		turns[text[f[4]:f[5]]] = true
	}
	last := found[len(found)-1]
	nonce, kind, since := text[last[2]:last[3]], text[last[6]:last[7]], text[last[1]:]
	answer := rehearsal.Chunks(nonce, " heard ", strconv.Itoa(len(turns)))
	switch kind {
	case "echo":
		return rehearsal.Reply{answer}, true
	case "slow": // takes its time, so that many are under way at once
		beat := rehearsal.Delay(20 * time.Millisecond)
		return rehearsal.Reply{beat, rehearsal.Chunks(nonce), beat, rehearsal.Chunks(" heard "), beat, rehearsal.Chunks(strconv.Itoa(len(turns)))}, true
	case "look": // calls two tools, then answers
		if strings.Contains(since, "result of "+nonce) {
			return rehearsal.Reply{answer}, true
		}
		return rehearsal.Reply{rehearsal.ToolCall("look", object{"x": nonce}), rehearsal.ToolCall("look", object{"x": "two"})}, true
	case "hang": // begins and never ends
		return rehearsal.Reply{rehearsal.Chunks(nonce), rehearsal.Silence()}, true
	case "mute": // never begins
		return rehearsal.Reply{rehearsal.Silence()}, true
	case "refuse":
		return rehearsal.Reply{rehearsal.Status(400, "no "+nonce)}, true
	case "limit":
		return rehearsal.Reply{rehearsal.RateLimit(time.Second)}, true
	case "fail":
		return rehearsal.Reply{rehearsal.Status(500, "failed "+nonce)}, true
	case "cut": // the connection breaks in the middle
		return rehearsal.Reply{rehearsal.Chunks(nonce), rehearsal.Cut()}, true
	}
	return rehearsal.Reply{rehearsal.Status(400, "what is "+kind+"?")}, true
}
