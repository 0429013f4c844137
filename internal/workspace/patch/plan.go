package patch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
)

// Reasons that are told in more than one place. The first group are refusals
// of diffs that git apply takes.
const (
	reasonNoContext    = "the hunk only adds lines and has no context, so its place cannot be verified; make the diff with context"
	reasonWrittenTwice = "the diff makes this file twice"
	reasonThenDeleted  = "the diff changes this file and removes it as well"
	reasonDirectory    = "this is a directory"
	reasonSubmodule    = "changes of submodules are not supported"
	reasonOverwrites   = "the diff changes the name of a file, without saying so, to one that exists already"
	reasonNewline      = "only one of the two lines ends with a newline"

	reasonNoData  = `the diff says that binary files differ, but has not the data; make it with "git diff --binary"`
	reasonChanged = "the file was changed by another program while the diff was being applied"
	reasonLink    = "the path leads through a symbolic link"
	reasonExists  = "the file exists already"
	reasonMissing = "the file does not exist"
	reasonGone    = "the diff has renamed or deleted the file before"
)

// pathState is what the sections so far have done to a path, or a later one will.
type pathState struct {
	out  *outcome // its contents, as far as the diff has been read
	gone bool     // deleted or renamed
}

// plan is the whole application, worked out in memory.
type plan struct {
	disk   *disk
	opts   Options
	budget *budget

	// states has an entry for each path that a section so far has touched, and
	// one without outcome for each that a later section removes: a file may be
	// renamed to a path that is freed further down.
	states                  map[string]pathState
	removedLinks, keptLinks map[string]bool
	verified                map[string]bool

	outcomes  []*outcome
	conflicts []Conflict
	steps     []*step
	summed    sync.Once
}

