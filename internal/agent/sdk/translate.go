package sdk

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	common "github.com/copilot-bridge/copilot-bridge/internal/agent/session"
)

// translator turns the SDK's events into bridge's. It is used from one
// goroutine at a time: the SDK's event loop, or a replay of the history.
type translator struct {
	host       *host
	own        *bridge.Provider    // the session's, if it has one of its own
	account    func() *account     // what is known of the account; may be nil
	agents     *subagents          // may be nil
	open       map[string]*spoken  // messages with deltas that are not finished
	joined     map[string]string   // messages that continue an earlier one, and which
	tools      map[string]toolRun  // running tool calls
	attempts   int                 // failed requests to the model since the last that worked
	prompted   bool                // the next request to the model answers a person's prompt
	thought    map[string]struct{} // reasoning ids that were streamed
	failed     map[string]string   // MCP servers that could not be started, and why
	toldGitHub bool                // that GitHub's tools are missing
}

// spoken is the streamed part of a message.
type spoken struct {
	agent  string
	before string // what the parts said that it continues
	text   strings.Builder
}

type toolRun struct {
	name    string
	started time.Time
	printed string // the output so far, which arrives anew and longer each time
}

func newTranslator(h *host) *translator {
	tr := &translator{host: h, failed: map[string]string{}}
	tr.reset()
	return tr
}

// scrub removes the credentials of the account and of the provider from a text.
func (tr *translator) scrub(text string) string {
	return common.Scrub(tr.host.scrubText(text), tr.own, "")
}

func (tr *translator) known() *account {
	if tr.account == nil {
		return nil
	}
	return tr.account()
}

// failure is an error without credentials.
func (tr *translator) failure(e *bridge.Error) *bridge.Error {
	e.Message = tr.scrub(e.Message)
	e.Detail = e.Detail.Hidden(tr.scrub)
	return e
}

// reset forgets the last turn.
func (tr *translator) reset() {
	tr.open, tr.joined, tr.tools, tr.thought = map[string]*spoken{}, map[string]string{}, map[string]toolRun{}, map[string]struct{}{}
	tr.attempts, tr.prompted = 0, false
}

