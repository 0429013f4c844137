package anthropic

import (
	"bytes"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// What things cost besides their text, in tokens. They are round numbers on
// purpose: models differ by more than these are off.
const (
	perMessage     = 4
	perTool        = 8
	perCall        = 8
	pixelsPerToken = 750 // of an image, as Anthropic counts
	maxImage       = 1600
	perPage        = 2000 // of a PDF, which models get as text and as a picture
)

// promptTokens estimates how many tokens a request has for the model.
func promptTokens(c *bridge.Chat) int64 {
	n := textTokens(c.System)
	for i := range c.Messages {
		m := &c.Messages[i]
		n += perMessage + textTokens(m.Text)
		for j := range m.Calls {
			n += perCall + textTokens(m.Calls[j].Name) + valueTokens(m.Calls[j].Args)
		}
		for j := range m.Attachments {
			n += attachmentTokens(&m.Attachments[j])
		}
	}
	for i := range c.Tools {
		t := &c.Tools[i]
		n += perTool + textTokens(t.Name) + textTokens(t.Description) + valueTokens(t.Schema)
	}
	return n
}

// valueTokens estimates JSON, as decoded by encoding/json.
func valueTokens(v any) int64 {
	switch v := v.(type) {
	case string:
		return 1 + textTokens(v)
	case map[string]any:
		n := int64(1)
		for key, value := range v {
			n += 2 + textTokens(key) + valueTokens(value)
		}
		return n
	case []any:
		n := int64(1)
		for _, value := range v {
			n += 1 + valueTokens(value)
		}
		return n
	default:
		return 1
	}
}

func attachmentTokens(a *bridge.Attachment) int64 {
	switch {
	case strings.HasPrefix(a.MIME, "image/"):
		size, err := imageSize(a)
		if err != nil {
			return maxImage
		}
		return min(maxImage, 1+int64(size.Width)*int64(size.Height)/pixelsPerToken)
	case a.MIME == "application/pdf":
		pages := bytes.Count(a.Data, []byte("/Type /Page")) + bytes.Count(a.Data, []byte("/Type/Page")) -
			bytes.Count(a.Data, []byte("/Type /Pages")) - bytes.Count(a.Data, []byte("/Type/Pages"))
		return perPage * int64(max(1, pages))
	case strings.HasPrefix(a.MIME, "text/"):
		return textTokens(string(a.Data))
	default:
		return int64(len(a.Data)+3) / 4
	}
}

func imageSize(a *bridge.Attachment) (image.Config, error) {
	data := bytes.NewReader(a.Data)
	switch a.MIME {
	case "image/png":
		return png.DecodeConfig(data)
	case "image/jpeg":
		return jpeg.DecodeConfig(data)
	case "image/gif":
		return gif.DecodeConfig(data)
	default:
		return image.Config{}, image.ErrFormat
	}
}
