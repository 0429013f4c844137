package anthropic

import (
	"slices"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/door/wire"
)

// display is what a client sees of the model's thinking.
type display int

const (
	hidden  display = iota // no thinking blocks at all
	omitted                // blocks without text
	shown
)

// signature ends every thinking block. Clients send it back with the block and
// do not look into it; neither do we.
const signature = "Y29waWxvdC1icmlkZ2U="

// effort is how hard a client wants the model to think; "" leaves it to the
// model.
type effort string

// levels are all efforts that models are known to have, the least first.
func levels() []string { return []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"} }

func known(level string) bool { return slices.Contains(levels(), level) }

// of is the effort of this model's that comes nearest, the lower one of two.
func (e effort) of(m bridge.Model) string {
	all := levels()
	want := slices.Index(all, string(e))
	if want < 0 {
		return ""
	}
	best, distance := "", len(all)
	for i, level := range all {
		if !slices.Contains(m.ReasoningEfforts, level) {
			continue
		}
		if d := max(want-i, i-want); d < distance {
			best, distance = level, d
		}
	}
	if want == 0 && distance > 0 {
		// There is no way to turn it off: the model's default serves better
		// than a level that nobody asked for.
		return ""
	}
	return best
}

// thought reads the three places that speak of thinking: the newest turn's
// effort, that of the whole request, and the older budget.
func (r *request) thought(turn string) (display, effort, error) {
	show, want := hidden, effort("")
	if t := r.Thinking; t != nil {
		switch t.Type {
		case "enabled":
			if t.Budget == nil {
				return 0, "", wire.At("thinking.budget_tokens", "the field is required")
			}
			show, want = shown, forBudget(*t.Budget)
		case "adaptive", "between_tools":
			show = shown
		case "disabled":
			want = "none"
		default:
			return 0, "", wire.At("thinking.type", `expected "enabled", "adaptive", "between_tools" or "disabled", got %s`, quote(t.Type))
		}
		if show == shown && t.Display == "omitted" {
			show = omitted
		}
	}
	if c := r.OutputConfig; c != nil && c.Effort != "" {
		if !known(c.Effort) {
			return 0, "", wire.At("output_config.effort", `expected "low", "medium", "high", "xhigh" or "max", got %s`, quote(c.Effort))
		}
		want = effort(c.Effort)
	}
	if turn != "" {
		want = effort(turn)
	}
	return show, want, nil
}

// forBudget is the effort that spends about so many tokens on thinking.
func forBudget(tokens int64) effort {
	switch {
	case tokens < 4096:
		return "low"
	case tokens < 16384:
		return "medium"
	default:
		return "high"
	}
}
