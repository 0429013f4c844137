package openai

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
)

// responseHistory turns the items of an input into messages. The assistant's text
// and its calls are separate items.
type responseHistory struct {
	request *responseRequest
	tools   *responseTools

	system   []string
	messages []bridge.Message
	previous string // the answer that the last reference belongs to
	skip     bool   // what follows a reference is part of that answer
	dialogue bool   // something else than a system message has come
}

func at(i int) string { return fmt.Sprintf("input[%d]", i) }

// read goes through the input.
func (h *responseHistory) read() error {
	in := h.request.Input
	if in.items == nil {
		if in.text == "" {
			return wire.At("input", "is empty: there is nothing to answer")
		}
		h.messages = []bridge.Message{{Role: bridge.RoleUser, Text: in.text}}
		return nil
	}
	for i := range in.items {
		if err := h.item(at(i), &in.items[i]); err != nil {
			return err
		}
	}
	if len(h.messages) == 0 && len(h.system) > 0 && !h.dialogue {
		// Some clients put all that they have to say into a system message.
		last := len(h.system) - 1
		h.messages = []bridge.Message{{Role: bridge.RoleUser, Text: h.system[last]}}
		h.system = h.system[:last]
	}
	if len(h.messages) == 0 {
		return wire.At("input", "there is nothing to answer: it must end with a message of the user's or with what a tool returned")
	}
	return checkLast(h.messages, at(len(in.items)-1))
}

func (h *responseHistory) item(path string, it *responseItem) error {
	switch kind := it.kind(); kind {
	case "message", "agent_message":
		return h.message(path, kind, it)
	case "function_call", "custom_tool_call", "tool_search_call", "local_shell_call", "shell_call", "apply_patch_call":
		return h.call(path, kind, it)
	case "function_call_output", "custom_tool_call_output", "tool_search_output",
		"local_shell_call_output", "shell_call_output", "apply_patch_call_output":
		return h.result(path, kind, it)
	case "item_reference":
		return h.reference(path, it)
	case "additional_tools": // read before
	case "reasoning", "configuration_update",
		"web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call",
		"computer_call", "computer_call_output", "program", "program_output",
		"mcp_list_tools", "mcp_call", "mcp_approval_request", "mcp_approval_response":
		// Thoughts, hints and OpenAI's own tools: the answer follows.
	case "compaction", "compaction_summary", "context_compaction", "compaction_trigger":
		return wire.At(path+".type", "%s: only OpenAI can compress a conversation this way, and read it again. Let the client summarize it itself, or send the whole history", kind)
	case "":
		return wire.At(path+".type", "is required")
	default:
		return wire.At(path+".type", "%q is not a kind of item that the bridge knows", kind)
	}
	return nil
}

func (h *responseHistory) message(path, kind string, it *responseItem) (err error) {
	m := bridge.Message{Role: bridge.RoleUser}
	if m.Text, m.Attachments, err = responseContent(path+".content", it.Content); err != nil {
		return err
	}
	switch it.Role {
	case "assistant":
		m.Role = bridge.RoleAssistant
	case "system", "developer":
		m.Role = bridge.RoleSystem
	case "user":
	default:
		if kind == "message" {
			return wire.At(path+".role", "expected user, assistant, system or developer, got %q", it.Role)
		}
	}
	if kind == "agent_message" {
		// The model reads other agents of the client as the user.
		m.Role = bridge.RoleUser
		if it.Author != "" {
			m.Text = "[" + it.Author + "]\n" + m.Text
		}
	}
	if err := checkAttachments(path, m); err != nil {
		return err
	}
	switch {
	case m.Role == bridge.RoleSystem && !h.dialogue:
		h.system = append(h.system, m.Text)
	case m.Role != bridge.RoleAssistant:
		h.add(m)
	default:
		if to := h.assistant(); to != nil {
			if to.Text != "" && m.Text != "" {
				to.Text += between
			}
			to.Text += m.Text
		}
	}
	return nil
}

func responseContent(path string, data json.RawMessage) (string, []bridge.Attachment, error) {
	var c content
	if err := raw(path, data, &c); err != nil {
		return "", nil, err
	}
	return c.split(path)
}

