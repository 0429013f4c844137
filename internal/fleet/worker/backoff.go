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
	tried bool // it is being asked again, by one slot
}

// patience is how long to wait for an answer of a run's coordinator, 0 if it is
// not to be asked now, also because this machine can do nothing. One that did not answer gets one question at a time, so
// that it takes no more than one slot from the others.
func (w *worker) patience(run string) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.runs[run]
	switch {
	case w.cannot() != "":
		return 0
	case b == nil:
		return claimBound
	case b.tried || time.Now().Before(b.until):
		return 0
	}
	b.tried = true
	return probeBound
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
		if !b.tried && now.Sub(b.until) > mostBackOff {
			delete(w.runs, name)
		}
	}
	b := w.runs[run]
	switch {
	case b == nil:
		b = &backOff{}
		w.runs[run] = b
	case !b.tried && now.Before(b.until):
		return // asked at the same time
	}
	b.tried = false
	b.pause = min(max(2*b.pause, firstBackOff), mostBackOff)
	b.until = now.Add(b.pause)
}
