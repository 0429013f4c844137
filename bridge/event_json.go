package bridge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
)

// TypeOf returns the event's name on the wire.
func TypeOf(e Event) EventType { return e.eventType() }

func (SessionOpened) eventType() EventType     { return "session_opened" }
func (ModelCalled) eventType() EventType       { return "model_called" }
func (ModelFailed) eventType() EventType       { return "model_failed" }
func (TextDelta) eventType() EventType         { return "text" }
func (ReasoningDelta) eventType() EventType    { return "reasoning" }
func (MessageDone) eventType() EventType       { return "message" }
func (MessageRetracted) eventType() EventType  { return "message_retracted" }
func (ToolStarted) eventType() EventType       { return "tool_started" }
func (ToolProgress) eventType() EventType      { return "tool_progress" }
func (ToolFinished) eventType() EventType      { return "tool_finished" }
func (ToolRequested) eventType() EventType     { return "tool_requested" }
func (PermissionAsked) eventType() EventType   { return "permission_asked" }
func (PermissionDecided) eventType() EventType { return "permission_decided" }
func (InputAsked) eventType() EventType        { return "input_asked" }
func (InputAnswered) eventType() EventType     { return "input_answered" }
func (PlanChanged) eventType() EventType       { return "plan" }
func (ModeChanged) eventType() EventType       { return "mode" }
func (ContextMeasured) eventType() EventType   { return "context" }
func (UserSaid) eventType() EventType          { return "prompt" }
func (UsageReported) eventType() EventType     { return "usage" }
func (Notice) eventType() EventType            { return "notice" }
func (Failed) eventType() EventType            { return "error" }
func (TurnEnded) eventType() EventType         { return "turn_ended" }
func (Other) eventType() EventType             { return "other" }

// EncodeEvent returns one line of JSON without a line break: the event's
// fields after a "type".
func EncodeEvent(e Event) ([]byte, error) {
	body, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode %s event: %w", TypeOf(e), err)
	}
	head := append([]byte(`{"type":"`), TypeOf(e)...)
	head = append(head, '"')
	if !bytes.Equal(body, []byte("{}")) {
		head = append(head, ',')
	}
	return append(head, body[1:]...), nil
}

// DecodeEvent reads what EncodeEvent wrote. A type that this version does not
// know becomes Other with everything in Data.
func DecodeEvent(b []byte) (Event, error) {
	var head struct {
		Type EventType `json:"type"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return nil, &Error{Code: CodeInvalid, Message: "not an event", Cause: err}
	}
	if head.Type == "" {
		return nil, &Error{Code: CodeInvalid, Message: `not an event: it has no "type"`}
	}
	if decode, known := decoders()[head.Type]; known {
		return decode(b)
	}
	return Other{Name: string(head.Type), Data: json.RawMessage(bytes.Clone(b))}, nil
}

// decoders read each type of event, by its name.
var decoders = sync.OnceValue(func() map[EventType]func([]byte) (Event, error) {
	all := map[EventType]func([]byte) (Event, error){}
	add[SessionOpened](all)
	add[ModelCalled](all)
	add[ModelFailed](all)
	add[TextDelta](all)
	add[ReasoningDelta](all)
	add[MessageDone](all)
	add[MessageRetracted](all)
	add[ToolStarted](all)
	add[ToolProgress](all)
	add[ToolFinished](all)
	add[ToolRequested](all)
	add[PermissionAsked](all)
	add[PermissionDecided](all)
	add[InputAsked](all)
	add[InputAnswered](all)
	add[PlanChanged](all)
	add[ModeChanged](all)
	add[ContextMeasured](all)
	add[UserSaid](all)
	add[UsageReported](all)
	add[Notice](all)
	add[Failed](all)
	add[TurnEnded](all)
	add[Other](all)
	return all
})

func add[T Event](all map[EventType]func([]byte) (Event, error)) {
	var e T
	all[e.eventType()] = decode[T]
}

func decode[T Event](b []byte) (Event, error) {
	var e T
	if err := json.Unmarshal(b, &e); err != nil {
		return nil, &Error{Code: CodeInvalid, Message: fmt.Sprintf("bad %s event", TypeOf(e)), Cause: err}
	}
	return e, nil
}
