package contract

import (
	"reflect"
	"slices"
)

// Capability is something that a back end may be able to do.
type Capability string

func (Capability) values() []string { return capabilities }

// capabilities are all there are, in ABP's order.
var capabilities = []string{
	"streaming", "tool_read", "tool_write", "tool_edit", "tool_bash", "tool_glob", "tool_grep", "tool_web_search", "tool_web_fetch",
	"tool_ask_user", "hooks_pre_tool_use", "hooks_post_tool_use", "session_resume", "session_fork", "checkpointing",
	"structured_output_json_schema", "mcp_client", "mcp_server", "tool_use", "extended_thinking", "image_input", "pdf_input",
	"code_execution", "logprobs", "seed_determinism", "stop_sequences", "function_calling", "vision", "audio", "json_mode",
	"system_message", "temperature", "top_p", "top_k", "max_tokens", "frequency_penalty", "presence_penalty", "cache_control",
	"batch_mode", "embeddings", "image_generation",
}

var canonicalCapabilities = slices.Sorted(slices.Values(capabilities))

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
	Reason string `abp:"reason"`
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

func (Minimum) values() []string {
	return []string{string(MinNative), string(MinEmulated), string(MinAny)}
}

// Meets reports whether the support is enough. Only "any" accepts a restricted one.
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

var (
	words       = []string{string(Native), string(Emulated), string(Unsupported)}
	restriction = structureOf(reflect.TypeFor[Support]())
)

func (s *Support) read(r reader, v any) error {
	if o, ok := v.(Object); ok && len(o) == 1 && o[0].Key == string(Restricted) {
		s.Level = Restricted
		return r.readStruct(o[0].Value, reflect.ValueOf(s).Elem(), restriction)
	}
	return readEnumeration(v, reflect.ValueOf(&s.Level).Elem(), words)
}

func (m *Manifest) read(r reader, v any) error {
	o, ok := v.(Object)
	if !ok {
		return unexpected(v, "a map")
	}
	*m = make(Manifest, len(o))
	for _, e := range o {
		if !slices.Contains(capabilities, e.Key) {
			return unknown(e.Key, capabilities)
		}
		var s Support
		if err := s.read(r, e.Value); err != nil {
			return in(e.Key, err)
		}
		(*m)[Capability(e.Key)] = s
	}
	return nil
}

// append writes a manifest in ABP's order, or the canonical one.
func (m Manifest) append(to []byte, canonical bool) []byte {
	names := capabilities
	if canonical {
		names = canonicalCapabilities
	}
	to = append(to, '{')
	for _, name := range names {
		s, ok := m[Capability(name)]
		if !ok {
			continue
		}
		if to[len(to)-1] != '{' {
			to = append(to, ',')
		}
		to = append(AppendString(to, name), ':')
		if s.Level == Restricted {
			to = append(AppendString(append(to, `{"restricted":{"reason":`...), s.Reason), "}}"...)
		} else {
			to = AppendString(to, string(s.Level))
		}
	}
	return append(to, '}')
}
