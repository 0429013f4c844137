package sdk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	common "github.com/copilot-bridge/copilot-bridge/internal/agent/session"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
)

// notes is this process's list of the conversations that it has open in a home
// that outlives it, on disk, so that they are found when it was killed. It is a
// directory with a file for each, named by its id, that holds where it is
// stored. A lock beside the directory is held for as long as the process lives.
type notes struct {
	all string // where the directories of all processes are

	mu     sync.Mutex
	own    string // of this process; "" before the first note
	unlock func() error
}

func newNotes(records string) *notes { return &notes{all: conversationsDir(records)} }

func conversationsDir(records string) string { return filepath.Join(records, "conversations") }

// lockSuffix is what the name of a lock has that the directory's has not.
const lockSuffix = ".lock"

// add notes a conversation. It is not synced: what a power cut takes away is
// found by comparing the list of sessions with the stored ones.
func (n *notes) add(id, dir string) error {
	if err := checkID(id); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.own == "" {
		if err := n.open(); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(n.own, id), []byte(dir), 0o600)
}

// open makes the directory of this process, after its lock: a directory whose
// lock is free is a dead process's. mu is held.
func (n *notes) open() error {
	if err := os.MkdirAll(n.all, 0o700); err != nil {
		return err
	}
	own := filepath.Join(n.all, common.NewID())
	unlock, ok, err := durable.TryLock(own + lockSuffix)
	if err != nil || !ok {
		return errors.Join(err, errors.New("the lock of a new directory is taken"))
	}
	if err := os.Mkdir(own, 0o700); err != nil {
		return errors.Join(err, unlock())
	}
	n.own, n.unlock = own, unlock
	return nil
}

