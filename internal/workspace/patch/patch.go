package patch

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// DefaultMaxBytes bounds what one call holds in memory; see Options.MaxBytes.
const DefaultMaxBytes = 256 << 20

// Options say how a diff is applied. Only Journal is needed.
type Options struct {
	// Verify maps paths to the SHA-256 (hexadecimal) that the files must have
	// before the diff is applied; an empty hash means that there must be no
	// such file. Files that the diff leaves alone are checked as well.
	Verify map[string]string
	// DryRun finds out what would happen, conflicts included, and writes
	// nothing.
	DryRun bool
	// Journal is a directory outside the workspace for the crash journal, the
	// lock, and originals that could not be put back. Several workspaces may
	// share it. It is created if missing, and is not needed for a dry run.
	Journal string
	// Check is asked about every file before anything is written and before
	// the file's contents are read; its first error ends the call and is
	// returned as it is. SHA256 is not known yet. It is called from the
	// goroutine that called Apply.
	Check func(FileChange) error
	// Under, if set, is a directory of the diff: only files below it count, by
	// names relative to it, in all of these options and in the result.
	Under string
	// Live are the contents of files, by path, that count in place of those on
	// disk: what an editor has not saved. They are for Preview; to write over
	// them is not Apply's.
	Live map[string]string
	// MaxBytes bounds the sum of the sizes of the diff, the files it reads and
	// the files it makes; 0 means DefaultMaxBytes.
	MaxBytes int64

	// Tell gets a message for people about the recovery of an application
	// that was interrupted before this one.
	Tell func(string)

	flush     bool                // see Write
	originals map[string]original // what was read is kept here; see Preview
}

// Status says what a diff does to a file.
type Status string

// The kinds of changes. StatusMode is a change of the executable bit alone.
const (
	StatusCreated  Status = "created"
	StatusModified Status = "modified"
	StatusDeleted  Status = "deleted"
	StatusRenamed  Status = "renamed"
	StatusCopied   Status = "copied"
	StatusMode     Status = "mode"
)

// FileChange is what happens to one file. Paths are relative to the workspace
// and have slashes; they hold the bytes of the name, which need not be UTF-8.
type FileChange struct {
	Path      string `json:"path"`
	OldPath   string `json:"oldPath,omitempty"` // of a rename or copy
	Status    Status `json:"status"`
	Mode      string `json:"mode,omitempty"`   // 100644, 100755 or 120000, as git writes it; none for a deletion
	Target    string `json:"target,omitempty"` // where a symbolic link will point
	SHA256    string `json:"sha256,omitempty"` // of the contents afterwards; none for a deletion
	Additions int    `json:"additions"`
	Deletions int    `json:"deletions"`
	Binary    bool   `json:"binary,omitempty"`
}

// Conflict is one reason why a diff does not fit the workspace. Hunk counts
// from 1; it and Line are 0 where the whole file is meant. Expected and Found
// are single lines, shortened.
type Conflict struct {
	File     string `json:"file"`
	Hunk     int    `json:"hunk,omitempty"`
	Line     int    `json:"line,omitempty"`
	Expected string `json:"expected,omitempty"`
	Found    string `json:"found,omitempty"`
	Reason   string `json:"reason"`
}

// Result is the outcome. With OK false nothing was written and Conflicts says
// why; Files then holds only the files that would have fitted.
type Result struct {
	OK        bool         `json:"ok"`
	DryRun    bool         `json:"dryRun,omitempty"`
	Files     []FileChange `json:"files"`
	Conflicts []Conflict   `json:"conflicts"`
}

// Apply changes the files under root as diff says. Either all of them change
// or none. A diff that does not fit gives a Result with conflicts and no
// error; an error means that the diff is malformed or not allowed, or that
// reading or writing failed, and then too every file is as it was.
//
// Calls for one workspace wait for each other, also across processes; ctx
// bounds the wait. Other programs may see the files change one by one, each of
// them whole. After a kill at any point, Recover or the next Apply restores the
// old tree or, if the new one was complete, tidies up. A power cut may lose or
// mix the writes of the seconds before, as with git apply.
//
// The same tree results as with git apply, or both refuse, with exceptions. git
// apply carries out some diffs in a way that they do not say; Apply refuses:
//   - a hunk that only adds lines, without context, in the middle of a file
//     (git puts them at the end);
//   - a file that is changed and then deleted or renamed by a later part of
//     the diff (git leaves the changed file), or made twice (the last wins);
//   - context that ends without a newline where the file has one (git joins
//     the line with the next);
//   - a diff with a damaged binary part (git drops the rest of the diff);
//   - a change of a directory or a submodule (git does nothing);
//   - a copy from a file outside the workspace;
//   - names that are harmless here but lead out of the workspace, or into
//     .git, on Windows or macOS.
//
// Binary data may be named by full SHA-256 hashes in any workspace, which git
// refuses. A changed file keeps its permissions; git gives it fresh ones. A
// repository's attributes and configuration are not read, so line endings are
// never converted. A symbolic link is made even if its target is outside; Check
// is told the target.
func Apply(ctx context.Context, root *os.Root, diff string, opts Options) (Result, error) {
	d, err := Parse(diff, opts.MaxBytes)
	if err != nil {
		return Result{}, err
	}
	return d.Apply(ctx, root, opts)
}

