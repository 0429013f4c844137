package capabilities

import (
	"bytes"
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
)

const (
	sharers  = 3 // runtimes on one home
	sessions = 6 // that each of them opens
)

// sharedHome lets several runtimes work in one home: first each on
// separate sessions, all at once, then two of them on the same session.
func sharedHome(r *rig) {
	home := r.folder("home")
	rts := make([]*runtime, sharers)
	for i := range rts {
		rts[i] = r.runtime(home)
	}
	r.crowd(rts)
	r.oneSessionTwice(rts[0], rts[1], rts[2])
}

// crowd has all runtimes open, use, list and delete sessions at once.
func (r *rig) crowd(rts []*runtime) {
	var mu sync.Mutex
	var failures []error
	kept, deleted := map[string]string{}, map[string]bool{} // id → what was said
	together(sharers*sessions, func(n int) {
		rt, word, remove := rts[n/sessions], fmt.Sprintf("word-%d-%d", n/sessions, n%sessions), n%2 == 1
		var id string
		err := try(func() {
			s := r.open(rt)
			id = s.SessionID
			s.turn("text " + word)
			must(rt.client.ListSessions(r.ctx, nil))
			check(s.Disconnect())
			if remove {
				check(rt.client.DeleteSession(r.ctx, id))
			}
		})
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil:
			failures = append(failures, err)
		case remove:
			deleted[id] = true
		default:
			kept[id] = word
		}
	})
	if r.ctx.Err() != nil {
		check(errors.Join(failures...))
	}
	r.saw("sessions opened, used and half of them deleted by 3 runtimes at once", "%d", sharers*sessions)
	r.saw("errors among them", "%d", len(failures))
	good, busy := 0, 0
	for id, word := range kept {
		_ = try(func() { // one that fails is not counted
			s := r.reopen(rts[0], id, r.dir)
			if d := s.resumed(); d != nil && set(d.AlreadyInUse) {
				busy++
			}
			s.turn("text and now")
			if r.lastAsked(word) {
				good++
			}
		})
	}
	r.saw("kept sessions that another runtime resumes with their words", "%d of %d", good, len(kept))
	r.saw("of those, said to be alreadyInUse though they were disconnected", "%d", busy)
	ghosts := 0
	for _, m := range must(rts[1].client.ListSessions(r.ctx, nil)) {
		if deleted[m.SessionID] {
			ghosts++
		}
	}
	r.saw("deleted sessions that are still listed", "%d", ghosts)
}

// oneSessionTwice opens a session in one runtime and resumes it in another
// while the first still has it.
func (r *rig) oneSessionTwice(a, b, c *runtime) {
	first := r.open(a)
	first.turn("text alpha")
	var second, third *session
	err := try(func() { second = r.reopen(b, first.SessionID, first.dir) })
	if r.yesNo("a second runtime may resume a session that is open in the first", err == nil); err != nil {
		return
	}
	if d := second.resumed(); d != nil {
		r.yesNo("session.resume says alreadyInUse", set(d.AlreadyInUse))
	}
	second.turn("text beta")
	first.turn("text gamma")
	r.yesNo("the first one then knows what was said in the second", r.lastAsked("beta"))
	check(errors.Join(first.Disconnect(), second.Disconnect()))
	if try(func() { third = r.reopen(c, first.SessionID, first.dir) }) != nil {
		r.saw("a third resume afterwards", "fails")
		return
	}
	third.turn("text delta")
	heard := slices.DeleteFunc([]string{"alpha", "beta", "gamma"}, func(word string) bool { return !r.lastAsked(word) })
	r.saw("of alpha (first), beta (second), gamma (first) a later resume knows", "%s", strings.Join(heard, ", "))
	journal := must(os.ReadFile(filepath.Join(a.home, "session-state", first.SessionID, "events.jsonl")))
	good := len(journal) > 0
	for line := range bytes.Lines(journal) {
		good = good && json.Valid(line)
	}
	r.yesNo("every line of its journal is JSON", good)
}

var (
	uuid   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	digits = regexp.MustCompile(`[0-9]{3,}`)
	hashes = regexp.MustCompile(`[0-9a-f]{32,}`)
)

// homeLayout lists what a runtime leaves in its home after a session that
// used tools.
func homeLayout(r *rig) {
	rt := r.runtime("")
	s := r.open(rt)
	s.turn(tool("create", args{"path": filepath.Join(s.dir, "a.txt"), "file_text": "hi"}), shell("echo hi"), "next", "text done")
	running := layout(rt.home)
	check(s.Disconnect())
	r.leave(rt)
	after := layout(rt.home)
	scope := func(path string) string {
		if strings.HasPrefix(path, "session-state/<session>") {
			return "of the session"
		}
		return "of all sessions"
	}
	for _, path := range after {
		r.saw(path, "%s", scope(path))
	}
	info := must(os.Stat(filepath.Join(rt.home, "session-state"))) // one closed directory on the way is enough
	r.yesNo("other users of the machine may read what is of a session", info.Mode().Perm()&0o077 != 0)
	for _, path := range running {
		if !slices.Contains(after, path) {
			r.saw(path, "%s, while the runtime runs", scope(path))
		}
	}
}

// layout lists files and empty directories, with random parts left out.
func layout(home string) []string {
	var out []string
	check(filepath.WalkDir(home, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it has just gone
		}
		if err != nil || path == home {
			return err
		}
		rel, err := filepath.Rel(home, path)
		if d.IsDir() {
			if entries, err := os.ReadDir(path); err != nil || len(entries) > 0 {
				return nil //nolint:nilerr // a directory that has gone is none
			}
			rel += "/"
		}
		rel = uuid.ReplaceAllString(filepath.ToSlash(rel), "<session>")
		out = append(out, digits.ReplaceAllString(hashes.ReplaceAllString(rel, "<hash>"), "<n>"))
		return err
	}))
	slices.Sort(out)
	return slices.Compact(out)
}
