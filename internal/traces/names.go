package traces

// The names of spans' attributes, all in this file: the conventions of OpenTelemetry
// for generative AI still change. These are those of version 1.41.
const (
	keyOperation     = "gen_ai.operation.name"
	keyConversation  = "gen_ai.conversation.id"
	keyAgentName     = "gen_ai.agent.name"
	keyWorkflow      = "gen_ai.workflow.name"
	keyRequestModel  = "gen_ai.request.model"
	keyResponseModel = "gen_ai.response.model"
	keyResponseID    = "gen_ai.response.id"
	keyFinish        = "gen_ai.response.finish_reasons"
	keyFirstChunk    = "gen_ai.response.time_to_first_chunk" // in seconds
	keyToolName      = "gen_ai.tool.name"
	keyToolCall      = "gen_ai.tool.call.id"
	keyToolType      = "gen_ai.tool.type"
	// keyUsage begins the names of token counts; the runtime's own are not passed on.
	keyUsage           = "gen_ai.usage."
	keyInputTokens     = keyUsage + "input_tokens"
	keyOutputTokens    = keyUsage + "output_tokens"
	keyCacheRead       = keyUsage + "cache_read.input_tokens"
	keyCacheWrite      = keyUsage + "cache_creation.input_tokens"
	keyReasoningTokens = keyUsage + "reasoning.output_tokens"

	keyErrorType  = "error.type"
	keyMethod     = "http.request.method"
	keyRoute      = "http.route"
	keyStatusCode = "http.response.status_code"
	keyUserAgent  = "user_agent.original"
	keyScheme     = "url.scheme"

	// The bridge's own.
	keyDoor      = "copilot_bridge.door"
	keyProfile   = "copilot_bridge.profile"
	keyRequestID = "copilot_bridge.request.id"
	keyServer    = "copilot_bridge.mcp.server"
	keySubAgent  = "copilot_bridge.agent.id"
	keyPremium   = "copilot_bridge.usage.premium_requests"
	keyCredits   = "copilot_bridge.usage.ai_credits"
	keyVerdict   = "copilot_bridge.guard.verdict"
	keyRule      = "copilot_bridge.guard.rule"
	keyReason    = "copilot_bridge.guard.reason"
	keyAsked     = "copilot_bridge.guard.asked"    // a person was asked
	keyConfined  = "copilot_bridge.guard.confined" // in the sandbox
)

// The operations, which also begin the names of spans.
const (
	opChat   = "chat"
	opInvoke = "invoke_agent"
	opTool   = "execute_tool"
	opFlow   = "invoke_workflow"
)

const (
	agentName   = "copilot"
	guardSpan   = "guard"
	waitSpan    = "guard wait"
	scopeName   = "github.com/copilot-bridge/copilot-bridge"
	serviceName = "copilot-bridge"
	// What the runtime calls itself, and the spans of its that tell nothing of a turn.
	runtimeService = "github-copilot"
	runtimeTiming  = "session."
	runtimeCost    = "github.copilot.cost"
)