func (tr *translator) translate(e copilot.SessionEvent, push func(bridge.Event)) {
	agent := str(e.AgentID)
	switch d := e.Data.(type) {
	case *rpc.AssistantMessageDeltaData:
		push(bridge.TextDelta{Message: tr.say(d.MessageID, agent, d.DeltaContent), Text: d.DeltaContent, AgentID: agent})
	case *rpc.AssistantReasoningDeltaData:
		tr.thought[d.ReasoningID] = struct{}{}
		push(bridge.ReasoningDelta{ID: d.ReasoningID, Text: d.DeltaContent, AgentID: agent})
	case *rpc.AssistantReasoningData:
		if _, streamed := tr.thought[d.ReasoningID]; !streamed && d.Content != "" {
			push(bridge.ReasoningDelta{ID: d.ReasoningID, Text: d.Content, AgentID: agent})
		}
	case *rpc.AssistantMessageData:
		tr.attempts = 0
		push(tr.said(message(d, agent)))
	case *rpc.ModelCallStartData:
		premium := tr.prompted && agent == ""
		tr.prompted = tr.prompted && !premium
		push(bridge.ModelCalled{Model: str(d.Model), Premium: premium})
	case *rpc.ModelCallFailureData:
		tr.attempts++
		tr.retract(push)
		push(bridge.ModelFailed{Attempt: tr.attempts, Error: tr.failure(tr.host.modelFailure(d, tr.known()))})
	case *rpc.AssistantTurnRetryData:
		tr.retract(push)
	case *rpc.AssistantUsageData:
		push(bridge.UsageReported{Usage: usage(d), Finish: str(d.FinishReason), Call: modelCall(d), AgentID: agent, Parent: str(d.ParentToolCallID)})
	case *rpc.ExternalToolRequestedData:
		push(bridge.ToolRequested{RequestID: d.RequestID, Call: bridge.ToolCall{ID: d.ToolCallID, Name: d.ToolName, Args: d.Arguments}})
	case *rpc.ToolExecutionStartData, *rpc.ToolExecutionPartialResultData, *rpc.ToolExecutionProgressData, *rpc.ToolExecutionCompleteData:
		tr.tool(e, agent, push)
	case *rpc.PermissionRequestedData, *rpc.PermissionCompletedData, *rpc.UserInputRequestedData, *rpc.UserInputCompletedData,
		*rpc.ElicitationRequestedData, *rpc.ElicitationCompletedData:
		tr.question(e, push)
	case *rpc.SessionPlanChangedData:
		push(bridge.PlanChanged{Text: string(d.Operation)})
	case *rpc.SessionTodosChangedData:
		push(bridge.PlanChanged{}) // the steps are asked for when it is read
	case *rpc.SessionModeChangedData:
		push(bridge.ModeChanged{Mode: string(d.NewMode)})
	case *rpc.SessionUsageInfoData:
		if agent == "" {
			push(bridge.ContextMeasured{Tokens: d.CurrentTokens, Limit: d.TokenLimit})
		}
	case *rpc.UserMessageData:
		if agent != "" || str(d.Source) != "" && str(d.Source) != "user" {
			push(bridge.Other{Name: string(e.Type()), Data: e.Data}) // not typed by a person
			return
		}
		tr.prompted = tr.own == nil && tr.host.opts.Provider == nil
		push(bridge.UserSaid{Text: d.Content})
	case *rpc.SessionWarningData:
		push(bridge.Notice{Level: "warning", Text: tr.scrub(d.Message)})
	case *rpc.SessionInfoData:
		if d.Message == lspExcluded {
			return
		}
		push(bridge.Notice{Level: "info", Text: tr.scrub(d.Message)})
	case *rpc.SessionMCPServerStatusChangedData:
		tr.serverFailed(d, push)
	case *rpc.SubagentStartedData:
		n := bridge.Notice{Level: "info", Text: tr.scrub("sub-agent " + d.AgentDisplayName + " started"), AgentID: agent}
		if tr.agents != nil {
			n.Agent = tr.scrub(strings.Join(tr.agents.names(context.Background(), agent), "/")) // it does not wait: this event has told
		}
		push(n)
	case *rpc.AssistantStreamingDeltaData:
		// Only a byte count beside each piece of text.
	default:
		if level, text := notable(e); text != "" {
			push(bridge.Notice{Level: level, Text: tr.scrub(text)})
			return
		}
		if !echo(e) {
			push(bridge.Other{Name: string(e.Type()), Data: e.Data})
		}
	}
}

// retract voids the messages that a broken stream left unfinished.
func (tr *translator) retract(push func(bridge.Event)) {
	for id := range tr.open {
		push(bridge.MessageRetracted{Message: id})
	}
	clear(tr.open)
	clear(tr.joined)
}

// say adds to a message and returns its id. When a model runs out of tokens
// the runtime asks it to go on, and what it then says has another id while
// the first part never ends: to everybody else that is one message.
func (tr *translator) say(id, agent, text string) string {
	if first, ok := tr.joined[id]; ok {
		id = first
	} else if tr.open[id] == nil {
		for first, m := range tr.open {
			if m.agent == agent {
				tr.joined[id] = first
				m.before += m.text.String()
				m.text.Reset()
				id = first
				break
			}
		}
	}
	if tr.open[id] == nil {
		tr.open[id] = &spoken{agent: agent}
	}
	tr.open[id].text.WriteString(text)
	return id
}

// said ends a message.
func (tr *translator) said(m bridge.MessageDone) bridge.MessageDone {
	if first, ok := tr.joined[m.Message]; ok {
		delete(tr.joined, m.Message)
		m.Message = first
		if o := tr.open[first]; o != nil {
			m.Text = o.before + m.Text
		}
	}
	delete(tr.open, m.Message)
	return m
}

