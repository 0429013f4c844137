package policy

import (
	"slices"
	"strings"
)

// neverWritten may not be written, by anybody's leave. Anything in a .git
// directory is git's own business: hooks and configuration make it run
// programs, and the rest decides what it believes. The last two are the short
// names that Windows gives to the first ones.
var neverWritten = []string{
	"**/.agent-policy.yaml", "**/.agent-policy.yml", "**/.git", "**/*.git/hooks/**", "**/*.git/config",
	"**/git~[0-9]/**", "**/agent-~[0-9].y*",
}

// neverMade, as the name of a file, makes git take the directory that it is in
// for a repository with its configuration. Case counts in the comparison:
// head is an ordinary name where case counts.
const neverMade = "**/HEAD"

// configuring are files that something reads without being told to by a
// command: they make it run programs, or change what an agent is told. Writing
// them needs consent. Build files (Makefile, package.json) are not among them:
// what runs them is a command, which is judged itself. Neither are workflows,
// which run elsewhere and only after a push.
var configuring = []string{
	// Hooks, agents, skills, servers and instructions of Copilot and other agents.
	"**/.github/hooks", "**/.github/copilot", "**/.github/copilot-instructions.md", "**/.github/instructions", "**/.github/prompts",
	"**/.github/chatmodes", "**/.github/agents", "**/.github/skills", "**/.github/extensions", "**/.github/plugins", "**/.github/lsp.json", "**/.github/mcp.json",
	"**/.copilot", "**/.claude", "**/.claude.json", "**/.claude-plugin", "**/.gemini", "**/.codex", "**/.cursor", "**/.agents", "**/.windsurf",
	"**/.mcp.json", "**/mcp.json", "**/AGENTS.md", "**/AGENTS.override.md", "**/CLAUDE.md", "**/CLAUDE.local.md", "**/GEMINI.md",
	"**/.cursorrules", "**/.windsurfrules", "**/.clinerules",
	// Editors and containers.
	"**/.vscode/mcp.json", "**/.vscode/tasks.json", "**/.vscode/settings.json", "**/.vscode/launch.json", "**/*.code-workspace",
	"**/.devcontainer", "**/.devcontainer.json",
	// Environments and toolchains that are chosen by entering a directory.
	"**/.env", "**/.envrc", "**/rust-toolchain", "**/rust-toolchain.toml", "**/.cargo/config", "**/.cargo/config.toml", "**/.npmrc", "**/.yarnrc",
	"**/.yarnrc.yml", "**/mise.toml", "**/.mise.toml", "**/.tool-versions",
	// What git runs, or which driver it takes.
	"**/.husky", "**/.githooks", "**/.pre-commit-config.yaml", "**/lefthook.yml", "**/lefthook.yaml", "**/.gitattributes", "**/.gitmodules",
	"**/.gitconfig", "**/.lfsconfig",
}

// Protected are the files that may not be written whatever the rules say, as globs:
// never, or (asked) not without consent.
func Protected() (never, asked []string) {
	return slices.Clone(neverWritten), slices.Clone(configuring)
}

// ConfigDirs hold configuration among other files: to put another directory in
// their place is to write it.
var ConfigDirs = []string{".github", ".vscode", ".cargo"}

// protection is what may not be written, or not without consent, whatever the
// rules say.
type protection struct {
	everything bool
	never      []Rule // by their name anywhere on the absolute path
	dirs       []Rule // the bridge's own, relative to the workspace
	made       Rule
	asked      []Rule
	// chosen marks those of asked that the workspace itself lies in: who
	// serves such a directory wants to work there.
	chosen  []bool
	holders []Rule
}

