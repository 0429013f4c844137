package openai

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/door/wire"
)

// responseHistory turns the items of an input into the messages of a
// conversation. Items are finer than messages: what the assistant said and the
// calls that it made with it are items of their own.
type responseHistory struct {
	request *responseRequest
	tools   *responseTools

	system   []string
	messages []bridge.Message
	previous string          // the answer that the last reference belongs to
	skip     bool            // what follows a reference is part of that answer
	dialogue bool            // something else than a system message has come
	called   map[string]bool // the ids of the calls so far
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
	h.called = map[string]bool{}
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
	case "message":
		return h.message(path, it)
	case "agent_message":
		return h.agentMessage(path, it)
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
		// Thoughts of another answer, hints, and what OpenAI's own tools did:
		// the answer that came of it follows.
	case "compaction", "compaction_summary", "context_compaction", "compaction_trigger":
		return wire.At(path+".type", "%s: only OpenAI can compress a conversation this way, and read it again. Let the client summarize it itself, or send the whole history", kind)
	case "":
		return wire.At(path+".type", "is required")
	default:
		return wire.At(path+".type", "%q is not a kind of item that the bridge knows", kind)
	}
	return nil
}

func (h *responseHistory) message(path string, it *responseItem) error {
	text, attachments, err := responseContent(path+".content", it.Content)
	if err != nil {
		return err
	}
	role := bridge.RoleUser
	switch it.Role {
	case "user":
	case "assistant":
		role = bridge.RoleAssistant
	case "system", "developer":
		if !h.dialogue {
			h.system = append(h.system, text)
			return noAttachments(path, attachments)
		}
		role = bridge.RoleSystem
	default:
		return wire.At(path+".role", "expected user, assistant, system or developer, got %q", it.Role)
	}
	if role != bridge.RoleUser {
		if err := noAttachments(path, attachments); err != nil {
			return err
		}
	}
	if role == bridge.RoleAssistant {
		if to := h.assistant(); to != nil {
			if to.Text != "" && text != "" {
				to.Text += between
			}
			to.Text += text
		}
		return nil
	}
	h.add(bridge.Message{Role: role, Text: text, Attachments: attachments})
	return nil
}

func noAttachments(path string, list []bridge.Attachment) error {
	if len(list) == 0 {
		return nil
	}
	return wire.At(path+".content", "only users and tools can send images and files")
}

// agentMessage is what one of a client's own agents said to another, which the
// model must read as it reads the user.
func (h *responseHistory) agentMessage(path string, it *responseItem) error {
	text, attachments, err := responseContent(path+".content", it.Content)
	if err != nil {
		return err
	}
	if it.Author != "" {
		text = "[" + it.Author + "]\n" + text
	}
	h.add(bridge.Message{Role: bridge.RoleUser, Text: text, Attachments: attachments})
	return nil
}

// add appends a message that is not the assistant's.
func (h *responseHistory) add(m bridge.Message) {
	h.dialogue, h.skip = true, false
	h.messages = append(h.messages, m)
}

// assistant is the message that an assistant's item belongs to, or nil if it
// is known from the answer that is referred to.
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
	call := bridge.ToolCall{ID: firstOf(it.CallID, it.ID)}
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
	h.called[call.ID] = true
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
		Role: bridge.RoleTool, CallID: firstOf(it.CallID, it.ID),
		Failed: it.Status == "incomplete" || it.Status == "failed",
	}
	if kind == "tool_search_output" {
		if it.CallID == "" {
			return nil // OpenAI's own search: there was no call
		}
		m.Text = h.found(it.Tools)
	} else {
		var err error
		if m.Text, m.Attachments, err = responseResult(path+".output", kind, it.Output); err != nil {
			return err
		}
	}
	switch {
	case m.CallID == "":
		return wire.At(path+".call_id", "is required")
	case !h.called[m.CallID] && h.previous == "" && h.request.PreviousResponseID == "":
		return wire.At(path+".call_id", "there is no call %q before it in the input", m.CallID)
	}
	h.add(m)
	return nil
}

// responseResult is what a tool returned.
func responseResult(path, kind string, output json.RawMessage) (string, []bridge.Attachment, error) {
	if kind == "shell_call_output" && wire.KindOf(output) == wire.Array {
		return string(output), nil, nil // of each command: the model reads JSON
	}
	return responseContent(path, output)
}

// found tells the model under which names it can call what a search brought.
func (h *responseHistory) found(list json.RawMessage) string {
	only := &responseTools{calls: map[string]responseTool{}, names: map[toolName]string{}}
	if err := only.declare("", list); err != nil || len(only.specs) == 0 {
		return "No tools were found."
	}
	names := make([]string, 0, len(only.specs))
	for _, spec := range only.specs {
		names = append(names, h.tools.flat(only.calls[spec.Name].toolName))
	}
	return "These tools can be called now: " + strings.Join(names, ", ")
}

// reference names an item of an earlier answer. The door keeps no answers, but
// its ids say to which one they belong, and that one is kept with all that
// came before it; so the conversation goes on from there, and what the input
// holds up to this place is known already.
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
