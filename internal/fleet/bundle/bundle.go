package bundle

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/git"
)

// refPrefix is where the references of bundles and mirrors are. No branch, tag or
// remote is ever carried.
const refPrefix = "refs/copilot-bridge-fleet/"

// Ref is the only reference in the bundle of that name, which is a claim.
func Ref(name string) string { return refPrefix + fleet.Token(name) }

// MaxHave bounds how many commits a worker offers.
const MaxHave = 256

var commitName = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// refused is an error about what another machine sent, which may be an attack.
func refused(format string, args ...any) *bridge.Error {
	return &bridge.Error{Code: bridge.CodeDenied, Message: "the commits that came in are refused: " + fmt.Sprintf(format, args...)}
}

// Make writes a bundle of a commit to a new file, without what the commits in have
// hold, which the other side has. If they hold the commit too, there is no file and
// the bundle names no object. Otherwise the object is called like the bundle.
func Make(ctx context.Context, repo *git.Repository, file, name, commit string, have []string) (fleet.Bundle, error) {
	if !commitName.MatchString(commit) {
		return fleet.Bundle{}, &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("%q is no commit", commit)}
	}
	var known []string
	for _, h := range have[:min(len(have), MaxHave)] {
		if h == commit {
			return fleet.Bundle{}, nil
		}
		if len(h) == len(commit) && commitName.MatchString(h) { // they come from another machine
			known = append(known, h)
		}
	}
	empty, err := repo.Bundle(ctx, file, Ref(name), commit, known)
	if err != nil || empty {
		return fleet.Bundle{}, err
	}
	f, err := os.Open(file)
	if err != nil {
		return fleet.Bundle{}, err
	}
	sum := sha256.New()
	size, err := io.Copy(sum, f)
	return fleet.Bundle{Object: name, Size: size, SHA256: hex.EncodeToString(sum.Sum(nil))}, errors.Join(err, f.Close())
}

// Expect says what a bundle has to hold.
type Expect struct {
	Name   string // of the bundle
	Commit string
	// Parent is the only parent that the commit of a result may have. "" is for the
	// commit on which a task begins, and takes its history.
	Parent   string
	MaxBytes int64 // of the bundle; 0 for the usual bound
}

// MaxResult is how many bytes the bundle of a result may have.
const MaxResult = 512 << 20

// limits bound what a bundle may cost.
type limits struct {
	bytes    int64 // of the bundle
	objects  int64
	object   int64 // bytes of one
	unpacked int64 // bytes of all
}

// The bounds of a result, and of a commit to begin with. Every file of a large
// history unpacked is a hundred times its pack.
var (
	resultLimits = limits{bytes: MaxResult, objects: 1 << 20, object: 512 << 20, unpacked: 4 << 30}
	beginLimits  = limits{bytes: fleet.MaxBucket, objects: 1 << 26, object: 4 << 30, unpacked: 4 << 40}
)

func (e Expect) limits() limits {
	l := resultLimits
	if e.Parent == "" {
		l = beginLimits
	}
	if e.MaxBytes > 0 {
		l.bytes = e.MaxBytes
	}
	return l
}

func (e Expect) check(b fleet.Bundle) error {
	switch {
	case !commitName.MatchString(e.Commit):
		return refused("%.80q is no commit", e.Commit)
	case e.Parent != "" && (!commitName.MatchString(e.Parent) || len(e.Parent) != len(e.Commit)):
		return refused("%.80q and %.80q are not commits of one repository", e.Commit, e.Parent)
	case b.Object == "":
		return refused("there is no bundle for commit %s", e.Commit)
	case b.Size < 0 || b.Size > e.limits().bytes:
		return refused("the bundle has %d bytes, and the limit is %d", b.Size, e.limits().bytes)
	}
	return nil
}

// Receive checks a bundle and takes its commit into the repository, without a
// reference: the caller keeps it. CodeDenied means that the bundle is not as it has
// to be; the repository is unchanged then. A result that equals its parent has no
// bundle, and nothing is read.
func Receive(ctx context.Context, repo *git.Repository, r io.Reader, b fleet.Bundle, e Expect) (err error) {
	if e.Commit == e.Parent && commitName.MatchString(e.Commit) && b.Object == "" {
		return nil
	}
	a, err := arrive(repo, r, b, e)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	return a.take(ctx)
}

// arrival is a bundle whose outside has been checked.
type arrival struct {
	repo   *git.Repository
	expect Expect
	in     *git.Incoming
	file   *os.File // stands at the pack
	pack   packStats
}

// arrive reads a bundle to its end, and checks its size and hash, its one
// reference, and what its pack would cost. No git has seen it yet.
func arrive(repo *git.Repository, r io.Reader, b fleet.Bundle, e Expect) (_ *arrival, err error) {
	if err := e.check(b); err != nil {
		return nil, err
	}
	in, err := repo.NewIncoming()
	if err != nil {
		return nil, err
	}
	a := &arrival{repo: repo, expect: e, in: in}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.close())
		}
	}()
	if a.file, err = os.OpenFile(filepath.Join(in.Dir(), "bundle"), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600); err != nil {
		return nil, err
	}
	sum := sha256.New()
	size, err := io.Copy(io.MultiWriter(a.file, sum), io.LimitReader(r, b.Size+1))
	switch {
	case err != nil:
		return nil, err
	case size > b.Size:
		return nil, refused("the bundle is larger than the %d bytes that were announced", b.Size)
	case size < b.Size:
		return nil, refused("the bundle ends after %d of %d bytes", size, b.Size)
	case hex.EncodeToString(sum.Sum(nil)) != b.SHA256:
		return nil, refused("the bundle's SHA-256 is not the one that was announced")
	}
	if _, err := a.file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	begin, err := readHeader(a.file, e)
	if err != nil {
		return nil, err
	}
	if _, err := a.file.Seek(begin, io.SeekStart); err != nil {
		return nil, err
	}
	if a.pack, err = measure(a.file, size-begin, e.Commit, e.limits()); err != nil {
		return nil, err
	}
	_, err = a.file.Seek(begin, io.SeekStart)
	return a, err
}

func (a *arrival) close() error {
	var err error
	if a.file != nil {
		err = a.file.Close()
	}
	return errors.Join(err, a.in.Close())
}

// take lets git unpack it apart from the repository, checks the commit, and moves
// the objects in.
func (a *arrival) take(ctx context.Context) error {
	e := a.expect
	const few, small = 100, 16 << 20
	err := a.in.Unpack(ctx, git.Pack{File: a.file, Size: e.limits().bytes, Old: e.Parent == "", Loose: a.pack.objects <= few && a.pack.unpacked <= small})
	if err != nil {
		return err
	}
	switch {
	case e.Parent != "":
		err = a.checkResult(ctx)
	case !a.pack.found:
		err = exists(ctx, a.repo, a.in, e.Commit)
	}
	if err != nil {
		return err
	}
	return a.in.Keep()
}

// exists checks that a commit is there.
func exists(ctx context.Context, repo *git.Repository, in *git.Incoming, commit string) error {
	kind, err := repo.Line(ctx, git.Call{Args: []string{"cat-file", "--batch-check=%(objecttype)"}, Input: commit + "\n", Incoming: in})
	if err == nil && kind != "commit" {
		err = refused("commit %s is not among them", commit)
	}
	return err
}