func newProtection(p *Policy) protection {
	var out protection
	compile := func(how func(*Rule) error, patterns ...string) (rules []Rule) {
		for _, pattern := range patterns {
			r := Rule{Key: "protected", Pattern: pattern, Source: Source{Name: "built-in"}}
			if how(&r) != nil {
				// A directory whose name is no glob: rather all than nothing.
				out.everything = true
				continue
			}
			rules = append(rules, r)
		}
		return rules
	}
	out.never = compile(compileGlob(true), neverWritten...)
	out.made = compile(compileGlob(false), neverMade)[0]
	out.asked = compile(compileGlob(true), configuring...)
	out.chosen = make([]bool, len(out.asked))
	for i := range out.asked {
		root := p.whole(".")
		out.chosen[i] = p.rooted && !root.root && out.asked[i].glob.denies(&root)
	}
	for _, dir := range ConfigDirs {
		out.holders = append(out.holders, compile(compileGlob(false), "**/"+dir)...)
	}
	for _, dir := range p.defaults.Protected {
		if isAbsolute(dir) {
			switch {
			case !p.rooted || isWithin(fold(p.root), fold(dir)):
				out.everything = true
				continue
			case !isWithin(fold(dir), fold(p.root)):
				continue // outside of the workspace, where nothing may be written
			}
			dir = strings.Join(strings.Split(dir, "/")[strings.Count(p.root, "/")+1:], "/")
		}
		out.dirs = append(out.dirs, compile(compileGlob(true), escapeGlob(dir))...)
	}
	return out
}

// escapeGlob returns a glob that matches a path and nothing else.
func escapeGlob(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if strings.IndexByte(`*?[]{}`, s[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// names are what a path is called, for rules that hold for each of its
// components: with the directories above the workspace, as it resolves and as
// it was written.
func (p *Policy) names(path *Path) []named {
	out := []named{p.whole(path.Rel)}
	if path.Named != "" && validRel(path.Named) {
		out = append(out, p.whole(path.Named))
	}
	return out
}

func (p *Policy) whole(rel string) named {
	root := strings.TrimPrefix(p.root, "/")
	switch {
	case root == "":
		return newNamed(rel)
	case rel == ".":
		return newNamed(root)
	}
	return newNamed(root + "/" + rel)
}

// protects returns the built-in rule that forbids to write a path, or nil.
// With Tree the whole workspace is out of bounds too: it holds what is
// protected.
func (p *Policy) protects(path *Path) *Rule {
	t := &p.protected
	if t.everything || path.Tree && path.Rel == "." {
		return &Rule{Key: "protected", Source: Source{Name: "built-in"}}
	}
	for _, rel := range []string{path.Rel, path.Named} {
		if rel == "" || len(t.dirs) == 0 {
			continue
		}
		n := newNamed(rel)
		for i := range t.dirs {
			if r := &t.dirs[i]; r.glob.denies(&n) || path.Tree && r.glob.base != "" && isWithin(r.glob.base, n.disguised) {
				return r
			}
		}
	}
	for _, n := range p.names(path) {
		for i := range t.never {
			if t.never[i].glob.denies(&n) {
				return &t.never[i]
			}
		}
		if t.made.glob.allows(&n, p.defaults.CaseInsensitive) {
			return &t.made
		}
	}
	return nil
}

// configures returns the built-in rule by which writing a path needs consent,
// or nil.
func (p *Policy) configures(path *Path) *Rule {
	t := &p.protected
	for _, n := range p.names(path) {
		for i := range t.asked {
			if !t.chosen[i] && t.asked[i].glob.denies(&n) {
				return &t.asked[i]
			}
		}
	}
	return nil
}

// HoldsConfiguration reports a directory in whose place another one could be
// put to write what needs consent.
func (p *Policy) HoldsConfiguration(rel string) bool {
	if !validRel(rel) {
		return true
	}
	n := p.whole(rel)
	return slices.ContainsFunc(p.protected.holders, func(r Rule) bool { return r.glob.allows(&n, true) })
}

// Protected reports whether a path may not be written, or not without consent,
// whatever the rules say.
func (p *Policy) Protected(rel string) bool {
	path := Path{Rel: rel}
	return !validRel(rel) || p.protects(&path) != nil || p.configures(&path) != nil
}

// MayWrite reports whether no rule, built-in ones included, speaks against
// writing a path without consent.
func (p *Policy) MayWrite(rel string) bool {
	_, denied := p.listed(p.rules["writes.deny"], p.allow["writes.allow"], rel)
	return !denied && !p.Protected(rel)
}

// Sealed returns the built-in rule by which nothing in a directory may be
// written at all.
func (p *Policy) Sealed(rel string) (Rule, bool) {
	if !validRel(rel) {
		return p.defaultRule(), true
	}
	if rule := p.protects(&Path{Rel: rel}); rule != nil {
		return *rule, true
	}
	return Rule{}, false
}
