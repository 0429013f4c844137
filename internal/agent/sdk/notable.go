package sdk

import (
	"fmt"
	"strings"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"
)

// notable is what a person should hear of an event that has no shape of its
// own in the domain; no text means that there is nothing to hear.
func notable(e copilot.SessionEvent) (level, text string) {
	switch d := e.Data.(type) {
	case *rpc.SessionErrorData: // of a sub-agent, or of the past
		return "error", d.Message
	case *rpc.SubagentStartedData:
		return "info", "sub-agent " + d.AgentDisplayName + " started"
	case *rpc.SubagentCompletedData:
		return "info", "sub-agent " + d.AgentDisplayName + " has finished"
	case *rpc.SubagentFailedData:
		return "warning", "sub-agent " + d.AgentDisplayName + " failed: " + d.Error
	case *rpc.SkillInvokedData:
		return "info", "skill " + d.Name + " is used"
	case *rpc.HookEndData:
		if d.Error != nil {
			return "warning", "the " + d.HookType + " hook failed: " + d.Error.Message
		}
	case *rpc.HookProgressData:
		return "info", d.Message
	default:
		return notableState(e)
	}
	return "", ""
}

// notableState is notable for what happens to the session rather than in it.
func notableState(e copilot.SessionEvent) (level, text string) {
	switch d := e.Data.(type) {
	case *rpc.SessionCompactionStartData:
		return "info", "the conversation is being compacted"
	case *rpc.SessionCompactionCompleteData:
		if d.Success {
			return "info", "the conversation was compacted"
		}
		return "warning", "the conversation could not be compacted: " + str(d.Error)
	case *rpc.SessionTruncationData:
		return "warning", fmt.Sprintf("%d old messages were left out of a conversation that is too long", d.MessagesRemovedDuringTruncation)
	case *rpc.SessionLimitsExhaustedRequestedData:
		return "warning", fmt.Sprintf("the session has spent %g of its %g AI credits", d.UsedAiCredits, d.MaxAiCredits)
	case *rpc.SessionShutdownData:
		if why := str(d.ErrorReason); why != "" {
			return "warning", "the session was ended by an error: " + why
		}
	case *rpc.SessionManagedSettingsEnforcedData:
		return "warning", d.Message
	case *rpc.SessionMCPServerStatusChangedData:
		if why := str(d.Error); why != "" {
			return "warning", "MCP server " + d.ServerName + ": " + why
		}
	case *rpc.MCPOauthRequiredData:
		return "warning", "MCP server " + d.ServerName + " wants a login, which the bridge cannot give: put its credentials into the server's headers"
	case *rpc.SessionCustomAgentsUpdatedData:
		if all := append(append([]string{}, d.Errors...), d.Warnings...); len(all) > 0 {
			return "warning", strings.Join(all, "; ")
		}
	}
	return "", ""
}

// echo says of an event that it repeats others: the runtime sends its inner
// ones along, which no schema describes, and with every turn the whole
// conversation.
func echo(e copilot.SessionEvent) bool {
	if _, unknown := e.Data.(*rpc.RawSessionEventData); !unknown {
		return false
	}
	switch e.Type() {
	case "model.log", "model.message", "model.messages_snapshot", "model.model_call_started", "model.model_call_success",
		"model.response", "model.tool_execution", "model.turn_ended", "model.turn_started":
		return true
	default:
		return false
	}
}