// add appends a message that is not the assistant's.
func (h *responseHistory) add(m bridge.Message) {
	h.dialogue, h.skip = true, false
	h.messages = append(h.messages, m)
}

// assistant is the message for an assistant's item; nil if it is known already.
func (h *responseHistory) assistant() *bridge.Message {
	h.dialogue = true
	if h.skip {
		return nil
	}
	if n := len(h.messages); n == 0 || h.messages[n-1].Role != bridge.RoleAssistant {
		h.messages = append(h.messages, bridge.Message{Role: bridge.RoleAssistant})
	}
	return &h.messages[len(h.messages)-1]
}

func (h *responseHistory) call(path, kind string, it *responseItem) error {
	call := bridge.ToolCall{ID: cmp.Or(it.CallID, it.ID)}
	if call.ID == "" {
		return wire.At(path+".call_id", "is required")
	}
	var err error
	switch kind {
	case "function_call":
		var args arguments
		err = raw(path+".arguments", it.Arguments, &args)
		call.Args = toolArgs(args)
	case "custom_tool_call":
		var input string
		err = raw(path+".input", it.Input, &input)
		call.Args = map[string]any{"input": input}
	case "tool_search_call":
		it.Name = "tool_search"
		err = raw(path+".arguments", it.Arguments, &call.Args)
	default:
		it.Name = strings.TrimSuffix(kind, "_call")
		body := it.Action
		if kind == "apply_patch_call" {
			body = it.Operation
		}
		err = raw(path, body, &call.Args)
	}
	if err != nil {
		return err
	}
	if it.Name == "" {
		return wire.At(path+".name", "is required")
	}
	call.Name = h.tools.flat(toolName{it.Namespace, it.Name})
	if to := h.assistant(); to != nil {
		to.Calls = append(to.Calls, call)
	}
	return nil
}

// raw reads a field that may be missing.
func raw(path string, data json.RawMessage, v any) error {
	if !given(data) {
		return nil
	}
	if err := wire.Unmarshal(data, v); err != nil {
		return wire.Within(path, err)
	}
	return nil
}

func (h *responseHistory) result(path, kind string, it *responseItem) error {
	m := bridge.Message{
		Role: bridge.RoleTool, CallID: it.CallID,
		Failed: it.Status == "incomplete" || it.Status == "failed",
	}
	if kind == "local_shell_call_output" {
		m.CallID = cmp.Or(it.CallID, it.ID) // its id is the call's
	}
	var err error
	switch {
	case kind == "tool_search_output" && it.CallID == "":
		return nil // OpenAI's own search: there was no call
	case kind == "tool_search_output":
		m.Text = h.found(it.Tools)
	case kind == "shell_call_output" && wire.KindOf(it.Output) == wire.Array:
		m.Text = string(it.Output) // of each command: the model reads JSON
	default:
		m.Text, m.Attachments, err = responseContent(path+".output", it.Output)
	}
	if err != nil {
		return err
	}
	if m.CallID == "" {
		return wire.At(path+".call_id", "is required: the id of the call that it answers")
	}
	h.add(m)
	return nil
}

// found tells the model under which names it can call what a search brought.
func (h *responseHistory) found(list json.RawMessage) string {
	only := newResponseTools()
	if err := only.declare("", "", list); err != nil || len(only.specs) == 0 {
		return "No tools were found."
	}
	names := make([]string, 0, len(only.specs))
	for _, spec := range only.specs {
		names = append(names, h.tools.flat(only.calls[spec.Name].toolName))
	}
	return "These tools can be called now: " + strings.Join(names, ", ")
}

// reference names an item of an earlier answer, which is kept. The conversation
// continues from it, so the input before the reference is known already.
func (h *responseHistory) reference(path string, it *responseItem) error {
	h.dialogue = true
	if h.request.PreviousResponseID != "" {
		return nil // the client says itself where to go on
	}
	id, ok := responseOf(it.ID)
	if !ok {
		return wire.At(path+".id", "there is no item %q here: send the item itself", it.ID)
	}
	h.previous, h.messages, h.skip = id, nil, true
	return nil
}
