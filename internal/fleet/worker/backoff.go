package worker

import "time"

// The pauses after a run's coordinator has not answered.
const (
	firstBackOff = time.Second
	mostBackOff  = 30 * time.Second
)

// backOff keeps a run from being asked again too soon.
type backOff struct {
	pause time.Duration
	until time.Time
}

// asksSoon says whether a run's coordinator is not to be asked yet.
func (w *worker) backsOff(run string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.runs[run]
	return b != nil && time.Now().Before(b.until)
}

// answered notes whether a run's coordinator has answered.
func (w *worker) answered(run string, did bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if did {
		delete(w.runs, run)
		return
	}
	for name, b := range w.runs { // runs that nobody speaks of any more
		if now.Sub(b.until) > mostBackOff {
			delete(w.runs, name)
		}
	}
	b := w.runs[run]
	if b == nil {
		b = &backOff{}
		w.runs[run] = b
	} else if now.Before(b.until) {
		return // asked at the same time
	}
	b.pause = min(max(2*b.pause, firstBackOff), mostBackOff)
	b.until = now.Add(b.pause)
}
