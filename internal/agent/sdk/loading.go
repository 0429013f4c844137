package sdk

import (
	"maps"
	"slices"

	copilot "github.com/github/copilot-sdk/go"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// loadNothing keeps the runtime from loading or running anything by itself
// that is not the user's own: what it reads on its own passes no gate. The
// probe workspace-loading shows what each option does. The user's hooks and
// MCP servers in Copilot's home stay; its skills and agents cannot be had
// without the workspace's.
func loadNothing(c *copilot.SessionConfig, spec bridge.SessionSpec) {
	no, yes, inMemory := copilot.Bool(false), copilot.Bool(true), "in-memory"
	c.EnableFileHooks = no                    // commands in a workspace's files
	c.SkipCustomInstructions = yes            // the gate reads them: see bridge.SessionSpec.Instructions
	c.EnableOnDemandInstructionDiscovery = no // the same, beside files that are viewed
	c.EnableConfigDiscovery = no              // skills, agents, commands, MCP servers, extensions
	c.EnableSkills = no
	c.RequestExtensions = no
	c.CustomAgentsLocalOnly = yes // no agents of an organisation
	c.EnableSessionStore = no     // what other sessions said, in other workspaces
	c.Memory = &copilot.MemoryConfiguration{Enabled: false}
	c.SkipEmbeddingRetrieval = yes
	c.EmbeddingCacheStorage = &inMemory
	c.ManageScheduleEnabled = no  // prompts that come by themselves
	c.EnableExperimentalMode = no // features that no probe has tried
	c.EnableHostGitOperations = no
	if spec.Profile != bridge.ProfileAgent {
		return
	}
	// All that it starts is `git remote -v`, without a file system monitor and
	// not in a bare repository. The model is told the branch and the root.
	c.EnableHostGitOperations = yes
	// The tool starts whatever command .github/lsp.json names for a file, and
	// neither its call nor its permission request says which.
	c.ExcludedTools = append(slices.Clone(c.ExcludedTools), "builtin:lsp")
	// The runtime's own general-purpose sub-agent loads instruction files
	// whatever the options of its session say. Ours takes its place.
	c.ExcludedBuiltInAgents = []string{builtInAgent}
	c.CustomAgents = []copilot.CustomAgentConfig{{Name: generalAgent, DisplayName: "General purpose",
		Description: "General-purpose agent with all tools, in a context of its own: for complex tasks of several steps, to keep the main conversation short.",
		Prompt:      join(generalPrompt, spec.Instructions)}}
}

const (
	builtInAgent = "general-purpose"
	generalAgent = "general"

	generalPrompt = `You are a sub-agent of GitHub Copilot, an AI coding agent. Another agent has given you a task, and only it sees your answer.

Complete the task yourself, from beginning to end, with the tools that you have; nobody can answer questions, so make reasonable assumptions. Start another agent only if the task asks for one.

Make precise and complete changes, and no unrelated ones. Use the project's own builds, tests and linters to check that they work. Make independent tool calls in one response. Remove temporary files.

Answer with what you found or changed, with paths and line numbers, in few words.`
)

// rerouted gives a call of the built-in general-purpose sub-agent to ours.
func rerouted(name string, args any) (any, bool) {
	m, ok := args.(map[string]any)
	if !ok || name != "task" || m["agent_type"] != builtInAgent {
		return args, false
	}
	m = maps.Clone(m)
	m["agent_type"] = generalAgent
	return m, true
}
