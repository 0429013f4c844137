package patch

import (
	"bytes"
	"crypto/sha1" // the hash by which git names objects, not a protection
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// applyBinary makes the new contents from git's binary data. As with git, the
// header must name the old and the new contents by their full hashes, and both
// must be right.
func applyBinary(s *section, data string, limit int64) (string, *Conflict) {
	conflict := func(format string, args ...any) *Conflict {
		return &Conflict{File: s.name(), Reason: fmt.Sprintf(format, args...)}
	}
	if s.delta == nil && (!isFullOID(s.newOID) || !isNullOID(s.newOID)) {
		return "", conflict("%s", reasonNoData)
	}
	if !isFullOID(s.oldOID) || !isFullOID(s.newOID) || len(s.oldOID) != len(s.newOID) {
		return "", conflict(`the index line lacks the full hashes; make the diff with "git diff --binary"`)
	}
	if s.old != "" && objectName(data, len(s.oldOID)) != s.oldOID {
		return "", conflict("the file has other contents than the binary diff was made for")
	}
	if isNullOID(s.newOID) {
		return "", nil
	}
	if s.delta == nil {
		return "", conflict("%s", reasonNoData)
	}
	var out bytes.Buffer
	file := &gitdiff.File{IsBinary: true, BinaryFragment: s.delta}
	if err := gitdiff.Apply(&out, strings.NewReader(data), file, gitdiff.WithMaxBinaryFragmentBytes(limit)); err != nil {
		return "", conflict("the binary diff does not apply: %v", err)
	}
	if objectName(out.String(), len(s.newOID)) != s.newOID {
		return "", conflict("the binary diff makes other contents than its index line says")
	}
	return out.String(), nil
}

func isFullOID(s string) bool {
	return (len(s) == 2*sha1.Size || len(s) == 2*sha256.Size) && strings.Trim(s, "0123456789abcdef") == ""
}

func isNullOID(s string) bool { return strings.Trim(s, "0") == "" }

// objectName is the name of contents in a git repository: by SHA-1, or by
// SHA-256 in repositories that use it.
func objectName(data string, length int) string {
	var h hash.Hash
	if length == 2*sha256.Size {
		h = sha256.New()
	} else {
		h = sha1.New()
	}
	fmt.Fprintf(h, "blob %d\x00%s", len(data), data)
	return hex.EncodeToString(h.Sum(nil))
}
