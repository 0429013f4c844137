package acpwire

import "encoding/json"

// The kinds of updates.
const (
	UpdateUserMessage       = "user_message_chunk"
	UpdateAgentMessage      = "agent_message_chunk"
	UpdateAgentThought      = "agent_thought_chunk"
	UpdateToolCall          = "tool_call"
	UpdateToolCallUpdate    = "tool_call_update"
	UpdatePlan              = "plan"
	UpdateCommands          = "available_commands_update"
	UpdateMode              = "current_mode_update"
	UpdateConfig            = "config_option_update"
	UpdateInfo              = "session_info_update"
	UpdateUsage             = "usage_update"
	UpdateNotice            = "notice"
	UpdateCompaction        = "compaction_update"
	UpdateCompactionSummary = "compaction_summary_chunk"
)

// Update is something new in a session: *Chunk, *ToolCall, *Plan, *Commands,
// *CurrentMode, *ConfigUpdate, *InfoUpdate, *UsageUpdate, *Notice,
// *Compaction or *UnknownUpdate.
type Update interface{ Kind() string }

// SessionNotification carries an update. Raw is the update as it came, with
// the fields that this version has no name for. Other messages drop such
// fields.
type SessionNotification struct {
	SessionID string          `json:"sessionId"`
	Update    Update          `json:"update"`
	Raw       json.RawMessage `json:"-"`
}

// UnmarshalJSON finds the update's type by its "sessionUpdate".
func (n *SessionNotification) UnmarshalJSON(b []byte) error {
	var wire struct {
		SessionID string          `json:"sessionId"`
		Update    json.RawMessage `json:"update"`
	}
	if err := json.Unmarshal(b, &wire); err != nil {
		return err
	}
	u, err := decodeUpdate(wire.Update)
	if err != nil {
		return err
	}
	n.SessionID, n.Update, n.Raw = wire.SessionID, u, wire.Update
	return nil
}

func decodeUpdate(b []byte) (Update, error) {
	var head struct {
		Kind string `json:"sessionUpdate"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return nil, err
	}
	unknown := &UnknownUpdate{Name: head.Kind, Raw: b}
	var u Update
	switch head.Kind {
	case UpdateUserMessage, UpdateAgentMessage, UpdateAgentThought:
		u = &Chunk{}
	case UpdateToolCall, UpdateToolCallUpdate:
		u = &ToolCall{}
	case UpdatePlan:
		u = &Plan{}
	case UpdateCommands:
		u = &Commands{}
	case UpdateMode:
		u = &CurrentMode{}
	case UpdateConfig:
		u = &ConfigUpdate{}
	case UpdateInfo:
		u = &InfoUpdate{}
	case UpdateUsage:
		u = &UsageUpdate{}
	case UpdateNotice:
		u = &Notice{}
	case UpdateCompaction, UpdateCompactionSummary:
		u = &Compaction{}
	default:
		return unknown, nil
	}
	if json.Unmarshal(b, u) == nil {
		return u, nil
	}
	return unknown, nil // of a known kind, but in another shape
}

// Chunk is a piece of a message or a thought; Type says which.
type Chunk struct {
	Type      string       `json:"sessionUpdate"`
	Content   ContentBlock `json:"content"`
	MessageID string       `json:"messageId,omitzero"`
}

// Kind says which update it is, as it does for all below.
func (c *Chunk) Kind() string { return c.Type }

// Plan is what the agent intends to do, whole each time.
type Plan struct {
	Type    string          `json:"sessionUpdate"`
	Entries List[PlanEntry] `json:"entries"`
}

func (*Plan) Kind() string { return UpdatePlan }

// PlanEntry is one step of a plan.
type PlanEntry struct {
	Content  string `json:"content"`
	Priority string `json:"priority"` // high, medium, low
	Status   string `json:"status"`   // pending, in_progress, completed
}

// Commands are the slash commands that a prompt may begin with.
type Commands struct {
	Type      string        `json:"sessionUpdate"`
	Available List[Command] `json:"availableCommands"`
}

func (*Commands) Kind() string { return UpdateCommands }

// Command is one of them.
type Command struct {
	Name        string        `json:"name"`
	Description string        `json:"description"`
	Input       *CommandInput `json:"input,omitzero"`
}

// CommandInput says what may follow a command.
type CommandInput struct {
	Hint string `json:"hint"`
}

// CurrentMode says that the mode has changed.
type CurrentMode struct {
	Type   string `json:"sessionUpdate"`
	ModeID string `json:"currentModeId"`
}

func (*CurrentMode) Kind() string { return UpdateMode }

// ConfigUpdate says that an option has changed; it has all of them.
type ConfigUpdate struct {
	Type          string             `json:"sessionUpdate"`
	ConfigOptions List[ConfigOption] `json:"configOptions"`
}

func (*ConfigUpdate) Kind() string { return UpdateConfig }

// InfoUpdate says that the session has another title.
type InfoUpdate struct {
	Type      string `json:"sessionUpdate"`
	Title     string `json:"title,omitzero"`
	UpdatedAt string `json:"updatedAt,omitzero"`
}

func (*InfoUpdate) Kind() string { return UpdateInfo }

// UsageUpdate says how full the context window is.
type UsageUpdate struct {
	Type string `json:"sessionUpdate"`
	Used int64  `json:"used"`
	Size int64  `json:"size"`
	Cost *Cost  `json:"cost,omitzero"`
}

func (*UsageUpdate) Kind() string { return UpdateUsage }

// Cost is what the session has cost so far.
type Cost struct {
	Amount   float64 `json:"amount"`
	Currency string  `json:"currency"`
}

// Notice is something for a person to know.
type Notice struct {
	Type        string `json:"sessionUpdate"`
	Severity    string `json:"severity"` // info, warning, error
	Title       string `json:"title"`
	Description string `json:"description,omitzero"`
}

func (*Notice) Kind() string { return UpdateNotice }

// Compaction says that the conversation is being shortened.
type Compaction struct {
	Type         string `json:"sessionUpdate"`
	CompactionID string `json:"compactionId"`
	Status       string `json:"status,omitzero"`
	Error        string `json:"error,omitzero"`
}

func (c *Compaction) Kind() string { return c.Type }

// UnknownUpdate is one that this version cannot read, as it came.
type UnknownUpdate struct {
	Name string
	Raw  json.RawMessage
}

func (u *UnknownUpdate) Kind() string { return u.Name }

// MarshalJSON writes it as it came.
func (u *UnknownUpdate) MarshalJSON() ([]byte, error) { return u.Raw, nil }
