package contract

import (
	"errors"
	"slices"
)

// Capability is something that a back end may be able to do.
type Capability string

// capabilities are all there are, in ABP's order.
var capabilities = []Capability{
	"streaming", "tool_read", "tool_write", "tool_edit", "tool_bash", "tool_glob", "tool_grep", "tool_web_search", "tool_web_fetch",
	"tool_ask_user", "hooks_pre_tool_use", "hooks_post_tool_use", "session_resume", "session_fork", "checkpointing",
	"structured_output_json_schema", "mcp_client", "mcp_server", "tool_use", "extended_thinking", "image_input", "pdf_input",
	"code_execution", "logprobs", "seed_determinism", "stop_sequences", "function_calling", "vision", "audio", "json_mode",
	"system_message", "temperature", "top_p", "top_k", "max_tokens", "frequency_penalty", "presence_penalty", "cache_control",
	"batch_mode", "embeddings", "image_generation",
}

// Level is how well something is supported.
type Level string

// The levels. Restricted comes with a reason.
const (
	Native      Level = "native"
	Emulated    Level = "emulated"
	Unsupported Level = "unsupported"
	Restricted  Level = "restricted"
)

// Support is a level and, of a restriction, its reason.
type Support struct {
	Level  Level
	Reason string
}

// Manifest says what a back end can do.
type Manifest map[Capability]Support

// Minimum is the least support that a work order accepts.
type Minimum string

// The minima.
const (
	MinNative   Minimum = "native"
	MinEmulated Minimum = "emulated"
	MinAny      Minimum = "any"
)

// Meets reports whether the support is enough. What is restricted is there but
// switched off, so only "any" accepts it.
func (s Support) Meets(m Minimum) bool {
	switch m {
	case MinNative:
		return s.Level == Native
	case MinEmulated:
		return s.Level == Native || s.Level == Emulated
	case MinAny:
		return true
	}
	return false
}

func (r reader) support(to *Support) func(any) error {
	return func(v any) error {
		if o, ok := v.(Object); ok {
			if len(o) != 1 {
				return errors.New("invalid value: map, expected map with a single key")
			}
			if o[0].Key == string(Restricted) {
				to.Level = Restricted
				return r.structure(o[0].Value, "variant SupportLevel::Restricted", field{"reason", always, text(&to.Reason)})
			}
		}
		if s, ok := v.(string); ok && s == string(Restricted) {
			return errors.New("invalid type: unit variant, expected struct variant")
		}
		return variant(&to.Level, []Level{Native, Emulated, Unsupported, Restricted})(v)
	}
}

func (r reader) manifest(to *Manifest) func(any) error {
	return func(v any) error {
		o, ok := v.(Object)
		if !ok {
			return unexpected(v, "a map")
		}
		*to = make(Manifest, len(o))
		for _, m := range o {
			c := Capability(m.Key)
			if !slices.Contains(capabilities, c) {
				return unknown(m.Key, capabilities)
			}
			var s Support
			if err := r.support(&s)(m.Value); err != nil {
				return in(m.Key, err)
			}
			(*to)[c] = s
		}
		return nil
	}
}

func (s Support) value() any {
	if s.Level == Restricted {
		return record{{"restricted", record{{"reason", s.Reason}}}}
	}
	return string(s.Level)
}

// value lists a manifest in ABP's order.
func (m Manifest) value() any {
	out := make(record, 0, len(m))
	for _, c := range capabilities {
		if s, ok := m[c]; ok {
			out = append(out, Member{string(c), s.value()})
		}
	}
	return out
}
