package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/github/copilot-sdk/go/rpc"
)

const (
	sharers  = 3 // runtimes on one home
	sessions = 6 // that each of them opens
)

// sharedHome lets several runtimes work in one home: first each on sessions
// of its own, all at once, then two of them on the same session.
func sharedHome(ctx context.Context, r *rig) error {
	home, err := r.folder("home")
	if err != nil {
		return err
	}
	rts := make([]*runtime, sharers)
	for i := range rts {
		if rts[i], err = r.runtime(ctx, home); err != nil {
			return err
		}
	}
	if err := r.crowd(ctx, rts); err != nil {
		return err
	}
	return r.oneSessionTwice(ctx, rts[0], rts[1], rts[2])
}

// crowd has all runtimes open, use, list and delete sessions at once.
func (r *rig) crowd(ctx context.Context, rts []*runtime) error {
	var mu sync.Mutex
	var failures []error
	kept, deleted := map[string]string{}, map[string]bool{} // id → what was said
	var wg sync.WaitGroup
	for i, rt := range rts {
		for n := range sessions {
			wg.Go(func() {
				word := fmt.Sprintf("word-%d-%d", i, n)
				id, gone, err := r.oneOfMany(ctx, rt, word, n%2 == 1)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err != nil:
					failures = append(failures, err)
				case gone:
					deleted[id] = true
				default:
					kept[id] = word
				}
			})
		}
	}
	wg.Wait()
	if ctx.Err() != nil {
		return errors.Join(failures...)
	}
	r.saw("sessions opened, used and half of them deleted by 3 runtimes at once", "%d", sharers*sessions)
	r.saw("errors among them", "%d", len(failures))
	good, busy := 0, 0
	for id, word := range kept {
		s, err := r.reopen(ctx, rts[0], id, r.dir)
		if err != nil {
			continue
		}
		if e, ok := s.soon(ctx, 0, is[*rpc.SessionResumeData]); ok {
			if d, _ := e.Data.(*rpc.SessionResumeData); d.AlreadyInUse != nil && *d.AlreadyInUse {
				busy++
			}
		}
		before := len(r.model.Requests())
		if _, err := s.turn(ctx, "text and now"); err != nil {
			continue
		}
		if reqs := r.model.Requests(); len(reqs) > before && bytes.Contains(reqs[len(reqs)-1].Raw, []byte(word)) {
			good++
		}
	}
	r.saw("kept sessions that another runtime resumes with their words", "%d of %d", good, len(kept))
	r.saw("of those, said to be alreadyInUse though they were disconnected", "%d", busy)
	list, err := rts[1].client.ListSessions(ctx, nil)
	if err != nil {
		return err
	}
	ghosts := 0
	for _, m := range list {
		if deleted[m.SessionID] {
			ghosts++
		}
	}
	r.saw("deleted sessions that are still listed", "%d", ghosts)
	return nil
}

func (r *rig) oneOfMany(ctx context.Context, rt *runtime, word string, remove bool) (id string, gone bool, err error) {
	s, err := r.open(ctx, rt)
	if err != nil {
		return "", false, err
	}
	if _, err := s.turn(ctx, "text "+word); err != nil {
		return "", false, err
	}
	if _, err := rt.client.ListSessions(ctx, nil); err != nil {
		return "", false, err
	}
	if remove {
		return s.SessionID, true, errors.Join(s.Disconnect(), rt.client.DeleteSession(ctx, s.SessionID))
	}
	return s.SessionID, false, s.Disconnect()
}

