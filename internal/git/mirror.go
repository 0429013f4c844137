package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// OpenMirror opens a bare repository of ours, and makes it if it is missing. Its
// Top is its own directory, where it has no files: calls name their working tree.
// The format is that of object names, sha1 or sha256. CodeConflict means that the
// mirror is damaged.
func OpenMirror(ctx context.Context, o Options, format string) (*Repository, error) {
	parent := filepath.Dir(o.Dir)
	for _, dir := range []string{o.Scratch, parent} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	r := &Repository{Top: resolved(parent), environ: plainEnviron(o.Environ, o.Dir), view: filepath.Join(o.Scratch, "git"), format: format, scratch: resolved(o.Scratch), confine: o.Confine}
	if err := r.checkVersion(ctx); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(o.Dir); errors.Is(err, fs.ErrNotExist) {
		if err := r.initMirror(ctx, o.Dir); err != nil {
			return nil, err
		}
	}
	r.Top = resolved(o.Dir)
	r.gitDir, r.Common = r.Top, r.Top
	config, err := r.readMirror(ctx)
	if err == nil {
		err = r.makeView(ctx, config)
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// initMirror makes the repository beside its place and moves it there.
func (r *Repository) initMirror(ctx context.Context, dir string) (err error) {
	temp, err := os.MkdirTemp(r.Top, ".new-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	if _, _, err := r.answer(ctx, r.Top, configure(r.named(), setting{"init.defaultRefFormat", "files"}),
		Call{Args: []string{"init", "--bare", "--quiet", "--template=", "--object-format=" + r.format, "--initial-branch=none", temp}}); err != nil {
		return err
	}
	if err := os.Rename(temp, dir); err != nil {
		if _, there := os.Lstat(dir); there != nil { // another process was faster
			return err
		}
	}
	return nil
}

// mirrorKeys are the settings that git init writes.
var mirrorKeys = strings.Fields("core.repositoryformatversion core.filemode core.bare core.ignorecase core.precomposeunicode core.symlinks extensions.objectformat")

var plainValue = regexp.MustCompile(`^[a-z0-9]+$`)

// readMirror checks that the mirror is whole as far as can be seen at once, and
// lists its settings. Work in its worktrees may have added some, which go.
func (r *Repository) readMirror(ctx context.Context) ([]entry, error) {
	damaged := func(why string) error {
		return &bridge.Error{Code: bridge.CodeConflict, Message: fmt.Sprintf("the mirror %s is damaged: %s", r.Common, why), Remedy: "remove it; it is made anew"}
	}
	format, code, err := r.answer(ctx, r.Top, r.named(), Call{Args: []string{"rev-parse", "--show-object-format"}, OK: []int{128}})
	switch {
	case err != nil:
		return nil, err
	case code != 0:
		return nil, damaged("git does not take it for a repository")
	case strings.TrimSpace(format) != r.format:
		return nil, damaged("its objects are named otherwise")
	}
	list, err := r.readConfig(ctx)
	if err != nil {
		return nil, damaged(err.Error())
	}
	theirs := func(e entry) bool {
		return e.local() && (!slices.Contains(mirrorKeys, e.key) || !plainValue.MatchString(e.value))
	}
	if !slices.ContainsFunc(list, theirs) {
		return list, nil
	}
	list = slices.DeleteFunc(list, theirs)
	var b strings.Builder
	last := ""
	for _, e := range list {
		if !e.local() {
			continue
		}
		section, _, name := parts(e.key)
		if section != last {
			fmt.Fprintf(&b, "[%s]\n", section)
		}
		fmt.Fprintf(&b, "\t%s = %s\n", name, e.value)
		last = section
	}
	temp := filepath.Join(r.Common, "config.new")
	if err := os.WriteFile(temp, []byte(b.String()), 0o600); err != nil {
		return nil, err
	}
	return list, os.Rename(temp, filepath.Join(r.Common, "config"))
}

// SweepIncoming removes what killed processes have left of objects that came
// into a mirror. Nothing may be using it.
func SweepIncoming(dir string) error {
	objects := filepath.Join(dir, "objects")
	entries, err := os.ReadDir(objects)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), incomingPrefix) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(objects, e.Name())))
		}
	}
	return err
}
