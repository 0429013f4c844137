package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/redact"
)

// History is what people have typed in conversations, in a file with a JSON
// text per line. Programs that run at the same time share it.
type History struct{ path string }

const (
	historyLines = 500     // that are kept
	historyLine  = 8 << 10 // bytes of one; a longer one is not kept
	historyWait  = 2 * time.Second
)

// ChatHistory is the one in the bridge's home.
func ChatHistory(c *config.Config) *History { return &History{c.Path("chat-history.jsonl")} }

// Load returns what is kept, the oldest first. Lines that are damaged are left
// out.
func (h *History) Load() ([]string, error) {
	data, err := durable.ReadFile(h.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	var past []string
	for line := range bytes.Lines(data) {
		var text string
		if json.Unmarshal(line, &text) == nil && text != "" {
			past = append(past, text)
		}
	}
	return past[max(0, len(past)-historyLines):], err
}

// Add keeps a line, without what looks like a secret.
func (h *History) Add(line string) (err error) {
	line, _ = redact.New(redact.Options{}).String(strings.TrimSpace(line))
	if line == "" || len(line) > historyLine {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), historyWait)
	defer cancel()
	unlock, err := durable.Lock(ctx, h.path+".lock")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	past, err := h.Load()
	if err != nil {
		return err
	}
	if len(past) > 0 && past[len(past)-1] == line {
		return nil
	}
	past = append(past, line)
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	for _, text := range past[max(0, len(past)-historyLines):] {
		if err := enc.Encode(text); err != nil {
			return err
		}
	}
	return durable.WriteFile(h.path, out.Bytes(), 0o600)
}
