package upkeep

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/agent/sdk"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/sandbox"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
	"github.com/copilot-bridge/copilot-bridge/internal/sessionstore"
	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
)

// Leftover is something on disk that is no longer needed.
type Leftover struct {
	Kind  string `json:"kind"`
	Name  string `json:"name"` // a path, or the id of a session
	About string `json:"about"`
	Bytes int64  `json:"bytes"`

	remove func() error
}

// Remove removes it.
func (l Leftover) Remove() error { return l.remove() }

const (
	// oldLogs is when logs of the runtime are old.
	oldLogs = 14 * 24 * time.Hour
	// oldTemp is when a file that a command needs for moments is a leftover.
	oldTemp = 24 * time.Hour
)

// Leftovers lists files that are not needed now. all adds some that the user may
// still want: conversations that are not on the list of sessions, and copies
// of files that an interrupted patch has left. Nothing that a living process
// uses is among them.
func Leftovers(ctx context.Context, o Options, all bool) ([]Leftover, error) {
	s := &cleaner{o: o, now: time.Now()}
	for _, look := range []func(context.Context) error{s.conversations, s.sessions, s.timelines, s.worktrees, s.caches, s.temporary, s.logs} {
		if err := look(ctx); err != nil {
			return nil, err
		}
	}
	if all {
		if err := errors.Join(s.unlisted(ctx), s.kept()); err != nil {
			return nil, err
		}
	}
	return s.found, nil
}

// cleaner collects leftovers.
type cleaner struct {
	o     Options
	now   time.Time
	found []Leftover
}

// add notes a leftover whose files are at paths.
func (s *cleaner) add(kind, name, about string, remove func() error, paths ...string) {
	l := Leftover{Kind: kind, Name: name, About: about, remove: remove}
	for _, path := range paths {
		l.Bytes += size(path)
	}
	s.found = append(s.found, l)
}

// addFiles notes files and directories of which the first gives the name.
func (s *cleaner) addFiles(kind, about string, paths ...string) {
	s.add(kind, paths[0], about, func() error {
		var errs []error
		for _, path := range paths {
			errs = append(errs, os.RemoveAll(path))
		}
		return errors.Join(errs...)
	}, paths...)
}

// size is what a file or a directory takes, as far as it can be read.
func size(path string) (n int64) {
	// The function never fails, so neither does the walk.
	_ = filepath.WalkDir(path, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // what cannot be read is not counted
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			n += info.Size()
		}
		return nil
	})
	return n
}

func (s *cleaner) conversations(ctx context.Context) error {
	left, err := abandoned(ctx, s.o)
	for _, c := range left {
		s.add("conversation", c.Dir, "of a process that was killed", c.Remove, c.Dir)
	}
	return err
}

func (s *cleaner) sessions(ctx context.Context) error {
	entries, err := s.o.Store.List(ctx)
	if err != nil {
		return err
	}
	for _, e := range RetentionOf(s.o.Config).Expired(entries, s.now) {
		s.add("session", e.ID, "past sessions.keep_days or sessions.keep: "+e.Title, func() error {
			_, _, err := DeleteSessions(ctx, s.o, []sessionstore.Entry{e})
			return err
		}, s.o.Config.Path("copilot", "session-state", e.ID))
	}
	return nil
}

// timelines are what sessions did, and what killed processes have left of it.
func (s *cleaner) timelines(context.Context) error {
	old, err := Timelines(s.o.Config).Old(oldTimelines(s.o.Config, s.now))
	for _, files := range old {
		s.addFiles("timeline", "past sessions.timelines", files...)
	}
	return err
}

func (s *cleaner) worktrees(context.Context) error {
	orphans, err := orchestrate.Orphans(s.o.Config.Home)
	for _, dir := range orphans {
		s.add("worktrees", dir, "of a run that no longer exists", func() error { return orchestrate.RemoveOrphan(dir) }, dir)
	}
	return err
}

// caches are build caches of workspaces that have gone.
func (s *cleaner) caches(context.Context) error {
	gone, err := sandbox.GoneCaches(s.o.Config.Home)
	for _, c := range gone {
		s.addFiles("cache", "of the workspace "+c.Workspace+", which is gone", c.Paths...)
	}
	return err
}

// Names of ours in the directory for temporary files: places of process trees,
// and what a command needs for moments.
var (
	placeName  = regexp.MustCompile(`^copilot-bridge-([0-9a-f]{24})$`)
	momentName = regexp.MustCompile(`^copilot-bridge-(scope|input|check|git|sandbox)-[0-9]+$`)
)

func (s *cleaner) temporary(context.Context) error {
	entries, err := os.ReadDir(os.TempDir())
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || s.now.Sub(info.ModTime()) < oldTemp || !ownFile(info) {
			continue
		}
		if m := placeName.FindStringSubmatch(e.Name()); m != nil && supervise.Gone(m[1]) || momentName.MatchString(e.Name()) {
			s.addFiles("temporary", "of a process that was killed", filepath.Join(os.TempDir(), e.Name()))
		}
	}
	return nil
}

func (s *cleaner) logs(context.Context) error {
	return s.old("log", "last written %s", oldLogs, "copilot", "logs")
}

// kept are the originals that the recovery of a patch has saved.
func (s *cleaner) kept() error {
	age := RetentionOf(s.o.Config).Age
	if age == 0 {
		return nil
	}
	return s.old("kept originals", "saved %s when an interrupted patch was undone", age, "patches", "kept")
}

// old adds the files of a directory that were last written before an age.
func (s *cleaner) old(kind, about string, age time.Duration, dir ...string) error {
	entries, err := os.ReadDir(s.o.Config.Path(dir...))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && s.now.Sub(info.ModTime()) > age && !strings.HasPrefix(e.Name(), ".") {
			s.addFiles(kind, fmt.Sprintf(about, info.ModTime().Format(time.DateOnly)), filepath.Join(s.o.Config.Path(dir...), e.Name()))
		}
	}
	return err
}

// unlisted are conversations in the bridge's own home that no session of the
// list has, and no process uses.
func (s *cleaner) unlisted(ctx context.Context) error {
	own := s.o.Config.Path("copilot")
	entries, err := os.ReadDir(filepath.Join(own, "session-state"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	sessions, err := s.o.Store.List(ctx)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, e := range sessions {
		known[e.ID] = true
	}
	for _, l := range s.found {
		known[filepath.Base(l.Name)] = known[filepath.Base(l.Name)] || l.Kind == "conversation"
	}
	for _, e := range entries {
		id := e.Name()
		if known[id] || sdk.InUse(own, id) {
			continue
		}
		dir := filepath.Join(own, "session-state", id)
		s.add("conversation", dir, "not on the list of sessions", func() error { return sdk.Erase(own, id) }, dir)
	}
	return nil
}
