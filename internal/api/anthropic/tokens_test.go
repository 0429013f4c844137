package anthropic

import (
	"bytes"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// TestTextTokens compares with what real tokenizers counted in
// testdata/tokens: OpenAI's o200k_base and the one that Anthropic published.
func TestTextTokens(t *testing.T) {
	for _, test := range []struct {
		file            string
		openai, claude  float64
		within, between float64 // of OpenAI's count, of the middle of both
	}{
		{"english.txt", 223, 230, 0.25, 0.25},
		{"code.txt", 438, 534, 0.25, 0.25},
		{"json.txt", 200, 205, 0.25, 0.25},
		{"chinese.txt", 172, 236, 0.25, 0.25},
		{"japanese.txt", 209, 276, 0.25, 0.25},
		{"korean.txt", 176, 321, 0.25, 0.25},
		{"german.txt", 103, 142, 0.25, 0.25},
		{"russian.txt", 91, 192, 0.60, 0.25}, // the two have least in common here
	} {
		text, err := os.ReadFile(filepath.Join("testdata", "tokens", test.file))
		if err != nil {
			t.Fatal(err)
		}
		got := float64(textTokens(string(text)))
		middle := math.Sqrt(test.openai * test.claude)
		if off := got/test.openai - 1; math.Abs(off) > test.within {
			t.Errorf("%s: %.0f tokens instead of %.0f, %+.0f %%", test.file, got, test.openai, off*100)
		}
		if off := got/middle - 1; math.Abs(off) > test.between {
			t.Errorf("%s: %.0f tokens instead of %.0f, %+.0f %%", test.file, got, middle, off*100)
		}
	}
	for text, want := range map[string]int64{"": 0, "a": 1, " ": 0, "foo": 1, "\n": 1, "1234": 2, "\xff\xfe": 3, "😀": 3} {
		if got := textTokens(text); got != want {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	}
}

func TestPromptTokens(t *testing.T) {
	picture := image.NewGray(image.Rect(0, 0, 600, 500))
	var asPNG, asJPEG, asGIF bytes.Buffer
	if err := png.Encode(&asPNG, picture); err != nil {
		t.Fatal(err)
	}
	if err := jpeg.Encode(&asJPEG, picture, nil); err != nil {
		t.Fatal(err)
	}
	if err := gif.Encode(&asGIF, picture, nil); err != nil {
		t.Fatal(err)
	}
	attached := func(mime string, data []byte) bridge.Message {
		return bridge.Message{Attachments: []bridge.Attachment{{MIME: mime, Data: data}}}
	}
	for name, test := range map[string]struct {
		chat bridge.Chat
		want int64
	}{
		"nothing":      {bridge.Chat{}, 0},
		"system":       {bridge.Chat{System: "be brief"}, 2},
		"a message":    {bridge.Chat{Messages: []bridge.Message{{Text: "be brief"}}}, perMessage + 2},
		"a PNG":        {bridge.Chat{Messages: []bridge.Message{attached("image/png", asPNG.Bytes())}}, perMessage + 401},
		"a JPEG":       {bridge.Chat{Messages: []bridge.Message{attached("image/jpeg", asJPEG.Bytes())}}, perMessage + 401},
		"a GIF":        {bridge.Chat{Messages: []bridge.Message{attached("image/gif", asGIF.Bytes())}}, perMessage + 401},
		"a WebP":       {bridge.Chat{Messages: []bridge.Message{attached("image/webp", []byte("RIFF"))}}, perMessage + maxImage},
		"a broken PNG": {bridge.Chat{Messages: []bridge.Message{attached("image/png", []byte("x"))}}, perMessage + maxImage},
		"two pages":    {bridge.Chat{Messages: []bridge.Message{attached("application/pdf", []byte("/Type /Pages /Type /Page /Type/Page"))}}, perMessage + 2*perPage},
		"a text file":  {bridge.Chat{Messages: []bridge.Message{attached("text/plain", []byte("be brief"))}}, perMessage + 2},
		"bytes":        {bridge.Chat{Messages: []bridge.Message{attached("application/zip", make([]byte, 400))}}, perMessage + 100},
		"a call": {bridge.Chat{Messages: []bridge.Message{{Calls: []bridge.ToolCall{{Name: "run", Args: map[string]any{"command": "go test", "list": []any{true, 1.5, nil}}}}}}},
			perMessage + perCall + 1 + 1 + 2 + 2 + 1 + 2 + 2 + 1 + 1 + 6},
		"a tool": {bridge.Chat{Tools: []bridge.ToolSpec{{Name: "run", Description: "Runs it", Schema: map[string]any{"type": "object"}}}},
			perTool + 1 + 2 + 1 + 2 + 1 + 1 + 2},
	} {
		if got := promptTokens(&test.chat); got != test.want {
			t.Errorf("%s: got %d, want %d", name, got, test.want)
		}
	}
}

// FuzzTextTokens shows that a text never has more tokens than it can have.
func FuzzTextTokens(f *testing.F) {
	f.Add("plain words, 12345 and\n\tcode()")
	f.Add("混ざった text と émigré \xff 😀")
	f.Fuzz(func(t *testing.T, text string) {
		n := textTokens(text)
		if n < 0 || n > 2*int64(len(text)) || n == 0 && strings.TrimSpace(text) != "" {
			t.Errorf("%d tokens in %q", n, text)
		}
	})
}

func BenchmarkPromptTokens(b *testing.B) {
	text, err := os.ReadFile(filepath.Join("testdata", "tokens", "code.txt"))
	if err != nil {
		b.Fatal(err)
	}
	c := bridge.Chat{Messages: []bridge.Message{{Text: strings.Repeat(string(text), 64)}}}
	b.SetBytes(int64(len(c.Messages[0].Text)))
	for b.Loop() {
		promptTokens(&c)
	}
}
