package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/door/wire"
)

// responsePart is a part of a message's content, or of a tool's output.
type responsePart struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Refusal  string `json:"refusal"`
	ImageURL string `json:"image_url"`
	FileData string `json:"file_data"`
	FileName string `json:"filename"`
}

// responseContent reads a text or a list of parts. The texts come one a line,
// as in chat completions, so that both doors understand a message alike.
func responseContent(path string, raw json.RawMessage) (string, []bridge.Attachment, error) {
	switch wire.KindOf(raw) {
	case wire.Invalid, wire.Null:
		return "", nil, nil
	case wire.String:
		var text string
		if err := wire.Unmarshal(raw, &text); err != nil {
			return "", nil, wire.Within(path, err)
		}
		return text, nil, nil
	case wire.Array:
	case wire.Bool, wire.Number, wire.Object:
		return "", nil, wire.Within(path, wire.Expected(raw, "a string or an array"))
	}
	var parts []responsePart
	if err := wire.Unmarshal(raw, &parts); err != nil {
		return "", nil, wire.Within(path, err)
	}
	var texts []string
	var attachments []bridge.Attachment
	for i, p := range parts {
		switch p.Type {
		case "input_text", "output_text", "text", "summary_text":
			texts = append(texts, p.Text)
			continue
		case "refusal":
			texts = append(texts, p.Refusal)
			continue
		case "encrypted_content":
			continue // for OpenAI's eyes only
		}
		a, err := p.attachment(fmt.Sprintf("%s[%d]", path, i), len(attachments)+1)
		if err != nil {
			return "", nil, err
		}
		attachments = append(attachments, a)
	}
	return strings.Join(texts, "\n"), attachments, nil
}

func (p responsePart) attachment(path string, number int) (a bridge.Attachment, err error) {
	switch p.Type {
	case "input_image":
		path += ".image_url"
		if p.ImageURL == "" {
			err = errors.New("the bridge keeps no files: send the image itself as a data: URL")
		} else {
			a, err = imageAttachment(p.ImageURL, number)
		}
		if err != nil {
			// Codex knows an image that was refused by this code, and goes on
			// without it.
			return a, &named{err: wire.At(path, "%s", err), code: "invalid_value"}
		}
		return a, nil
	case "input_file":
		path += ".file_data"
		if p.FileData == "" {
			err = errors.New("the bridge keeps no files and fetches none: send the content as file_data")
		} else {
			a, err = fileAttachment(p.FileName, p.FileData, number)
		}
	case "input_audio":
		err = errors.New("audio is not possible with Copilot")
	default:
		path, err = path+".type", fmt.Errorf("expected input_text, output_text, refusal, input_image or input_file, got %q", p.Type)
	}
	if err != nil {
		return a, wire.At(path, "%s", err)
	}
	return a, nil
}
