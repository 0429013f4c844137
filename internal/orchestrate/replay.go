package orchestrate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// replay is what the events of a run say.
type replay struct {
	plan    *TaskPlan
	planned bridge.Usage
	done    map[string]TaskResult
	joins   []Join
	// pending is a merge that was begun and not finished; merged, the last
	// that was.
	pending, merged *Merge
	outcome         *Result
	conflicts       []Conflict
	busy            time.Duration
	events          []Event // those that a Remote gets
}

// replayEvents reads a journal up to the first line that is not whole, and
// says how many bytes that is.
func replayEvents(data []byte) (*replay, int, error) {
	r := &replay{done: map[string]TaskResult{}}
	whole := 0
	var first, last time.Time // of the tasks since the run was started or resumed
	addBusy := func() {
		if !first.IsZero() && last.After(first) {
			r.busy += last.Sub(first)
		}
		first, last = time.Time{}, time.Time{}
	}
	for whole < len(data) {
		end := bytes.IndexByte(data[whole:], '\n')
		if end < 0 {
			break
		}
		var e Event
		if err := json.Unmarshal(data[whole:whole+end], &e); err != nil {
			if bytes.IndexByte(data[whole+end+1:], '\n') < 0 {
				break // the end of a file that was not flushed
			}
			return nil, 0, &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("the journal of the run is damaged at byte %d", whole), Cause: err,
				Remedy: "start the task anew"}
		}
		whole += end + 1
		switch e.Type {
		case RunStarted:
			addBusy()
			r.outcome = nil
		case TaskStarted:
			if first.IsZero() {
				first = e.Time
			}
		case TaskCompleted:
			if last = e.Time; first.IsZero() && e.Result != nil {
				first = e.Result.Started // a Remote does not keep the other
			}
		default:
		}
		r.add(e)
		if e.recorded() {
			r.events = append(r.events, e)
		}
	}
	addBusy()
	return r, whole, nil
}

func (r *replay) add(e Event) {
	switch e.Type {
	case PlanReady:
		r.plan = e.Plan
		if e.Usage != nil {
			r.planned = *e.Usage
		}
	case TaskCompleted:
		if e.Result != nil && e.Result.State == Done {
			r.done[e.Task] = *e.Result
		}
	case Joined:
		if e.Join != nil {
			r.joins = append(r.joins, *e.Join)
		}
	case Conflicted:
		if e.Conflict != nil && e.Conflict.Resolved {
			r.conflicts = append(r.conflicts, *e.Conflict)
		}
	case MergeStarted:
		r.pending = e.Merge
	case MergeDone:
		r.pending, r.merged = nil, e.Merge
	case PlanCompleted:
		r.outcome = e.Outcome
	case RunStarted, TaskStarted, TaskProgress, TaskRetry, TaskSkipped, Noticed:
	}
}
