package supervise

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Verb is the hidden sub-command that runs the supervisor.
const Verb = "__supervise"

const (
	envTree   = "COPILOT_BRIDGE_TREE"   // in every process of a tree
	envRecord = "COPILOT_BRIDGE_RECORD" // for the supervisor only
	envPlace  = "COPILOT_BRIDGE_PLACE"  // likewise
)

// InTree says whether this process was started by a program that a bridge
// supervises, directly or through others: it may act for an agent then, and not
// for a person.
func InTree() bool {
	_, marked := os.LookupEnv(envTree)
	return marked || inTree()
}

// Tree is one supervised program and all that it starts. All of its processes
// carry its id in their environment.
type Tree struct {
	id     string
	record string
	self   string
	place  string // see Place
}

// record is what the supervisor leaves on disk while its tree lives. A start
// time goes with each pid, because pids are used again.
type record struct {
	ID              string `json:"id"`
	Bridge          int    `json:"bridge"`
	BridgeStart     uint64 `json:"bridge_start"`
	Supervisor      int    `json:"supervisor"`
	SupervisorStart uint64 `json:"supervisor_start"`
	Program         int    `json:"program"`
	Path            string `json:"path"`
	Place           string `json:"place,omitempty"`
}

// NewTree prepares a tree whose record lives in dir. self is the executable
// that answers to Verb.
func NewTree(dir, self string) (*Tree, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("process records: %w", err)
	}
	var b [12]byte
	_, _ = rand.Read(b[:]) // it never fails
	id := hex.EncodeToString(b[:])
	return &Tree{id: id, record: filepath.Join(dir, id+".json"), self: self}, nil
}

// Place makes a directory in parent that is removed when the tree has ended,
// by the first of these that lives: the bridge, the supervisor, or a later bridge. Its name
// begins with prefix, for those who wonder whose it is. A tree has one.
func (t *Tree) Place(parent, prefix string) (string, error) {
	at, err := filepath.Abs(filepath.Join(parent, prefix+t.id))
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(at, 0o700); err != nil {
		return "", err
	}
	t.place = at
	return at, nil
}

// Temp makes the tree's place a temporary directory, and returns the variables
// that name it. It is at the top of the usual one, because the names of sockets
// must be short.
func (t *Tree) Temp() (env []string, err error) {
	at, err := t.Place(os.TempDir(), "copilot-bridge-")
	return []string{"TMPDIR=" + at, "TMP=" + at, "TEMP=" + at}, err
}

// clearPlace removes the place of a tree. Nothing else has its id in its name.
func clearPlace(place, id string) error {
	if place == "" {
		return nil
	}
	if !strings.HasSuffix(filepath.Base(place), id) || !filepath.IsAbs(place) {
		return fmt.Errorf("%s is not the place of tree %s", place, id)
	}
	return os.RemoveAll(place)
}

// Command returns how to start program under supervision: the path to
// execute, the arguments that go before the program's own, and what to add to
// the environment.
func (t *Tree) Command(program string) (path string, args, env []string) {
	return t.self, []string{Verb, program}, []string{
		envTree + "=" + t.id,
		envRecord + "=" + t.record,
		envPlace + "=" + t.place,
	}
}

// ProgramPID returns the pid of the supervised program, or 0 if it is not
// known.
func (t *Tree) ProgramPID() int {
	rec, _ := readRecord(t.record) // empty if there is none yet
	return rec.Program
}

// Stop ends the whole tree: the program is asked to go, then made to. It
// returns when none of it is left, or when ctx ends or the time that killing
// may take has passed.
func (t *Tree) Stop(ctx context.Context) error { return t.end(ctx, false) }

// Kill is Stop for a program that has nothing left to do: it is not asked.
func (t *Tree) Kill(ctx context.Context) error { return t.end(ctx, true) }

func (t *Tree) end(ctx context.Context, atOnce bool) error {
	rec, err := readRecord(t.record)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil && alive(rec.Supervisor, rec.SupervisorStart) {
		if atOnce && rec.Program > 1 {
			_ = kill(rec.Program) // its supervisor sees to the rest
		}
		if err := terminate(rec.Supervisor); err == nil {
			waitGone(ctx, rec.Supervisor, rec.SupervisorStart, 2*grace+time.Second)
		}
	}
	return t.Sweep()
}

// Sweep kills whatever is left of the tree at once and forgets it. It finds the
// processes by the tree's id, so it works after the supervisor was killed too.
func (t *Tree) Sweep() error {
	_, err := sweep(t.id)
	return errors.Join(err, clearPlace(t.place, t.id), remove(t.record))
}

// remove is os.Remove for a file that may be gone.
func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Reap ends the trees in dir that a dead bridge left behind, and orphaned
// sandboxes. It returns how many processes it killed. Trees of living bridges are left alone, so any
// process may call it at any time.
func Reap(dir string) (killed int, err error) {
	killed = killOrphanedSandboxes()
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return killed, nil
	}
	if err != nil {
		return killed, fmt.Errorf("process records: %w", err)
	}
	var errs []error
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		rec, err := readRecord(path)
		if err != nil || alive(rec.Bridge, rec.BridgeStart) {
			continue // unreadable: being written, or not ours to judge
		}
		n, err := sweep(rec.ID)
		killed += n
		errs = append(errs, err, clearPlace(rec.Place, rec.ID), remove(path))
	}
	return killed, errors.Join(errs...)
}

// write replaces the file in one step. It is not synced: after a power cut
// there are no processes to find.
func (r record) write(path string) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	tmp := path + ".tmp"
	if err = os.WriteFile(tmp, b, 0o600); err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return fmt.Errorf("process record: %w", err)
	}
	return nil
}

func readRecord(path string) (record, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return record{}, err
	}
	return decodeRecord(b)
}

func decodeRecord(b []byte) (record, error) {
	var rec record
	if err := json.Unmarshal(b, &rec); err != nil {
		return record{}, fmt.Errorf("process record: %w", err)
	}
	// A short id would match, and kill, more than its own tree.
	if len(rec.ID) != 24 || strings.Trim(rec.ID, "0123456789abcdef") != "" || rec.Bridge <= 1 || rec.Supervisor <= 1 {
		return record{}, errors.New("process record: not one of ours")
	}
	return rec, nil
}

// waitGone polls, because the process need not be a child of ours.
func waitGone(ctx context.Context, pid int, start uint64, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for alive(pid, start) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
