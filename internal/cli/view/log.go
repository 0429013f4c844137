package view

import (
	"cmp"
	"io"
	"log/slog"
	"regexp"
	"strconv"
)

// NewLog is where the program logs to: lines for machines or, at a terminal,
// for people, with the event first.
func NewLog(c *Console, level slog.Level) *slog.Logger {
	var to io.Writer = c
	if c.ErrTTY {
		to = terminalLog{c}
	}
	return slog.New(slog.NewTextHandler(to, &slog.HandlerOptions{Level: level}))
}

// terminalLog writes the event first, painted by how bad it is, then the time
// and what else is known of it.
type terminalLog struct{ *Console }

var (
	logRecord = regexp.MustCompile(`^time=\S+T(\d\d:\d\d:\d\d)\S* level=(\w+)\S* msg=("(?:[^"\\]|\\.)*"|\S*) ?(.*\n)$`)
	logStatus = regexp.MustCompile(`\bstatus=([1-5])\d\d\b`)
)

// Write takes one record of a slog.TextHandler.
func (t terminalLog) Write(record []byte) (int, error) {
	m := logRecord.FindStringSubmatch(string(record))
	if m == nil {
		return t.Console.Write(record)
	}
	s, event, rest := t.style(), m[3], m[4]
	if text, err := strconv.Unquote(event); err == nil {
		event = Harmless(text)
	}
	of := cmp.Or(map[string]state{"ERROR": failed, "WARN": warned}[m[2]], done)
	if status := logStatus.FindStringSubmatchIndex(rest); status != nil {
		of = cmp.Or(map[byte]state{'5': failed, '4': warned}[rest[status[2]]], of)
		rest = rest[:status[0]] + s.state(of, rest[status[0]:status[1]]) + rest[status[1]:]
	}
	t.Lines(s.state(of, event) + " " + s.dim(m[1]) + " " + rest)
	return len(record), nil
}
