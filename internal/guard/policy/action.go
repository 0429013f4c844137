package policy

import "slices"

// Kind is what an action does at heart. It decides which default applies; the
// paths, commands and hosts of an action are judged whatever its kind.
type Kind string

// The kinds. Anything else is denied.
const (
	KindRead    Kind = "read"    // reads or lists files
	KindWrite   Kind = "write"   // creates, changes, moves or removes files
	KindShell   Kind = "shell"   // runs commands
	KindNetwork Kind = "network" // reaches a host
	KindMCP     Kind = "mcp"     // an MCP server's tool, of which no more is known
	KindMemory  Kind = "memory"  // remembers something beyond the session
	KindHook    Kind = "hook"    // a hook of the runtime wants consent
	KindOther   Kind = "other"   // known to touch none of these itself: a sub-agent, a to-do list, the caller's own tool
)

// Action is one tool call as the analysis has understood it. It must be
// complete: a path, command or host that is not listed is not judged. Where the
// analysis is in doubt it says so (Unparsable, Opaque, Problem), and the
// action is denied or asked about.
type Action struct {
	// Tool is the tool's name; of an MCP tool the one that its server has for
	// it. Where it is empty, no rule that names a tool can match, and every
	// tools.allow but one with * denies.
	Tool string
	// Server is the MCP server that the tool belongs to, if any. Where it
	// should be set but is not, denials still hold, and allowances do not.
	Server string
	Kind   Kind
	// Args are the arguments as decoded by encoding/json; patterns.deny looks
	// at them. Other types are brought into that form first.
	Args any
	// ReadOnly is an MCP server's own claim that its tool changes nothing. In
	// a read-only workspace only such tools are considered at all; the claim
	// lifts nothing.
	ReadOnly bool
	// Paths are all the files that the action touches. A read or write
	// without any is denied; a search of the whole workspace has the path ".".
	Paths []Path
	// Commands are all the simple commands that a shell action runs, at any
	// depth, those of wrappers such as env, xargs or sh -c included.
	Commands []Command
	// Hosts are all the hosts that the action names. A network action without
	// any (a web search) is judged as one with a host that is not known.
	Hosts []Host
	// Unparsable says why the analysis gave up; the action is denied.
	Unparsable string
	// Line is the directory and the whole command line that a shell is given,
	// as always.shell has it; "" where more than these two decides what runs.
	Line string
	// Wall says whether a sandbox holds what the action does.
	Wall Wall
	// NoGrant: it can get nothing beyond the sandbox, so what it would need
	// consent for is denied.
	NoGrant bool
}

// Wall is what a sandbox does about an action.
type Wall int

// The walls. With gaps it does not hold all that the rules say, and nothing is
// lifted because of it.
const (
	NoWall Wall = iota
	WallWithGaps
	WholeWall
)

// Path is a file or directory that an action touches.
type Path struct {
	// Rel is the path relative to the workspace, with links followed, cleaned
	// and with slashes; "." is the workspace. Any other form is denied.
	Rel string
	// Name is what to call it in a reason: the path as the tool gave it. Empty
	// means Rel.
	Name string
	// Named is the path as it was written, in the form of Rel, where links on
	// the way make that another one. Protection holds for either name.
	Named string
	Write bool
	// Tree: everything below is touched as well, as by a recursive search or
	// removal. If a denied file may be below, the action is asked about; a
	// caller who has listed the files below can name them instead.
	Tree bool
	// History: what the repository remembers of it is shown too, which no
	// sandbox hides.
	History bool
	// Doubt says why more may be touched than is known; it is asked about.
	Doubt string
	// Own: it is the session's own, which no rule about paths is for.
	Own bool
	// Outside: it lies outside the workspace, and is denied. Reading it is
	// asked about where Doubt is set. Inside a sandbox a program may see it, or
	// be granted it.
	Outside bool
	// Abs is where a path outside really is; without it nothing is granted.
	Abs string
	// Seen: programs inside the sandbox may do with it what they want: it is
	// part of the system or a toolchain, or it is private to them.
	Seen bool
	// Missing: nothing is there that could be granted.
	Missing bool
	// Problem says why it could not be resolved; it is denied.
	Problem string
}

