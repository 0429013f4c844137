package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
)

// Scope is what a policy says about the programs of a workspace.
type Scope struct {
	Root     string // absolute
	ReadOnly bool
	Network  bool
	// Protected may be read, Hidden not even that. They are absolute, exist and
	// have no links in them.
	Protected, Hidden []string
	// Read and Write are places outside of the workspace that were granted.
	Read, Write []string
}

// Kept is the directory of a workspace's build caches in the bridge's home.
func Kept(home, root string) string {
	sum := sha256.Sum256([]byte(root))
	return filepath.Join(home, "cache", hex.EncodeToString(sum[:8]))
}

// Plan is the confinement of the programs of a workspace: the workspace with
// its protected files, the toolchains and package caches of the user, and
// the directory kept for build caches. env is the user's environment.
func Plan(s Scope, env []string, kept string) (conf bridge.Confinement, err error) {
	root, err := filepath.EvalSymlinks(s.Root)
	if err != nil {
		return conf, err
	}
	home := resolved(program.Variable(env, "HOME"))
	if slices.ContainsFunc(system, func(dir string) bool { return Within(root, dir) }) || Within(home, root) || root == "/" || runtime.GOOS == "linux" && root == "/tmp" {
		return conf, &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("%s cannot be confined: it is a directory of the system, or holds your home directory", root),
			Remedy: "Use a directory below your home as the workspace, or set sandbox: off."}
	}
	if err := os.MkdirAll(kept, 0o700); err != nil {
		return conf, err
	}
	p := &planner{conf: &conf, root: root, home: home, env: env, kept: resolved(kept), network: s.Network}
	conf.Network = s.Network
	conf.Write = append(conf.Write, p.kept)
	for _, path := range s.Write {
		conf.Write = append(conf.Write, resolved(path))
		if err := p.repository(resolved(path)); err != nil {
			return conf, err
		}
	}
	for _, path := range s.Read {
		conf.Read = append(conf.Read, resolved(path))
	}
	conf.Hide = append(conf.Hide, s.Hidden...)
	if s.ReadOnly {
		conf.Read = append(conf.Read, root)
		if dir, common, ok := worktree(filepath.Join(root, ".git")); ok {
			conf.Read = append(conf.Read, common, dir)
		}
	} else {
		conf.Write = append(conf.Write, root)
		conf.Read = append(conf.Read, s.Protected...)
		p.lead(s.Protected)
		p.lead(s.Hidden)
		if err := p.repository(root); err != nil {
			return conf, err
		}
	}
	p.tools()
	return conf, p.identity()
}

// Still is a confinement of Plan's in which nothing at root or below can be
// written.
func Still(conf bridge.Confinement, root string) bridge.Confinement {
	inside := func(path string) bool { return Within(path, root) }
	if len(conf.Write) > 0 && !inside(conf.Write[0]) { // the directory that is kept
		conf.Env = append(slices.Clone(conf.Env), "CARGO_TARGET_DIR="+filepath.Join(conf.Write[0], "target"))
	}
	conf.Write = slices.DeleteFunc(slices.Clone(conf.Write), inside)
	conf.Read = append(slices.Clone(conf.Read), root)
	return conf
}

// planner fills a confinement. Its paths have no links in them.
type planner struct {
	conf             *bridge.Confinement
	root, home, kept string
	env              []string
	network          bool
}

// lead makes the directories between the root and paths below it mount points:
// one that is none could be renamed, and another put in its place.
func (p *planner) lead(paths []string) {
	for _, path := range paths {
		for dir := filepath.Dir(path); dir != p.root && Within(dir, p.root); dir = filepath.Dir(dir) {
			if !slices.Contains(p.conf.Write, dir) && !slices.Contains(p.conf.Read, dir) {
				p.conf.Write = append(p.conf.Write, dir)
			}
		}
	}
}

// resolved is a path with its links followed, as far as it exists.
func resolved(path string) string {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		return to
	}
	return filepath.Clean(path)
}
