package engine

import (
	"cmp"
	"slices"
	"sync"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// UsageRow is what one door has used of one model.
type UsageRow struct {
	Door  string       `json:"door"`
	Model string       `json:"model"`
	Usage bridge.Usage `json:"usage"`
}

type ledger struct {
	mu    sync.Mutex
	count map[[2]string]bridge.Usage
}

func (l *ledger) add(door string, u bridge.Usage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count == nil {
		l.count = map[[2]string]bridge.Usage{}
	}
	key := [2]string{door, u.Model}
	l.count[key] = l.count[key].Add(u)
}

func (l *ledger) rows() []UsageRow {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]UsageRow, 0, len(l.count))
	for k, u := range l.count {
		out = append(out, UsageRow{Door: k[0], Model: k[1], Usage: u})
	}
	slices.SortFunc(out, func(a, b UsageRow) int {
		return cmp.Or(cmp.Compare(a.Door, b.Door), cmp.Compare(a.Model, b.Model))
	})
	return out
}