// remove takes a conversation off the list, if it is there.
func (n *notes) remove(id string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.own == "" {
		return nil
	}
	if err := os.Remove(filepath.Join(n.own, id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// close gives up the list. The rest of it is left to the next process,
// which knows what a user may want back.
func (n *notes) close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.own == "" {
		return nil
	}
	left := os.Remove(n.own) != nil
	err := n.unlock()
	if !left {
		err = errors.Join(err, os.Remove(n.own+lockSuffix))
	}
	n.own = ""
	return err
}

// noteOpen puts a session on the list of this process, if its stored state
// would outlive the process.
func (s *session) noteOpen(id string) {
	if s.Spec.Shared || s.proc.home != s.host.opts.Home {
		return
	}
	if err := s.host.agent.notes.add(id, stateOf(s.proc.home, id)); err != nil {
		s.host.opts.Logger.Warn("conversations.note_failed: it would stay on disk if this process were killed", "session", id, "error", err)
	}
}

// Conversation is what a runtime has stored of a session that a process had
// open when it ended without closing it.
type Conversation struct {
	ID   string
	Dir  string
	note string
}

// Abandoned lists the conversations of processes that have ended. Those of
// living ones are left out, so any process may call it at any time.
func Abandoned(records string) ([]Conversation, error) {
	all := conversationsDir(records)
	entries, err := os.ReadDir(all)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var out []Conversation
	var errs []error
	for _, e := range entries {
		name, isLock := strings.CutSuffix(e.Name(), lockSuffix)
		if !isLock {
			continue
		}
		own := filepath.Join(all, name)
		unlock, free, err := durable.TryLock(own + lockSuffix)
		if err != nil || !free {
			errs = append(errs, err)
			continue
		}
		found, err := readNotes(own)
		errs = append(errs, err, unlock()) // names are not used twice
		if info, err := e.Info(); err == nil && len(found) == 0 && time.Since(info.ModTime()) > time.Minute {
			// Not one that a process is just about to lock.
			errs = append(errs, os.RemoveAll(own), os.RemoveAll(own+lockSuffix))
		}
		out = append(out, found...)
	}
	return out, errors.Join(errs...)
}

func readNotes(own string) ([]Conversation, error) {
	entries, err := os.ReadDir(own)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var out []Conversation
	for _, e := range entries {
		c := Conversation{ID: e.Name(), note: filepath.Join(own, e.Name())}
		dir, err := os.ReadFile(c.note)
		if errors.Is(err, fs.ErrNotExist) {
			continue // another process removes it too
		}
		if err != nil {
			return out, err
		}
		// A power cut may have taken the contents.
		if c.Dir = string(dir); filepath.Base(c.Dir) != c.ID || !filepath.IsAbs(c.Dir) {
			c.Dir = ""
		}
		out = append(out, c)
	}
	return out, nil
}

// Forget takes the conversation off its dead process's list. It stays stored.
func (c Conversation) Forget() error {
	err := os.Remove(c.note)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Remove deletes the conversation.
func (c Conversation) Remove() error {
	if c.Dir != "" {
		if err := eraseDir(c.Dir); err != nil {
			return err
		}
	}
	return c.Forget()
}

// Claimed says whether a bridge has had a session of the runtime with this
// home, which may be the user's own.
func Claimed(home, id string) bool {
	_, err := os.Lstat(filepath.Join(stateOf(home, id), claimFile))
	return checkID(id) == nil && err == nil
}

// InUse says whether a process has a session of the runtime with this home.
func InUse(home, id string) bool {
	if !Claimed(home, id) {
		return false
	}
	unlock, free, err := durable.TryLock(filepath.Join(stateOf(home, id), claimFile))
	if err == nil && free {
		err = unlock()
	}
	return !free || err != nil
}

// Erase deletes what a runtime with this home has stored of a session, unless
// a process uses it, which is CodeBusy. No runtime is needed for it.
func Erase(home, id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	return eraseDir(stateOf(home, id))
}

func eraseDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	unlock, free, err := durable.TryLock(filepath.Join(dir, claimFile))
	if err != nil {
		return err
	}
	if !free {
		return &bridge.Error{Code: bridge.CodeBusy, Message: fmt.Sprintf("session %s is in use", filepath.Base(dir)), Remedy: "end the program that uses it first"}
	}
	// The lock is removed last: a waiting process finds nothing to resume. It is
	// released before, because Windows removes no file that is open.
	var errs []error
	for _, e := range entries {
		if e.Name() != claimFile {
			errs = append(errs, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(append(errs, unlock(), os.RemoveAll(dir))...)
}

// claimWithin is how long a session may still be another process's: one that
// is ending writes the last turn down in that time.
const claimWithin = 10 * time.Second

// claimFile is the lock in a session's directory.
const claimFile = "bridge.lock"

// claim is this process's hold on a stored session. Two runtimes that write
// one session lose each other's turns, so there is a lock in its directory,
// which the system releases when its holder dies.
type claim struct {
	unlock func() error
	users  int // sessions of this process: after a crash there are two for a while
}

// checkID refuses an id that is not the name of a directory.
func checkID(id string) error {
	if id == "" || id == "." || id != filepath.Base(id) || !filepath.IsLocal(id) {
		return &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("%.100q is not the id of a session", id)}
	}
	return nil
}

// claim makes a stored session this process's own until release is called.
func (a *Agent) claim(ctx context.Context, id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	path := filepath.Join(stateOf(a.opts.Home, id), claimFile)
	for began := time.Now(); ; {
		if a.shared(id, nil) {
			return nil
		}
		// A little at a time: it may be another session of this process that
		// has it meanwhile.
		waiting, cancel := context.WithTimeout(ctx, 250*time.Millisecond)
		unlock, err := durable.Lock(waiting, path)
		cancel()
		switch {
		case err == nil:
			a.shared(id, unlock)
			return nil
		case bridge.CodeOf(err) != bridge.CodeBusy || ctx.Err() != nil:
			return err
		case time.Since(began) > claimWithin:
			return &bridge.Error{Code: bridge.CodeConflict, Message: "session " + id + " is in use by another copilot-bridge", Cause: err,
				Remedy: "go on with it there, or end that one first"}
		}
	}
}

// shared counts one more user of a claim, which is made if there is a lock for
// it; without either it says false.
func (a *Agent) shared(id string, unlock func() error) bool {
	a.claiming.Lock()
	defer a.claiming.Unlock()
	c := a.claims[id]
	if c == nil {
		if unlock == nil {
			return false
		}
		c = &claim{unlock: unlock}
		a.claims[id] = c
	}
	c.users++
	return true
}

func (a *Agent) release(id string) error {
	a.claiming.Lock()
	defer a.claiming.Unlock()
	c := a.claims[id]
	if c == nil {
		return nil
	}
	if c.users--; c.users > 0 {
		return nil
	}
	delete(a.claims, id)
	return c.unlock()
}

// releaseAll is for the end: a session that was given up after a crash was
// never closed.
func (a *Agent) releaseAll() error {
	a.claiming.Lock()
	defer a.claiming.Unlock()
	var errs []error
	for id, c := range a.claims {
		delete(a.claims, id)
		errs = append(errs, c.unlock())
	}
	return errors.Join(errs...)
}
