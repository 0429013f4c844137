package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/durable"
)

// gitSettings are what git runs programs by, or by which it finds another
// repository. The git directories of submodules and of other worktrees have
// the like in them, and are left alone as a whole.
var gitSettings = []string{"config", "config.worktree", "hooks", "commondir", "gitdir", "modules", "worktrees"}

// repository lets git work in a directory's own repository, except on what
// makes it run programs.
func (p *planner) repository(dir string) error {
	link := filepath.Join(dir, ".git")
	info, err := os.Lstat(link)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.IsDir():
		p.gitDir(link)
	case info.Mode().IsRegular():
		p.conf.Read = append(p.conf.Read, link)
		if dir, common, ok := worktree(link); ok {
			p.gitDir(common)
			p.gitDir(dir)
		}
	}
	return nil
}

// gitDir is a directory of git's that is written.
func (p *planner) gitDir(dir string) {
	p.conf.Write = append(p.conf.Write, dir)
	if _, err := os.Lstat(filepath.Join(dir, "objects")); err == nil {
		// Hooks must be there to be protected. Without the right to make the
		// directory here, programs inside have none either.
		_ = os.Mkdir(filepath.Join(dir, "hooks"), 0o755)
	}
	for _, name := range gitSettings {
		at := filepath.Join(dir, name)
		if info, err := os.Lstat(at); err != nil || info.Mode()&fs.ModeSymlink != 0 {
			continue
		}
		p.conf.Read = append(p.conf.Read, at)
	}
}

// worktree follows a .git file to the git directory of a linked worktree. Both
// must know each other: such a file could name any directory.
func worktree(link string) (dir, common string, ok bool) {
	text, err := os.ReadFile(link)
	to, found := strings.CutPrefix(strings.TrimRight(string(text), "\r\n"), "gitdir: ")
	if err != nil || !found {
		return "", "", false
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join(filepath.Dir(link), to)
	}
	dir = resolved(to)
	common = filepath.Dir(filepath.Dir(dir))
	back, err := os.ReadFile(filepath.Join(dir, "gitdir"))
	if err != nil || filepath.Base(filepath.Dir(dir)) != "worktrees" {
		return "", "", false
	}
	from := strings.TrimRight(string(back), "\r\n")
	if !filepath.IsAbs(from) {
		from = filepath.Join(dir, from)
	}
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if _, err := os.Lstat(filepath.Join(common, name)); err != nil {
			return "", "", false
		}
	}
	return dir, common, resolved(from) == resolved(link)
}

// plainSettings of the user's git configuration are of use inside and run
// nothing.
var plainSettings = strings.Fields(`user.name user.email author.name author.email committer.name committer.email init.defaultbranch
	core.autocrlf core.eol core.safecrlf core.quotepath core.abbrev core.ignorecase pull.rebase pull.ff merge.ff merge.conflictstyle
	push.default push.autosetupremote fetch.prune rebase.autosquash rebase.autostash rebase.updaterefs rerere.enabled
	diff.algorithm diff.renames diff.colormoved commit.verbose status.showuntrackedfiles tag.sort branch.sort log.date`)

// identity writes a git configuration for inside, of the harmless settings of
// the user's own one: who commits, and how.
func (p *planner) identity() error {
	file := p.kept + ".gitconfig" // beside what programs may write
	p.conf.Read = append(p.conf.Read, file)
	p.conf.Env = append(p.conf.Env, "GIT_CONFIG_GLOBAL="+file)
	if made, err := os.Stat(file); err == nil && !slices.ContainsFunc(p.gitConfigs(), func(own string) bool {
		info, err := os.Stat(own)
		return err == nil && info.ModTime().After(made.ModTime())
	}) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	list, _, err := output(ctx, p.env, "git", "config", "--global", "--includes", "--null", "--list")
	if err != nil {
		list = "" // without git nobody needs it
	}
	var b strings.Builder
	for entry := range strings.SplitSeq(list, "\x00") {
		key, value, _ := strings.Cut(entry, "\n")
		if !slices.Contains(plainSettings, strings.ToLower(key)) {
			continue
		}
		section, name, _ := strings.Cut(key, ".")
		_, _ = fmt.Fprintf(&b, "[%s]\n\t%s = \"%s\"\n", section, name,
			strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(value))
	}
	return durable.WriteFile(file, []byte(b.String()), 0o600)
}

func (p *planner) gitConfigs() []string {
	return []string{filepath.Join(p.home, ".gitconfig"), filepath.Join(p.home, ".config", "git", "config")}
}
