package toolbus

import "github.com/copilot-bridge/copilot-bridge/internal/api/wire"

// Verify is what files must be before they are patched. Callers may say true
// as well: what a diff says of them is always verified.
type Verify map[string]string

// UnmarshalJSON takes an object of texts or a boolean.
func (v *Verify) UnmarshalJSON(data []byte) error {
	switch wire.KindOf(data) {
	case wire.Bool, wire.Null:
		return nil
	case wire.Object:
		return wire.Unmarshal(data, (*map[string]string)(v))
	case wire.Invalid, wire.String, wire.Array, wire.Number:
	}
	return wire.Expected(data, "an object of SHA-256 sums by path, or a boolean")
}

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
