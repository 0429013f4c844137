package patch

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"syscall"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// lead is what the directories on the way to a file are.
type lead int

const (
	leadDir     lead = iota // directories, all of them
	leadMissing             // one does not exist
	leadLink                // one is a symbolic link
	leadOther               // one is a file
)

// disk looks at the workspace as it is before the diff, and remembers what it
// saw of directories. Nothing follows a symbolic link: root would follow one
// that stays inside, but git does not.
type disk struct {
	dirHandles
	seen   map[string]seenDir
	buffer []byte
}

type seenDir struct {
	lead lead
	info fs.FileInfo // of a directory
}

func newDisk(root *os.Root) (*disk, error) {
	info, err := root.Stat(".")
	if err != nil {
		return nil, fmt.Errorf("look at the workspace: %w", err)
	}
	return &disk{dirHandles: dirHandles{root: root}, seen: map[string]seenDir{".": {leadDir, info}}}, nil
}

// dir says what the path dir and the directories above it are.
func (d *disk) dir(dir string) (seenDir, error) {
	if known, ok := d.seen[dir]; ok {
		return known, nil
	}
	above, err := d.dir(path.Dir(dir))
	if err != nil {
		return seenDir{}, err
	}
	is := seenDir{lead: above.lead}
	if above.lead == leadDir {
		info, err := d.root.Lstat(dir)
		switch {
		case isMissing(err):
			is.lead = leadMissing
		case err != nil:
			return seenDir{}, readError(dir, err)
		case info.IsDir():
			is.info = info
		case info.Mode()&fs.ModeSymlink != 0:
			is.lead = leadLink
		default:
			is.lead = leadOther
		}
	}
	d.seen[dir] = is
	return is, nil
}

// stat looks at a file; info is nil if there is none.
func (d *disk) stat(name string) (fs.FileInfo, lead, error) {
	above, err := d.dir(path.Dir(name))
	if err != nil || above.lead != leadDir {
		return nil, above.lead, err
	}
	dir, base, err := d.in(name)
	if err != nil {
		return nil, leadDir, readError(name, err)
	}
	info, err := dir.Lstat(base)
	if isMissing(err) {
		return nil, leadDir, nil
	}
	if err != nil {
		return nil, leadDir, readError(name, err)
	}
	return info, leadDir, nil
}

func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// read returns the contents of a file, or the target of a link, that stat has
// seen. Only regular files are opened, and never waited for.
func (d *disk) read(name string, seen fs.FileInfo, b *budget) (string, error) {
	dir, base, err := d.in(name)
	if err != nil {
		return "", readError(name, err)
	}
	if seen.Mode()&fs.ModeSymlink != 0 {
		target, err := dir.Readlink(base)
		if err != nil {
			return "", readError(name, err)
		}
		return target, b.take(int64(len(target)))
	}
	if err := b.take(seen.Size()); err != nil {
		return "", err
	}
	f, err := dir.OpenFile(base, os.O_RDONLY|nonBlocking, 0)
	if err != nil {
		return "", readError(name, err)
	}
	defer func() { _ = f.Close() }() // nothing was written
	info, err := f.Stat()
	if err != nil {
		return "", readError(name, err)
	}
	if !os.SameFile(info, seen) || info.Size() != seen.Size() {
		return "", &changedError{path: name, reason: reasonChanged}
	}
	// One byte more shows a file that has grown.
	size := int(info.Size())
	d.buffer = slices.Grow(d.buffer[:0], size+1)
	n, err := io.ReadFull(f, d.buffer[:size+1])
	if n == size && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) {
		return string(d.buffer[:size]), nil
	}
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return "", readError(name, err)
	}
	return "", &changedError{path: name, reason: reasonChanged}
}

// list returns the names in a directory.
func (d *disk) list(dir string) ([]fs.DirEntry, error) {
	f, err := d.root.Open(dir)
	if err != nil {
		return nil, readError(dir, err)
	}
	defer func() { _ = f.Close() }() // nothing was written
	entries, err := f.ReadDir(-1)
	if err != nil {
		return nil, readError(dir, err)
	}
	return entries, nil
}

func readError(name string, err error) error {
	return &bridge.Error{
		Code: bridge.CodeConflict, Message: fmt.Sprintf("%s cannot be read", printable(name)),
		Remedy: "Check the file's permissions.", Cause: err,
	}
}

// changedError says that the workspace is not as it was found a moment ago.
type changedError struct{ path, reason string }

func (e *changedError) Error() string { return printable(e.path) + ": " + e.reason }
