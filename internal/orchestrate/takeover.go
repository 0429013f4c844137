package orchestrate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
)

var runID = regexp.MustCompile(`^[0-9]{8}-[0-9]{6}-[0-9a-f]{6}$`)

// Materialise writes the record of a run that a Remote has, so that Resume can
// continue it in dir: m and events are what Begin and Append got, an event a
// line. The caller sees to it that the commits are in the repository there.
//
// A run that is known here already stays in its own directory. What only the
// record here has is kept, since it was not lost: it was resumed without the
// Remote. A run that goes on in another process is refused.
func Materialise(ctx context.Context, home, dir string, m Meta, events []byte) (_ Meta, err error) {
	if err := m.check(); err != nil {
		return m, err
	}
	if !runID.MatchString(m.ID) || m.Isolation != IsolationWorktree || !objectName.MatchString(m.Base) {
		return m, &bridge.Error{Code: bridge.CodeInvalid, Message: "the record of the run is damaged", Remedy: "start the task anew"}
	}
	past, _, err := replayEvents(append(bytes.TrimRight(events, "\n"), '\n'))
	if err != nil {
		return m, err
	}
	if past.plan == nil {
		return m, &bridge.Error{Code: bridge.CodeNotFound, Message: "the run " + m.ID + " was ended before it had a plan", Remedy: "start the task anew"}
	}
	j, err := lockJournal(ctx, filepath.Join(RunsDir(home), m.ID))
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, j.close()) }()
	m.Dir, m.Remote = dir, true
	if here, err := readMeta(j.dir); err == nil {
		m.Dir = here.Dir
	} else if _, missing := os.Stat(filepath.Join(j.dir, "run.json")); missing == nil {
		return m, err
	}
	data, err := readEvents(j.dir)
	if err != nil {
		return m, err
	}
	here, _, err := replayEvents(data)
	if err != nil {
		return m, err
	}
	var lines bytes.Buffer
	for _, e := range joinRecords(past.events, here.events) {
		line, err := json.Marshal(e)
		if err != nil {
			return m, err
		}
		lines.Write(append(line, '\n'))
	}
	// run.json last: it is what makes it a run.
	if err := durable.WriteFile(filepath.Join(j.dir, "events.jsonl"), lines.Bytes(), 0o600); err != nil {
		return m, err
	}
	return m, errors.Join(j.put("plan.json", past.plan), j.put("run.json", m))
}

// joinRecords puts the record of a Remote and that of this machine together.
// Merges of other machines are left out: they changed the files there. A run
// that another machine finished stays finished.
func joinRecords(theirs, ours []Event) (out []Event) {
	type key struct {
		EventType
		task string
		at   int64
	}
	keyOf := func(e Event) key { return key{e.Type, e.Task, e.Time.UnixNano()} }
	here := map[key]bool{}
	for _, e := range ours {
		here[keyOf(e)] = true
	}
	for _, e := range theirs {
		if merges := e.Type == MergeStarted || e.Type == MergeDone; !merges || here[keyOf(e)] {
			out = append(out, e)
		}
		delete(here, keyOf(e))
	}
	for _, e := range ours {
		if here[keyOf(e)] {
			out = append(out, e)
		}
	}
	return out
}
