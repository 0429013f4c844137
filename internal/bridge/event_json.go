package bridge

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// The names of the events on the wire.
const (
	typeSessionOpened     EventType = "session_opened"
	typeModelCalled       EventType = "model_called"
	typeModelFailed       EventType = "model_failed"
	typeTextDelta         EventType = "text"
	typeReasoningDelta    EventType = "reasoning"
	typeMessageDone       EventType = "message"
	typeMessageRetracted  EventType = "message_retracted"
	typeToolStarted       EventType = "tool_started"
	typeToolProgress      EventType = "tool_progress"
	typeToolFinished      EventType = "tool_finished"
	typeToolRequested     EventType = "tool_requested"
	typePermissionAsked   EventType = "permission_asked"
	typePermissionDecided EventType = "permission_decided"
	typeInputAsked        EventType = "input_asked"
	typeInputAnswered     EventType = "input_answered"
	typePlanChanged       EventType = "plan"
	typeModeChanged       EventType = "mode"
	typeContextMeasured   EventType = "context"
	typeUserSaid          EventType = "prompt"
	typeUsageReported     EventType = "usage"
	typeNotice            EventType = "notice"
	typeFailed            EventType = "error"
	typeTurnEnded         EventType = "turn_ended"
	typeOther             EventType = "other"
)

func (SessionOpened) Type() EventType     { return typeSessionOpened }
func (ModelCalled) Type() EventType       { return typeModelCalled }
func (ModelFailed) Type() EventType       { return typeModelFailed }
func (TextDelta) Type() EventType         { return typeTextDelta }
func (ReasoningDelta) Type() EventType    { return typeReasoningDelta }
func (MessageDone) Type() EventType       { return typeMessageDone }
func (MessageRetracted) Type() EventType  { return typeMessageRetracted }
func (ToolStarted) Type() EventType       { return typeToolStarted }
func (ToolProgress) Type() EventType      { return typeToolProgress }
func (ToolFinished) Type() EventType      { return typeToolFinished }
func (ToolRequested) Type() EventType     { return typeToolRequested }
func (PermissionAsked) Type() EventType   { return typePermissionAsked }
func (PermissionDecided) Type() EventType { return typePermissionDecided }
func (InputAsked) Type() EventType        { return typeInputAsked }
func (InputAnswered) Type() EventType     { return typeInputAnswered }
func (PlanChanged) Type() EventType       { return typePlanChanged }
func (ModeChanged) Type() EventType       { return typeModeChanged }
func (ContextMeasured) Type() EventType   { return typeContextMeasured }
func (UserSaid) Type() EventType          { return typeUserSaid }
func (UsageReported) Type() EventType     { return typeUsageReported }
func (Notice) Type() EventType            { return typeNotice }
func (Failed) Type() EventType            { return typeFailed }
func (TurnEnded) Type() EventType         { return typeTurnEnded }
func (Other) Type() EventType             { return typeOther }

func (SessionOpened) sealed()     {}
func (ModelCalled) sealed()       {}
func (ModelFailed) sealed()       {}
func (TextDelta) sealed()         {}
func (ReasoningDelta) sealed()    {}
func (MessageDone) sealed()       {}
func (MessageRetracted) sealed()  {}
func (ToolStarted) sealed()       {}
func (ToolProgress) sealed()      {}
func (ToolFinished) sealed()      {}
func (ToolRequested) sealed()     {}
func (PermissionAsked) sealed()   {}
func (PermissionDecided) sealed() {}
func (InputAsked) sealed()        {}
func (InputAnswered) sealed()     {}
func (PlanChanged) sealed()       {}
func (ModeChanged) sealed()       {}
func (ContextMeasured) sealed()   {}
func (UserSaid) sealed()          {}
func (UsageReported) sealed()     {}
func (Notice) sealed()            {}
func (Failed) sealed()            {}
func (TurnEnded) sealed()         {}
func (Other) sealed()             {}

// EncodeEvent returns one line of JSON without a line break: the event's
// fields after a "type".
func EncodeEvent(e Event) ([]byte, error) {
	body, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode %s event: %w", e.Type(), err)
	}
	head := append([]byte(`{"type":"`), e.Type()...)
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
	switch head.Type {
	case typeSessionOpened:
		return decode[SessionOpened](b)
	case typeModelCalled:
		return decode[ModelCalled](b)
	case typeModelFailed:
		return decode[ModelFailed](b)
	case typeTextDelta:
		return decode[TextDelta](b)
	case typeReasoningDelta:
		return decode[ReasoningDelta](b)
	case typeMessageDone:
		return decode[MessageDone](b)
	case typeMessageRetracted:
		return decode[MessageRetracted](b)
	case typeToolStarted:
		return decode[ToolStarted](b)
	case typeToolProgress:
		return decode[ToolProgress](b)
	case typeToolFinished:
		return decode[ToolFinished](b)
	case typeToolRequested:
		return decode[ToolRequested](b)
	case typePermissionAsked:
		return decode[PermissionAsked](b)
	case typePermissionDecided:
		return decode[PermissionDecided](b)
	case typeInputAsked:
		return decode[InputAsked](b)
	case typeInputAnswered:
		return decode[InputAnswered](b)
	case typePlanChanged:
		return decode[PlanChanged](b)
	case typeModeChanged:
		return decode[ModeChanged](b)
	case typeContextMeasured:
		return decode[ContextMeasured](b)
	case typeUserSaid:
		return decode[UserSaid](b)
	case typeUsageReported:
		return decode[UsageReported](b)
	case typeNotice:
		return decode[Notice](b)
	case typeFailed:
		return decode[Failed](b)
	case typeTurnEnded:
		return decode[TurnEnded](b)
	case typeOther:
		return decode[Other](b)
	case "":
		return nil, &Error{Code: CodeInvalid, Message: `not an event: it has no "type"`}
	default:
		return Other{Name: string(head.Type), Data: json.RawMessage(bytes.Clone(b))}, nil
	}
}

func decode[T Event](b []byte) (Event, error) {
	var e T
	if err := json.Unmarshal(b, &e); err != nil {
		return nil, &Error{Code: CodeInvalid, Message: fmt.Sprintf("bad %s event", e.Type()), Cause: err}
	}
	return e, nil
}
