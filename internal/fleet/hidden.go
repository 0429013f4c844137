package fleet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// Names are the names under which tables, journals and tickets are written. They
// hold a secret word. A worker may write none of them, but it can make the server
// send an answer to any subject that it can name (see Rights), and a table would
// keep that as a row. So it must not be able to name them.
//
// Coordinators find the word in the list of streams, which workers cannot read.
// Once stored, tickets and entries have their subjects without it.
type Names struct{ word string }

// NewNames returns names with a new word.
func NewNames() Names { return Names{strings.ToLower(rand.Text())} }

// FindNames finds the names that the fleet uses.
func FindNames(ctx context.Context, js jetstream.JetStream) (Names, error) {
	const head = "KV_" + TableMembers + "-"
	found := ""
	list := js.StreamNames(ctx, jetstream.WithStreamListSubject("$KV.*.>"))
	for name := range list.Name() {
		// Two hubs that began at the same time have made two words; all take the first.
		if word, ok := strings.CutPrefix(name, head); ok && (found == "" || word < found) {
			found = word
		}
	}
	if err := list.Err(); err != nil && !errors.Is(err, jetstream.ErrEndOfData) {
		return Names{}, fmt.Errorf("look for the tables of the fleet: %w", err)
	}
	if found == "" {
		return Names{}, &bridge.Error{Code: bridge.CodeNotFound, Message: "the fleet's server has no tables of a fleet",
			Remedy: "Look on the hub's machine whether `copilot-bridge fleet up` is running, and start it."}
	}
	return Names{found}, nil
}

// Of is the full name of a table, or of a bucket that no worker may write.
func (n Names) Of(plain string) string { return plain + "-" + n.word }

// To is where a message with a subject of StreamTasks or StreamJournal is published.
func (n Names) To(subject string) string { return n.word + "." + subject }
