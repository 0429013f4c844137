package acp

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
)

// lastWords keeps the end of what a program prints to its standard error, to
// be quoted when it dies.
type lastWords struct {
	log *slog.Logger

	mu   sync.Mutex
	tail []byte
}

const keepWords = 2 << 10

func (w *lastWords) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tail = append(w.tail, p...)
	if over := len(w.tail) - keepWords; over > 0 {
		w.tail = append(w.tail[:0], w.tail[over:]...)
	}
	return len(p), nil
}

// String is the last few lines, on one.
func (w *lastWords) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var lines []string
	for line := range bytes.Lines(w.tail) {
		if s := strings.TrimSpace(string(line)); s != "" {
			lines = append(lines, s)
		}
	}
	return strings.Join(lines[max(0, len(lines)-3):], "; ")
}
