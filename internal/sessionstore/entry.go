package sessionstore

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"time"
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
	Model            string    `json:"model"`
	Title            string    `json:"title"`
	Turns            int       `json:"turns"`
	InputTokens      int64     `json:"inputTokens"`
	OutputTokens     int64     `json:"outputTokens"`
	Created          time.Time `json:"created"`
	Updated          time.Time `json:"updated"`
}

// field returns where the value of a JSON member goes, or nil if this version
// does not know the member. Names match exactly: the case folding of
// encoding/json would take a stranger's "ID" for our "id".
func (e *Entry) field(name string) any {
	switch name {
	case "id":
		return &e.ID
	case "agent":
		return &e.Agent
	case "profile":
		return &e.Profile
	case "state":
		return &e.State
	case "workingDirectory":
		return &e.WorkingDirectory
	case "model":
		return &e.Model
	case "title":
		return &e.Title
	case "turns":
		return &e.Turns
	case "inputTokens":
		return &e.InputTokens
	case "outputTokens":
		return &e.OutputTokens
	case "created":
		return (*stamp)(&e.Created)
	case "updated":
		return (*stamp)(&e.Updated)
	default:
		return nil
	}
}

// MarshalJSON writes times as RFC 3339 with exactly three decimals, which
// time.Time by itself does not.
func (e Entry) MarshalJSON() ([]byte, error) {
	type plain Entry // without this method
	return marshal(struct {
		plain
		Created stamp `json:"created"`
		Updated stamp `json:"updated"`
	}{plain(e), stamp(e.Created), stamp(e.Updated)})
}

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

// stamp is a time as the file has it.
type stamp time.Time

const stampLayout = "2006-01-02T15:04:05.000Z07:00"

// errYear guards the file: RFC 3339 has four digits for the year, and a time
// written with five could not be read again.
var errYear = errors.New("the year is not within 0 and 9999")

func (s stamp) MarshalJSON() ([]byte, error) {
	t := normal(time.Time(s))
	if !storable(t) {
		return nil, errYear
	}
	return marshal(t.Format(stampLayout))
}

func (s *stamp) UnmarshalJSON(data []byte) error {
	var text *string
	if err := json.Unmarshal(data, &text); err != nil || text == nil {
		return err
	}
	t, err := time.Parse(time.RFC3339, *text)
	if err != nil {
		return errors.New("not an RFC 3339 time") // the parser's text would repeat the value
	}
	t = normal(t)
	if !storable(t) {
		return errYear
	}
	*s = stamp(t)
	return nil
}

func normal(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

func storable(t time.Time) bool { return t.Year() >= 0 && t.Year() <= 9999 }

// marshal is json.Marshal without the escaping meant for HTML pages: titles
// stay readable, and what others wrote is not rewritten.
func marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}
