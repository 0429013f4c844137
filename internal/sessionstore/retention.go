package sessionstore

import "time"

// Retention says which sessions are kept.
type Retention struct {
	Age  time.Duration // since the last use; 0 is for ever
	Keep int           // how many, the newest; 0 is all
}

// activeFor is how long a session that is said to have a turn running is
// believed: a program that was killed leaves it so.
const activeFor = 24 * time.Hour

// Expired returns those of the entries, which are in the order of List, that
// need not be kept. A session that is pinned always is, and so is one in which
// a turn seems to be running.
func (r Retention) Expired(entries []Entry, now time.Time) []Entry {
	var out []Entry
	rank := 0
	for _, e := range entries {
		unused := now.Sub(e.Updated)
		if e.Pinned || e.State == StateActive && unused < activeFor {
			continue
		}
		rank++
		if r.Age > 0 && unused > r.Age || r.Keep > 0 && rank > r.Keep {
			out = append(out, e)
		}
	}
	return out
}
