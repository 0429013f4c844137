package bridge

import (
	"encoding/json"
	"time"
)

// EventType names an event on the wire ("--json", journals).
type EventType string

// Event is something that happened in a turn. It is a closed sum: the types
// in this file are all there are, and what an agent says that fits none of
// them arrives as Other, so nothing is lost.
//
//sumtype:decl
type Event interface {
	eventType() EventType // see TypeOf
}

type (
	// SessionOpened comes first in every turn that opened or resumed a session.
	SessionOpened struct {
		Session    string  `json:"session"`
		Agent      string  `json:"agent"`
		Profile    Profile `json:"profile"`
		Model      string  `json:"model,omitempty"`
		WorkingDir string  `json:"working_dir,omitempty"`
		Resumed    bool    `json:"resumed,omitempty"`
		Notice     string  `json:"notice,omitempty"` // set when the answers are not Copilot's
		Answers    Answers `json:"answers,omitzero"`
	}
	// ModelCalled says that a request went out to the model.
	ModelCalled struct {
		Model string `json:"model,omitempty"`
		// Premium says that GitHub counts premium requests for it, because a
		// person's prompt is its reason. It does not if it refuses the request.
		Premium bool `json:"premium,omitempty"`
	}
	// ModelFailed says that a request to the model failed. The runtime retries
	// by itself; Error is why.
	ModelFailed struct {
		Attempt int    `json:"attempt"`
		Error   *Error `json:"error"`
	}
	// TextDelta is a piece of an answer.
	TextDelta struct {
		Message string `json:"message"` // groups the pieces of one message
		Text    string `json:"text"`
		AgentID string `json:"agent_id,omitempty"` // a sub-agent's words
	}
	// ReasoningDelta is a piece of the model's thinking.
	ReasoningDelta struct {
		ID      string `json:"id,omitempty"`
		Text    string `json:"text"`
		AgentID string `json:"agent_id,omitempty"`
	}
	// MessageDone carries a whole message. Its text is authoritative: a stream
	// that broke and was retried has left other pieces behind.
	MessageDone struct {
		Message   string     `json:"message"`
		Text      string     `json:"text"`
		Reasoning string     `json:"reasoning,omitempty"`
		Model     string     `json:"model,omitempty"`
		Calls     []ToolCall `json:"calls,omitempty"` // empty in a turn's last message
		AgentID   string     `json:"agent_id,omitempty"`
	}
	// MessageRetracted voids the deltas of a message that will not be
	// finished, because the model's stream broke. A new message follows.
	MessageRetracted struct {
		Message string `json:"message"`
	}
	// ToolStarted says that a tool runs.
	ToolStarted struct {
		Call    ToolCall `json:"call"`
		AgentID string   `json:"agent_id,omitempty"`
	}
	// ToolProgress is a sign of life from a tool. Text is the new part.
	ToolProgress struct {
		CallID string `json:"call_id"`
		Text   string `json:"text"`
	}
	// ToolFinished ends a tool call.
	ToolFinished struct {
		CallID   string        `json:"call_id"`
		Name     string        `json:"name,omitempty"`
		OK       bool          `json:"ok"`
		Result   string        `json:"result,omitempty"`
		Code     string        `json:"code,omitempty"`  // the runtime's error code
		Error    string        `json:"error,omitempty"` // why it failed
		Duration time.Duration `json:"duration_ns"`
		AgentID  string        `json:"agent_id,omitempty"`
	}
	// ToolRequested is a call of one of the caller's own tools: the turn waits
	// until Resolve is called with RequestID.
	ToolRequested struct {
		RequestID string   `json:"request_id"`
		Call      ToolCall `json:"call"`
	}
	// PermissionAsked says that a decision is awaited.
	PermissionAsked struct {
		Request PermissionRequest `json:"request"`
	}
	// PermissionDecided ends it.
	PermissionDecided struct {
		RequestID string   `json:"request_id"`
		CallID    string   `json:"call_id,omitempty"`
		Decision  Decision `json:"decision"`
	}
	// InputAsked says that the agent waits for a person's answer.
	InputAsked struct {
		RequestID string   `json:"request_id"`
		Question  Question `json:"question"`
	}
	// InputAnswered ends it.
	InputAnswered struct {
		RequestID string `json:"request_id"`
	}
	// PlanChanged says that the agent's plan was written or changed. Entries
	// are all of its steps, if the agent keeps a list of them.
	PlanChanged struct {
		Text    string      `json:"text,omitempty"`
		Entries []PlanEntry `json:"entries,omitempty"`
	}
	// ModeChanged says that the agent works in another mode from now on; see
	// Prompt.Mode.
	ModeChanged struct {
		Mode string `json:"mode"`
	}
	// ContextMeasured says how full the model's context window is.
	ContextMeasured struct {
		Tokens int64 `json:"tokens"`
		Limit  int64 `json:"limit"`
	}
	// UserSaid is the user's part of the conversation. A history has it; in a
	// turn it is an echo of the prompt.
	UserSaid struct {
		Text string `json:"text"`
	}
	// UsageReported counts one request to the model.
	UsageReported struct {
		Usage Usage `json:"usage"`
		// Finish is why the model stopped, in its provider's words: "stop",
		// "length", "content_filter", …
		Finish string `json:"finish,omitempty"`
		// Call is what else is known of the request; nil where nothing is.
		Call *ModelCall `json:"call,omitempty"`
		// AgentID is the sub-agent that has asked, and Parent the tool call as
		// which it works.
		AgentID string `json:"agent_id,omitempty"`
		Parent  string `json:"parent,omitempty"`
	}
	// Notice is something worth telling a person.
	Notice struct {
		Level string `json:"level"` // info, note (one quiet line), warning, error
		Text  string `json:"text"`
		// AgentID is set where a sub-agent starts. Agent is then its name, behind
		// the names of those that it works for: "outer/inner".
		AgentID string `json:"agent_id,omitempty"`
		Agent   string `json:"agent,omitempty"`
	}
	// Failed says that the turn did not succeed. TurnEnded follows.
	Failed struct {
		Error *Error `json:"error"`
	}
	// TurnEnded is the last event of every turn.
	TurnEnded struct {
		Reason   EndReason     `json:"reason"`
		Usage    Usage         `json:"usage"` // of the whole turn
		Duration time.Duration `json:"duration_ns"`
	}
	// Other is what fits nowhere else, kept as it came.
	Other struct {
		Name string `json:"name"`
		// Data is the payload; it is turned into JSON on demand.
		Data any `json:"data,omitempty"`
	}
)

