package editor

import "encoding/json"

// Protocol is the version of the protocol that this package speaks.
const Protocol = 1

// The methods of the protocol.
const (
	methodHello     = "host.hello"
	methodModels    = "lm.models"
	methodChat      = "lm.chat"
	methodDocuments = "editor.documents"
	methodApply     = "editor.applyEdit"
	methodFormat    = "editor.format"
	methodOrganize  = "editor.organizeImports"
	methodSymbols   = "editor.symbols"
	methodConfirm   = "ui.confirm"

	methodPart      = "lm.part"
	methodFolders   = "editor.folders"
	methodChanged   = "lm.changed"
	methodCancel    = "$/cancel"
	methodStatus    = "bridge.status"
	methodConsented = "bridge.consented"
	methodReady     = "bridge.ready"
	methodState     = "bridge.state"
)

// Folder is a directory that is open in the window.
type Folder struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

// Hello is what an editor says of itself.
type Hello struct {
	Protocol int      `json:"protocol"`
	Editor   string   `json:"editor"`
	Version  string   `json:"version"`
	Folders  []Folder `json:"folders"`
	Trusted  bool     `json:"trusted"`
}

// Model is a language model that the editor offers.
type Model struct {
	ID             string `json:"id"`
	Name           string `json:"name"`
	Vendor         string `json:"vendor"`
	Family         string `json:"family"`
	Version        string `json:"version"`
	MaxInputTokens int    `json:"maxInputTokens"`
	Vision         bool   `json:"vision"`
	Tools          bool   `json:"tools"`
}

// The roles of a Message. There is no other.
const (
	RoleUser      = "user"
	RoleAssistant = "assistant"
)

// Message is one message of a conversation.
type Message struct {
	Role  string `json:"role"`
	Parts []Part `json:"parts"`
}

// PartType is the kind of a Part.
type PartType string

// The kinds of parts. Usage comes from the model only.
const (
	PartText       PartType = "text"
	PartThinking   PartType = "thinking"
	PartToolCall   PartType = "toolCall"
	PartToolResult PartType = "toolResult"
	PartData       PartType = "data"
	PartUsage      PartType = "usage"
)

// Part is a piece of a message. Which fields are set depends on Type.
type Part struct {
	Type         PartType        `json:"type"`
	Text         string          `json:"text,omitempty"`
	CallID       string          `json:"callId,omitempty"`
	Name         string          `json:"name,omitempty"`
	Input        json.RawMessage `json:"input,omitempty"`
	Failed       bool            `json:"failed,omitempty"`
	MIME         string          `json:"mime,omitempty"`
	Base64       []byte          `json:"base64,omitempty"`
	InputTokens  int64           `json:"inputTokens,omitempty"`
	OutputTokens int64           `json:"outputTokens,omitempty"`
}

// Tool is a tool that the model may call.
type Tool struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Schema      map[string]any `json:"schema,omitempty"`
}

// The tool modes. Required is for one tool alone.
const (
	ToolAuto     = "auto"
	ToolRequired = "required"
)

// ChatRequest is a whole conversation that awaits an answer.
type ChatRequest struct {
	Model         string         `json:"model"`
	Messages      []Message      `json:"messages"`
	Tools         []Tool         `json:"tools,omitempty"`
	ToolMode      string         `json:"toolMode,omitempty"`
	Options       map[string]any `json:"options,omitempty"`
	Justification string         `json:"justification,omitempty"`
}

// Document is an open document whose text is not that of the file.
type Document struct {
	Path       string  `json:"path"` // absolute
	Version    int64   `json:"version"`
	Text       *string `json:"text,omitempty"` // nil: as in the version that we know
	LanguageID string  `json:"languageId,omitempty"`
	EOL        string  `json:"eol,omitempty"`
}

// Position is a place in a document. Character counts UTF-16 units.
type Position struct {
	Line      int `json:"line"`
	Character int `json:"character"`
}

