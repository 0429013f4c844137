package bundle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/git"
)

// MirrorsOptions say where mirrors are.
type MirrorsOptions struct {
	Root    string // the mirrors are <Root>/<repo id>.git
	Scratch string // a directory of this process alone
	Environ []string
	Confine git.Confine
}

// Mirrors are a worker's bare copies of repositories. They only save sending
// commits again: one that is damaged or not used is removed and made anew. Several
// processes may share a Root. Its methods may be called concurrently.
//
// Each mirror has a lock file beside it. Who uses the mirror shares the lock; who
// removes it has it alone. Work in the mirror itself needs no lock: git's own are
// enough, and what comes in is checked apart from it.
type Mirrors struct {
	opts MirrorsOptions

	mu   sync.Mutex
	open map[string]*mirror // by repository
}

// mirror is one that this process has open, whether it is used or not.
type mirror struct {
	repo    *git.Repository
	unlock  func() error
	users   int
	damaged bool
}

// NewMirrors returns the mirrors below a root.
func NewMirrors(o MirrorsOptions) *Mirrors { return &Mirrors{opts: o, open: map[string]*mirror{}} }

var repoName = regexp.MustCompile(`^[0-9a-f]{32}$`) // see RepoID

func (m *Mirrors) path(repo, kind string) string { return filepath.Join(m.opts.Root, repo+kind) }

// Have lists commits that the mirror of a repository holds, at most MaxHave, the
// newest first. Without a mirror there are none.
func (m *Mirrors) Have(repo string) []string {
	if _, err := os.Lstat(m.path(repo, ".damaged")); err == nil || !repoName.MatchString(repo) {
		return nil
	}
	all := kept(m.path(repo, ".git"))
	return all[:min(len(all), MaxHave)]
}

// kept lists the commits that a mirror has references to, the newest first. We
// alone make these, each as a file named like its commit.
func kept(dir string) []string {
	entries, err := os.ReadDir(filepath.Join(dir, filepath.FromSlash(refPrefix)))
	if err != nil {
		return nil
	}
	times := map[string]time.Time{}
	var names []string
	for _, e := range entries {
		if info, err := e.Info(); err == nil && commitName.MatchString(e.Name()) {
			names, times[e.Name()] = append(names, e.Name()), info.ModTime()
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(times[b].Compare(times[a]), cmp.Compare(a, b)) })
	return names
}

// Mirror is the use of a mirror, until Close. Repo may be used by several at once.
type Mirror struct {
	Repo *git.Repository

	all   *Mirrors
	id    string
	state *mirror
	once  sync.Once
}

// Open opens the mirror of a repository, and makes it if need be. The commit, any
// of the repository's, tells how its objects are named. CodeBusy means that it is
// damaged and still in use: it can be made anew when that has ended.
func (m *Mirrors) Open(ctx context.Context, repo, commit string) (*Mirror, error) {
	if !repoName.MatchString(repo) || !commitName.MatchString(commit) {
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("%.80q is no repository, or %.80q no commit", repo, commit)}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.open[repo]
	if s != nil && s.damaged {
		if s.users > 0 {
			return nil, busy(repo)
		}
		if err := m.drop(repo); err != nil {
			return nil, err
		}
		s = nil
	}
	if s == nil {
		var err error
		if s, err = m.load(ctx, repo, commit); err != nil {
			return nil, err
		}
		m.open[repo] = s
	}
	s.users++
	now := time.Now()
	if err := os.Chtimes(m.path(repo, ".lock"), now, now); err != nil { // see Prune
		return nil, err
	}
	return &Mirror{Repo: s.repo, all: m, id: repo, state: s}, nil
}

func busy(repo string) error {
	return &bridge.Error{Code: bridge.CodeBusy, Message: "the mirror of repository " + repo + " is being made anew", Remedy: "try again when the tasks that use it have ended"}
}

