package bridge

// Command is one of the agent's slash commands.
type Command struct {
	Name        string // without the slash
	Description string
	Hint        string // what may follow the name; "" for nothing
	// Builtin commands are the agent's own; the others are the user's: skills
	// and prompts, which do nothing but to make a prompt.
	Builtin bool
}

// CommandResult is what became of a slash command: something to show, or a
// prompt that is to be sent in its place.
type CommandResult struct {
	Text   string
	Prompt string
	// Mode is that of the prompt or, without one, of the session from now on;
	// "" leaves it as it is.
	Mode string
}