// Command is a simple command.
type Command struct {
	// Env are assignments in front of the command, NAME=value each.
	Env []string
	// Words are the command's name and arguments after quotes, escapes and
	// expansions have been dealt with; of an opaque command only those before
	// the first that is not known.
	Words []string
	// Globs are the indices of words that the shell will replace by the names
	// of files: any number of them, and possibly names that look like flags.
	Globs []int
	// Text is the command as it was written, for patterns.deny.
	Text string
	// Unsafe says why it may do more than its words tell: the repository that
	// git finds names a program, its environment was changed. It then counts
	// as no read-only command.
	Unsafe string
	// Alias: it is git with a subcommand that git does not have, which may
	// stand for any other.
	Alias bool
	// Opaque: not all of its words can be known before it runs. It is denied
	// if a deny rule may match, and otherwise never better than asked about.
	// A command whose name is a glob counts as opaque too.
	Opaque bool
	// Harmless: it is a language server or a formatter of the bridge's own
	// table, started so that it runs nothing of the workspace. It needs no
	// rule that allows it; one that denies it still holds.
	Harmless bool
	// Network: it is of no use without the network.
	Network bool
	// Destroys says why it may destroy work that is not committed. Inside a
	// sandbox such a command is still asked about.
	Destroys string
}

func (c *Command) isGlob(word int) bool { return slices.Contains(c.Globs, word) }

func (c *Command) opaque() bool { return c.Opaque || c.isGlob(0) }

// Host is a network host that an action names.
type Host struct {
	// Name is a host name (international ones in their xn-- form) or an
	// address, without user, port or brackets.
	Name string
	Port int // 0 if not known
	// Problem says why it could not be determined; it is denied.
	Problem string
}

// Verdict is what a policy says. The zero value denies, and a smaller value is
// stricter.
type Verdict int

// The verdicts.
const (
	Deny Verdict = iota
	Ask
	Allow
)

// String returns allow, ask or deny.
func (v Verdict) String() string {
	switch v {
	case Allow:
		return "allow"
	case Ask:
		return "ask"
	case Deny:
	}
	return "deny"
}

// Stage is the part of the evaluation that decided.
type Stage string

// The stages, in the order in which their reasons take precedence among equal
// verdicts.
const (
	StageTool      Stage = "tool"    // tools.deny
	StagePattern   Stage = "pattern" // patterns.deny
	StagePath      Stage = "path"    // reads, writes, read-only, outside, protected
	StageNetwork   Stage = "network"
	StageShell     Stage = "shell"
	StageAsk       Stage = "ask"        // tools.ask
	StageAllowList Stage = "allow list" // tools.allow
	StageDefault   Stage = "default"
)

func (s Stage) rank() int {
	return slices.Index([]Stage{StageTool, StagePattern, StagePath, StageNetwork, StageShell, StageAsk, StageAllowList, StageDefault}, s)
}

// Outcome is a decision and what it rests on. The zero value denies.
type Outcome struct {
	Verdict Verdict
	// Reason is one line for people that names the rule and where it is
	// written. It names tools, paths, hosts and programs, but no argument.
	Reason string
	Stage  Stage
	// Subject is the path, host or program that was decisive, if one was.
	Subject string
	// Rule is what decided. For an allow list that does not hold the subject
	// its Pattern is empty, and for a default its Key is "default".
	Rule Rule
	// Outside: Subject is a path that leads out of the workspace.
	Outside bool
	// Firm: consent is needed because of what would be written. That a tool is
	// allowed in general does not replace it.
	Firm bool
	// Grant is what the action needs beyond the sandbox if it is allowed.
	Grant Grant
	// Lasting are the rules that would allow all that is asked about here from
	// now on, and nothing else. There are none where that cannot be said.
	Lasting []Addition
}

// Grant is what one action gets beyond the sandbox. Paths are absolute.
type Grant struct {
	Read, Write []string
	Outside     []string // those of both that lie outside the workspace
	Hosts       []string // for which the network is opened, where they are known
	Network     bool
}

// Addition is a rule that is not written yet.
type Addition struct {
	List    string // sandbox.read
	Pattern string
}

// String returns the rule as it is shown to people.
func (a Addition) String() string { return a.List + ": " + quoteRule(a.Pattern) }

// Called is the tool's name as agents call it: with its server in front.
func (a *Action) Called() string {
	if a.Server == "" || a.Tool == "" {
		return a.Tool
	}
	return a.Server + "-" + a.Tool
}
