// Package agentfiles names the files of a workspace that coding agents load by
// themselves: instructions for the model, and configuration that runs
// programs.
package agentfiles

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/copilot-bridge/copilot-bridge/bridge"
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

// Check is for agents that cannot be kept from loading these files: it refuses
// to let one work in a directory that has any, unless the user trusts it.
func Check(agent, dir string, trusted func(dir string) bool) error {
	found := Find(dir)
	if len(found) == 0 || trusted != nil && trusted(dir) {
		return nil
	}
	what := found[0]
	if n := len(found) - 1; n > 0 {
		what += fmt.Sprintf(" and %d more", n)
	}
	return &bridge.Error{Code: bridge.CodeDenied, Message: "the " + agent + " loads files of the workspace by itself, past the policy: " + what,
		Remedy: "use the SDK, which does not (unset ABP_COPILOT_TRANSPORT), or look at the files and trust the workspace: write an .agent-policy.yaml and run `copilot-bridge trust`"}
}

// places are dir and the directories above it up to the one with the
// repository, or dir alone outside a repository.
func places(dir string) []string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		dir = resolved
	}
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
