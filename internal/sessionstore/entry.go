package sessionstore

import (
	"errors"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// State is where a session is in its life.
type State string

// The states. A newer writer may store others; they are kept as they are.
const (
	StateActive State = "active" // a turn is running
	StateIdle   State = "idle"   // can be resumed
	StateFailed State = "failed" // the last turn failed; may still be resumed
	StateClosed State = "closed" // ended on purpose
)

// Profile is the kind of session: the caller's tools only, or Copilot's own
// tools in a working directory.
type Profile string

// The profiles.
const (
	ProfileChat  Profile = "chat"
	ProfileAgent Profile = "agent"
)

// Entry is what the store knows of one session. Times are kept to the
// millisecond, in UTC.
type Entry struct {
	ID               string    `json:"id"`
	Agent            string    `json:"agent"`
	Profile          Profile   `json:"profile"`
	State            State     `json:"state"`
	WorkingDirectory string    `json:"workingDirectory"`
	Repository       string    `json:"repository,omitzero"` // owner/name
	Branch           string    `json:"branch,omitzero"`
	Model            string    `json:"model"`
	Title            string    `json:"title"`
	Turns            int       `json:"turns"`
	InputTokens      int64     `json:"inputTokens"`
	OutputTokens     int64     `json:"outputTokens"`
	Created          time.Time `json:"created"`
	Updated          time.Time `json:"updated"`
	Mode             string    `json:"mode,omitzero"`   // see bridge.Prompt; empty if none was chosen
	Pinned           bool      `json:"pinned,omitzero"` // the user wants it kept, see Expired
}

// storedEntry is an Entry in the form of the file, without its methods.
type storedEntry Entry

// MarshalJSON writes the entry as the file has it.
func (e Entry) MarshalJSON() ([]byte, error) { return json.Marshal(storedEntry(e), stampsAsStored) }

// newer orders entries newest first: by last use, then by creation, then by
// id so that the order is the same in every process.
func newer(a, b Entry) int {
	if c := b.Updated.Compare(a.Updated); c != 0 {
		return c
	}
	if c := b.Created.Compare(a.Created); c != 0 {
		return c
	}
	return strings.Compare(a.ID, b.ID)
}

// stampLayout is RFC 3339 with exactly three decimals.
const stampLayout = "2006-01-02T15:04:05.000Z07:00"

var (
	errText = errors.New("text is expected")
	errTime = errors.New("not an RFC 3339 time")
	// errYear guards the file: RFC 3339 has four digits for the year, and a time
	// written with five could not be read again.
	errYear = errors.New("the year is not within 0 and 9999")
)

// stampsAsStored reads and writes times as the file has them.
var stampsAsStored = json.JoinOptions(
	json.WithMarshalers(json.MarshalToFunc(func(enc *jsontext.Encoder, t time.Time) error {
		if t = normal(t); !storable(t) {
			return errYear
		}
		return enc.WriteToken(jsontext.String(t.Format(stampLayout)))
	})),
	json.WithUnmarshalers(json.UnmarshalFromFunc(func(dec *jsontext.Decoder, to *time.Time) error {
		if kind := dec.PeekKind(); kind == 'n' {
			return dec.SkipValue()
		} else if kind != '"' {
			return errText
		}
		token, err := dec.ReadToken()
		if err != nil {
			return err
		}
		t, err := time.Parse(time.RFC3339, token.String())
		if err != nil {
			return errTime // the parser's text would repeat the value
		}
		if *to = normal(t); !storable(*to) {
			return errYear
		}
		return nil
	})),
)

func normal(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

func storable(t time.Time) bool { return t.Year() >= 0 && t.Year() <= 9999 }