// load opens a mirror that this process has not open. The caller holds mu.
func (m *Mirrors) load(ctx context.Context, repo, commit string) (*mirror, error) {
	if err := os.MkdirAll(m.opts.Root, 0o700); err != nil {
		return nil, err
	}
	if err := m.clean(repo); err != nil {
		return nil, err
	}
	// Another process cleans it just now, or makes it anew.
	waiting, end := context.WithTimeout(ctx, lockBound)
	defer end()
	unlock, ok, err := durable.Share(waiting, m.path(repo, ".lock"))
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(m.path(repo, ".damaged")); !ok || err == nil {
		return nil, errors.Join(busy(repo), unlock())
	}
	format := "sha1"
	if len(commit) == 64 {
		format = "sha256"
	}
	r, err := git.OpenMirror(ctx, git.Options{Dir: m.path(repo, ".git"), Environ: m.opts.Environ, Scratch: filepath.Join(m.opts.Scratch, repo), Confine: m.opts.Confine}, format)
	if bridge.CodeOf(err) == bridge.CodeConflict { // damaged
		err = errors.Join(err, os.WriteFile(m.path(repo, ".damaged"), nil, 0o600))
	}
	if err != nil {
		return nil, errors.Join(err, unlock())
	}
	return &mirror{repo: r, unlock: unlock}, nil
}

// clean removes a damaged mirror, and what killed processes have left in a good
// one, if nobody uses it.
func (m *Mirrors) clean(repo string) (err error) {
	unlock, ok, err := durable.TryLock(m.path(repo, ".lock"))
	if err != nil || !ok {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if _, err := os.Lstat(m.path(repo, ".damaged")); err == nil {
		return m.remove(repo)
	}
	return git.SweepIncoming(m.path(repo, ".git"))
}

// remove deletes a mirror whose lock the caller has alone. It is moved away first:
// half a mirror must not be left in its place.
func (m *Mirrors) remove(repo string) error {
	gone, err := os.MkdirTemp(m.opts.Root, ".gone-*")
	if err != nil {
		return err
	}
	err = os.Rename(m.path(repo, ".git"), filepath.Join(gone, "mirror"))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err == nil {
		err = os.Remove(m.path(repo, ".damaged"))
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, os.RemoveAll(gone))
}

// drop closes a mirror that nobody uses. The caller holds mu.
func (m *Mirrors) drop(repo string) error {
	s := m.open[repo]
	delete(m.open, repo)
	return errors.Join(s.repo.Close(), s.unlock())
}

// Close closes all mirrors. Nobody uses them any more.
func (m *Mirrors) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	for repo := range m.open {
		errs = append(errs, m.drop(repo))
	}
	return errors.Join(errs...)
}

// Close ends the use. The mirror stays open for the next.
func (m *Mirror) Close() {
	m.once.Do(func() {
		m.all.mu.Lock()
		defer m.all.mu.Unlock()
		m.state.users--
	})
}

// Damaged says that the mirror cannot be trusted. It is made anew as soon as
// nobody uses it.
func (m *Mirror) Damaged() error {
	m.all.mu.Lock()
	defer m.all.mu.Unlock()
	m.state.damaged = true
	return os.WriteFile(m.all.path(m.id, ".damaged"), nil, 0o600)
}

// Receive takes in the commit that a task begins with. A bundle without an object
// says that the mirror has it. If git cannot use what is as it was announced, the
// mirror may be the reason, and is made anew.
func (m *Mirror) Receive(ctx context.Context, r io.Reader, b fleet.Bundle, e Expect) error {
	if e.Parent != "" || !commitName.MatchString(e.Commit) {
		return &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("a mirror does not take results, nor %.80q", e.Commit)}
	}
	err := m.receive(ctx, r, b, e)
	if errors.Is(err, errInside) {
		return errors.Join(err, m.Damaged())
	}
	if err != nil {
		return err
	}
	return m.Keep(e.Commit)
}

