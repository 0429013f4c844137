package bridge

// Chat is one request of a client that keeps no session with us: a whole
// conversation, of which the last messages await an answer. It is read-only
// once handed over.
type Chat struct {
	// Door names who asks: "openai", "responses", "anthropic".
	Door    string
	Profile Profile
	Model   string // an id that ChatModel.ID named
	Worker  string // what ChatModel.Worker named
	Effort  string // reasoning effort; "" = the model's default
	System  string
	// Messages are the conversation, oldest first. The last one is a user's
	// or a tool's: there is nothing to answer otherwise.
	Messages []Message
	// Tools run in the client. A call ends the answer with EndTools.
	Tools  []ToolSpec
	Choice ToolChoice
	// OneCall asks for at most one tool call at a time.
	OneCall bool
	// MaxTokens bounds the answer, thinking included; 0: no bound. It is held
	// by the bridge's own count: six bytes are a token, which is more than a
	// token of any model has on average.
	MaxTokens int64
	// ResponseFormat, if set, binds the answer to a JSON schema; JSON asks
	// for any JSON object.
	ResponseFormat *ResponseFormat
	JSON           bool
	// Previous is the Answer of an earlier Chat, for clients that send only
	// new messages: Messages then continue that conversation.
	Previous string
	// Answer is the id by which a later Chat may name this one, or "".
	Answer string
	// Whole says that the client takes the answer in one piece, so that a
	// stream which breaks and is tried again does no harm.
	Whole bool
}

// Piece is one element of an answer as it is streamed: an event, or the error
// that ends it.
type Piece struct {
	Event Event
	Err   error
}

// Role says whose message it is.
type Role string

// The roles. System messages are those inside the dialogue; what comes before
// it is Chat.System.
const (
	RoleSystem    Role = "system"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Message is one message of a Chat.
type Message struct {
	Role        Role
	Text        string
	Attachments []Attachment // of a user or a tool
	Calls       []ToolCall   // of an assistant
	CallID      string       // of a tool: the call that Text answers
	Failed      bool         // of a tool: it did not succeed
}

// ToolChoice says whether the model may, must or must not call a tool. The
// zero value leaves it to the model.
type ToolChoice struct {
	Mode ToolMode
	Name string // with ToolNamed
}

// ToolMode is the kind of a ToolChoice.
type ToolMode string

// The modes.
const (
	ToolAuto     ToolMode = ""
	ToolNone     ToolMode = "none"
	ToolRequired ToolMode = "required"
	ToolNamed    ToolMode = "named"
)

// ChatModel is an entry of the list that clients see: a model in one of the
// two profiles.
type ChatModel struct {
	Model
	// Name is what clients call it: the id, or "agent/" and the id, and for one
	// at work elsewhere "@" and Worker.
	Name    string
	Profile Profile
	// Worker says which other machine is to do an agent's work; "" for this one.
	Worker string
	// Instead is what the client had asked for, if that does not exist and
	// the configuration says to use the default.
	Instead string
}