// oneSessionTwice opens a session in one runtime and resumes it in another
// while the first still has it.
func (r *rig) oneSessionTwice(ctx context.Context, a, b, c *runtime) error {
	first, err := r.open(ctx, a)
	if err != nil {
		return err
	}
	if _, err := first.turn(ctx, "text alpha"); err != nil {
		return err
	}
	second, err := r.reopen(ctx, b, first.SessionID, first.dir)
	r.yesNo("a second runtime may resume a session that is open in the first", err == nil)
	if err != nil {
		return nil //nolint:nilerr // that it is refused is the answer
	}
	if e, ok := second.soon(ctx, 0, is[*rpc.SessionResumeData]); ok {
		d, _ := e.Data.(*rpc.SessionResumeData)
		r.yesNo("session.resume says alreadyInUse", d.AlreadyInUse != nil && *d.AlreadyInUse)
	}
	if _, err := second.turn(ctx, "text beta"); err != nil {
		return err
	}
	if _, err := first.turn(ctx, "text gamma"); err != nil {
		return err
	}
	reqs := r.model.Requests()
	r.yesNo("the first one then knows what was said in the second", bytes.Contains(reqs[len(reqs)-1].Raw, []byte("beta")))
	if err := errors.Join(first.Disconnect(), second.Disconnect()); err != nil {
		return err
	}
	third, err := r.reopen(ctx, c, first.SessionID, first.dir)
	if err != nil {
		r.saw("a third resume afterwards", "fails")
		return nil //nolint:nilerr // a session that is broken is a finding
	}
	if _, err := third.turn(ctx, "text delta"); err != nil {
		return err
	}
	reqs = r.model.Requests()
	var heard []string
	for _, word := range []string{"alpha", "beta", "gamma"} {
		if bytes.Contains(reqs[len(reqs)-1].Raw, []byte(word)) {
			heard = append(heard, word)
		}
	}
	r.saw("of alpha (first), beta (second), gamma (first) a later resume knows", "%s", strings.Join(heard, ", "))
	lines, bad, err := journal(filepath.Join(a.home, "session-state", first.SessionID, "events.jsonl"))
	if err != nil {
		return err
	}
	r.yesNo("every line of its journal is JSON", lines > 0 && bad == 0)
	return nil
}

func journal(path string) (lines, bad int, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, 0, err
	}
	for line := range bytes.Lines(b) {
		lines++
		if !json.Valid(line) {
			bad++
		}
	}
	return lines, bad, nil
}

var (
	uuid   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	digits = regexp.MustCompile(`[0-9]{3,}`)
	hashes = regexp.MustCompile(`[0-9a-f]{32,}`)
)

// homeLayout lists what a runtime leaves in its home after a session that
// used tools.
func homeLayout(ctx context.Context, r *rig) error {
	rt, err := r.runtime(ctx, "")
	if err != nil {
		return err
	}
	s, err := r.open(ctx, rt)
	if err != nil {
		return err
	}
	if _, err := s.turn(ctx, tool("create", map[string]any{"path": filepath.Join(s.dir, "a.txt"), "file_text": "hi"}),
		tool("bash", map[string]any{"command": "echo hi", "description": "say hi"}), "next", "text done"); err != nil {
		return err
	}
	running, err := layout(rt.home)
	if err != nil {
		return err
	}
	if err := errors.Join(s.Disconnect(), rt.leave(ctx)); err != nil {
		return err
	}
	after, err := layout(rt.home)
	if err != nil {
		return err
	}
	for _, path := range after {
		r.saw(path, "%s", scope(path))
	}
	open, err := readableByOthers(rt.home)
	if err != nil {
		return err
	}
	r.yesNo("other users of the machine may read what is of a session", open)
	for _, path := range running {
		if !slices.Contains(after, path) {
			r.saw(path, "%s, while the runtime runs", scope(path))
		}
	}
	return nil
}

// readableByOthers looks at the modes of what belongs to sessions: one closed
// directory on the way is enough.
func readableByOthers(home string) (bool, error) {
	for _, dir := range []string{filepath.Join(home, "session-state")} {
		info, err := os.Stat(dir)
		if err != nil {
			return false, err
		}
		if info.Mode().Perm()&0o077 == 0 {
			return false, nil
		}
	}
	return true, nil
}

func scope(path string) string {
	if strings.HasPrefix(path, "session-state/<session>") {
		return "of the session"
	}
	return "of all sessions"
}

// layout lists files and empty directories, with what is random left out.
func layout(home string) ([]string, error) {
	var out []string
	err := filepath.WalkDir(home, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it has just gone
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(home, path)
		if err != nil || rel == "." {
			return err
		}
		if d.IsDir() {
			if entries, err := os.ReadDir(path); err != nil || len(entries) > 0 {
				return nil //nolint:nilerr // a directory that has gone is none
			}
			rel += "/"
		}
		rel = uuid.ReplaceAllString(filepath.ToSlash(rel), "<session>")
		rel = digits.ReplaceAllString(hashes.ReplaceAllString(rel, "<hash>"), "<n>")
		out = append(out, rel)
		return nil
	})
	slices.Sort(out)
	return slices.Compact(out), err
}
