package capabilities

// What the code cannot tell: why something is left alone. A test holds every
// entry to something that exists and that is not used.

// eventMarks are reasons beside events that the code does not decode, and
// beside those that it drops. All that are not dropped reach `--json
// --verbose`, journals and doors as `other`, masked like everything else.
var eventMarks = []judgement{
	{"assistant.streaming_delta", Ignored, "only a byte count beside each piece of text"},
	{"assistant.message_start", Passed, "the first piece of text says the same"},
	{"assistant.tool_call_delta", Passed, "the whole call follows in assistant.message"},
	{"assistant.turn_start", Passed, "model.call_start is what shows that the model is asked"},
	{"assistant.turn_end", Passed, "session.idle ends the turn"},
	{"assistant.idle", Passed, "session.idle ends the turn"},
	{"assistant.intent", Passed, "the same words are in the call of report_intent"},
	{"assistant.fusion_*", Passed, "experimental; the answer itself comes as assistant.message"},
	{"session.fusion_*", Passed, "experimental; the answer itself comes as assistant.message"},
	{"assistant.server_tool_progress", Passed, "a sign of life of a provider's own tool; its result is in assistant.message"},
	{"external_tool.completed", Passed, "whoever has answered knows"},
	{"hook.start", Passed, "the call that the hook is about has events of its own; its input is what the tool gave before the guard hid anything, so it is masked"},
	{"abort", Passed, "session.idle says aborted"},
	{"model.call_finished", Passed, "assistant.usage and model.call_failure say how it ended"},
	{"agent.interrupted", Passed, "session.idle says aborted"},
	{"tool.user_requested", Passed, "tool.execution_start follows"},
	{"tool_search.activated", Passed, "the tools found are called, or not"},
	{"system.message", Passed, "the runtime's own system text"},
	{"system.notification", Passed, "addressed to the model"},
	{"session.title_changed", Passed, "the list of sessions has the title"},
	{"session.task_complete", Passed, "the SDK's type has none of its fields; the words are in the call of task_complete"},
	{"session.completion_receipt", Passed, "experimental; counts of what was seen"},
	{"session.schedule_*", Passed, "schedules are switched off"},
	{"session.handoff", Passed, "remote sessions are switched off"},
	{"session.context_cleared", Passed, "the bridge empties sessions by truncation"},
	{"session.mode_notice_delivered", Passed, "addressed to the model"},
	{"session.binary_asset", Passed, "the picture that a message refers to"},
	{"session.custom_notification", Passed, "of extensions, which are switched off"},
	{"subagent.*", Passed, "sub-agents are told of when they start, finish and fail"},
	{"skill.*", Passed, "that a skill is used is told of"},
	{"ui.ephemeral_query", Passed, "answers a method that the bridge does not call"},
	{"command.*", Passed, "the bridge declares no commands"},
	{"exit_plan_mode.*", Passed, "without a handler the runtime offers no such tool"},
	{"auto_mode_switch.*", Passed, "without a handler the runtime does not ask"},
	{"mcp_app.tool_call_complete", Passed, "MCP apps are switched off"},
	{"session.canvas.*", Passed, "canvases are switched off"},
	{"permission.carriedForward", Passed, "experimental; the bridge approves once only"},
	{"permission.*", Passed, "experimental; notes of the runtime's own approval modes, which the bridge does not switch on"},
}

// permissionMarks say what becomes of kinds that no policy speaks of.
var permissionMarks = []judgement{
	{"extension-*", Used, "always denied: extensions bring code of their own"},
	{"factory", Used, "always denied: factories bring code of their own"},
	{"memory", Used, "judged by the policy's tool rules"},
}

// conditions are methods that the SDK only calls, or answers, if an option is
// set.
var conditions = []struct{ match, field string }{
	{"hooks.invoke", "SessionConfig.Hooks"},
	{"llmInference.*", "ClientOptions.RequestHandler"},
	{"sessionFs.*", "ClientOptions.SessionFS"},
	{"plugins.builtin.set", "ClientOptions.BuiltinPluginDirectories"},
	{"session.commands.handlePendingCommand", "SessionConfig.Commands"},
	{"session.mcp.oauth.handlePendingRequest", "SessionConfig.OnMCPAuthRequest"},
	{"session.eventLog.registerInterest", "SessionConfig.OnMCPAuthRequest"},
	{"session.ui.handlePendingElicitation", "SessionConfig.OnElicitationRequest"},
	{"session.permissions.handlePendingPermissionRequest", "SessionConfig.OnPermissionRequest"},
	{"session.tools.getCurrentMetadata", "Tool.Handler"},
	{"gitHubToken.getToken", "SessionConfig.GitHubTokenProvider"},
	{"gitHubTelemetry.event", "ClientOptions.OnGitHubTelemetry"},
	{"providerToken.getToken", "ProviderConfig.BearerTokenProvider"},
	{"canvas.*", "SessionConfig.CanvasHandler"},
}

