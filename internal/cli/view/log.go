package view

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
)

// NewLog is where the program logs to: lines for machines or, at a terminal,
// for people.
func NewLog(c *Console, level slog.Level) *slog.Logger {
	if !c.ErrTTY {
		return slog.New(slog.NewTextHandler(c, &slog.HandlerOptions{Level: level}))
	}
	buf := &bytes.Buffer{}
	text := slog.NewTextHandler(buf, &slog.HandlerOptions{Level: level, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey) {
			return slog.Attr{}
		}
		return a
	}})
	return slog.New(&terminalLog{Handler: text, console: c, mu: &sync.Mutex{}, buf: buf})
}

// terminalLog puts the event first, painted by how bad it is, then the time
// and what else is known of it.
type terminalLog struct {
	slog.Handler // writes the attributes into buf
	console      *Console

	mu  *sync.Mutex
	buf *bytes.Buffer
}

// Handle implements slog.Handler.
func (h *terminalLog) Handle(ctx context.Context, r slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.buf.Reset()
	if err := h.Handler.Handle(ctx, r); err != nil {
		return err
	}
	s, rest := h.console.style(), h.buf.String()
	paint := s.green
	switch {
	case r.Level >= slog.LevelError:
		paint = s.red
	case r.Level >= slog.LevelWarn:
		paint = s.yellow
	}
	r.Attrs(func(a slog.Attr) bool {
		if a.Key != "status" || a.Value.Kind() != slog.KindInt64 {
			return true
		}
		switch status := a.Value.Int64(); {
		case status >= 500:
			paint = s.red
		case status >= 400:
			paint = s.yellow
		}
		word := fmt.Sprintf("status=%d", a.Value.Int64())
		rest = strings.Replace(rest, word, paint(word), 1)
		return false
	})
	h.console.Lines(paint(Harmless(r.Message)) + " " + s.dim(r.Time.Format("15:04:05")) + " " + rest)
	return nil
}

// WithAttrs implements slog.Handler.
func (h *terminalLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	with.Handler = h.Handler.WithAttrs(attrs)
	return &with
}

// WithGroup implements slog.Handler.
func (h *terminalLog) WithGroup(name string) slog.Handler {
	with := *h
	with.Handler = h.Handler.WithGroup(name)
	return &with
}