// RawPrefix begins the name of an Other that carries a runtime's own event;
// the runtime's name of it follows. See SessionSpec.Raw.
const RawPrefix = "raw:"

// PlanEntry is one step of a plan.
type PlanEntry struct {
	Text     string     `json:"text"`
	Status   StepStatus `json:"status"`
	Priority string     `json:"priority,omitempty"` // high, medium, low, or not said
}

// StepStatus says how far a step of a plan has come.
type StepStatus string

// The states of a step.
const (
	StepPending StepStatus = "pending"
	StepRunning StepStatus = "in_progress"
	StepDone    StepStatus = "completed"
)

// EndReason says how a turn ended.
type EndReason string

// The ways a turn ends.
const (
	EndDone    EndReason = "done"
	EndAborted EndReason = "aborted"
	EndFailed  EndReason = "failed"
	// EndPartial ends a turn in which only a part of the task could be done; a
	// Notice names the rest.
	EndPartial EndReason = "partial"
	// EndTools ends the answer to a Chat, not the turn behind it: the caller's
	// own tools are awaited, see MessageDone.Calls.
	EndTools EndReason = "tool_calls"
)

// Usage counts tokens and cost. Values add up: see Add.
type Usage struct {
	Model           string  `json:"model,omitempty"`
	Calls           int     `json:"calls,omitempty"` // requests to the model
	InputTokens     int64   `json:"input_tokens"`
	OutputTokens    int64   `json:"output_tokens"`
	ReasoningTokens int64   `json:"reasoning_tokens,omitempty"`
	CacheRead       int64   `json:"cache_read_tokens,omitempty"`
	CacheWrite      int64   `json:"cache_write_tokens,omitempty"`
	Cost            float64 `json:"cost,omitempty"` // in the agent's own unit
	// Premium is how many premium requests GitHub counts: the model's multiplier
	// for a request that a person's prompt is the reason of, nothing for others.
	Premium float64 `json:"premium_requests,omitempty"`
	// Credits is what GitHub bills, in AI credits; 0 if not known.
	Credits float64 `json:"ai_credits,omitempty"`
}

