package openai

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
)

// conversation splits messages into instructions and the dialogue.
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

// message translates one message. Functions counts the function_calls so far.
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
		if *functions == 0 {
			return out, wire.At(path+".role", "a message of a function needs a function_call before it")
		}
		out.Role, out.CallID = bridge.RoleTool, functionID(*functions)
	default:
		return out, wire.At(path+".role", "expected system, developer, user, assistant or tool, got %q", m.Role)
	}
	return out, checkAttachments(path, out)
}

func checkAttachments(path string, m bridge.Message) error {
	if len(m.Attachments) == 0 || m.Role == bridge.RoleUser || m.Role == bridge.RoleTool {
		return nil
	}
	return wire.At(path+".content", "only users and tools can send images and files")
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

// functionID names the nth function_call, which has no id in the API.
func functionID(n int) string { return fmt.Sprintf("function_%d", n) }

// content is a string, a list of parts, or null.
type content struct {
	text  string
	parts []part
}

// UnmarshalJSONFrom reads each form.
func (c *content) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	return wire.Forms{String: &c.text, Array: &c.parts}.Decode(dec)
}

// part is a part of a content. Its type tells which fields count; responses have
// input_text, input_image and input_file.
type part struct {
	Type     string   `json:"type"`
	Text     string   `json:"text"`
	Refusal  string   `json:"refusal"`
	ImageURL imageURL `json:"image_url"`
	File     file     `json:"file"`
	file
}

type file struct {
	Data string `json:"file_data"`
	Name string `json:"filename"`
}

// imageURL is a URL, or an object with one in chat completions.
type imageURL string

// UnmarshalJSONFrom reads either form.
func (u *imageURL) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	var object struct {
		URL string `json:"url"`
	}
	err := wire.Forms{String: (*string)(u), Object: &object}.Decode(dec)
	if object.URL != "" {
		*u = imageURL(object.URL)
	}
	return err
}

// split returns the text of a content, one part a line, and its attachments.
func (c content) split(path string) (string, []bridge.Attachment, error) {
	texts := []string{c.text}
	var attachments []bridge.Attachment
	if c.parts != nil {
		texts = nil
	}
	for i, p := range c.parts {
		switch p.Type {
		case "text", "input_text", "output_text", "summary_text":
			texts = append(texts, p.Text)
		case "refusal":
			texts = append(texts, p.Refusal)
		case "encrypted_content": // only OpenAI can read it
		default:
			a, err := p.attachment(fmt.Sprintf("%s[%d]", path, i), len(attachments)+1)
			if err != nil {
				return "", nil, err
			}
			attachments = append(attachments, a)
		}
	}
	return strings.Join(texts, "\n"), attachments, nil
}

// attachment returns an image or a file.
func (p part) attachment(path string, number int) (a bridge.Attachment, err error) {
	switch p.Type {
	case "image_url", "input_image":
		path += ".image_url"
		if a, err = imageAttachment(string(p.ImageURL), number); err != nil && p.Type == "input_image" {
			// Codex leaves out an image that is refused with this code.
			return a, &named{err: wire.At(path, "%s", err), code: "invalid_value"}
		}
	case "file":
		path += ".file"
		a, err = fileAttachment(p.File, number)
	case "input_file":
		path += ".file_data"
		a, err = fileAttachment(p.file, number)
	case "input_audio":
		err = errors.New("audio is not possible with Copilot")
	default:
		path += ".type"
		err = fmt.Errorf("expected a text, a refusal, an image or a file, got %q", p.Type)
	}
	if err != nil {
		return a, wire.At(path, "%s", err)
	}
	return a, nil
}

// imageAttachment reads a data: URL. The bridge fetches nothing for its clients.
func imageAttachment(address string, number int) (bridge.Attachment, error) {
	scheme, _, _ := strings.Cut(address, ":")
	if strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https") {
		return bridge.Attachment{}, errors.New("the bridge does not fetch images for its clients: send the image itself as a data: URL (data:image/png;base64,…)")
	}
	if address == "" {
		return bridge.Attachment{}, errors.New("the bridge keeps no files: send the image itself as a data: URL")
	}
	kind, data, err := dataURL(address)
	if err != nil {
		return bridge.Attachment{}, err
	}
	format, isImage := strings.CutPrefix(kind, "image/")
	if !isImage {
		return bridge.Attachment{}, fmt.Errorf("expected an image, got %q", kind)
	}
	format, _, _ = strings.Cut(format, "+") // svg+xml
	return bridge.Attachment{Name: fmt.Sprintf("image-%d.%s", number, format), Data: data, MIME: kind}, nil
}

// fileAttachment reads a file, which is a data: URL or bare base64.
func fileAttachment(f file, number int) (a bridge.Attachment, err error) {
	switch {
	case f.Data == "":
		return a, errors.New("the bridge keeps no files and fetches none: send the content as file_data")
	case strings.HasPrefix(f.Data, "data:"):
		a.MIME, a.Data, err = dataURL(f.Data)
	default:
		if a.Data, err = wire.DecodeBase64(f.Data); err == nil {
			a.MIME, _, _ = mime.ParseMediaType(http.DetectContentType(a.Data))
		}
	}
	if a.Name = wire.BaseName(f.Name); a.Name == "" {
		a.Name = fmt.Sprintf("file-%d", number)
	}
	return a, err
}

// dataURL takes a data: URL apart.
func dataURL(s string) (kind string, data []byte, err error) {
	rest, ok := strings.CutPrefix(s, "data:")
	head, body, comma := strings.Cut(rest, ",")
	if !ok || !comma {
		return "", nil, errors.New("expected a data: URL (data:TYPE;base64,…)")
	}
	media, is64 := strings.CutSuffix(head, ";base64")
	if media == "" || strings.HasPrefix(media, ";") {
		media = "text/plain" + media
	}
	if kind, _, err = mime.ParseMediaType(media); err != nil {
		return "", nil, errors.New("the data: URL has no proper media type")
	}
	if is64 {
		data, err = wire.DecodeBase64(body)
		return kind, data, err
	}
	plain, err := url.PathUnescape(body)
	if err != nil {
		return "", nil, errors.New("the data: URL has a broken escape")
	}
	if plain == "" {
		return "", nil, errors.New("there is no data in it")
	}
	return kind, []byte(plain), nil
}
