// Package agentfiles names the files of a workspace that coding agents load by
// themselves: instructions for the model, and configuration that runs
// programs.
package agentfiles

import (
	"os"
	"path/filepath"
	"slices"
)

// Instructions are the instruction files of a directory, in the order in which
// Copilot gives them to the model.
var Instructions = []string{".github/copilot-instructions.md", "AGENTS.md", "CLAUDE.md", "GEMINI.md"}

// ScopedDir holds instruction files for some of a workspace's files. Their
// names end in ScopedSuffix, and their front matter says for which.
const (
	ScopedDir    = ".github/instructions"
	ScopedSuffix = ".instructions.md"
)

// Hooks are the files and directories that may name commands to run when a
// session begins, when a prompt is sent, or around a tool call.
var Hooks = []string{".github/hooks", ".claude/settings.json", ".claude/settings.local.json",
	".github/copilot/settings.json", ".github/copilot/settings.local.json"}

// extras are more that an agent hands to the model, or takes orders from.
var extras = []string{".github/agents", ".claude/agents", ".github/skills", ".claude/skills", ".agents/skills", ".claude/commands", ".claude/rules"}

// Find returns what an agent that works in dir would load: the files of that
// directory and of those above it, up to the root of its git repository. A
// link counts as a file, wherever it leads.
func Find(dir string) []string {
	var found []string
	for _, d := range places(dir) {
		for _, name := range slices.Concat(Hooks, Instructions, []string{ScopedDir}, extras) {
			path := filepath.Join(d, filepath.FromSlash(name))
			if _, err := os.Lstat(path); err == nil {
				found = append(found, path)
			}
		}
	}
	return found
}

// places are dir and the directories above it up to the one with the
// repository, or dir alone outside a repository.
func places(dir string) []string {
	var out []string
	for d := dir; ; d = filepath.Dir(d) {
		out = append(out, d)
		if _, err := os.Lstat(filepath.Join(d, ".git")); err == nil {
			return out
		}
		if filepath.Dir(d) == d {
			return out[:1]
		}
	}
}
