package capabilities

// Question is what a probe answers. Answer, Hazard and Safe are read from the
// facts by people; a test keeps the facts as they are, and so these true.
type Question struct {
	Probe  string
	Ask    string
	Answer string
	Hazard string // what could go wrong for whoever does not know
	Safe   string // what the bridge does about it
}

// Questions are in the order of the document.
var Questions = []Question{
	{Probe: "permission-shapes", Ask: "What does a permission handler really get, for each kind?",
		Answer: "A typed request with all fields of its kind, not just the kind. The runtime asks once for each call. Without a login there is no tool that asks for `memory`; `extension-*` and `factory` are asked only where extensions and factories are switched on, and their shapes are taken from the schema.",
		Safe:   "Every kind of the schema is decoded; those that no policy speaks of are denied, with what was asked on record."},
	{Probe: "permission-silence", Ask: "What happens when a permission handler never answers?",
		Answer: "Nothing: there is no time-out, the turn waits. Other sessions go on. An abort ends it, and the session can be used again.",
		Hazard: "A turn hangs for ever.",
		Safe:   "Nobody to ask, or no answer within `engine.approval_timeout`, is a denial; the watchdog names the permission as the cause and aborts."},
	{Probe: "input-silence", Ask: "And when a question to the user is never answered?",
		Answer: "The same: it waits, and an abort ends it.",
		Hazard: "A turn hangs for ever.",
		Safe:   "Without somebody who can answer, the handler is not registered and the model has no tool to ask with; otherwise the same time-out applies."},
	{Probe: "shared-home", Ask: "May several clients share one copilotHome?",
		Answer: "Yes, as long as each session is open in one of them. Sessions of their own do not disturb each other, also when they are opened, used and deleted at once. A session that is open in one runtime can be resumed in another, which is only told so (`alreadyInUse`): each then goes on from what it knows, and both write into one journal, in which everything is kept but in which neither saw the other.",
		Hazard: "Two programs talk in one session and do not hear each other.",
		Safe:   "The bridge does not resume a session that is open elsewhere; `sessions show` may read one."},
	{Probe: "home-layout", Ask: "What is in copilotHome?",
		Answer: "A directory for each session with its journal, and little else. While a runtime has a session open, a lock file with the process id is beside it. Other users cannot read it."},
	{Probe: "auth-matrix", Ask: "Which ways to say who asks can be combined?",
		Answer: "A provider of one's own answers whatever else is set, and no token is looked at for it; except that a token of the session is always looked up at GitHub first, also with a provider. Without a provider, no valid token means that the session opens and the first turn fails. Illegal by the SDK (it panics): a token or `UseLoggedInUser` together with a runtime that runs elsewhere (`URIConnection`).",
		Hazard: "A session's own token makes a provider depend on GitHub.",
		Safe:   "The bridge sets no token of a session, and with a provider and no login no token at all."},
	{Probe: "resume", Ask: "What survives a resume, hot and cold?",
		Answer: "What was said, and the history with its thoughts, also sealed ones. Not what was configured: system text, tools, handlers, and approvals for the session have to be given again, and the model is not told its earlier thoughts any more. There is no difference between a session that was left in the same runtime and one that is read from disk by a new one.",
		Hazard: "A resumed session without its hooks and handlers would run unguarded.",
		Safe:   "One function carries every option over from open to resume, and a test holds the two together; the bridge never approves for more than once."},
	{Probe: "ignorable-events", Ask: "Which events may be ignored?",
		Answer: "All, as far as the turn is concerned: it ends the same way when nobody listens. What must be answered comes as a call of a handler, or is `external_tool.requested`. Beside the described events the runtime sends inner ones that no schema has, among them the whole conversation with every turn.",
		Safe:   "Inner events are dropped; unknown ones are kept as they came, masked."},
	{Probe: "pending-work", Ask: "What does a cold resume with pending work need?",
		Answer: "That the session was suspended (`session.suspend`) before its process ended, and is resumed with `ContinuePendingWork` and the same tools. The request is not sent again: its id has to be remembered. `session.tools.handlePendingToolCall` with that id is then accepted, and the turn goes on to its end. After a crash nothing is pending any more; the next turn works.",
		Hazard: "After a crash a result that is handed over is refused, and a request whose id was forgotten can never be answered.",
		Safe:   "The bridge does not rely on it: when the process that waited is gone, the conversation is opened anew with its history, the call and its result included."},
	{Probe: "byok-models", Ask: "What does ListModels give under BYOK?",
		Answer: "An error, whether the provider is in the environment or in the session: the runtime asks GitHub, not the provider. `OnListModels` replaces it.",
		Safe:   "With a provider the bridge asks the provider's own list, and falls back to the configured model."},
	{Probe: "subagent-hooks", Ask: "Do hooks fire for sub-agents?",
		Answer: "Yes, hooks and permissions, in the foreground and in the background, and a denial holds."},
	{Probe: "redaction", Ask: "Is every string of a tool result redactable?",
		Answer: "What the model sees, yes, if every string of the result is replaced and not only the text. But a shell's output is streamed before the hook is asked, and the hook's own input is an event that is stored in the session's journal.",
		Hazard: "Secrets that a tool has read stay in `events.jsonl` below copilotHome, and show in two events.",
		Safe:   "Both events are masked before anybody sees them, shell output also where a secret is spread over pieces. The journal is the runtime's own file: only its user can read it."},
	{Probe: "abort-shell", Ask: "Does abort stop a running shell?",
		Answer: "Yes, in the foreground and in the background; but one that was started detached is ended by nothing, not even by the runtime's shutdown.",
		Hazard: "Processes that outlive the turn, the session and the runtime.",
		Safe:   "The wish to be detached is taken out of the call before it is judged, so that the shell ends with its turn or session; and the supervisor ends everything that is left with the runtime."},
	{Probe: "mcp-lifetime", Ask: "Do MCP servers die with the session?",
		Answer: "Yes: each session has a process of its own, which ends when the session is disconnected or deleted, or the runtime shut down. An abort leaves it running."},
	{Probe: "retries", Ask: "What does each class of model errors do?",
		Answer: "The runtime tries time-outs, 413, 429, 5xx and broken streams six times in all, 401 three times, and gives up at once on 400, 403 and 404. Every attempt is a `model.call_failure`; the error hook is not asked.",
		Hazard: "A caller waits up to a minute for an error that was certain after the first attempt.",
		Safe:   "The engine counts the attempts and ends the turn when the error's class has used up its share."},
	{Probe: "workspace-loading", Ask: "What does the runtime load and start by itself?",
		Answer: "From a workspace: hooks of five kinds of files, at every event of a session and after a resume; instruction files, also through links; and with a call of `lsp` the command that `.github/lsp.json` names. From Copilot's home: hooks, instructions and MCP servers. Skills, agents and commands of both come only with `EnableConfigDiscovery`, and only together. A workspace's MCP servers, extensions, prompts and plugins are not loaded. `SkipCustomInstructions` does not hold for the built-in general-purpose sub-agent, which loads instruction files all the same.",
		Hazard: "To open a session in a stranger's repository runs its commands, and sends what its instruction files lead to, without a hook or a permission request.",
		Safe:   "Every option that loads something is set, on open and on resume. The tool `lsp` is not offered, and a sub-agent of the bridge's own takes the place of general-purpose. Instruction files are read through the guard and given as system text, to sub-agents too."},
}
