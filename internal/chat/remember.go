package chat

import (
	"container/list"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// answersBytes bounds what remembered conversations may hold together.
const answersBytes = 32 << 20

// remembered is a conversation up to an answer. What came before is shared
// with the answers that it goes on from.
type remembered struct {
	before *remembered
	added  []bridge.Message
}

// messages is the whole conversation, in a slice of its own.
func (r *remembered) messages() []bridge.Message {
	var parts [][]bridge.Message
	n := 0
	for ; r != nil; r = r.before {
		parts = append(parts, r.added)
		n += len(r.added)
	}
	out := make([]bridge.Message, 0, n)
	for i := len(parts) - 1; i >= 0; i-- {
		out = append(out, parts[i]...)
	}
	return out
}

func (r *remembered) size() int {
	n := 64
	for i := range r.added {
		m := &r.added[i]
		n += len(m.Text) + 128
		for _, a := range m.Attachments {
			n += len(a.Data)
		}
		for _, c := range m.Calls {
			n += len(c.Name) + len(c.ID) + 256
		}
	}
	return n
}

// answers remembers conversations by the id of their last answer, for clients
// that send only what is new.
type answers struct {
	limit int
	ttl   time.Duration

	mu    sync.Mutex
	known map[string]*list.Element
	order *list.List // the newest in front
	bytes int
}

type namedAnswer struct {
	id   string
	what *remembered
	at   time.Time
	size int
}

func newAnswers(limit int, ttl time.Duration) *answers {
	return &answers{limit: limit, ttl: ttl, known: map[string]*list.Element{}, order: list.New()}
}

func (m *answers) put(id string, r *remembered) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if old, ok := m.known[id]; ok {
		m.drop(old)
	}
	n := &namedAnswer{id: id, what: r, at: time.Now(), size: r.size()}
	m.known[id] = m.order.PushFront(n)
	m.bytes += n.size
	for m.order.Len() > m.limit || m.bytes > answersBytes && m.order.Len() > 1 {
		m.drop(m.order.Back())
	}
}

func (m *answers) find(id string) (*remembered, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, ok := m.known[id]; ok {
		if n, ok := e.Value.(*namedAnswer); ok && time.Since(n.at) < m.ttl {
			n.at = time.Now()
			m.order.MoveToFront(e)
			return n.what, nil
		}
		m.drop(e)
	}
	return nil, &bridge.Error{Code: bridge.CodeNotFound, Message: "no answer " + id + " is remembered",
		Remedy: "send the whole conversation instead of the id of an earlier answer"}
}

// drop forgets an answer. mu is held.
func (m *answers) drop(e *list.Element) {
	if n, ok := m.order.Remove(e).(*namedAnswer); ok {
		delete(m.known, n.id)
		m.bytes -= n.size
	}
}

// expire forgets what is too old.
func (m *answers) expire() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for e := m.order.Back(); e != nil; e = m.order.Back() {
		if n, ok := e.Value.(*namedAnswer); ok && time.Since(n.at) < m.ttl {
			return
		}
		m.drop(e)
	}
}
