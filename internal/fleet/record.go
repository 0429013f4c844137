package fleet

import (
	"sync"
	"time"
)

// A member that is refused again and again must not fill the record.
const (
	recordWindow = time.Minute
	recordMost   = 20 // in a window, for a member and kind
)

// LimitRecord returns a function that records as the given one does, but few of
// one member and kind in a minute. It may be called concurrently.
func LimitRecord(record func(kind, member, text string)) func(kind, member, text string) {
	var mu sync.Mutex
	written, begun := map[string]int{}, time.Now()
	return func(kind, member, text string) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(begun) > recordWindow {
			clear(written)
			begun = time.Now()
		}
		who := kind + " " + member
		switch written[who]++; {
		case written[who] < recordMost:
			record(kind, member, text)
		case written[who] == recordMost:
			record(kind, member, text+"; more of these within a minute are not recorded")
		}
	}
}
