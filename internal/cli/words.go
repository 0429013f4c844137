package cli

import (
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// words shows what the model says and thinks.
func (v *people) words(ev bridge.Event) {
	switch e := ev.(type) {
	case bridge.TextDelta:
		if e.AgentID != "" {
			return
		}
		v.status, v.since = statusAnswering, v.now()
		if _, open := v.shown[e.Message]; !open {
			v.order = append(v.order, e.Message)
		}
		v.shown[e.Message] += e.Text
		if v.c.outTTY {
			v.c.answer(harmless(e.Text))
		}
	case bridge.MessageDone:
		if e.AgentID != "" {
			if e.Text != "" {
				v.aside("  " + strings.ReplaceAll(harmless(strings.TrimSpace(e.Text)), "\n", "\n  "))
			}
			return
		}
		if v.verbose && e.Reasoning != "" {
			v.aside("  " + strings.ReplaceAll(harmless(strings.TrimSpace(e.Reasoning)), "\n", "\n  "))
		}
		v.finishMessage(e.Message, e.Text)
	case bridge.MessageRetracted:
		if v.shown[e.Message] != "" {
			text := "! the model's answer was cut off and is asked for again"
			if v.c.outTTY {
				text = "! the answer above was cut off; it is repeated"
			}
			v.c.line(v.c.style.yellow(text))
		}
		v.forget(e.Message)
	case bridge.ReasoningDelta:
		v.wait("thinking")
	default:
	}
}

// finishMessage shows what of a message is not on the screen yet.
func (v *people) finishMessage(id, text string) {
	shown := v.shown[id]
	v.forget(id)
	if !v.c.outTTY {
		if text != "" {
			v.c.answer(strings.TrimSuffix(text, "\n") + "\n")
		}
		return
	}
	rest, ok := strings.CutPrefix(text, shown)
	if !ok {
		rest = "\n" + text
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		rest += "\n"
	}
	v.c.answer(harmless(rest))
}

func (v *people) forget(id string) {
	delete(v.shown, id)
	for i, o := range v.order {
		if o == id {
			v.order = append(v.order[:i], v.order[i+1:]...)
			return
		}
	}
}
