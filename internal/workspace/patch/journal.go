package patch

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
)

// The journal is a file of JSON lines, each a record, which add up. The first
// names the staging directories, and is written before they are made. The
// second has the steps, and is written before the first file of the workspace
// is touched. The third says that all steps were carried out. So with steps and
// without Done there is something to undo; otherwise only the staging
// directories have to go. A line that is cut off was never acted on.
type record struct {
	Format int      `json:"format,omitempty"`
	Stages [][]byte `json:"stages,omitempty"`
	Steps  []*step  `json:"steps,omitempty"`
	Done   bool     `json:"done,omitempty"`
}

const journalFormat = 2

// lockedJournal is the journal of one workspace, locked.
type lockedJournal struct {
	root   *os.Root
	near   dirHandles // for commit, undo and what they call
	path   string
	flush  bool // new files are flushed to the disk before they are put in place
	stages []*stage
	unlock func() error

	// The system's; tests do without.
	link   func(oldname, newname string) error
	rename func(st *stage, name string, dir *os.Root, base string, swap bool) error
}

// openJournal locks the workspace and undoes what a process that died in the
// middle has left. It tells of that whatever comes of it.
func openJournal(ctx context.Context, root *os.Root, dir string) (*lockedJournal, Recovery, error) {
	file, err := journalFile(root, dir)
	if err != nil {
		return nil, Recovery{}, err
	}
	unlock, err := durable.Lock(ctx, strings.TrimSuffix(file, ".journal")+".lock")
	if err != nil {
		return nil, Recovery{}, err
	}
	b := &lockedJournal{root: root, near: dirHandles{root: root}, path: file, unlock: unlock, link: root.Link, rename: renameAt}
	done, err := b.recover()
	if err != nil {
		return nil, done, errors.Join(err, b.close())
	}
	return b, done, nil
}

func (b *lockedJournal) close() error {
	b.closeStages()
	return b.unlock()
}

// journalFile is the workspace's file in the journal directory, which other
// workspaces may share.
func journalFile(root *os.Root, dir string) (string, error) {
	if dir == "" {
		return "", &bridge.Error{Code: bridge.CodeInvalid, Message: "no directory for the crash journal is given"}
	}
	where, err := resolved(root.Name())
	if err != nil {
		return "", err
	}
	journal, err := resolved(dir)
	if err != nil {
		return "", err
	}
	if rel, err := filepath.Rel(where, journal); err == nil && filepath.IsLocal(rel) {
		return "", &bridge.Error{Code: bridge.CodeInvalid, Message: "the crash journal would lie inside the workspace"}
	}
	sum := sha256.Sum256([]byte(where))
	return filepath.Join(dir, "patch-"+hex.EncodeToString(sum[:8])+".journal"), nil
}

// resolved makes a path absolute and follows links as far as the path exists.
func resolved(name string) (string, error) {
	name, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	exists, rest := name, ""
	for {
		if found, err := filepath.EvalSymlinks(exists); err == nil {
			return filepath.Join(found, rest), nil
		}
		parent := filepath.Dir(exists)
		if parent == exists {
			return name, nil
		}
		rest = filepath.Join(filepath.Base(exists), rest)
		exists = parent
	}
}

func newStage() string { return stagePrefix + strings.ToLower(rand.Text()[:12]) }

// add writes a line of the journal.
func (b *lockedJournal) add(r *record) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	flag := os.O_APPEND
	if r.Format != 0 {
		flag = os.O_CREATE | os.O_EXCL
	}
	f, err := os.OpenFile(b.path, flag|os.O_WRONLY, 0o600)
	if err != nil {
		return unwritable(b.path, err)
	}
	_, err = f.Write(append(line, '\n'))
	return unwritable(b.path, errors.Join(err, f.Close()))
}

func unwritable(file string, err error) error {
	if err == nil {
		return nil
	}
	return &bridge.Error{Code: bridge.CodeUnavailable, Message: "the crash journal cannot be written, and without it nothing is changed",
		Remedy: "Check the space on the disk of " + filepath.Dir(file) + " and its permissions.", Cause: err}
}

func (b *lockedJournal) remove() error {
	if err := os.Remove(b.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the crash journal: %w", err)
	}
	return nil
}

// tidy removes the staging directories, and the journal last.
func (b *lockedJournal) tidy(r *record) error {
	if err := b.removeStages(r); err != nil {
		return err
	}
	return b.remove()
}

// readJournal adds up the lines of a journal.
func readJournal(text string) (*record, error) {
	r := &record{}
	for line := range strings.Lines(text) {
		if !strings.HasSuffix(line, "\n") {
			break
		}
		if err := json.Unmarshal([]byte(line), r); err != nil {
			return nil, err
		}
		if r.Format != journalFormat {
			return nil, errors.New("it has another format")
		}
	}
	for _, raw := range r.Stages {
		if !filepath.IsLocal(string(raw)) || !strings.HasPrefix(path.Base(string(raw)), stagePrefix) {
			return nil, errors.New("it names a staging directory that is none")
		}
	}
	for _, s := range r.Steps {
		if s.path = string(s.Name); !filepath.IsLocal(s.path) || s.Stage < 0 || s.Stage >= max(len(r.Stages), 1) {
			return nil, errors.New("it names a file outside the workspace")
		}
	}
	return r, nil
}