const (
	forTheTUI    = "for the runtime's own terminal program"
	noExtensions = "extensions, plugins and canvases bring code past the guard; they stay off"
	noSkills     = "skills of the user cannot be had without those of a workspace, so there are none"
	userInstalls = "what a user installs for Copilot is the user's to manage, with Copilot's own program"
	byWorkspace  = "the bridge reads and writes workspaces itself, under the guard"
	byGuard      = "the guard decides; the runtime's own rules and modes would bypass it"
	byEngine     = "the engine keeps its own queue, one turn at a time"
	noRemote     = "remote control of a session is a door past the guard"
	loginOutside = "logging in is Copilot's own business: `copilot login`"
	noFactories  = "factories run agents past the guard; they stay off"
	noSchedules  = "nothing runs by itself"
)

// methodMarks are the reasons for methods that are not called.
var methodMarks = []judgement{
	{"account.getQuota", NotYet, "quota is to be shown beside usage"},
	{"account.*", Ignored, loginOutside},
	{"session.gitHubAuth.*", Ignored, loginOutside},
	{"agentRegistry.*", Ignored, forTheTUI},
	{"agents.*", Ignored, userInstalls}, {"catalog.*", Ignored, userInstalls}, {"hooks.discover", Ignored, userInstalls},
	{"instructions.*", Ignored, userInstalls}, {"mcp.*", Ignored, userInstalls}, {"plugins.*", Ignored, userInstalls}, {"skills.*", Ignored, userInstalls},
	{"user.settings.*", Ignored, userInstalls}, {"managedSettings.*", Ignored, "an enterprise's settings are the runtime's to obey"},
	{"commands.list", Ignored, forTheTUI},
	{"extensions.*", Ignored, noExtensions}, {"registerExtensionLaunchProvider", Ignored, noExtensions}, {"extensionLaunchProvider.*", Ignored, noExtensions},
	{"canvas.*", Ignored, noExtensions}, {"session.canvas.*", Ignored, noExtensions}, {"session.extensions.*", Ignored, noExtensions},
	{"session.plugins.*", Ignored, noExtensions}, {"skillProvider.*", Ignored, noExtensions},
	{"factory.*", Ignored, noFactories}, {"session.factory.*", Ignored, noFactories}, {"session.fleet.*", Ignored, noFactories},
	{"llmInference.*", Ignored, "the runtime itself talks to the model; a request that passed through us would be Copilot's private endpoint"},
	{"gitHubTelemetry.event", Ignored, "nobody listens to what the runtime tells GitHub"},
	{"gitHubToken.getToken", Ignored, "the token is given at the start"},
	{"providerToken.getToken", NotYet, "tokens that expire, such as a managed identity's"},
	{"sessionFs.*", Ignored, "sessions are stored where Copilot stores them"},
	{"tasks.cancel", Ignored, "the bridge registers no tasks of its own"},
	{"models.getBuiltInCatalog", Ignored, "models.list says what can be used"},
	{"tools.list", Ignored, "what the model is offered is seen in the session"},
	{"secrets.addFilterValues", NotYet, "a second net under the bridge's own redaction"},
	{"sessions.fork", NotYet, "a conversation that goes two ways"},
	{"sessions.checkInUse", Ignored, "session.resume says alreadyInUse"},
	{"sessions.*", Ignored, "session.list, session.resume and session.delete do what the bridge needs"},
	{"session.getForeground", Ignored, forTheTUI}, {"session.setForeground", Ignored, forTheTUI},
	{"session.getLastId", Ignored, "the bridge's own list of sessions knows"}, {"session.getMetadata", Ignored, "the bridge's own list of sessions knows"},
	{"session.agent.*", NotYet, "agents that a user has defined"},
	{"session.autopilotObjective.*", Ignored, forTheTUI},
	{"session.cancelAllBackgroundAgents", Ignored, "session.abort and closing the session end them"},
	{"session.interruptMainTurn", Ignored, "session.abort is the whole of it"},
	{"session.log", Ignored, "the bridge has its own record"},
	{"session.sendMessages", Ignored, "a turn has one message"},
	{"session.sendSystemNotification", Ignored, "nothing speaks to the model but the caller"},
	{"session.shutdown", Ignored, "session.detach and session.delete"},
	{"session.suspend", Ignored, "pending work is not continued in another process: see the probe pending-work"},
	{"session.commands.*", Ignored, forTheTUI}, {"session.completions.*", Ignored, forTheTUI},
	{"session.contentExclusion.*", Ignored, "the runtime applies it by itself"},
	{"session.debug.*", Ignored, forTheTUI},
	{"session.eventLog.*", Ignored, "events are pushed"},
	{"session.history.compact", NotYet, "compaction on request; the runtime compacts by itself"},
	{"session.history.*", Ignored, "the bridge empties sessions by truncation and changes nothing else of the past"},
	{"session.instructions.*", Ignored, "the runtime reads a project's instructions by itself"},
	{"session.limitPrediction.*", Ignored, forTheTUI},
	{"session.lsp.*", Ignored, "the bridge runs language servers itself, under the guard"},
	{"session.mcp.*", Ignored, "a session's servers are given when it is opened"},
	{"session.mcp.oauth.*", NotYet, "servers that want a login; credentials can be given as headers"},
	{"session.metadata.*", Ignored, "session.usage_info and the bridge's own list of sessions"},
	{"session.mode.*", Ignored, "the mode goes with each message"},
	{"session.model.*", Ignored, "session.model.switchTo and models.list"},
	{"session.name.*", Ignored, "the bridge's own list of sessions has titles"},
	{"session.permissions.*", Ignored, byGuard},
	{"session.plan.*", Ignored, "the steps are read; the plan is the agent's own to write"},
	{"session.provider.*", Ignored, "the provider goes with the session"},
	{"session.queue.*", Ignored, byEngine},
	{"session.remote.*", Ignored, noRemote}, {"session.visibility.*", Ignored, noRemote},
	{"session.sandbox.*", Ignored, "it is about managed policy alone; the sandbox is set by session.options.update"},
	{"session.schedule.*", Ignored, noSchedules},
	{"session.settings.*", Ignored, forTheTUI},
	{"session.shell.*", Ignored, byWorkspace},
	{"session.skills.*", Ignored, "the runtime loads skills by itself"},
	{"session.tasks.*", Ignored, "sub-agents and shells are ended with their turn and their session"},
	{"session.telemetry.*", Ignored, "telemetry is configured for the process"},
	{"session.tools.*", Ignored, "tools are given when the session is opened"},
	{"session.ui.*", Ignored, "asked only of clients that say they can answer"},
	{"session.usage.*", Ignored, "assistant.usage counts every request"},
	{"session.workspaces.*", Ignored, byWorkspace},
	{"plugins.builtin.set", Ignored, noExtensions},
}

