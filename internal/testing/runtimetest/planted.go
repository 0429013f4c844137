package runtimetest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// planted is a file from which a runtime might load something by itself. In
// its text "{run}" is a command that leaves a mark, and "{text}" a text that
// can be found again in a request to the model.
type planted struct {
	path string // in the workspace; "~/" is Copilot's home, "../" above the workspace
	text string
}

// allPlanted lists them by what they configure.
func allPlanted() []planted {
	var all []planted
	add := func(text string, paths ...string) {
		for _, p := range paths {
			all = append(all, planted{p, text})
		}
	}
	add(hooksFile(`{"type":"command","bash":"{run}-%[1]s","timeoutSec":5}`, hookEvents),
		".github/hooks/h.json", ".github/copilot/settings.json", ".github/copilot/settings.local.json", "~/hooks/h.json")
	add(hooksFile(`{"matcher":"*","hooks":[{"type":"command","command":"{run}-%[1]s"}]}`, claudeEvents), ".claude/settings.json", ".claude/settings.local.json")
	add("{text}\n", "AGENTS.md", "CLAUDE.md", "GEMINI.md", ".github/copilot-instructions.md", "sub/AGENTS.md", "sub/.github/copilot-instructions.md",
		"../AGENTS.md", "../.github/copilot-instructions.md", "~/copilot-instructions.md")
	add("---\napplyTo: \"**\"\ndescription: {text}\n---\n{text}\n", ".github/instructions/all.instructions.md", "~/instructions/own.instructions.md", "../extra/.github/instructions/e.instructions.md")
	add("---\napplyTo: \"**/*.txt\"\ndescription: {text}\n---\nx\n", ".github/instructions/deep/some.instructions.md")
	add(`{"mcpServers":{"planted":{"type":"local","command":"sh","args":["-c","{run}"],"tools":["*"]}},"servers":{"planted":{"command":"sh","args":["-c","{run}"]}}}`,
		".mcp.json", ".vscode/mcp.json", ".github/mcp.json", ".copilot/mcp-config.json", "~/mcp-config.json")
	skill := "---\nname: %s\ndescription: \"{text}\"\n---\nbody\n"
	add(fmt.Sprintf(skill, "one"), ".github/skills/one/SKILL.md")
	add(fmt.Sprintf(skill, "two"), ".claude/skills/two/SKILL.md")
	add(fmt.Sprintf(skill, "three"), ".agents/skills/three/SKILL.md")
	add(fmt.Sprintf(skill, "four"), "~/skills/four/SKILL.md")
	add(fmt.Sprintf(skill, "five"), ".github/agents/five.agent.md")
	add(fmt.Sprintf(skill, "six"), ".claude/agents/six.md")
	add(fmt.Sprintf(skill, "seven"), "~/agents/seven.agent.md")
	add("---\nmode: agent\ndescription: \"{text}\"\n---\nbody\n", ".github/prompts/p.prompt.md", ".claude/commands/c.md")
	add("import fs from 'fs'; fs.writeFileSync('{mark}', '');\n", ".github/extensions/x/extension.mjs", "~/extensions/y/extension.mjs")
	add(`{"lspServers":{"planted":{"command":"sh","args":["-c","{run}; cat"],"fileExtensions":{".txt":"plaintext"}}}}`, ".github/lsp.json")
	add(`{"name":"m","owner":{"name":"x"},"plugins":[{"name":"p","source":"./p","version":"1.0.0"}]}`, "plugins/.claude-plugin/marketplace.json")
	add(`{"name":"p","version":"1.0.0"}`, "plugins/p/.claude-plugin/plugin.json")
	add(hooksFile(`{"type":"command","bash":"{run}-%[1]s"}`, hookEvents), "plugins/p/hooks.json")
	return all
}

// hookEvents and claudeEvents are when a hook may run, in the two spellings.
var (
	hookEvents   = []string{"sessionStart", "userPromptSubmitted", "preToolUse", "postToolUse", "permissionRequest", "subagentStart", "subagentStop", "agentStop", "sessionEnd"}
	claudeEvents = []string{"SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "SubagentStop", "Stop", "SessionEnd"}
)

// hooksFile configures a hook for each event, and asks for a plugin.
func hooksFile(hook string, events []string) string {
	var b []string
	for _, e := range events {
		b = append(b, fmt.Sprintf("%q:["+hook+"]", e))
	}
	return `{"version":1,"enabledPlugins":{"p@m":true},"extraKnownMarketplaces":{"m":{"source":{"source":"directory","path":"./plugins"}}},"hooks":{` + strings.Join(b, ",") + "}}"
}

// Plant writes files into a workspace, the directory above it and a home of
// Copilot's from which a runtime might load something by itself. Programs that
// it starts leave their marks in the directory marks. The workspace is a git
// repository.
func Plant(workspace, home, marks string) error {
	errs := []error{os.MkdirAll(marks, 0o700)}
	write := func(path, text string) {
		errs = append(errs, os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600))
	}
	for _, p := range allPlanted() {
		path := filepath.Join(workspace, filepath.FromSlash(p.path))
		if rest, ok := strings.CutPrefix(p.path, "~/"); ok {
			path = filepath.Join(home, filepath.FromSlash(rest))
		}
		mark := filepath.Join(marks, flat(p.path))
		write(path, strings.NewReplacer("{run}", "touch "+mark, "{mark}", mark, "{text}", token(p.path)).Replace(p.text))
	}
	write(filepath.Join(workspace, "sub", "file.txt"), "hello")
	write(filepath.Join(workspace, ".git", "HEAD"), "ref: refs/heads/main\n")
	write(filepath.Join(workspace, ".git", "config"), "[core]\n\trepositoryformatversion = 0\n")
	return errors.Join(append(errs, os.MkdirAll(filepath.Join(workspace, ".git", "objects"), 0o700), os.MkdirAll(filepath.Join(workspace, ".git", "refs"), 0o700))...)
}

func flat(path string) string  { return strings.ReplaceAll(path, "/", "!") }
func token(path string) string { return "LOADED(" + path + ")" }

// Ran lists the planted files whose programs were started.
func Ran(marks string) ([]string, error) {
	left, err := os.ReadDir(marks)
	var out []string
	for _, p := range allPlanted() {
		if slices.ContainsFunc(left, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), flat(p.path)) }) {
			out = append(out, p.path)
		}
	}
	slices.Sort(out)
	return out, err
}

// Told lists the planted files whose text is in a request to the model.
func Told(request string) []string {
	var out []string
	for _, p := range allPlanted() {
		if strings.Contains(request, token(p.path)) {
			out = append(out, p.path)
		}
	}
	slices.Sort(out)
	return out
}

// HooksRun lists the events at which a hook of a planted file ran.
func HooksRun(marks string) []string {
	return slices.DeleteFunc(slices.Concat(hookEvents, claudeEvents), func(e string) bool {
		found, _ := filepath.Glob(filepath.Join(marks, "*-"+e)) // the pattern is well-formed
		return len(found) == 0
	})
}
