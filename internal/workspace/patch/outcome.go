package patch

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

// outcome is what a section makes: the file's contents afterwards, unless it
// is deleted.
type outcome struct {
	section *section
	path    string
	data    string
	mode    uint32      // git's
	perm    fs.FileMode // to keep; 0 for a new file, which gets the usual ones
	change  FileChange
}

func (o *outcome) isLink() bool { return o.mode&typeMask == typeLink }

// contents works out the file's new contents; fits is false if there were
// conflicts.
func (p *plan) contents(out *outcome, src source) (fits bool, err error) {
	s, data := out.section, ""
	switch {
	case src.out != nil:
		data = src.out.data
		out.perm = withExec(src.out.perm, s.newMode)
	case src.info != nil:
		if data, err = p.read(s.old, src.info); err != nil {
			return false, err
		}
		if !p.verify(s.old, data) {
			return false, nil
		}
		out.perm = withExec(src.info.Mode().Perm(), s.newMode)
	}
	switch {
	case s.whole != nil:
		data = *s.whole
	case s.binary:
		made, conflict := applyBinary(s, data, p.budget.limit)
		if conflict != nil {
			p.conflicts = append(p.conflicts, *conflict)
			return false, nil
		}
		data = made
	default:
		made, conflicts := applyHunks(s.name(), data, s.hunks)
		if conflicts != nil {
			p.conflicts = append(p.conflicts, conflicts...)
			return false, nil
		}
		data = made
	}
	if s.deleted == yes {
		if data != "" {
			p.conflicts = append(p.conflicts, Conflict{
				File: s.old, Found: excerpt(firstLine(data)), Reason: "the diff deletes the file, but not all of its contents",
			})
			return false, nil
		}
		return true, nil
	}
	if out.isLink() && (data == "" || strings.IndexByte(data, 0) >= 0) {
		p.conflict(s.new, "a symbolic link cannot have this target")
		return false, nil
	}
	out.data = data
	return true, p.budget.take(int64(len(data)))
}

// withExec gives permissions the executable bits that mode asks for, for those
// who may read, and keeps the rest.
func withExec(perm fs.FileMode, mode uint32) fs.FileMode {
	wants, has := mode&0o100 != 0, perm&0o100 != 0
	switch {
	case perm == 0 || wants == has:
		return perm
	case wants:
		return perm | perm&0o444>>2
	default:
		return perm &^ 0o111
	}
}

// sums fills in the hashes of what will be there, once. It may run beside
// commit.
func (p *plan) sums() {
	p.summed.Do(func() {
		for _, out := range p.outcomes {
			if out.section.deleted != yes {
				out.change.SHA256 = sum(out.data)
			}
		}
	})
}

// sum is the SHA-256 of a file's contents in hexadecimal.
func sum(data string) string {
	sum := sha256.Sum256([]byte(data))
	return hex.EncodeToString(sum[:])
}

func (p *plan) verify(name, data string) bool {
	p.verified[name] = true
	want, ok := p.opts.Verify[name]
	if !ok {
		return true
	}
	if found := sum(data); !strings.EqualFold(found, want) {
		c := Conflict{File: name, Expected: want, Found: found, Reason: "the file has other contents than when it was read"}
		if want == "" {
			c.Reason = reasonExists
		}
		p.conflicts = append(p.conflicts, c)
		return false
	}
	return true
}

// verifyRest checks the files of Options.Verify that no section has read.
func (p *plan) verifyRest() error {
	for _, name := range slices.Sorted(maps.Keys(p.opts.Verify)) {
		if p.verified[name] {
			continue
		}
		info, _, err := p.disk.stat(name)
		if err != nil {
			return err
		}
		want := p.opts.Verify[name]
		switch {
		case info == nil && want != "":
			p.conflicts = append(p.conflicts, Conflict{File: name, Expected: want, Reason: reasonMissing})
		case info == nil:
		case want == "":
			p.conflict(name, reasonExists)
		case !info.Mode().IsRegular() && info.Mode()&fs.ModeSymlink == 0:
			p.conflict(name, "this is not a file")
		default:
			data, err := p.read(name, info)
			changed, ok := errors.AsType[*changedError](err)
			switch {
			case ok:
				p.conflict(name, changed.reason)
			case err != nil:
				return err
			default:
				p.verify(name, data)
			}
		}
	}
	return nil
}

func describe(s *section) FileChange {
	c := FileChange{Path: s.name(), Additions: s.additions, Deletions: s.removed, Binary: s.binary}
	switch {
	case s.deleted == yes:
		c.Status = StatusDeleted
		return c
	case s.created == yes:
		c.Status = StatusCreated
	case s.copied:
		c.Status, c.OldPath = StatusCopied, s.old
	case s.renamed, s.old != s.new: // the latter without git's words for it
		c.Status, c.OldPath = StatusRenamed, s.old
	case len(s.hunks) == 0 && !s.binary && s.whole == nil:
		c.Status = StatusMode
	default:
		c.Status = StatusModified
	}
	switch {
	case s.newMode&typeMask == typeLink:
		c.Mode = "120000"
	case s.newMode&0o100 != 0:
		c.Mode = "100755"
	default:
		c.Mode = "100644"
	}
	return c
}

// result folds several sections for one file into one change.
func (p *plan) result(dry bool) Result {
	p.sums()
	r := Result{OK: len(p.conflicts) == 0, DryRun: dry, Files: []FileChange{}, Conflicts: p.conflicts}
	if r.Conflicts == nil {
		r.Conflicts = []Conflict{}
	}
	at := map[string]int{}
	for _, out := range p.outcomes {
		c := out.change
		i, again := at[c.Path]
		if again && (c.Status == StatusModified || c.Status == StatusMode) {
			f := &r.Files[i]
			if f.Status == StatusMode {
				f.Status = c.Status
			}
			f.Mode, f.Target, f.SHA256 = c.Mode, c.Target, c.SHA256
			f.Additions += c.Additions
			f.Deletions += c.Deletions
			f.Binary = f.Binary || c.Binary
			continue
		}
		at[c.Path] = len(r.Files)
		r.Files = append(r.Files, c)
	}
	return r
}
