package timeline

import (
	"encoding/json"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// clip shortens what is too long, and notes how long it was.
func (e *Event) clip() {
	for _, s := range []*string{&e.Text, &e.Error, &e.Diff, &e.Message, &e.Reason, &e.Lead} {
		if len(*s) > Most {
			e.Clipped = max(e.Clipped, len(*s))
			*s = strings.Clone(text.Clip(*s, Most)) // the rest need not stay in memory
		}
	}
	if len(e.Args) > Most {
		e.Clipped = max(e.Clipped, len(e.Args))
		e.Args = clipArgs(e.Args)
	}
}

// argMost is how much is kept of one string of arguments that are too long.
const argMost = 8 << 10

// clipArgs shortens the strings in arguments. If that does not do, the
// arguments become a string: the beginning of their JSON.
func clipArgs(args json.RawMessage) json.RawMessage {
	var v any
	if json.Unmarshal(args, &v) == nil {
		if out, err := json.Marshal(clipStrings(v)); err == nil && len(out) <= Most {
			return out
		}
	}
	out, _ := json.Marshal(text.Clip(string(args), argMost)) // a string
	return out
}

func clipStrings(v any) any {
	switch v := v.(type) {
	case string:
		return text.Clip(v, argMost)
	case []any:
		for i := range v {
			v[i] = clipStrings(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = clipStrings(v[k])
		}
	}
	return v
}
