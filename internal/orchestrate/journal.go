package orchestrate

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
)

// Meta describes a run. It is written when the run begins.
type Meta struct {
	Version     int           `json:"version"`
	ID          string        `json:"id"`
	Task        string        `json:"task"`
	Dir         string        `json:"dir"`
	Created     time.Time     `json:"created"`
	Isolation   Isolation     `json:"isolation"`
	Merge       MergeMode     `json:"merge"`
	Concurrency int           `json:"concurrency"`
	TaskTimeout time.Duration `json:"task_timeout_ns,omitempty"`
	Timeout     time.Duration `json:"timeout_ns,omitempty"`
	// Base is the commit on which the run builds.
	Base string `json:"base,omitempty"`
	// Remote says that other machines do the tasks, and that the record here may
	// not be the newest.
	Remote bool `json:"remote,omitempty"`
	// Title stands for the task of a run that began with a plan alone.
	Title string `json:"title,omitempty"`
}

// Name is what lists call the run.
func (m Meta) Name() string { return cmp.Or(m.Task, m.Title) }

const metaVersion = 1

// journal is the directory of a run: run.json, plan.json, events.jsonl and
// result.json. Its owner holds a lock on it. append is called by one
// goroutine at a time.
type journal struct {
	dir    string
	meta   Meta
	events *os.File
	unlock func() error
}

// RunsDir and WorktreesDir are where a home keeps runs and their worktrees.
func RunsDir(home string) string      { return filepath.Join(home, "runs") }
func WorktreesDir(home string) string { return filepath.Join(home, "worktrees") }

func newID(now time.Time) string {
	var b [3]byte
	_, _ = rand.Read(b[:]) // never fails
	return now.UTC().Format("20060102-150405-") + hex.EncodeToString(b[:])
}

// createJournal begins the directory of a new run. A plan that the user has
// given is written before the run can be found: it is not in its events yet.
func createJournal(ctx context.Context, home string, m Meta, plan *TaskPlan) (*journal, error) {
	j, err := lockJournal(ctx, filepath.Join(RunsDir(home), m.ID))
	if err != nil {
		return nil, err
	}
	j.meta = m
	if plan != nil {
		err = j.put("plan.json", plan)
	}
	if err == nil {
		err = errors.Join(j.put("run.json", m), j.openEvents())
	}
	if err != nil {
		return nil, errors.Join(err, j.close())
	}
	return j, nil
}

// openJournal opens the directory of a run that was interrupted and replays
// it.
func openJournal(ctx context.Context, home, id string) (*journal, *replay, error) {
	if _, err := os.Stat(filepath.Join(RunsDir(home), id, "run.json")); err != nil {
		return nil, nil, noRun(id)
	}
	j, err := lockJournal(ctx, filepath.Join(RunsDir(home), id))
	if err != nil {
		return nil, nil, err
	}
	if j.meta, err = readMeta(j.dir); err != nil {
		return nil, nil, errors.Join(err, j.close())
	}
	data, err := readEvents(j.dir)
	if err != nil {
		return nil, nil, errors.Join(err, j.close())
	}
	r, whole, err := replayEvents(data)
	if err == nil && whole < len(data) {
		// The last line was being written when the process died.
		err = os.Truncate(filepath.Join(j.dir, "events.jsonl"), int64(whole))
	}
	if err == nil {
		err = j.openEvents()
	}
	if err != nil {
		return nil, nil, errors.Join(err, j.close())
	}
	return j, r, nil
}

// readPlan is the plan that was written for a run, nil if there is none yet.
func (j *journal) readPlan() (*TaskPlan, error) {
	data, err := durable.ReadFile(filepath.Join(j.dir, "plan.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var p TaskPlan
	if err == nil {
		err = json.Unmarshal(data, &p)
	}
	if err != nil {
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: "the plan of the run cannot be read", Cause: err, Remedy: "start the task anew"}
	}
	return &p, nil
}

// maxEvents bounds the events of a run that is resumed.
const maxEvents = 256 << 20

func readEvents(dir string) ([]byte, error) {
	f, err := os.Open(filepath.Join(dir, "events.jsonl"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxEvents+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if len(data) > maxEvents {
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: "the journal of the run is larger than anything we write", Remedy: "start the task anew"}
	}
	return data, nil
}

func lockJournal(ctx context.Context, dir string) (*journal, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	unlock, err := durable.Lock(ctx, filepath.Join(dir, "lock"))
	if err != nil {
		if bridge.CodeOf(err) == bridge.CodeBusy {
			err = &bridge.Error{Code: bridge.CodeBusy, Message: "the run " + filepath.Base(dir) + " is still going on in another process",
				Remedy: "wait for it, or end that process"}
		}
		return nil, err
	}
	return &journal{dir: dir, unlock: unlock}, nil
}

func readMeta(dir string) (m Meta, err error) {
	data, err := durable.ReadFile(filepath.Join(dir, "run.json"))
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, &bridge.Error{Code: bridge.CodeInvalid, Message: filepath.Join(dir, "run.json") + " is damaged", Cause: err, Remedy: "start the task anew"}
	}
	return m, m.check()
}

func (m Meta) check() error {
	if m.Version > metaVersion {
		return &bridge.Error{Code: bridge.CodeUnsupported, Message: "the run " + m.ID + " was made by a newer copilot-bridge", Remedy: "use that one to resume it"}
	}
	return nil
}

func (j *journal) openEvents() (err error) {
	j.events, err = os.OpenFile(filepath.Join(j.dir, "events.jsonl"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return err
}

// put writes one of the journal's documents.
func (j *journal) put(name string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	return durable.WriteFile(filepath.Join(j.dir, name), append(data, '\n'), 0o600)
}

// append adds an event. When it returns, one that a resumption depends on
// will survive a crash.
func (j *journal) append(e Event) error {
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode an event: %w", err)
	}
	if _, err = j.events.Write(append(line, '\n')); err == nil {
		switch e.Type {
		case PlanReady, TaskCompleted, Joined, MergeStarted, MergeDone, PlanCompleted:
			err = j.events.Sync()
		case RunStarted, TaskStarted, TaskProgress, TaskRetry, TaskSkipped, Conflicted, Noticed:
		}
	}
	if err != nil {
		return &bridge.Error{Code: bridge.CodeInternal, Message: "the journal of the run cannot be written", Cause: err,
			Remedy: "see that the disk is not full, then go on with --resume"}
	}
	return nil
}

func (j *journal) close() error {
	var err error
	if j.events != nil {
		err = j.events.Close()
	}
	return errors.Join(err, j.unlock())
}
