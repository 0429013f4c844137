package repo

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// maxIndex bounds the index: some half a million files.
const maxIndex = 64 << 20

// Index is what git tracks, as paths with slashes relative to Top.
type Index struct {
	Files      []string
	Submodules []string

	stats   []stat // of Files
	written time.Time
}

// stat is what git remembers of a file that it has stored.
type stat struct {
	seconds, nanoseconds, size uint32
	stored                     bool
}

// Unchanged are the files that git has stored as they are. Like git it takes a
// file for unchanged whose size and time are; one that was written so shortly
// before the index that the time does not tell is left out.
func (x *Index) Unchanged() map[string]func(fs.FileInfo) bool {
	out := map[string]func(fs.FileInfo) bool{}
	for i, name := range x.Files {
		s := x.stats[i]
		at := time.Unix(int64(s.seconds), int64(s.nanoseconds))
		if s.stored && at.Before(x.written) {
			out[name] = func(info fs.FileInfo) bool {
				return info.Mode().IsRegular() && info.ModTime().Equal(at) && info.Size() == int64(s.size)
			}
		}
	}
	return out
}

var errIndex = errors.New("the index is not understood")

// Index reads the index. There is none in a new repository.
func (r *Repository) Index() (Index, error) {
	file := filepath.Join(r.dir, "index")
	info, err := os.Lstat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return Index{}, nil
	}
	if err != nil {
		return Index{}, err
	}
	data, err := read(file, maxIndex)
	if err != nil {
		return Index{}, err
	}
	hash := 20
	c, err := r.settings()
	if err != nil {
		return Index{}, err
	}
	if format, ok := c.last("extensions.objectformat"); ok && format != "sha1" {
		if format != "sha256" {
			return Index{}, errIndex
		}
		hash = 32
	}
	out, err := parseIndex(data, hash)
	out.written = info.ModTime()
	return out, err
}

// parseIndex reads versions 2 to 4. Parts of the index in other files and
// directories in place of files (split and sparse indexes) are not understood.
func parseIndex(data []byte, hash int) (Index, error) {
	var out Index
	if len(data) < 12+hash || string(data[:4]) != "DIRC" {
		return out, errIndex
	}
	version, count := binary.BigEndian.Uint32(data[4:]), binary.BigEndian.Uint32(data[8:])
	if version < 2 || version > 4 {
		return out, errIndex
	}
	rest := data[12 : len(data)-hash]
	name := []byte{}
	for range count {
		fixed := 40 + hash + 2
		if len(rest) < fixed {
			return out, errIndex
		}
		seen := stat{seconds: binary.BigEndian.Uint32(rest[8:]), nanoseconds: binary.BigEndian.Uint32(rest[12:]), size: binary.BigEndian.Uint32(rest[36:]), stored: true}
		mode, flags := binary.BigEndian.Uint32(rest[24:]), binary.BigEndian.Uint16(rest[40+hash:])
		if flags&0xf000 != 0 { // a conflict, a promise to store it, or not looked at
			seen.stored = false
		}
		if flags&0x4000 != 0 { // more flags
			fixed += 2
		}
		if len(rest) < fixed || mode&0xf000 == 0x4000 {
			return out, errIndex
		}
		tail := rest[fixed:]
		strip := len(name)
		if version == 4 {
			n, size := offset(tail)
			if size == 0 || n > len(name) {
				return out, errIndex
			}
			strip, tail = n, tail[size:]
			fixed += size
		}
		end := bytes.IndexByte(tail, 0)
		if end < 0 {
			return out, errIndex
		}
		name = append(name[:len(name)-strip], tail[:end]...)
		size := fixed + end + 1
		if version < 4 {
			size = (fixed + end + 8) &^ 7
		}
		if size > len(rest) {
			return out, errIndex
		}
		rest = rest[size:]
		if mode&0xf000 == 0xe000 {
			out.Submodules = append(out.Submodules, string(name))
		} else {
			out.Files, out.stats = append(out.Files, string(name)), append(out.stats, seen)
		}
	}
	return out, extensions(rest)
}

// extensions refuses those without which the entries are not all there is.
func extensions(rest []byte) error {
	for len(rest) >= 8 {
		size := binary.BigEndian.Uint32(rest[4:])
		if rest[0] < 'A' || rest[0] > 'Z' || uint64(size) > uint64(len(rest)-8) {
			return errIndex
		}
		rest = rest[8+size:]
	}
	return nil
}

// offset reads the number that version 4 puts in front of a name.
func offset(b []byte) (n, size int) {
	for i, c := range b {
		if i > 4 {
			return 0, 0
		}
		n |= int(c & 0x7f)
		if c&0x80 == 0 {
			return n, i + 1
		}
		n = (n + 1) << 7
	}
	return 0, 0
}