// Diff is a diff that has been read.
type Diff struct {
	size     int
	sections []*section
}

// Parse reads a diff; maxBytes is Options.MaxBytes.
func Parse(diff string, maxBytes int64) (*Diff, error) {
	budget := newBudget(maxBytes)
	if err := budget.take(int64(len(diff))); err != nil {
		return nil, err
	}
	sections, err := parse(diff, budget.limit)
	if err != nil {
		return nil, err
	}
	return &Diff{len(diff), sections}, nil
}

// Names lists every file that the diff speaks of, each once, without looking at
// any of them: what a guard can be asked about before Apply touches the disk.
// Apply touches no other file. It must be called before Apply.
func (d *Diff) Names() []string {
	var names []string
	seen := map[string]bool{}
	for _, s := range d.sections {
		for _, n := range []string{s.old, s.new} {
			if n != "" && !seen[n] {
				seen[n] = true
				names = append(names, n)
			}
		}
	}
	return slices.Clip(names)
}

// Apply is the function Apply for a diff that has been read. It may be called
// once.
func (d *Diff) Apply(ctx context.Context, root *os.Root, opts Options) (Result, error) {
	if opts.DryRun {
		p, err := d.plan(ctx, root, opts)
		if err != nil {
			return Result{}, err
		}
		return p.result(true), nil
	}
	book, done, err := openJournal(ctx, root, opts.Journal)
	if told := done.String(); told != "" && opts.Tell != nil {
		opts.Tell(told)
	}
	if err != nil {
		return Result{}, err
	}
	res, err := book.apply(ctx, d, opts)
	if closeErr := book.close(); err == nil && closeErr != nil {
		return res, fmt.Errorf("release the workspace's lock: %w", closeErr)
	}
	return res, err
}

// Write makes data the contents of a file, whole or not at all, and makes its
// directories. Unlike that of Apply, the result outlives a power cut.
func Write(ctx context.Context, root *os.Root, name, data string, opts Options) (Result, error) {
	s := &section{new: name, created: yes, deleted: no, whole: &data}
	if info, err := root.Lstat(name); err == nil {
		if s.old, s.created = name, no; !info.Mode().IsRegular() {
			return Result{Conflicts: []Conflict{{File: name, Reason: "this is not a file"}}}, nil
		}
	}
	opts.flush = true
	return (&Diff{len(data), []*section{s}}).Apply(ctx, root, opts)
}

// plan works out what the diff would do.
func (d *Diff) plan(ctx context.Context, root *os.Root, opts Options) (*plan, error) {
	budget := newBudget(opts.MaxBytes)
	if err := budget.take(int64(d.size)); err != nil {
		return nil, err
	}
	if err := validHashes(opts.Verify); err != nil {
		return nil, err
	}
	sections, err := under(d.sections, opts.Under)
	if err != nil {
		return nil, err
	}
	return newPlan(ctx, root, sections, opts, budget)
}

func (b *lockedJournal) apply(ctx context.Context, d *Diff, opts Options) (Result, error) {
	p, err := d.plan(ctx, b.root, opts)
	if err != nil {
		return Result{}, err
	}
	// The hashes are only for the result, and take as long as much of the rest.
	var hashing sync.WaitGroup
	hashing.Go(p.sums)
	defer hashing.Wait()
	if len(p.conflicts) == 0 {
		if err := b.commit(ctx, p); err != nil {
			changed, ok := errors.AsType[*changedError](err)
			if !ok {
				return Result{}, err
			}
			p.conflicts = append(p.conflicts, Conflict{File: changed.path, Reason: changed.reason})
		}
	}
	return p.result(false), nil
}

// budget bounds memory: every byte read or made is taken from it.
type budget struct{ left, limit int64 }

func newBudget(limit int64) *budget {
	if limit <= 0 {
		limit = DefaultMaxBytes
	}
	return &budget{left: limit, limit: limit}
}

func (b *budget) take(n int64) error {
	b.left -= n
	if b.left < 0 {
		return tooLarge(b.limit)
	}
	return nil
}

func tooLarge(limit int64) error {
	return &bridge.Error{
		Code:    bridge.CodeInvalid,
		Message: fmt.Sprintf("the diff and the files it touches are larger than %d bytes together", limit),
		Remedy:  "Split the diff into smaller ones.",
	}
}

func validHashes(verify map[string]string) error {
	for path, sum := range verify {
		if sum == "" {
			continue
		}
		if raw, err := hex.DecodeString(sum); err != nil || len(raw) != 32 {
			return &bridge.Error{
				Code:    bridge.CodeInvalid,
				Message: fmt.Sprintf("the expected hash of %s is not a SHA-256 in hexadecimal", printable(path)),
				Remedy:  "Give the sha256 that reading the file returned.",
			}
		}
		if why := unsafeName(path, false); why != "" {
			return unsafePath(path, why)
		}
	}
	return nil
}

// printable makes a name fit for a message: valid UTF-8, without control
// characters, and not endless.
func printable(name string) string {
	name = strings.ToValidUTF8(name, "\uFFFD")
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '\uFFFD'
		}
		return r
	}, name)
	return text.Clip(name, 200)
}