func (tr *translator) tool(e copilot.SessionEvent, agent string, push func(bridge.Event)) {
	switch d := e.Data.(type) {
	case *rpc.ToolExecutionStartData:
		tr.tools[d.ToolCallID] = toolRun{name: d.ToolName, started: e.Timestamp}
		push(bridge.ToolStarted{AgentID: agent, Call: bridge.ToolCall{ID: d.ToolCallID, Name: d.ToolName, Args: d.Arguments,
			Server: str(d.MCPServerName), Parent: str(d.ParentToolCallID)}})
	case *rpc.ToolExecutionPartialResultData:
		run := tr.tools[d.ToolCallID]
		fresh, grew := strings.CutPrefix(d.PartialOutput, run.printed)
		if !grew {
			fresh = d.PartialOutput
		}
		run.printed = d.PartialOutput
		tr.tools[d.ToolCallID] = run
		if fresh != "" {
			push(bridge.ToolProgress{CallID: d.ToolCallID, Text: fresh})
		}
	case *rpc.ToolExecutionProgressData:
		push(bridge.ToolProgress{CallID: d.ToolCallID, Text: d.ProgressMessage})
	case *rpc.ToolExecutionCompleteData:
		run := tr.tools[d.ToolCallID]
		delete(tr.tools, d.ToolCallID)
		out := bridge.ToolFinished{CallID: d.ToolCallID, Name: run.name, OK: d.Success, AgentID: agent}
		if !run.started.IsZero() {
			out.Duration = e.Timestamp.Sub(run.started)
		}
		if d.Result != nil {
			out.Result = d.Result.Content
		}
		if d.Error != nil {
			out.Error, out.Code = d.Error.Message, str(d.Error.Code)
		}
		push(out)
	}
}

func (tr *translator) question(e copilot.SessionEvent, push func(bridge.Event)) {
	switch d := e.Data.(type) {
	case *rpc.PermissionRequestedData:
		if d.ResolvedByHook == nil || !*d.ResolvedByHook {
			req := permission(d.PermissionRequest)
			req.ID = d.RequestID
			push(bridge.PermissionAsked{Request: req})
		}
	case *rpc.PermissionCompletedData:
		out := bridge.PermissionDecided{RequestID: d.RequestID, CallID: str(d.ToolCallID)}
		out.Decision = decided(d.Result)
		push(out)
	case *rpc.UserInputRequestedData:
		push(bridge.InputAsked{RequestID: d.RequestID, Question: bridge.Question{Text: d.Question, Choices: d.Choices,
			Freeform: d.AllowFreeform == nil || *d.AllowFreeform}})
	case *rpc.UserInputCompletedData:
		push(bridge.InputAnswered{RequestID: d.RequestID})
	case *rpc.ElicitationRequestedData:
		push(bridge.InputAsked{RequestID: d.RequestID, Question: bridge.Question{Text: d.Message}})
	case *rpc.ElicitationCompletedData:
		push(bridge.InputAnswered{RequestID: d.RequestID})
	}
}

func message(d *rpc.AssistantMessageData, agent string) bridge.MessageDone {
	out := bridge.MessageDone{Message: d.MessageID, Text: d.Content, Reasoning: str(d.ReasoningText), Model: str(d.Model), AgentID: agent}
	for _, c := range d.ToolRequests {
		out.Calls = append(out.Calls, bridge.ToolCall{ID: c.ToolCallID, Name: c.Name, Args: c.Arguments, Server: str(c.MCPServerName)})
	}
	return out
}

func usage(d *rpc.AssistantUsageData) bridge.Usage {
	u := bridge.Usage{Model: d.Model, Calls: 1, InputTokens: num(d.InputTokens), OutputTokens: num(d.OutputTokens),
		ReasoningTokens: num(d.ReasoningTokens), CacheRead: num(d.CacheReadTokens), CacheWrite: num(d.CacheWriteTokens)}
	// The runtime tells the model's multiplier with every request, but GitHub
	// counts only those that a person is the reason of: not the agent's own after
	// a tool call or a failure, and not a sub-agent's.
	if byUser := d.Initiator == nil || *d.Initiator == initiatorUser; byUser && d.Cost != nil && (d.IsByok == nil || !*d.IsByok) {
		u.Premium = *d.Cost
	}
	if d.CopilotUsage != nil {
		u.Credits = d.CopilotUsage.TotalNanoAiu / 1e9
	}
	return u
}

const initiatorUser = "user"

