package anthropic

import (
	"bytes"
	"image"
	_ "image/gif" // for DecodeConfig
	_ "image/jpeg"
	_ "image/png"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// What things cost besides their text, in tokens: round numbers, since models
// differ.
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
		size, _, err := image.DecodeConfig(bytes.NewReader(a.Data))
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

// The averages of textTokens, in hundredths of a token. They were fitted to prose
// in a dozen languages and to source code, between OpenAI's o200k_base and
// Anthropic's published tokenizer. The two are 5 to 20 % apart in English and in
// code, 35 % in Chinese, and nearly twofold in Korean and Russian.
const (
	blankCost  = 100 // a run of spaces, or a new line and its indentation
	markCost   = 70  // a punctuation mark; many come in pairs
	hanCost    = 75
	kanaCost   = 78
	hangulCost = 88
	rareCost   = 130 // a symbol
	emojiCost  = 250 // beyond the first plane
)

func wordCost(letters int) int64    { return 100 + 16*int64(max(0, letters-5)) }
func foreignCost(letters int) int64 { return 55 + 28*int64(letters) }
func numberCost(digits int) int64   { return 60 + 35*int64(digits) }

// textTokens estimates the tokens of a text, word by word, by the average cost of
// words of that length.
func textTokens(s string) int64 {
	var cost int64
	for i := 0; i < len(s); {
		start := i
		switch c := s[i]; {
		case letter(c):
			for i++; i < len(s) && letter(s[i]) && (s[i] >= 'a' || s[i-1] < 'a'); {
				i++ // up to a capital letter after a small one
			}
			if i == len(s) || s[i] < utf8.RuneSelf {
				cost += wordCost(i - start)
				continue
			}
			i = wordEnd(s, i)
			cost += foreignCost(utf8.RuneCountInString(s[start:i]))
		case digit(c):
			for i++; i < len(s) && digit(s[i]); {
				i++
			}
			cost += numberCost(i - start)
		case c <= ' ':
			for i++; i < len(s) && s[i] <= ' '; {
				i++
			}
			if c != ' ' || i-start > 1 {
				cost += blankCost
			} // a single space is part of the word after it
		case c < utf8.RuneSelf:
			i++
			cost += markCost
		default:
			i = wordEnd(s, i)
			if i > start {
				cost += foreignCost(utf8.RuneCountInString(s[start:i]))
				continue
			}
			r, size := utf8.DecodeRuneInString(s[i:])
			i += size
			cost += runeCost(r)
		}
	}
	return (cost + 99) / 100
}

func letter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
func digit(c byte) bool  { return '0' <= c && c <= '9' }

// wordEnd is the end of the word at s[i], in a script with spaces, or i.
func wordEnd(s string, i int) int {
	for i < len(s) {
		r, size := utf8.DecodeRuneInString(s[i:])
		if r >= firstWide || !unicode.IsLetter(r) && !unicode.IsMark(r) {
			break
		}
		i += size
	}
	return i
}

// firstWide begins the scripts of East Asia.
const firstWide = 0x2E80

func runeCost(r rune) int64 {
	switch {
	case r > 0xFFFF:
		return emojiCost
	case unicode.Is(unicode.Han, r):
		return hanCost
	case 0xAC00 <= r && r <= 0xD7A3:
		return hangulCost
	case 0x3000 <= r && r <= 0x30FF, 0xFF00 <= r && r <= 0xFFEF:
		return kanaCost // and punctuation
	default:
		return rareCost
	}
}
