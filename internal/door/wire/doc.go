// Package wire is what the HTTP doors share: reading a JSON body with errors
// that name the place, writing JSON and server-sent events to clients that may
// be slow or gone, and the one table from error codes to HTTP statuses.
//
// It knows no API's shapes: error bodies, event names and keep-alives belong
// to the door that writes them. It does no authentication either; the front
// does.
//
// # Places in errors
//
// Decode finds the JSON path of a mistake from the position at which decoding
// stopped. A type with an UnmarshalJSON of its own keeps that working if it
// decodes with [Unmarshal] instead of json.Unmarshal, and reports what it
// refuses with [Expected] or [Wrong], giving the very bytes that it was handed:
//
//	func (c *content) UnmarshalJSON(data []byte) error {
//		switch wire.KindOf(data) {
//		case wire.String:
//			return wire.Unmarshal(data, &c.text)
//		case wire.Array:
//			return wire.Unmarshal(data, &c.parts)
//		default:
//			return wire.Expected(data, "a string or an array")
//		}
//	}
//
// Bytes that were copied first, as json.RawMessage does, have lost their
// place; decode such a value with Unmarshal later on and give the place with
// [Within].
package wire