// errInside marks what git found.
var errInside = errors.New("git cannot use it")

func (m *Mirror) receive(ctx context.Context, r io.Reader, b fleet.Bundle, e Expect) (err error) {
	if b.Object == "" {
		err = exists(ctx, m.Repo, nil, e.Commit)
	} else {
		var a *arrival
		if a, err = arrive(m.Repo, r, b, e); err != nil {
			return err
		}
		err = errors.Join(a.take(ctx), a.close())
	}
	if bridge.CodeOf(err) == bridge.CodeDenied {
		err = fmt.Errorf("%w: %w", errInside, err)
	}
	return err
}

// Keep gives a commit of the mirror a reference, so that git does not throw it
// away, and Have offers it. The oldest ones beyond what can be offered lose theirs.
func (m *Mirror) Keep(commit string) error {
	if !commitName.MatchString(commit) {
		return &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("%.80q is no commit", commit)}
	}
	dir := filepath.Join(m.Repo.Common, filepath.FromSlash(refPrefix))
	if err := durable.Replace(filepath.Join(dir, commit), []byte(commit+"\n"), 0o600); err != nil {
		return err
	}
	all := kept(m.Repo.Common)
	for _, old := range all[min(len(all), 2*MaxHave):] {
		if err := os.Remove(filepath.Join(dir, old)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// lockBound is how long Open waits while another process cleans a mirror.
const lockBound = 5 * time.Second

// The bounds of Prune that a worker uses.
const (
	MirrorsUnused = 30 * 24 * time.Hour
	MirrorsBytes  = 20 << 30
)

// Prune removes mirrors that were not used for so long, and then the longest
// unused ones until the rest takes no more than the given bytes. Those in use stay.
func (m *Mirrors) Prune(unused time.Duration, most int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	entries, err := os.ReadDir(m.opts.Root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	type found struct {
		repo string
		used time.Time
		size int64
	}
	var list []found
	total := int64(0)
	for _, e := range entries {
		if info, statErr := e.Info(); statErr == nil && isLeft(e.Name()) && time.Since(info.ModTime()) > time.Hour {
			err = errors.Join(err, os.RemoveAll(filepath.Join(m.opts.Root, e.Name())))
		}
		repo, ok := strings.CutSuffix(e.Name(), ".git")
		if !ok || !repoName.MatchString(repo) {
			continue
		}
		f := found{repo: repo, size: diskUse(filepath.Join(m.opts.Root, e.Name()))}
		if info, err := os.Stat(m.path(repo, ".lock")); err == nil {
			f.used = info.ModTime()
		}
		total += f.size
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b found) int { return a.used.Compare(b.used) })
	for _, f := range list {
		if time.Since(f.used) < unused && total <= most {
			break
		}
		removed, pruneErr := m.prune(f.repo)
		if err = errors.Join(err, pruneErr); removed {
			total -= f.size
		}
	}
	return err
}

// isLeft says whether a name is of a directory that is being made or removed.
func isLeft(name string) bool {
	return strings.HasPrefix(name, ".new-") || strings.HasPrefix(name, ".gone-")
}

// prune removes a mirror if nobody uses it. The caller holds mu.
func (m *Mirrors) prune(repo string) (removed bool, err error) {
	if s := m.open[repo]; s != nil {
		if s.users > 0 {
			return false, nil
		}
		if err := m.drop(repo); err != nil {
			return false, err
		}
	}
	unlock, ok, err := durable.TryLock(m.path(repo, ".lock"))
	if err != nil || !ok {
		return false, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	return true, m.remove(repo)
}

// diskUse adds up files. What vanishes meanwhile does not count.
func diskUse(dir string) (bytes int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error { // our function returns no error
		if err != nil {
			return nil //nolint:nilerr // it does not count
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			bytes += info.Size()
		}
		return nil
	})
	return bytes
}
