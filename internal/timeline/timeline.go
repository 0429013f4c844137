// Package timeline keeps what sessions do: a file of events for each session,
// and beside it a summary. Processes write through a Writer, which never makes a
// turn wait. Readers follow a file by byte offsets, so they need nothing from
// the process that writes, and can go on where they were after any restart.
// Texts are what the person may see: secrets were hidden before they came here.
package timeline

import (
	"encoding/json"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// State says what a session is doing.
type State string

// The states. A reader turns those of a process that has died into Interrupted
// and Ended.
const (
	Running     State = "running"     // a turn is under way
	Waiting     State = "waiting"     // a person is asked, or the client's tool is awaited
	Idle        State = "idle"        // open, between two turns
	Ended       State = "ended"       // closed
	Interrupted State = "interrupted" // its process died in a turn
)

// Live says whether the session's process still has it.
func (s State) Live() bool { return s == Running || s == Waiting || s == Idle }

// Summary describes a session. It is rewritten when its state changes.
type Summary struct {
	ID        string         `json:"id"`
	Process   string         `json:"process"`          // see package live
	Door      string         `json:"door"`             // the API or command that asks
	Client    string         `json:"client,omitempty"` // what the client says of itself
	Profile   bridge.Profile `json:"profile"`
	Agent     string         `json:"agent,omitempty"`
	Model     string         `json:"model,omitempty"`
	Dir       string         `json:"dir,omitempty"`
	Title     string         `json:"title,omitempty"`
	State     State          `json:"state"`
	Started   time.Time      `json:"started"`
	Changed   time.Time      `json:"changed"`
	Turns     int            `json:"turns"`
	Usage     bridge.Usage   `json:"usage"`
	FirstWord int64          `json:"first_word_ms,omitempty"` // of the last turn
	Questions int            `json:"questions,omitempty"`     // open now
	Run       string         `json:"run,omitempty"`           // of orchestrate
	Task      string         `json:"task,omitempty"`          // of the run
	Answers   string         `json:"answers,omitempty"`       // who answers
	Size      int64          `json:"size"`                    // of the timeline, in bytes
}

// The types of events.
const (
	TypePrompt    = "prompt"    // text, by
	TypeText      = "text"      // message, text, agent
	TypeReasoning = "reasoning" // text, agent
	TypeRetract   = "retract"   // message: its texts do not count
	TypeTool      = "tool"      // call, name, args, agent, server
	TypeProgress  = "progress"  // call, text
	TypeResult    = "result"    // call, ok, text, error, code, ms
	TypeVerdict   = "verdict"   // call, tool, verdict, reason, rule, by, who, confined, grant
	TypeQuestion  = "question"  // question, lead
	TypeAnswered  = "answered"  // question, answer, reason, by
	TypeDiff      = "diff"      // path, change, diff
	TypeUsage     = "usage"     // model, input_tokens, output_tokens, cost, first_word_ms
	TypePlan      = "plan"      // text, entries
	TypeMode      = "mode"      // mode
	TypeNotice    = "notice"    // level, text
	TypeError     = "error"     // code, message, remedy
	TypeTurn      = "turn"      // n: it began
	TypeEnd       = "end"       // reason, ms, usage: the turn ended
	TypeClosed    = "closed"    // the session was closed
	TypeGap       = "gap"       // count: so many events are missing
	TypeFull      = "full"      // nothing more is kept
)

// Event is a line of a timeline. Which fields are set depends on Type.
type Event struct {
	// ID is the offset of the event's end in the file. It is not stored: a
	// reader adds it.
	ID   int64     `json:"id,omitempty"`
	At   time.Time `json:"at"`
	Type string    `json:"type"`

	Message string `json:"message,omitempty"` // groups pieces of a text; of an error, its text
	Text    string `json:"text,omitempty"`
	Agent   string `json:"agent,omitempty"` // the sub-agent
	By      string `json:"by,omitempty"`    // where a person said it; who decided

	Call   string          `json:"call,omitempty"`
	Name   string          `json:"name,omitempty"`
	Args   json.RawMessage `json:"args,omitempty"`
	Server string          `json:"server,omitempty"`
	OK     *bool           `json:"ok,omitempty"`
	Error  string          `json:"error,omitempty"`
	Code   string          `json:"code,omitempty"`
	Remedy string          `json:"remedy,omitempty"`
	MS     int64           `json:"ms,omitempty"`

	Tool     string `json:"tool,omitempty"`
	Verdict  string `json:"verdict,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Rule     string `json:"rule,omitempty"`
	Who      string `json:"who,omitempty"`
	Confined bool   `json:"confined,omitempty"`
	Grant    string `json:"grant,omitempty"`

	Question string `json:"question,omitempty"`
	Lead     string `json:"lead,omitempty"`
	Answer   string `json:"answer,omitempty"`

	Path   string `json:"path,omitempty"`
	Change string `json:"change,omitempty"` // add, edit, delete
	Diff   string `json:"diff,omitempty"`

	Model        string             `json:"model,omitempty"`
	InputTokens  int64              `json:"input_tokens,omitempty"`
	OutputTokens int64              `json:"output_tokens,omitempty"`
	Cost         float64            `json:"cost,omitempty"`
	FirstWord    int64              `json:"first_word_ms,omitempty"`
	Usage        *bridge.Usage      `json:"usage,omitempty"`
	Entries      []bridge.PlanEntry `json:"entries,omitempty"`
	Mode         string             `json:"mode,omitempty"`
	Level        string             `json:"level,omitempty"`
	N            int                `json:"n,omitempty"`
	Count        int                `json:"count,omitempty"`

	// Clipped is how many bytes the whole had, if it is not kept whole.
	Clipped int `json:"clipped,omitempty"`
}

// Most is how much is kept of one text of an event.
const Most = 64 << 10
