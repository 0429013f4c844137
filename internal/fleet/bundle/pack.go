package bundle

import (
	"bufio"
	"compress/zlib"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
)

// packStats are what a pack holds.
type packStats struct {
	objects  int64
	unpacked int64 // bytes
	found    bool  // the commit is there, and is no delta
}

// measure reads a pack of the given size and adds up what its objects would take.
// Deltas are not followed: each says how large its result is. So a pack that
// becomes too large is refused before git sees it, and before it costs memory or
// disk. Its hashes are checked by git.
func measure(f io.Reader, size int64, commit string, l limits) (packStats, error) {
	trailer := len(commit) / 2
	p := packReader{r: bufio.NewReaderSize(io.LimitReader(f, size-int64(trailer)), 64<<10), commit: commit, hash: trailer, limits: l}
	err := p.all()
	var local *fs.PathError
	switch {
	case err == nil:
		return p.stats, nil
	case errors.As(err, &local):
		return packStats{}, err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = errors.New("it is cut off")
	}
	return packStats{}, refused("the bundle's pack cannot be used: %v", err)
}

type packReader struct {
	r      *bufio.Reader
	z      io.ReadCloser // unpacks from r; nil before the first object
	commit string        // to be found
	hash   int           // bytes of an object's name
	limits limits
	stats  packStats
}

func (p *packReader) all() error {
	var head struct {
		Magic          [4]byte
		Version, Count uint32
	}
	if err := binary.Read(p.r, binary.BigEndian, &head); err != nil {
		return err
	}
	if string(head.Magic[:]) != "PACK" || head.Version != 2 {
		return errors.New("it is no pack of version 2")
	}
	if p.stats.objects = int64(head.Count); p.stats.objects > p.limits.objects {
		return fmt.Errorf("it has %d objects, and the limit is %d", head.Count, p.limits.objects)
	}
	for range head.Count {
		if err := p.object(); err != nil {
			return err
		}
	}
	if _, err := p.r.ReadByte(); !errors.Is(err, io.EOF) {
		return errors.Join(errors.New("something follows its last object"), err)
	}
	return nil
}

// The kinds of entries. Trees and blobs are between commits and tags.
const (
	kindCommit      = 1
	kindTag         = 4
	kindOffsetDelta = 6
	kindNamedDelta  = 7
)

// object reads one entry: kind and size, the base of a delta, and compressed data.
func (p *packReader) object() error {
	first, err := p.r.ReadByte()
	if err != nil {
		return err
	}
	kind, size := first>>4&7, int64(first&15)
	for shift := 4; first&0x80 != 0; shift += 7 {
		if first, err = p.r.ReadByte(); err != nil {
			return err
		}
		if shift > 53 {
			return errors.New("an object's size has too many digits")
		}
		size |= int64(first&0x7f) << shift
	}
	delta := false
	switch {
	case kind >= kindCommit && kind <= kindTag:
	case kind == kindOffsetDelta:
		delta = true
		for more := true; more; {
			b, err := p.r.ReadByte()
			if err != nil {
				return err
			}
			more = b&0x80 != 0
		}
	case kind == kindNamedDelta:
		delta = true
		if _, err := p.r.Discard(p.hash); err != nil {
			return err
		}
	default:
		return fmt.Errorf("it has an object of kind %d", kind)
	}
	if err := p.count(size); err != nil {
		return err
	}
	return p.data(size, kind == kindCommit, delta)
}

func (p *packReader) count(size int64) error {
	if size > p.limits.object {
		return fmt.Errorf("an object takes %d bytes unpacked, and the limit is %d", size, p.limits.object)
	}
	if p.stats.unpacked += size; p.stats.unpacked > p.limits.unpacked {
		return fmt.Errorf("its objects take more than %d bytes unpacked", p.limits.unpacked)
	}
	return nil
}

// data reads the compressed data, which must be of the size that was said.
func (p *packReader) data(size int64, commit, delta bool) error {
	var err error
	if again, ok := p.z.(zlib.Resetter); ok {
		err = again.Reset(p.r, nil)
	} else {
		p.z, err = zlib.NewReader(p.r)
	}
	if err != nil {
		return err
	}
	n := int64(0)
	if delta {
		if n, err = p.delta(); err != nil {
			return err
		}
	}
	into := io.Discard
	var name hash.Hash
	if commit {
		name = p.newHash()
		name.Write(fmt.Appendf(nil, "commit %d\x00", size))
		into = name
	}
	rest, err := io.Copy(into, io.LimitReader(p.z, size-n+1))
	if err == nil && n+rest != size {
		err = fmt.Errorf("an object has not the %d bytes that it says", size)
	}
	p.stats.found = p.stats.found || commit && hex.EncodeToString(name.Sum(nil)) == p.commit
	return err
}

// newHash is the hash by which git names objects.
func (p *packReader) newHash() hash.Hash {
	if p.hash == sha256.Size {
		return sha256.New()
	}
	return sha1.New()
}

// delta reads the beginning of a delta, the sizes of its base and of its result,
// and counts the latter. It returns how many bytes it has read.
func (p *packReader) delta() (n int64, err error) {
	var one [1]byte
	for field := range 2 {
		size, shift := int64(0), 0
		for more := true; more; shift += 7 {
			if _, err := io.ReadFull(p.z, one[:]); err != nil {
				return n, err
			}
			if shift > 56 {
				return n, errors.New("a delta's size has too many digits")
			}
			n++
			size |= int64(one[0]&0x7f) << shift
			more = one[0]&0x80 != 0
		}
		if field == 1 {
			err = p.count(size)
		}
	}
	return n, err
}
