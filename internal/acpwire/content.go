package acpwire

import "encoding/json"

// The types of content.
const (
	ContentText         = "text"
	ContentImage        = "image"
	ContentAudio        = "audio"
	ContentResourceLink = "resource_link"
	ContentResource     = "resource"
)

// ContentBlock is a piece of a prompt or of an answer. Which fields count
// depends on Type.
type ContentBlock struct {
	Type        string          `json:"type"`
	Text        string          `json:"text,omitzero"`     // text
	Data        string          `json:"data,omitzero"`     // image, audio: base64
	MIMEType    string          `json:"mimeType,omitzero"` // image, audio, resource_link
	URI         string          `json:"uri,omitzero"`      // image, resource_link
	Name        string          `json:"name,omitzero"`     // resource_link
	Title       string          `json:"title,omitzero"`
	Description string          `json:"description,omitzero"`
	Size        *int64          `json:"size,omitzero"`
	Resource    *Resource       `json:"resource,omitzero"` // resource
	Annotations json.RawMessage `json:"annotations,omitzero"`
}

// Text is a block of text.
func Text(s string) ContentBlock { return ContentBlock{Type: ContentText, Text: s} }

// Resource is content that travels with its address. Text and Blob exclude
// each other.
type Resource struct {
	URI      string  `json:"uri"`
	MIMEType string  `json:"mimeType,omitzero"`
	Text     *string `json:"text,omitzero"`
	Blob     *string `json:"blob,omitzero"` // base64
}

// The types of tool content.
const (
	ToolContentBlock    = "content"
	ToolContentDiff     = "diff"
	ToolContentTerminal = "terminal"
)

// ToolContent is what a tool call shows.
type ToolContent struct {
	Type       string        `json:"type"`
	Content    *ContentBlock `json:"content,omitzero"` // content
	Path       string        `json:"path,omitzero"`    // diff
	OldText    *string       `json:"oldText,omitzero"` // diff; nil for a new file
	NewText    string        `json:"newText,omitzero"` // diff
	TerminalID string        `json:"terminalId,omitzero"`
}

// Location is a place that a tool works on.
type Location struct {
	Path string `json:"path"`
	Line *int   `json:"line,omitzero"`
}

// The kinds and states of tool calls.
const (
	KindRead       = "read"
	KindEdit       = "edit"
	KindDelete     = "delete"
	KindMove       = "move"
	KindSearch     = "search"
	KindExecute    = "execute"
	KindThink      = "think"
	KindFetch      = "fetch"
	KindSwitchMode = "switch_mode"
	KindOther      = "other"

	StatusPending    = "pending"
	StatusInProgress = "in_progress"
	StatusCompleted  = "completed"
	StatusFailed     = "failed"
)

// ToolCall is a tool call, or the changed fields of one. Its Type is
// UpdateToolCall or UpdateToolCallUpdate in an update, "" in a permission
// request.
type ToolCall struct {
	Type       string          `json:"sessionUpdate,omitzero"`
	ToolCallID string          `json:"toolCallId"`
	Title      string          `json:"title,omitzero"`
	Name       string          `json:"name,omitzero"`
	ToolKind   string          `json:"kind,omitzero"`
	Status     string          `json:"status,omitzero"`
	Content    []ToolContent   `json:"content,omitzero"`
	Locations  []Location      `json:"locations,omitzero"`
	RawInput   json.RawMessage `json:"rawInput,omitzero"`
	RawOutput  json.RawMessage `json:"rawOutput,omitzero"`
}

// Kind says which update it is.
func (t *ToolCall) Kind() string { return t.Type }