func modelCall(d *rpc.AssistantUsageData) *bridge.ModelCall {
	c := &bridge.ModelCall{ID: str(d.APICallID), ProviderID: str(d.ProviderCallID), Effort: str(d.ReasoningEffort), Initiator: str(d.Initiator),
		FirstToken: millis(d.TimeToFirstTokenMs), InterToken: millis(d.InterTokenLatencyMs), Duration: time.Duration(num(d.Duration)) * time.Millisecond}
	for name, q := range d.QuotaSnapshots {
		if c.Quotas == nil {
			c.Quotas = map[string]bridge.Quota{}
		}
		out := bridge.Quota{Entitlement: q.EntitlementRequests, RemainingPercent: q.RemainingPercentage, Unlimited: q.IsUnlimitedEntitlement,
			Overage: q.Overage, OverageAllowed: q.OverageAllowedWithExhaustedQuota}
		if q.ResetDate != nil {
			out.Resets = *q.ResetDate
		}
		c.Quotas[name] = out
	}
	return c
}

func millis(p *float64) time.Duration {
	if p == nil {
		return 0
	}
	return time.Duration(*p * float64(time.Millisecond))
}

func str(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

func num(p *int64) int64 {
	if p == nil {
		return 0
	}
	return *p
}

// notable is what a person should hear of an event that has no shape of its
// own in the domain; no text means that there is nothing to hear.
func notable(e copilot.SessionEvent) (level, text string) {
	switch d := e.Data.(type) {
	case *rpc.SessionErrorData: // of a sub-agent, or of the past
		return "error", d.Message
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

// raw passes an event on as the runtime words it, except for pieces of text.
func raw(e copilot.SessionEvent, push func(bridge.Event)) {
	switch e.Data.(type) {
	case *rpc.AssistantMessageDeltaData, *rpc.AssistantReasoningDeltaData, *rpc.AssistantStreamingDeltaData,
		*rpc.ToolExecutionPartialResultData, *rpc.ToolExecutionProgressData:
		return
	}
	b, err := json.Marshal(e)
	if err != nil {
		return // the translation still comes
	}
	// As plain values, so that whatever hides secrets sees every string.
	var data any
	if json.Unmarshal(b, &data) == nil {
		push(bridge.Other{Name: bridge.RawPrefix + string(e.Type()), Data: data})
	}
}

// Capabilities says what the runtime can do, as tried with the pinned version.
func (a *Agent) Capabilities() map[bridge.Capability]bridge.Support {
	native := bridge.Support{Level: bridge.SupportNative}
	out := map[bridge.Capability]bridge.Support{}
	for _, c := range []bridge.Capability{bridge.CapStreaming, bridge.CapToolRead, bridge.CapToolWrite, bridge.CapToolEdit, bridge.CapToolBash,
		bridge.CapToolGlob, bridge.CapToolGrep, bridge.CapToolAskUser, bridge.CapStructuredOutput,
		bridge.CapHooksPre, bridge.CapHooksPost, bridge.CapSessionResume, bridge.CapSessionFork, bridge.CapMCPClient} {
		out[c] = native
	}
	out[bridge.CapToolWebFetch] = native
	if a.offline() {
		out[bridge.CapToolWebFetch] = bridge.Support{Level: bridge.SupportRestricted,
			Reason: "the runtime offers it with GitHub's models only, not with a provider of your own"}
	}
	return out
}

// offline: the runtime is kept from reaching GitHub at all.
func (a *Agent) offline() bool {
	return a.opts.Provider != nil && a.opts.Token == "" && !a.opts.UseLogin
}

// serverFailed says once that an MCP server cannot be used. It is told again when
// the session is confined. GitHub's own server is only a note.
func (tr *translator) serverFailed(d *rpc.SessionMCPServerStatusChangedData, push func(bridge.Event)) {
	if d.ServerName == githubServer {
		if why := githubFailure(d); why != "" && !tr.toldGitHub {
			tr.toldGitHub = true
			push(withoutGitHub(tr.scrub(why)))
		}
		return
	}
	if why := str(d.Error); why != "" && tr.failed[d.ServerName] != why {
		tr.failed[d.ServerName] = why
		push(bridge.Notice{Level: "warning", Text: tr.scrub("the MCP server " + d.ServerName + " cannot be used: " + why)})
	}
}
