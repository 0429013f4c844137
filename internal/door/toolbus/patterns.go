package toolbus

import "github.com/copilot-bridge/copilot-bridge/internal/door/wire"

// Patterns is one pattern or several.
type Patterns []string

// UnmarshalJSON takes a string or an array of strings.
func (p *Patterns) UnmarshalJSON(data []byte) error {
	switch wire.KindOf(data) {
	case wire.String:
		var one string
		if err := wire.Unmarshal(data, &one); err != nil {
			return err
		}
		*p = Patterns{one}
		return nil
	case wire.Array:
		return wire.Unmarshal(data, (*[]string)(p))
	case wire.Null:
		return nil
	case wire.Invalid, wire.Bool, wire.Number, wire.Object:
	}
	return wire.Expected(data, "a string or an array of strings")
}
