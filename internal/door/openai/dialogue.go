package openai

import (
	"errors"
	"fmt"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/door/wire"
)

// conversation splits messages into what stands before the dialogue and the
// dialogue itself.
func conversation(list []chatMessage) (system string, messages []bridge.Message, err error) {
	if len(list) == 0 {
		return "", nil, wire.At("messages", "expected at least one message")
	}
	var head []string
	functions := 0
	for i, m := range list {
		out, err := m.message(fmt.Sprintf("messages[%d]", i), &functions)
		if err != nil {
			return "", nil, err
		}
		if out.Role == bridge.RoleSystem && len(messages) == 0 {
			head = append(head, out.Text)
		} else {
			messages = append(messages, out)
		}
	}
	if len(messages) == 0 {
		// Some clients put all that they have to say into a system message.
		messages = []bridge.Message{{Role: bridge.RoleUser, Text: head[len(head)-1]}}
		head = head[:len(head)-1]
	}
	return strings.Join(head, "\n\n"), messages, checkLast(messages, fmt.Sprintf("messages[%d]", len(list)-1))
}

// message translates one message. Functions counts the function_calls so far,
// which have no ids of their own.
func (m *chatMessage) message(path string, functions *int) (out bridge.Message, err error) {
	if out.Text, out.Attachments, err = m.Content.split(path + ".content"); err != nil {
		return out, err
	}
	switch m.Role {
	case "system", "developer":
		out.Role = bridge.RoleSystem
	case "user":
		out.Role = bridge.RoleUser
	case "assistant":
		out.Role = bridge.RoleAssistant
		if out.Text == "" {
			out.Text = m.Refusal
		}
		if out.Calls, err = m.calls(path, functions); err != nil {
			return out, err
		}
	case "tool":
		if m.ToolCallID == "" {
			return out, wire.At(path+".tool_call_id", "a message of a tool needs the id of the call that it answers")
		}
		out.Role, out.CallID = bridge.RoleTool, m.ToolCallID
	case "function":
		out.Role, out.CallID = bridge.RoleTool, functionID(*functions)
	default:
		return out, wire.At(path+".role", "expected system, developer, user, assistant or tool, got %q", m.Role)
	}
	if len(out.Attachments) > 0 && out.Role != bridge.RoleUser && out.Role != bridge.RoleTool {
		return out, wire.At(path+".content", "only users and tools can send images and files")
	}
	return out, nil
}

// checkLast makes sure that there is something to answer.
func checkLast(messages []bridge.Message, path string) error {
	last := &messages[len(messages)-1]
	switch last.Role {
	case bridge.RoleSystem:
		// An instruction at the end is what the model is to act on now.
		last.Role = bridge.RoleUser
	case bridge.RoleAssistant:
		if len(last.Calls) > 0 {
			return wire.At(path, "the results of its tool calls must follow")
		}
		return wire.At(path, "the last message is the assistant's: there is nothing to answer")
	case bridge.RoleUser, bridge.RoleTool:
	}
	if last.Role == bridge.RoleUser && last.Text == "" && len(last.Attachments) == 0 {
		return wire.At(path+".content", "the last message is empty: there is nothing to answer")
	}
	return nil
}

// calls returns the tool calls of an assistant's message.
func (m *chatMessage) calls(path string, functions *int) ([]bridge.ToolCall, error) {
	var out []bridge.ToolCall
	for i, t := range m.ToolCalls {
		call := bridge.ToolCall{ID: t.ID, Name: t.Function.Name}
		switch t.Type {
		case "", "function":
			call.Args = toolArgs(t.Function.Arguments)
		case "custom":
			call.Name, call.Args = t.Custom.Name, map[string]any{"input": t.Custom.Input}
		default:
			return nil, wire.At(fmt.Sprintf("%s.tool_calls[%d].type", path, i), "expected function, got %q", t.Type)
		}
		if call.ID == "" {
			return nil, wire.At(fmt.Sprintf("%s.tool_calls[%d].id", path, i), "a tool call needs an id")
		}
		if call.Name == "" {
			return nil, wire.At(fmt.Sprintf("%s.tool_calls[%d].function.name", path, i), "a tool call needs the name of its function")
		}
		out = append(out, call)
	}
	if f := m.FunctionCall; f != nil {
		if f.Name == "" {
			return nil, wire.At(path+".function_call.name", "a function call needs the name of its function")
		}
		*functions++
		out = append(out, bridge.ToolCall{ID: functionID(*functions), Name: f.Name, Args: toolArgs(f.Arguments)})
	}
	return out, nil
}

// functionID names the nth function_call of a conversation: the API of that
// time has no ids, and a result answers the call before it.
func functionID(n int) string { return fmt.Sprintf("function_%d", n) }

// split returns the text of a message, its parts in order, one a line, and
// what else it holds, in order.
func (c chatContent) split(path string) (string, []bridge.Attachment, error) {
	if c.parts == nil {
		return c.text, nil, nil
	}
	var texts []string
	var attachments []bridge.Attachment
	for i, p := range c.parts {
		var a bridge.Attachment
		var err error
		at := fmt.Sprintf("%s[%d]", path, i)
		switch p.Type {
		case "text":
			texts = append(texts, p.Text)
			continue
		case "refusal":
			texts = append(texts, p.Refusal)
			continue
		case "image_url":
			at += ".image_url"
			a, err = imageAttachment(string(p.ImageURL), len(attachments)+1)
		case "file":
			at += ".file"
			if p.File.Data == "" {
				err = errors.New("the bridge keeps no files: send the content as file_data")
				break
			}
			a, err = fileAttachment(p.File.Name, p.File.Data, len(attachments)+1)
		case "input_audio":
			err = errors.New("audio is not possible with Copilot")
		default:
			at, err = at+".type", fmt.Errorf("expected text, image_url or file, got %q", p.Type)
		}
		if err != nil {
			return "", nil, wire.At(at, "%s", err)
		}
		attachments = append(attachments, a)
	}
	return strings.Join(texts, "\n"), attachments, nil
}
