package audit

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
)

const maxShown = 160

// Format returns an entry as one line for people. What a tool or a model
// wrote cannot break the line or steer the terminal.
func Format(e Entry) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s #%d %-12s", e.Time.UTC().Format("2006-01-02 15:04:05.000Z"), e.Seq, e.Hook)
	word := func(label, v string) {
		if v != "" {
			b.WriteString(" " + label + visible(v, 60))
		}
	}
	shown := func(label string, v any) {
		if v != nil {
			b.WriteString(" " + label + visible(encoded(v), maxShown))
		}
	}
	word("", e.Decision)
	word("", e.Tool)
	if e.Reason != "" {
		b.WriteString(" (" + visible(e.Reason, maxShown) + ")")
	}
	if e.Sandbox != "" {
		b.WriteString(" sandbox=" + visible(e.Sandbox, maxShown))
	}
	if e.Duration > 0 {
		b.WriteString(" " + time.Duration(e.Duration*float64(time.Millisecond)).Round(10*time.Microsecond).String())
	}
	shown("in=", e.Input)
	shown("out=", e.Output)
	if r := e.Result; r != nil {
		fmt.Fprintf(&b, " result=%d bytes, sha256 %s, %s", r.Bytes, visible(r.SHA256, 12), visible(strconv.Quote(r.Preview), maxShown))
	}
	if r := e.Repair; r != nil && r.Bytes > 0 {
		fmt.Fprintf(&b, " %d bytes in %s", r.Bytes, visible(r.File, 60))
	}
	if s := e.Segment; s != nil {
		fmt.Fprintf(&b, " closes %s (#%d to #%d)", visible(s.File, 60), s.First, s.Last)
	}
	word("session=", e.Session)
	word("door=", e.Door)
	word("caller=", e.Caller)
	word("connection=", e.Connection)
	word("request=", e.Request)
	word("call=", e.Call)
	if e.PID != 0 {
		b.WriteString(" pid=" + strconv.Itoa(e.PID))
	}
	return b.String()
}

// Brief is an entry for a person at a terminal: when, what and how it was
// decided; below, why and what it was about, so that lines stay short.
func Brief(e Entry) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s #%d %s", e.Time.UTC().Format("2006-01-02 15:04:05Z"), e.Seq, e.Hook)
	for _, word := range []string{e.Decision, e.Tool} {
		if word != "" {
			b.WriteString(" " + visible(word, 60))
		}
	}
	if e.Session != "" {
		b.WriteString(" (session " + visible(e.Session[:min(8, len(e.Session))], 8) + ")")
	}
	below := []string{e.Reason, e.Sandbox}
	if e.Input != nil {
		below = append(below, encoded(e.Input))
	}
	if e.Result != nil {
		below = append(below, e.Result.Preview)
	}
	for _, line := range below {
		if line != "" {
			b.WriteString("\n    " + visible(line, 150))
		}
	}
	return b.String()
}

func encoded(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	return string(data)
}

// visible shortens s and escapes characters that are not printable.
func visible(s string, limit int) string {
	var b strings.Builder
	for _, r := range s {
		if b.Len() >= limit {
			b.WriteString("…")
			break
		}
		if unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
	}
	return b.String()
}
