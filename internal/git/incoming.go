package git

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// Incoming holds objects that are not trusted yet. They lie in a directory of
// their own that borrows from the repository's objects, and only Keep makes them
// part of the repository. Its owner closes it. If a kill leaves one, git takes it
// for its own and removes it with its next clean-up.
type Incoming struct {
	repo *Repository
	dir  string
}

const incomingPrefix = "tmp_objdir-incoming-"

// NewIncoming makes an empty one.
func (r *Repository) NewIncoming() (*Incoming, error) {
	objects := filepath.Join(r.Common, "objects")
	dir, err := os.MkdirTemp(objects, incomingPrefix+"*")
	if err != nil {
		return nil, err
	}
	in := &Incoming{r, dir}
	err = os.Mkdir(filepath.Join(dir, "info"), 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "info", "alternates"), []byte(filepath.ToSlash(objects)+"\n"), 0o600)
	}
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	return in, nil
}

// Dir has room for files that go with it.
func (in *Incoming) Dir() string { return in.dir }

// Close removes what was not kept.
func (in *Incoming) Close() error { return os.RemoveAll(in.dir) }

// Pack is a pack to take in.
type Pack struct {
	File *os.File // from where it stands
	// Size bounds what git reads of it.
	Size int64
	// Loose makes single files of the objects, as git does with small packs:
	// many packs slow every later command down.
	Loose bool
	// Old says that the objects are a repository's history, in which mistakes of
	// old programs that harm nobody are forgiven.
	Old bool
}

// forgiven are mistakes in dates, names and numbers that old programs made. The
// others are refused, also those that git only warns of.
const forgiven = "badDate=ignore,badDateOverflow=ignore,badEmail=ignore,badName=ignore,badTimezone=ignore,missingEmail=ignore,missingNameBeforeEmail=ignore," +
	"missingSpaceBeforeDate=ignore,missingSpaceBeforeEmail=ignore,multipleAuthors=ignore,zeroPaddedDate=ignore,zeroPaddedFilemode=ignore,badTagName=ignore,missingTaggerEntry=ignore"

// Unpack checks the objects of a pack, and that all that they name is there. A
// pack that git does not take is a bridge.Error of CodeDenied.
func (in *Incoming) Unpack(ctx context.Context, p Pack) error {
	rules := "--strict=badFilemode=error"
	if p.Old {
		rules = "--strict=" + forgiven
	}
	args := []string{"index-pack", "--stdin", "--fix-thin", rules}
	if p.Loose {
		args = []string{"unpack-objects", "-q", rules}
	}
	args = append(args, "--max-input-size="+strconv.FormatInt(p.Size, 10))
	_, code, err := in.repo.Run(ctx, Call{File: p.File, Args: args, Incoming: in})
	if refused := code == 1 || code == 128; refused && !slices.ContainsFunc([]string{"No space left", "Disk quota", "Permission denied", "unable to create", "Out of memory", "out of memory"},
		func(ours string) bool { return strings.Contains(err.Error(), ours) }) {
		return &bridge.Error{Code: bridge.CodeDenied, Message: "git does not take the commits that came in", Cause: err}
	}
	return err
}

// Keep moves the objects into the repository. Others may do the same at the same
// time: an object that is there already is the same one.
func (in *Incoming) Keep() error {
	entries, err := os.ReadDir(in.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() && (len(e.Name()) == 2 || e.Name() == "pack") {
			if err := in.move(e.Name()); err != nil {
				return err
			}
		}
	}
	return nil
}

// move moves the files of one directory. git sees a pack by its index, so that
// comes last.
func (in *Incoming) move(sub string) error {
	from, to := filepath.Join(in.dir, sub), filepath.Join(in.repo.Common, "objects", sub)
	if err := os.Mkdir(to, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	rank := func(e fs.DirEntry) int {
		if strings.HasSuffix(e.Name(), ".idx") {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(entries, func(a, b fs.DirEntry) int { return rank(a) - rank(b) })
	for _, e := range entries {
		if _, err := os.Lstat(filepath.Join(to, e.Name())); err == nil {
			continue
		}
		if err := os.Rename(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// Bundle writes a bundle with one reference to a new file: the commit and all of
// its history that those in have do not hold. Those that are not in the
// repository are left out. Nothing is written, and empty is true, if they hold
// the commit. The repository gets no reference. Calls at the same time need
// different references.
func (r *Repository) Bundle(ctx context.Context, file, ref, commit string, have []string) (empty bool, err error) {
	at := filepath.Join(r.view, filepath.FromSlash(ref))
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
		return false, err
	}
	if err := os.WriteFile(at, []byte(commit+"\n"), 0o600); err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, os.Remove(at)) }()
	var b strings.Builder
	for _, h := range have {
		b.WriteString("^" + h + "\n")
	}
	b.WriteString(ref + "\n")
	_, _, err = r.Run(ctx, Call{Args: []string{"bundle", "create", "-q", file, "--ignore-missing", "--stdin"}, Input: b.String(), New: filepath.Dir(file),
		more: []setting{{"pack.compression", "1"}, {"core.bigFileThreshold", "16m"}}}) // the other side waits: no deltas of large files
	if err != nil && strings.Contains(err.Error(), "empty bundle") {
		return true, nil
	}
	return false, err
}