// TextEdit replaces a range by a text.
type TextEdit struct {
	Start Position `json:"start"`
	End   Position `json:"end"`
	Text  string   `json:"text"`
}

// ChangeKind is what happens to a file.
type ChangeKind string

// The kinds of changes.
const (
	ChangeText   ChangeKind = "change"
	ChangeCreate ChangeKind = "create"
	ChangeDelete ChangeKind = "delete"
	ChangeRename ChangeKind = "rename"
)

// FileChange is what happens to one file. SHA256 is that of its live text
// before, in UTF-8; "" for a file that is created.
type FileChange struct {
	Path   string     `json:"path"` // absolute
	Kind   ChangeKind `json:"kind"`
	To     string     `json:"to,omitempty"` // of a rename
	SHA256 string     `json:"sha256,omitempty"`
	Edits  []TextEdit `json:"edits,omitempty"`
	Text   *string    `json:"text,omitempty"` // of a new file
}

// Edit is a change of any number of files: one undo.
type Edit struct {
	Label string       `json:"label"`
	Files []FileChange `json:"files"`
	Save  bool         `json:"save"`
}

// Applied is what became of an Edit. With conflicts nothing was changed.
type Applied struct {
	Applied   bool `json:"applied"`
	Conflicts []struct {
		Path   string `json:"path"`
		Reason string `json:"reason"`
	} `json:"conflicts"`
	Files []struct {
		Path   string `json:"path"`
		SHA256 string `json:"sha256"`
	} `json:"files"`
}

// Rewritten is what formatting made of a file.
type Rewritten struct {
	Changed bool   `json:"changed"`
	SHA256  string `json:"sha256"`
}

// Symbol is something that a document declares. Kind is the Language Server
// Protocol's number.
type Symbol struct {
	Name           string   `json:"name"`
	Kind           int      `json:"kind"`
	Detail         string   `json:"detail,omitempty"`
	Start          Position `json:"start"`
	End            Position `json:"end"`
	SelectionStart Position `json:"selectionStart"`
	SelectionEnd   Position `json:"selectionEnd"`
	Children       []Symbol `json:"children,omitempty"`
}

// Action is a button of a dialog.
type Action struct {
	ID    string `json:"id"`
	Label string `json:"label"`
}

// Question is a modal dialog.
type Question struct {
	Title   string   `json:"title"`
	Message string   `json:"message"`
	Detail  string   `json:"detail,omitempty"`
	Actions []Action `json:"actions"`
}

// Copilot says whether Copilot answers, by the outcome of the last request.
type Copilot string

// The states.
const (
	CopilotOK          Copilot = "ok"
	CopilotUnavailable Copilot = "unavailable"
	CopilotConsent     Copilot = "consent_required"
	CopilotUnknown     Copilot = "unknown"
)

// Ready says where the bridge answers.
type Ready struct {
	URL      string `json:"url"`
	RPC      string `json:"rpc"`
	MCP      string `json:"mcp"`
	ReadOnly bool   `json:"readOnly"`
	PID      int    `json:"pid"`
}

// State is what changes while it does.
type State struct {
	Copilot  Copilot `json:"copilot"`
	Reason   string  `json:"reason,omitempty"`
	Requests int64   `json:"requests"`
}

// Status is both, and the policy files in force.
type Status struct {
	Ready
	State
	Policy []string `json:"policy"`
}

// The parameters of methods, with their bounds.
type (
	bounded struct {
		TimeoutMs int64 `json:"timeoutMs"`
	}
	helloParams struct {
		bounded
		Protocol int    `json:"protocol"`
		Version  string `json:"version"`
	}
	chatParams struct {
		bounded
		ChatRequest
	}
	documentsParams struct {
		bounded
		Known map[string]int64 `json:"known"`
	}
	applyParams struct {
		bounded
		Edit
	}
	pathParams struct {
		bounded
		Path string `json:"path"`
	}
	confirmParams struct {
		bounded
		Question
	}
)
