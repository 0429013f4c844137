package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
)

// Scope is what a policy says about the programs of a workspace. The functions
// take paths relative to Root, with slashes; each may be nil.
type Scope struct {
	Root     string // absolute
	ReadOnly bool
	Network  bool
	// Protects says whether a path is configuration that nobody may change
	// unseen. It is asked about the root and the directories of holders.
	Protects func(rel string) bool
	// Plain says whether a repository that was made at Root runs nothing.
	Plain func() bool
	// Hides says what may not be read, Seals what may not be written for other
	// reasons. They are asked about every file, so leave them out if no rule
	// does so.
	Hides, Seals func(rel string) bool
	// Hide are further places, such as the bridge's home.
	Hide []string
	// Read and Write are places outside of the workspace that were granted.
	Read, Write []string
}

// holders are directories that hold configuration among other files.
var holders = []string{".github", ".vscode", ".cargo"}

// How many files are looked at for Hides and Seals, and how many places may
// come of it: each takes time with every command.
const (
	maxLooked = 100_000
	maxPlaces = 256
)

// Kept is the directory of a workspace's build caches in the bridge's home.
func Kept(home, root string) string {
	sum := sha256.Sum256([]byte(root))
	return filepath.Join(home, "cache", hex.EncodeToString(sum[:8]))
}

// Plan is the confinement of the programs of a workspace: the workspace with
// what is protected in it, the toolchains and package caches of the user, and
// the directory kept for build caches. gaps say, in words, what of the scope a
// sandbox cannot hold. env is the user's environment.
func Plan(s Scope, env []string, kept string) (conf bridge.Confinement, gaps []string, err error) {
	root, err := filepath.EvalSymlinks(s.Root)
	if err != nil {
		return conf, nil, err
	}
	home := resolved(program.Variable(env, "HOME"))
	if slices.ContainsFunc(system, func(dir string) bool { return within(root, dir) }) || within(home, root) || root == "/" || runtime.GOOS == "linux" && root == "/tmp" {
		return conf, nil, &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("%s cannot be confined: it is a directory of the system, or holds your home directory", root),
			Remedy: "Use a directory below your home as the workspace, or set sandbox: off."}
	}
	if err := os.MkdirAll(kept, 0o700); err != nil {
		return conf, nil, err
	}
	p := &planner{conf: &conf, root: root, home: home, env: env, kept: resolved(kept), network: s.Network}
	conf.Network = s.Network
	conf.Write = append(conf.Write, p.kept)
	for _, path := range s.Write {
		conf.Write = append(conf.Write, resolved(path))
	}
	for _, path := range s.Read {
		conf.Read = append(conf.Read, resolved(path))
	}
	for _, path := range s.Hide {
		conf.Hide = append(conf.Hide, resolved(path))
	}
	if s.ReadOnly {
		conf.Read = append(conf.Read, root)
	} else {
		conf.Write = append(conf.Write, root)
		p.protect(s.configuration(root))
		if err := p.repository(); err != nil {
			return conf, nil, err
		}
	}
	if s.Hides != nil || s.Seals != nil {
		gaps, err = p.walk(s)
	}
	p.tools()
	return conf, gaps, errors.Join(err, p.identity())
}

// planner fills a confinement. Its paths have no links in them.
type planner struct {
	conf             *bridge.Confinement
	root, home, kept string
	env              []string
	network          bool
}

// protect makes paths below the root read-only, and the directories that lead
// there mount points: one that is none could be renamed, and another put in
// its place.
func (p *planner) protect(rels []string) {
	for _, rel := range rels {
		p.conf.Read = append(p.conf.Read, filepath.Join(p.root, rel))
		p.lead(p.root, rel)
	}
}

func (p *planner) lead(root, rel string) {
	for dir := path.Dir(filepath.ToSlash(rel)); dir != "."; dir = path.Dir(dir) {
		if at := filepath.Join(root, dir); !slices.Contains(p.conf.Write, at) {
			p.conf.Write = append(p.conf.Write, at)
		}
	}
}

// configuration lists the protected files that exist at the root and in the
// holders, without git's own. A link counts as where it leads, if that is in
// the workspace.
func (s Scope) configuration(root string) []string {
	var out []string
	for _, rel := range s.configured(root) {
		if rel == ".git" || strings.HasPrefix(rel, ".git/") {
			continue
		}
		if at, err := filepath.Rel(root, resolved(filepath.Join(root, rel))); err == nil && filepath.IsLocal(at) && at != "." {
			out = append(out, filepath.ToSlash(at))
		}
	}
	return out
}

// walk hides and seals what rules name.
func (p *planner) walk(s Scope) (gaps []string, err error) {
	looked := 0
	err = filepath.WalkDir(p.root, func(file string, e fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(p.root, file) // it lies below
		rel = filepath.ToSlash(rel)
		switch {
		case err != nil && e != nil && e.IsDir(): // what we cannot read programs cannot either
			return fs.SkipDir
		case err != nil:
			return err
		case rel == ".":
			return nil
		case rel == ".git":
			return fs.SkipDir
		}
		if looked++; looked > maxLooked || len(p.conf.Hide)+len(p.conf.Read) > maxPlaces {
			gaps = append(gaps, "the workspace has more files than the sandbox can hold reads.deny, reads.allow, writes.deny and writes.allow for")
			return fs.SkipAll
		}
		hides := s.Hides != nil && s.Hides(rel)
		if !hides && (s.ReadOnly || s.Seals == nil || !s.Seals(rel)) || e.Type()&fs.ModeSymlink != 0 {
			return nil
		}
		if !s.ReadOnly {
			p.lead(p.root, rel)
		}
		if hides {
			p.conf.Hide = append(p.conf.Hide, file)
		} else {
			p.conf.Read = append(p.conf.Read, file)
		}
		if e.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
	return gaps, err
}

// resolved is a path with its links followed, as far as it exists.
func resolved(path string) string {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		return to
	}
	return filepath.Clean(path)
}
