package patch

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
)

// The journal is a text file: a first line, a line for each staging directory
// and each step, and "end". It is complete before the workspace is touched,
// and one without "end" was never acted on. Behind "end" come a line for each
// step that cannot be told from the workspace (see commit.place), and "done"
// when the new tree is in place. With "done" only tidying is left; without it
// the steps are undone. Names are quoted, since they may hold any byte.
const (
	journalTitle = "copilot-bridge patch journal 1"
	journalEnd   = "end"
	journalDone  = "done"
	journalMoved = "moved"
)

// book is the journal of one workspace, locked.
type book struct {
	root   *os.Root
	near   near // for commit and what it calls
	path   string
	unlock func() error
	link   func(oldname, newname string) error // the root's; tests do without hard links
}

// openJournal locks the workspace and undoes what a process that died in the
// middle has left.
func openJournal(ctx context.Context, root *os.Root, dir string) (*book, error) {
	if dir == "" {
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: "no directory for the crash journal is given"}
	}
	key, err := workspaceKey(root, dir)
	if err != nil {
		return nil, err
	}
	unlock, err := durable.Lock(ctx, filepath.Join(dir, key+".lock"))
	if err != nil {
		return nil, err
	}
	b := &book{root: root, near: near{root: root}, path: filepath.Join(dir, key+".journal"), unlock: unlock, link: root.Link}
	if err := b.recover(); err != nil {
		return nil, errors.Join(&bridge.Error{
			Code:    bridge.CodeInternal,
			Message: "an interrupted change of the workspace could not be undone",
			Remedy:  "Look at the journal " + b.path + " and at the directories in the workspace whose names begin with " + stagePrefix + ".",
			Cause:   err,
		}, b.close())
	}
	return b, nil
}

func (b *book) close() error { return b.unlock() }

// workspaceKey names the workspace's files in the journal directory, which
// other workspaces may share.
func workspaceKey(root *os.Root, dir string) (string, error) {
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
	return "patch-" + hex.EncodeToString(sum[:8]), nil
}

// resolved makes a path absolute and follows links as far as the path exists.
func resolved(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	exists, rest := path, ""
	for {
		if found, err := filepath.EvalSymlinks(exists); err == nil {
			return filepath.Join(found, rest), nil
		}
		parent := filepath.Dir(exists)
		if parent == exists {
			return path, nil
		}
		rest = filepath.Join(filepath.Base(exists), rest)
		exists = parent
	}
}

// record is what a journal says.
type record struct {
	sync   bool // what is done is flushed to the disk
	stages []string
	steps  []*step
	moved  map[int]bool
	done   bool
}

func newStage() string { return stagePrefix + strings.ToLower(rand.Text()[:12]) }

// write makes the journal file.
func (b *book) write(r *record) error {
	var text strings.Builder
	fmt.Fprintln(&text, journalTitle)
	for _, dir := range r.stages {
		fmt.Fprintf(&text, "stage %q\n", dir)
	}
	for _, s := range r.steps {
		fmt.Fprintf(&text, "%s %q %q %q %o\n", s.kind, s.path, s.temp, s.backup, s.perm)
	}
	fmt.Fprintln(&text, journalEnd)
	return b.put(os.O_CREATE|os.O_EXCL, text.String(), r.sync)
}

// note adds a line to the journal.
func (b *book) note(line string, sync bool) error { return b.put(os.O_APPEND, line+"\n", sync) }

func (b *book) put(flag int, text string, sync bool) error {
	f, err := os.OpenFile(b.path, flag|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write the crash journal: %w", err)
	}
	_, err = f.WriteString(text)
	if sync && err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if sync && err == nil && flag&os.O_CREATE != 0 {
		err = syncDir(filepath.Dir(b.path))
	}
	if err != nil {
		return fmt.Errorf("write the crash journal: %w", err)
	}
	return nil
}

func (b *book) remove() error {
	if err := os.Remove(b.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the crash journal: %w", err)
	}
	return nil
}

// recover puts the workspace in order after a crash.
func (b *book) recover() error {
	text, err := os.ReadFile(b.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	r, complete, err := readJournal(string(text))
	if err != nil {
		return err
	}
	if !complete {
		return b.remove()
	}
	if !r.done {
		if err := b.undo(r); err != nil {
			return err
		}
	}
	return b.tidy(r)
}

// readJournal reads a journal; complete is false if it was cut off while it
// was being written, so that nothing can have been done.
func readJournal(text string) (r *record, complete bool, err error) {
	r = &record{moved: map[int]bool{}}
	in := bufio.NewScanner(strings.NewReader(text))
	in.Buffer(nil, len(text)+1)
	// A line that was cut off counts as missing.
	whole := strings.Count(text, "\n")
	for n := 0; n < whole && in.Scan(); n++ {
		if err := r.line(n, in.Text(), &complete); err != nil {
			return nil, false, fmt.Errorf("line %d of the crash journal: %w", n+1, err)
		}
	}
	return r, complete, nil
}

var errJournal = errors.New("malformed")

func (r *record) line(n int, text string, complete *bool) error {
	word, rest, _ := strings.Cut(text, " ")
	switch {
	case n == 0:
		if text != journalTitle {
			return errJournal
		}
	case word == journalEnd:
		*complete = true
	case word == journalDone:
		r.done = true
	case word == journalMoved:
		at, err := strconv.Atoi(rest)
		if err != nil {
			return errJournal
		}
		r.moved[at] = true
	case word == "stage":
		dir, err := strconv.Unquote(rest)
		if err != nil || !strings.Contains(dir, stagePrefix) {
			return errJournal
		}
		r.stages = append(r.stages, dir)
	default:
		s := &step{kind: stepKind(word)}
		if _, err := fmt.Sscanf(rest, "%q %q %q %o", &s.path, &s.temp, &s.backup, &s.perm); err != nil {
			return errJournal
		}
		switch s.kind {
		case stepRemove, stepRmdir, stepMkdir, stepReplace, stepCreate:
		default:
			return errJournal
		}
		r.steps = append(r.steps, s)
	}
	return nil
}