// memberMarks are the reasons for methods of the SDK that are not called.
var memberMarks = []judgement{
	{"Client.Stop", Ignored, "the process is asked to shut down, then its tree is ended"},
	{"Client.On*", Ignored, "each session hears its own events"},
	{"Client.GetForegroundSessionID", Ignored, forTheTUI}, {"Client.SetForegroundSessionID", Ignored, forTheTUI},
	{"Client.GetLastSessionID", Ignored, "the bridge's own list of sessions knows"}, {"Client.GetSessionMetadata", Ignored, "the bridge's own list of sessions knows"},
	{"Client.ResumeSessionWithOptions", Ignored, "an older name of ResumeSession"},
	{"Client.RuntimePort", Ignored, "TCP is four times slower than standard streams"},
	{"Session.Send*", Ignored, "`rpc.SessionRPC.Send` has the wait flag, by which a crash is noticed"},
	{"Session.On", Ignored, "OnEvent in the options misses no early event"},
	{"Session.Capabilities", Ignored, "the bridge asks nothing of a host"}, {"Session.UI", Ignored, "the bridge asks nothing of a host"},
	{"Session.Log", Ignored, "the bridge has its own record"},
	{"Session.OpenCanvases", Ignored, noExtensions},
	{"Session.SetAutoTier", Ignored, "a model is named, or the runtime's default is taken"},
	{"Session.WorkspacePath", Ignored, "the runtime's own notes of a session"},
}