// ModelCall is what an agent tells of one request to the model besides its
// tokens. Fields that the agent does not know are zero.
type ModelCall struct {
	ID         string        `json:"id,omitempty"`               // the API's
	ProviderID string        `json:"provider_call_id,omitempty"` // to find it in the provider's logs
	Effort     string        `json:"reasoning_effort,omitempty"`
	Initiator  string        `json:"initiator,omitempty"`      // user, agent, sub-agent …
	FirstToken time.Duration `json:"first_token_ns,omitempty"` // from the request to the first token
	InterToken time.Duration `json:"inter_token_ns,omitempty"` // between two tokens, on average
	Duration   time.Duration `json:"duration_ns,omitempty"`
	// Quotas are what the account has left, by GitHub's name of the quota.
	Quotas map[string]Quota `json:"quotas,omitempty"`
}

// Quota is how much of something an account may still use.
type Quota struct {
	Entitlement      int64     `json:"entitlement"` // requests in the period
	RemainingPercent float64   `json:"remaining_percent"`
	Unlimited        bool      `json:"unlimited,omitempty"`
	Overage          float64   `json:"overage,omitempty"`         // used beyond it
	OverageAllowed   bool      `json:"overage_allowed,omitempty"` // once it is used up
	Resets           time.Time `json:"resets,omitzero"`
}

// Add returns the sum of both; the model is kept if it is the same.
func (u Usage) Add(o Usage) Usage {
	if u.Model == "" || u.Calls == 0 {
		u.Model = o.Model
	} else if o.Model != "" && o.Model != u.Model {
		u.Model = ""
	}
	u.Calls += o.Calls
	u.InputTokens += o.InputTokens
	u.OutputTokens += o.OutputTokens
	u.ReasoningTokens += o.ReasoningTokens
	u.CacheRead += o.CacheRead
	u.CacheWrite += o.CacheWrite
	u.Cost += o.Cost
	u.Premium += o.Premium
	u.Credits += o.Credits
	return u
}

// errorJSON is the wire form of Error.
type errorJSON struct {
	Code       Code         `json:"code"`
	Message    string       `json:"message"`
	Remedy     string       `json:"remedy,omitempty"`
	Status     int          `json:"status,omitempty"`
	RetryAfter int64        `json:"retry_after_ms,omitempty"`
	Detail     *ErrorDetail `json:"detail,omitempty"`
}

// MarshalJSON writes the code, the whole message and the remedy.
func (e *Error) MarshalJSON() ([]byte, error) {
	return json.Marshal(errorJSON{e.Code, e.Error(), e.Remedy, e.Status, e.RetryAfter.Milliseconds(), e.Detail})
}

// UnmarshalJSON reads what MarshalJSON wrote; the cause is part of the
// message from then on.
func (e *Error) UnmarshalJSON(b []byte) error {
	var w errorJSON
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*e = Error{Code: w.Code, Message: w.Message, Remedy: w.Remedy, Status: w.Status,
		RetryAfter: time.Duration(w.RetryAfter) * time.Millisecond, Detail: w.Detail}
	return nil
}