// newPlan reads the workspace and works out what applying sections would do.
// What does not fit is in the plan's conflicts.
func newPlan(ctx context.Context, root *os.Root, sections []*section, opts Options, b *budget) (*plan, error) {
	d, err := newDisk(root)
	if err != nil {
		return nil, err
	}
	defer d.close()
	p := &plan{
		disk: d, opts: opts, budget: b, states: map[string]pathState{},
		removedLinks: map[string]bool{}, keptLinks: map[string]bool{}, verified: map[string]bool{},
	}
	for _, s := range sections {
		if err := safeNames(s); err != nil {
			return nil, err
		}
		if s.new == "" || s.renamed {
			p.states[s.old] = pathState{}
		}
		if s.old != "" && s.oldMode&typeMask == typeLink && (s.renamed || s.deleted != no) {
			p.removedLinks[s.old] = true
		}
		if s.new != "" && s.newMode&typeMask == typeLink {
			p.keptLinks[s.new] = true
		}
	}
	for _, s := range sections {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("apply the diff: %w", err)
		}
		err := p.section(s)
		if changed, ok := errors.AsType[*changedError](err); ok {
			p.conflict(changed.path, changed.reason)
		} else if err != nil {
			return nil, err
		}
	}
	if err := p.verifyRest(); err != nil {
		return nil, err
	}
	if len(p.conflicts) == 0 {
		if err := p.arrange(); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func safeNames(s *section) error {
	if why := unsafeName(s.old, s.oldMode&typeMask == typeLink); s.old != "" && why != "" {
		return unsafePath(s.old, why)
	}
	if why := unsafeName(s.new, s.newMode&typeMask == typeLink); s.new != "" && why != "" {
		return unsafePath(s.new, why)
	}
	return nil
}

func (p *plan) conflict(file, reason string) {
	p.conflicts = append(p.conflicts, Conflict{File: file, Reason: reason})
}

// source is the file that a section starts from.
type source struct {
	out  *outcome    // made by an earlier section, or
	info fs.FileInfo // on disk, or neither for a new file
}

func (src source) mode() uint32 {
	if src.out != nil {
		return src.out.mode
	}
	switch m := src.info.Mode(); {
	case m&fs.ModeSymlink != 0:
		return typeLink
	case m.Perm()&0o100 != 0:
		return typeRegular | 0o755
	default:
		return typeRegular | 0o644
	}
}

// section works out one section, or records why it cannot be.
func (p *plan) section(s *section) error {
	src, why, err := p.source(s)
	if err != nil {
		return err
	}
	if why != "" {
		p.conflict(s.old, why)
		return nil
	}
	if why, err = p.target(s); err != nil {
		return err
	}
	if why == "" {
		why = modes(s, src)
	}
	if why == "" && s.deleted != yes && p.beyondLink(s.new) {
		why = reasonLink
	}
	if why != "" {
		p.conflict(s.name(), why)
		return nil
	}
	out := &outcome{section: s, path: s.name(), mode: s.newMode, change: describe(s)}
	if out.isLink() {
		// Where a link will point is what there is to judge about it.
		fits, err := p.contents(out, src)
		if err != nil || !fits {
			return err
		}
		out.change.Target, out.change.SHA256 = out.data, sum(out.data)
		if err := p.check(out.change); err != nil {
			return err
		}
	} else {
		if err := p.check(out.change); err != nil {
			return err
		}
		fits, err := p.contents(out, src)
		if err != nil || !fits {
			return err
		}
	}
	p.outcomes = append(p.outcomes, out)
	if s.new != "" {
		p.states[s.new] = pathState{out: out}
	}
	if s.new == "" || s.renamed {
		p.states[s.old] = pathState{gone: true}
	}
	return nil
}

func (p *plan) check(change FileChange) error {
	if p.opts.Check == nil {
		return nil
	}
	return p.opts.Check(change)
}

// source finds what a section starts from, and settles whether a traditional
// section without old lines is a creation.
func (p *plan) source(s *section) (src source, why string, err error) {
	if s.old == "" {
		return src, "", nil
	}
	if before, ok := p.states[s.old]; ok {
		changed := before.out != nil
		inPlace := changed && before.out.section.old == s.old && !before.out.section.copied
		switch {
		case s.renamed || s.copied:
			// These start from the file as it was before the diff. What a
			// section before has made there stays, so renaming a changed file
			// away would leave it behind.
			if s.renamed && inPlace {
				return src, reasonThenDeleted, nil
			}
		case before.gone:
			return src, reasonGone, nil
		case changed && s.deleted == yes:
			return src, reasonThenDeleted, nil
		case changed:
			s.created = no
			return source{out: before.out}, "", nil
		}
	}
	info, lead, err := p.disk.stat(s.old)
	switch {
	case err != nil:
		return src, "", err
	case lead == leadLink && (s.created != unknown || p.beyondLink(s.old)):
		return src, reasonLink, nil
	case lead == leadOther:
		return src, "a part of the path is a file, not a directory", nil
	case info == nil && s.created == unknown:
		s.created, s.deleted, s.old = yes, no, ""
		return src, "", nil
	case info == nil:
		return src, reasonMissing, nil
	case info.IsDir():
		return src, reasonDirectory, nil
	case !info.Mode().IsRegular() && info.Mode()&fs.ModeSymlink == 0:
		return src, "this is neither a file nor a symbolic link", nil
	}
	s.created = no
	return source{info: info}, "", nil
}

// target says why a section cannot make its file, if it makes a new one.
func (p *plan) target(s *section) (why string, err error) {
	moves := s.old != "" && s.old != s.new && s.deleted != yes
	if s.new == "" || s.created != yes && !moves && !s.renamed && !s.copied {
		return "", nil
	}
	at, touched := p.states[s.new]
	if at.out != nil {
		return reasonWrittenTwice, nil
	}
	if touched {
		return "", nil // freed by another section
	}
	info, lead, err := p.disk.stat(s.new)
	if err != nil || info == nil || lead != leadDir || info.IsDir() {
		// Problems with directories are found when the steps are arranged.
		return "", err
	}
	if moves && !s.renamed && !s.copied {
		return reasonOverwrites, nil
	}
	return reasonExists, nil
}

// modes fills in what the diff leaves out and says what contradicts.
func modes(s *section, src source) string {
	if s.old != "" {
		is := src.mode()
		if s.oldMode == 0 {
			s.oldMode = is
		}
		if s.oldMode&typeMask == typeGitlink {
			return reasonSubmodule
		}
		if (is^s.oldMode)&typeMask != 0 {
			return "the file is of another type (file or symbolic link) than the diff says"
		}
		if s.newMode == 0 && s.deleted != yes {
			s.newMode = is
		}
	}
	if s.new == "" {
		return ""
	}
	switch {
	case s.newMode != 0:
	case s.old != "":
		s.newMode = s.oldMode
	default:
		s.newMode = typeRegular | 0o644
	}
	if s.newMode&typeMask == typeGitlink {
		return reasonSubmodule
	}
	if s.old != "" && (s.oldMode^s.newMode)&typeMask != 0 {
		return "the diff turns a file into a symbolic link or the other way round without deleting it"
	}
	return ""
}

// beyondLink tells whether a directory above name is, or will be, a symbolic
// link.
func (p *plan) beyondLink(name string) bool {
	for i := strings.LastIndexByte(name, '/'); i > 0; i = strings.LastIndexByte(name, '/') {
		name = name[:i]
		if p.keptLinks[name] {
			return true
		}
		if p.removedLinks[name] {
			continue
		}
		if seen, err := p.disk.dir(name); err == nil && seen.lead == leadLink {
			// The link may be further up, where it may be removed.
			above, err := p.disk.dir(path.Dir(name))
			if err != nil || above.lead != leadLink {
				return true
			}
		}
	}
	return false
}
