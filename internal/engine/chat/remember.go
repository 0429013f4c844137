package chat

import (
	"slices"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// Bounds of the answers that Chat.Previous can name: how many, how large their
// conversations may be together, and how long they are kept.
const (
	answersMost  = 1024
	answersBytes = 32 << 20
	answersTTL   = time.Hour
)

// remembered is a conversation up to an answer. Earlier messages are shared
// with the answer that it continues.
type remembered struct {
	before *remembered
	added  []bridge.Message
	size   int // of added, in bytes
	used   time.Time
}

func newRemembered(before *remembered, added []bridge.Message) *remembered {
	r := &remembered{before: before, added: added, size: 64}
	for i := range added {
		m := &added[i]
		r.size += len(m.Text) + 128
		for _, a := range m.Attachments {
			r.size += len(a.Data)
		}
		for _, c := range m.Calls {
			r.size += len(c.Name) + len(c.ID) + 256
		}
	}
	return r
}

// messages is the whole conversation, in a new slice.
func (r *remembered) messages() []bridge.Message {
	var parts [][]bridge.Message
	for ; r != nil; r = r.before {
		parts = append(parts, r.added)
	}
	slices.Reverse(parts)
	return slices.Concat(parts...)
}

// answers keeps conversations by the id of their last answer, for clients
// that send only new messages.
type answers struct {
	mu    sync.Mutex
	known map[string]*remembered
	bytes int
}

func (m *answers) put(id string, r *remembered) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop(id)
	if m.known == nil {
		m.known = map[string]*remembered{}
	}
	r.used = time.Now()
	m.known[id] = r
	m.bytes += r.size
	for len(m.known) > answersMost || m.bytes > answersBytes && len(m.known) > 1 {
		oldest := id
		for other, x := range m.known {
			if x.used.Before(m.known[oldest].used) {
				oldest = other
			}
		}
		m.drop(oldest)
	}
}

func (m *answers) find(id string) (*remembered, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.known[id]; r != nil && time.Since(r.used) < answersTTL {
		r.used = time.Now()
		return r, nil
	}
	return nil, &bridge.Error{Code: bridge.CodeNotFound, Message: "no answer " + id + " is remembered",
		Remedy: "send the whole conversation instead of the id of an earlier answer"}
}

// drop forgets an answer. mu is held.
func (m *answers) drop(id string) {
	if r := m.known[id]; r != nil {
		delete(m.known, id)
		m.bytes -= r.size
	}
}

// expire forgets old answers.
func (m *answers) expire() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, r := range m.known {
		if time.Since(r.used) >= answersTTL {
			m.drop(id)
		}
	}
}
