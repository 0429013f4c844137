package bundle

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"path"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/git"
)

// The bounds of the look through a result. Trees that hold the same tree many
// times over are small, and endless to walk.
const (
	lookTime   = time.Minute
	lookNames  = 2 << 20   // in directories
	lookBytes  = 256 << 20 // of directories and small files
	maxCommit  = 1 << 20
	maxPath    = 4096
	maxLink    = 4096
	maxPattern = 1 << 20 // of .gitattributes
)

// checkResult checks that a result's only parent is the expected one, and that it
// adds nothing that could do harm where it is checked out. git itself has refused
// names like .git, and settings of submodules that run something.
func (a *arrival) checkResult(ctx context.Context) (err error) {
	looking, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	objects, err := a.repo.Objects(looking, a.in)
	if err != nil {
		return err
	}
	w := walk{objects: objects, hash: len(a.expect.Commit) / 2, bytes: lookBytes, names: lookNames, trees: map[string][]byte{}}
	err = w.commits(a.expect)
	closeErr := objects.Close()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case looking.Err() != nil:
		return errTooMuch()
	}
	return errors.Join(err, closeErr)
}

func errTooMuch() error { return refused("they change too much to be looked through") }

// walk looks through what differs between two trees.
type walk struct {
	objects *git.Objects
	hash    int   // bytes of an object's name
	bytes   int64 // that may still be read
	names   int   // that may still be seen
	trees   map[string][]byte
}

// read reads an object that has to be of a kind.
func (w *walk) read(kind, name string, most int64) ([]byte, error) {
	got, data, err := w.objects.Read(name, min(most, w.bytes))
	switch {
	case bridge.CodeOf(err) == bridge.CodeBusy:
		return nil, errTooMuch()
	case err != nil:
		return nil, err
	case got != kind:
		return nil, refused("%s %s is not among them", kind, name)
	}
	w.bytes -= int64(len(data))
	return data, nil
}

func (w *walk) commits(e Expect) error {
	data, err := w.read("commit", e.Commit, maxCommit)
	if err != nil {
		return err
	}
	if bytes.ContainsFunc(data, func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune("\n\t\r", r) }) {
		return refused("the message or the author of commit %s has characters that terminals obey", e.Commit) // git log shows them as they are
	}
	tree, parents := firstLines(data)
	if strings.Join(parents, " ") != e.Parent {
		return refused("the parents of commit %s are %.200q, and %s is expected", e.Commit, parents, e.Parent)
	}
	if data, err = w.read("commit", e.Parent, maxCommit); err != nil {
		return err
	}
	before, _ := firstLines(data)
	if before == tree {
		return nil
	}
	return w.compare("", before, tree)
}

// firstLines reads a commit's first lines, whose form git has checked.
func firstLines(data []byte) (tree string, parents []string) {
	for l := range strings.Lines(string(data)) {
		word, value, _ := strings.Cut(strings.TrimSpace(l), " ")
		switch {
		case word == "tree" && tree == "":
			tree = value
		case word == "parent":
			parents = append(parents, value)
		default:
			return tree, parents
		}
	}
	return tree, parents
}

// treeEntry is one of a tree.
type treeEntry struct{ mode, object string }

// entries reads a tree; "" is an empty one. Its form has been checked by git, or
// by the user who had it before.
func (w *walk) entries(tree string) (names []string, all map[string]treeEntry, err error) {
	if tree == "" {
		return nil, nil, nil
	}
	data, known := w.trees[tree]
	if !known {
		if data, err = w.read("tree", tree, lookBytes); err != nil {
			return nil, nil, err
		}
		w.trees[tree] = data
	}
	if w.names -= 1 + bytes.Count(data, []byte{0}); w.names < 0 { // more than there are
		return nil, nil, errTooMuch()
	}
	all = map[string]treeEntry{}
	for len(data) > 0 {
		head, rest, ok := bytes.Cut(data, []byte{0})
		mode, name, spaced := strings.Cut(string(head), " ")
		if !ok || !spaced || len(rest) < w.hash {
			return nil, nil, refused("tree %s is broken", tree)
		}
		names, all[name], data = append(names, name), treeEntry{mode, hex.EncodeToString(rest[:w.hash])}, rest[w.hash:]
	}
	return names, all, nil
}

// compare judges what a tree has that another one had not. What no task may change
// it may not take away either.
func (w *walk) compare(dir, before, after string) error {
	oldNames, old, err := w.entries(before)
	if err != nil {
		return err
	}
	names, all, err := w.entries(after)
	if err != nil {
		return err
	}
	for _, name := range oldNames {
		if _, still := all[name]; !still {
			names = append(names, name)
		}
	}
	for _, name := range names {
		e, was := all[name], old[name]
		if e == was {
			continue
		}
		if err := w.changed(path.Join(dir, name), was, e); err != nil {
			return err
		}
	}
	return nil
}

// changed judges an entry that is another one than before; the new one is empty if
// it was removed.
func (w *walk) changed(full string, was, now treeEntry) error {
	switch {
	case len(full) > maxPath:
		return refused("%.200q… is too long a path", full)
	case git.Reserved(full):
		return refused("%.200q is for people alone to change", full)
	}
	if was.isTree() || now.isTree() {
		if err := w.compare(full, was.tree(), now.tree()); err != nil {
			return err
		}
	}
	if now.isTree() || now == (treeEntry{}) {
		return nil
	}
	return w.file(full, now)
}

func (e treeEntry) isTree() bool { return strings.TrimLeft(e.mode, "0") == "40000" }

// tree is the object of a directory, "" for any other entry.
func (e treeEntry) tree() string {
	if e.isTree() {
		return e.object
	}
	return ""
}

var usesLFS = regexp.MustCompile(`(?m)^[^#\n]*filter=lfs`)

// file judges a new or changed file.
func (w *walk) file(name string, e treeEntry) error {
	switch e.mode {
	case "160000":
		err := refused("%.200q is a submodule, which the result adds or changes", name)
		err.Remedy = "run the task without --fleet"
		return err
	case "120000":
		target, err := w.read("blob", e.object, maxLink)
		if err == nil && git.LeadsOut(name, string(target)) {
			err = refused("%.200q is a link to %.200q, out of the repository", name, target)
		}
		return err
	case "100644", "100755":
		if !strings.EqualFold(path.Base(name), ".gitattributes") {
			return nil
		}
		text, err := w.read("blob", e.object, maxPattern)
		if err == nil && usesLFS.Match(text) {
			err = refused("%.200q keeps files with Git LFS, whose contents are not in commits", name)
		}
		return err
	}
	return refused("%.200q has the mode %.20q", name, e.mode)
}
